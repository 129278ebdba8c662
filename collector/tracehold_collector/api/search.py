"""`GET /api/v1/search/content`: looks for a text in what events said, and tells hits as they are found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tracehold_collector.api.access import access_of
from tracehold_collector.api.noting import note_end, note_parameters, note_tenant
from tracehold_collector.api.parameters import moment, whole_number
from tracehold_collector.core.errors import CollectorError, QueryError, ThrottledError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.pipeline import Intake
from tracehold_collector.search.content_search import Asked, ContentSearch, Hit, read_cursor
from tracehold_collector.search.needle import MAX_TEXT_CHARS
from tracehold_collector.store.content_scan import ScanFilter
from tracehold_collector.store.filters import FILTERS, MAX_VALUE_CHARS
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.writer import Writer

MAX_AT_ONCE: Final = 2
"""Searches under way at the same time: each keeps a core busy."""

MAX_HITS: Final = 1_000
MAX_SECONDS: Final = 600
_DEFAULT_HITS: Final = 100
_DEFAULT_SECONDS: Final = 60
_RETRY_AFTER_S: Final = 5
_TELL_EVERY_S: Final = 0.25
_KNOWN: Final = frozenset({"text", "since", "until", "limit", "seconds", "cursor", *FILTERS})


class Searches:
    """Runs the searches in content of one collector, few at a time, on threads of their own.

    Args:
        reader: the store.
        writer: whose senders come first.
        intake: tells when the collector stops.
    """

    def __init__(self, reader: Reader, writer: Writer, intake: Intake) -> None:
        self._reader = reader
        self._writer = writer
        self._intake = intake
        self._running = 0
        self._threads = ThreadPoolExecutor(MAX_AT_ONCE, "tracehold-search")

    def begin(self, asked: Asked) -> Running:
        """Take a place; the caller ends the search, or it is never given back. On the event loop only.

        Raises:
            ThrottledError: all places are taken.
        """
        if self._running >= MAX_AT_ONCE:
            raise ThrottledError(
                f"{MAX_AT_ONCE} searches in content are under way, as many as may be at once", _RETRY_AFTER_S
            )
        self._running += 1
        return Running(self, ContentSearch(self._reader, asked))

    def leave(self) -> None:
        """Give a place back."""
        self._running -= 1

    def submit(self, steps: Iterator[list[Hit]]) -> Future[list[Hit] | None]:
        """Do the next step on a thread; `None` when there was none left."""
        return self._threads.submit(next, steps, None)

    @property
    def stopping(self) -> bool:
        """Whether the collector stops: what is under way then ends with a cursor."""
        return self._intake.stopping

    @property
    def senders_wait(self) -> bool:
        """Whether records wait to be committed."""
        return self._writer.queued > 0


class Running:
    """A search that has a place.

    Args:
        searches: whose place it is.
        search: the search.

    Attributes:
        ended_by: what ended it, for the access log.
    """

    def __init__(self, searches: Searches, search: ContentSearch) -> None:
        self.search = search
        self.ended_by = "the asker hung up"
        self._searches = searches
        self._steps = search.steps()
        self._step: Future[list[Hit] | None] | None = None

    async def next(self) -> list[Hit] | None:
        """Return the hits of the next step, `None` at the end. While senders wait, it rests as long as it worked."""
        if self._searches.stopping:
            self.search.progress.stopped_by = "stop"
            return None
        begun = time.monotonic()
        self._step = self._searches.submit(self._steps)
        found = await asyncio.wrap_future(self._step)
        if self._searches.senders_wait:
            await asyncio.sleep(time.monotonic() - begun)
        return found

    def end(self) -> None:
        """Give the place back, once the step under way is done: until then a core is still busy."""
        if self._step is None or self._step.done():
            self._searches.leave()
        else:
            loop = asyncio.get_running_loop()
            self._step.add_done_callback(lambda _: loop.call_soon_threadsafe(self._searches.leave))


async def search_content(request: Request) -> Response:
    """Answer JSON lines: a `hit` each as it is found, `progress` in between, and at last `done` with a cursor.

    Whoever hangs up ends the search. What was looked for is noted as a keyed digest and its length.
    """
    access = access_of(request)
    asked = parse_asked(request.query_params, access)
    pseudonyms: Pseudonyms = request.app.state.pseudonyms
    note_parameters(request, text=pseudonyms.sought(asked.text), text_chars=len(asked.text))
    tenant = asked.wanted.equal.get("tenant")
    if tenant is not None and (access.tenants is None or tenant in access.tenants):
        note_tenant(request, tenant)
    searches: Searches = request.app.state.searches
    return _Answer(request, searches.begin(asked))


class _Answer(StreamingResponse):
    """Ends the search whatever becomes of the answer: also one that was never begun gave somebody's place away."""

    def __init__(self, request: Request, running: Running) -> None:
        super().__init__(_lines(running), media_type="application/x-ndjson")
        self._request = request
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._running.end()
            progress, ended_by = self._running.search.progress, self._running.ended_by
            tenants = tuple(sorted(progress.tenants))
            note_end(self._request, progress.hits, tenants, events=progress.events, ended_by=ended_by)


