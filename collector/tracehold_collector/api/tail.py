"""`GET /api/v1/tail`: events as they are committed, as Server-Sent Events (WHATWG HTML, "Server-sent events").

Each tail reads the store from its own place, a page at a time, and only when its reader has taken the page before: a
slow one holds neither memory nor the writer. The same read gives what a reader missed while it was away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from tracehold_collector.api.access import access_of
from tracehold_collector.api.noting import note_end, note_tenant
from tracehold_collector.core.errors import CollectorError, QueryError, ThrottledError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.pipeline import Intake
from tracehold_collector.store.filters import FILTERS, MAX_VALUE_CHARS
from tracehold_collector.store.following import (
    PAGE_ROWS,
    Followed,
    News,
    Place,
    newest_place,
    read_news,
    read_place,
)
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.writer import Writer

MAX_TAILS: Final = 16
BEAT_S: Final = 15.0
"""The specification advises a comment every 15 seconds or so, against proxies that end silent connections."""

_LOOK_S: Final = 0.1
"""How often a tail looks whether something was committed: a number in memory, no question to the store."""

_STUCK_S: Final = 60.0
"""A reader that takes nothing for so long is given up; it comes back by its last id."""

_RETRY_MS: Final = 1_000
_RETRY_AFTER_S: Final = 10
_KNOWN: Final = frozenset({"denials", "last", *FILTERS})


@dataclass(slots=True)
class _State:
    """How a tail stands.

    Attributes:
        followed: what it follows.
        told: the place the reader knows, to come back by; `None` until it is known where the tail begins.
        looked: up to where the store was looked at.
        past: events before the beginning that are wanted.
        sent, skipped: events.
        ended_by: what ended it, for the access log.
    """

    followed: Followed
    told: Place | None
    looked: Place | None = None
    past: int = 0
    sent: int = 0
    skipped: int = 0
    ended_by: str = "the asker hung up"


class Tails:
    """The tails of one collector. Used on the event loop only.

    Args:
        reader: the store.
        writer: tells when something was committed.
        intake: tells when the collector stops.
    """

    def __init__(self, reader: Reader, writer: Writer, intake: Intake) -> None:
        self._reader = reader
        self._writer = writer
        self._intake = intake
        self._open = 0
        self._threads = ThreadPoolExecutor(2, "tracehold-tail")

    @property
    def open(self) -> int:
        """How many there are."""
        return self._open

    def enter(self) -> None:
        """Take a place; give it back with `leave`.

        Raises:
            ThrottledError: all places are taken.
        """
        if self._open >= MAX_TAILS:
            raise ThrottledError(f"{MAX_TAILS} tails are open, as many as may be at once", _RETRY_AFTER_S)
        self._open += 1

    def leave(self) -> None:
        """Give a place back."""
        self._open -= 1

    async def events(self, state: _State) -> AsyncIterator[bytes]:
        """Yield what goes over the wire, until the collector stops or the store fails."""
        yield f"retry: {_RETRY_MS}\n\n".encode()
        beaten_at = monotonic()
        seen = -1
        try:
            while not self._intake.stopping:
                commits = self._writer.stats.commits
                if commits != seen:
                    news = await self._read(state)
                    if not news.more:
                        seen = commits
                    if written := _written(state, news):
                        beaten_at = monotonic()
                        yield written
                if commits == seen:
                    await asyncio.sleep(_LOOK_S)
                if monotonic() - beaten_at > BEAT_S:
                    beaten_at = monotonic()
                    yield b": still here\n\n"
        except CollectorError as error:  # the status has been sent
            state.ended_by = "an error"
            yield _event("end", {"reason": str(error)})
            return
        state.ended_by = "the stop of the collector"
        yield _event("end", {"reason": "the collector stops; connect again to go on without a gap"})

    async def _read(self, state: _State) -> News:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._news, state)

    def _news(self, state: _State) -> News:
        if state.told is None:
            state.told = self._reader.run(lambda cursor: newest_place(cursor, state.followed, state.past))
        place = state.looked or state.told
        return self._reader.run(lambda cursor: read_news(cursor, state.followed, place))


async def get_tail(request: Request) -> Response:
    """Answer with events as they are committed: the envelope, never what was said.

    `last` begins with so many past events. A `Last-Event-ID` goes on after that event, also one from before a restart.
    An event `skipped` says how many were left out for a reader that was too far behind; `end` says why it ended.
    """
    access = access_of(request)
    state = parse_tail(request.query_params, request.headers.get("last-event-id", ""), access)
    tenant = state.followed.equal.get("tenant")
    if tenant is not None and (access.tenants is None or tenant in access.tenants):
        note_tenant(request, tenant)
    tails: Tails = request.app.state.tails
    tails.enter()
    return _Answer(request, tails, state)


def parse_tail(query: QueryParams, last_id: str, access: Access) -> _State:
    """Return what a request asks for.

    Raises:
        QueryError: a parameter is not known, or cannot be used.
    """
    unknown = sorted(set(query) - _KNOWN)
    if unknown:
        raise QueryError(f"there is no parameter {unknown[0][:40]!r}; there are: {', '.join(sorted(_KNOWN))}")
    for name in query:
        value = query[name]
        if len(query.getlist(name)) > 1 or len(value) > MAX_VALUE_CHARS or not value.isprintable():
            raise QueryError(f"{name} may be given once, with at most {MAX_VALUE_CHARS} characters of plain text")
    denials, last = query.get("denials", "false"), query.get("last", "0")
    if denials not in {"true", "false"}:
        raise QueryError("denials takes true or false")
    if not (last.isascii() and last.isdigit() and len(last) < 5 and int(last) <= PAGE_ROWS):  # noqa: PLR2004
        raise QueryError(f"last takes a whole number from 0 to {PAGE_ROWS}")
    place = None
    if last_id:
        place = read_place(last_id)
        if place is None:
            raise QueryError("Last-Event-ID takes the id of an event that this tail sent; leave it out to begin anew")
    equal = {name: query[name] for name in FILTERS if query.get(name)}
    return _State(Followed(access.tenants, equal, denials == "true"), place, past=int(last))


class _Answer(StreamingResponse):
    """Gives the place back whatever becomes of the answer, and gives a reader up that takes nothing any more."""

    def __init__(self, request: Request, tails: Tails, state: _State) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(tails.events(state), media_type="text/event-stream", headers=headers)
        self._request = request
        self._tails = tails
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_STUCK_S):
                await send(message)

        state = self._state
        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            state.ended_by = "the asker, who took nothing any more"
        finally:
            self._tails.leave()
            tenants = self._request.scope["state"].get("seen", state.followed.tenants)
            note_end(self._request, state.sent, tenants, skipped=state.skipped, ended_by=state.ended_by)


def _written(state: _State, news: News) -> bytes:
    """The news as they go over the wire; the state is moved on to their end."""
    parts: list[bytes] = []
    if state.looked is None and state.told is not None:
        # Without data it is no event, and yet the id to come back by (WHATWG HTML, "dispatch the event", step 1).
        parts.append(f"id: {state.told.written()}\n\n".encode())
    if news.skipped:
        state.skipped += news.skipped
        parts.append(_event("skipped", {"skipped": news.skipped}))
    for event, place in zip(news.events, news.places, strict=True):
        parts.append(b"id: %b\ndata: %b\n\n" % (place.written().encode(), _told(event)))
    state.looked = news.looked
    if news.places:
        state.told = news.places[-1]
        state.sent += len(news.places)
    return b"".join(parts)


def _told(event: dict[str, Any]) -> bytes:
    attributes = event["attributes"]
    return orjson.dumps(
        event
        | {
            "at": iso_utc(event["started_at"]),
            "attributes": orjson.loads(attributes) if attributes else None,
        }
    )


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))