def parse_asked(query: QueryParams, access: Access) -> Asked:
    """Return what a request asks for.

    Raises:
        QueryError: a parameter is not known, or cannot be used.
    """
    unknown = sorted(set(query) - _KNOWN)
    if unknown:
        raise QueryError(f"there is no parameter {unknown[0][:40]!r}; there are: {', '.join(sorted(_KNOWN))}")
    repeated = next((name for name in query if len(query.getlist(name)) > 1), None)
    if repeated is not None:
        raise QueryError(f"{repeated} may be given once")
    query = QueryParams({name: value for name, value in query.items() if value})  # empty is left out
    text = query.get("text", "")
    if not text.strip() or len(text) > MAX_TEXT_CHARS or not _is_text(text):
        raise QueryError(f"text takes what to look for, 1 to {MAX_TEXT_CHARS} characters")
    equal = {name: query[name] for name in FILTERS if name in query}
    for name, value in equal.items():
        if len(value) > MAX_VALUE_CHARS or not _is_text(value):
            raise QueryError(f"{name} takes at most {MAX_VALUE_CHARS} characters of valid text")
    return Asked(
        text,
        ScanFilter(
            access.tenants,
            moment(query, "since"),
            moment(query, "until"),
            equal,
            read_cursor(query["cursor"]) if "cursor" in query else None,
        ),
        whole_number(query, "limit", MAX_HITS) or _DEFAULT_HITS,
        whole_number(query, "seconds", MAX_SECONDS) or _DEFAULT_SECONDS,
    )


async def _lines(running: Running) -> AsyncIterator[bytes]:
    progress = running.search.progress
    told_at = 0.0
    try:
        while (hits := await running.next()) is not None:
            now = time.monotonic()
            if hits or now - told_at > _TELL_EVERY_S:
                told_at = now
                yield b"".join([*(_line("hit", hit.told()) for hit in hits), _line("progress", progress.told())])
    except CollectorError as error:  # the status has been sent
        running.ended_by = "an error"
        yield _line("error", str(error))
        return
    stopped_by = progress.stopped_by
    running.ended_by = "the end"
    if stopped_by:
        running.ended_by = "the stop of the collector" if stopped_by == "stop" else f"the limit of {stopped_by}"
    end = {"complete": stopped_by is None, "stopped_by": stopped_by, "cursor": running.search.cursor()}
    yield _line("done", progress.told() | end)


def _line(name: str, value: Any) -> bytes:
    return orjson.dumps({name: value}) + b"\n"


def _is_text(value: str) -> bool:
    """Whether the store can compare with it: no half of a character that stands alone."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
