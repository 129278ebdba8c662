"""Jaeger's query API, the one its UI and Grafana's data source for Jaeger ask: `/api/services`, `/api/traces`, ..."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tracehold.core.clock import NS_PER_MS, NS_PER_S, now_ns
from tracehold.core.jsontext import dumps

from tracehold_collector.api.access import access_of
from tracehold_collector.api.errors import status_of
from tracehold_collector.api.noting import note_rows
from tracehold_collector.core.errors import CollectorError, QueryError
from tracehold_collector.core.packed import PackedText
from tracehold_collector.jaeger import lists, parameters
from tracehold_collector.jaeger.parameters import MAX_TAGS, MAX_TRACE_IDS, NS_PER_US
from tracehold_collector.jaeger.search import DEFAULT_TRACES, Search, find_traces, load_by_id, load_traces
from tracehold_collector.jaeger.ui_json import shown_trace_id, ui_trace
from tracehold_collector.jaeger.view import TraceView
from tracehold_collector.store.reader import Access, Reader

_DAY_NS: Final = 24 * 3600 * NS_PER_S
_SEARCHED_NS: Final = 2 * _DAY_NS
"""How far back a search without a start looks, as in Jaeger."""

_NOT_FOUND: Final = 404
_TRACE_NOT_FOUND: Final = "trace not found"


@dataclass(frozen=True, slots=True)
class Written:
    """A body that is written bit by bit.

    Attributes:
        pieces: of JSON.
        rows: how many things it lists, for the access log; `None` when that is not told.
    """

    pieces: Iterable[bytes]
    rows: int | None = None


Answer = tuple[int, Any]
"""An HTTP status and the body: `Written`, or what is to be written as JSON."""


async def answer(
    request: Request, work: Callable[[Request, Reader, Access], Answer], on_error: Callable[[int, str], Any]
) -> Response:
    """Do `work` on a thread and answer with what it returns; an error of ours becomes what `on_error` makes of it."""
    reader: Reader = request.app.state.reader
    access = access_of(request)

    def run() -> tuple[int, PackedText, int | None]:
        packed = PackedText()
        try:
            status, body = work(request, reader, access)
            size = body.rows if isinstance(body, Written) else _size(body)
            # All of it, before the status is sent: what goes wrong midway is still told.
            for piece in body.pieces if isinstance(body, Written) else (dumps(body),):
                packed.add(piece)
        except CollectorError as error:
            packed, status = PackedText(), status_of(error)
            body = on_error(status, str(error))
            size = _size(body)
            packed.add(dumps(body))
        return status, packed, size

    status, packed, size = await asyncio.to_thread(run)
    if size is not None:
        note_rows(request, size)
    headers = {"Content-Length": str(packed.size)}
    return StreamingResponse(_blocks(packed), status, headers, media_type="application/json")


async def _blocks(packed: PackedText) -> AsyncIterator[bytes]:
    for block in packed.blocks():
        yield block


def _size(body: Any) -> int | None:
    """How many things an answer lists, for the access log; `None` for one that lists nothing on its first level."""
    return next((len(part) for part in body.values() if isinstance(part, list)), None)


async def get_services(request: Request) -> Response:
    """Return the names of the services."""
    return await answer(request, _services, error_body)


async def get_operation_names(request: Request) -> Response:
    """Return the names of a service's operations."""
    return await answer(request, _operation_names, error_body)


async def get_operations(request: Request) -> Response:
    """Return a service's operations with their kinds of span."""
    return await answer(request, _operations, error_body)


async def get_traces(request: Request) -> Response:
    """Return the traces that have a span like this, or those of the ids given."""
    return await answer(request, _traces, error_body)


async def get_trace(request: Request) -> Response:
    """Return one trace."""
    return await answer(request, _trace, error_body)


async def get_dependencies(request: Request) -> Response:
    """Return which service calls which."""
    return await answer(request, _dependencies, error_body)


ROUTES: Final = (
    Route("/api/services", get_services),
    Route("/api/services/{service:path}/operations", get_operation_names),
    Route("/api/operations", get_operations),
    Route("/api/traces", get_traces),
    Route("/api/traces/{trace_id}", get_trace),
    Route("/api/dependencies", get_dependencies),
)


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return an error as Jaeger writes one."""
    return _body(None, errors=[{"code": status, "msg": message}])


def parse_search(query: QueryParams, now: int) -> Search:
    """Return what a search of Jaeger's UI asks for.

    Args:
        query: the URL's parameters; those nobody here knows are ignored, as in Jaeger.
        now: UTC nanoseconds, for a search that names no time.

    Raises:
        QueryError: a parameter cannot be used, or none names a service.
    """
    service = query.get("service", "")
    if not service:
        raise QueryError("parameter 'service' is required")
    # An end in microseconds means the whole of its last one: spans are stored in nanoseconds.
    until_ns = parameters.epoch_ns("end", query["end"], NS_PER_US) + NS_PER_US - 1 if query.get("end") else now
    if query.get("start"):
        since_ns = parameters.epoch_ns("start", query["start"], NS_PER_US)
    else:
        lookback = query.get("lookback", "")
        # The UI's own word for a range that it gives as start and end.
        known = lookback not in {"", "custom"}
        since_ns = until_ns - (parameters.duration_ns("lookback", lookback, days=True) if known else _SEARCHED_NS)
    tags = parameters.tag_pairs("tag", query.getlist("tag"))
    for text in query.getlist("tags"):
        if text:
            tags |= parameters.tag_map("tags", text)
    return checked(
        Search(
            service=parameters.plain_text("service", service),
            operation=parameters.plain_text("operation", query.get("operation", "")) or None,
            tags=tags,
            since_ns=max(since_ns, -parameters.MAX_NS),
            until_ns=min(until_ns, parameters.MAX_NS),
            min_duration_ns=_duration(query, "minDuration"),
            max_duration_ns=_duration(query, "maxDuration"),
            limit=parameters.trace_limit("limit", query["limit"]) if query.get("limit") else DEFAULT_TRACES,
        )
    )


def checked(search: Search) -> Search:
    """Return `search` when its parts can hold together.

    Raises:
        QueryError: they cannot; the text says which.
    """
    if search.since_ns is not None and search.until_ns is not None and search.since_ns > search.until_ns:
        raise QueryError("the start of the time asked for must not be after its end")
    shortest, longest = search.min_duration_ns, search.max_duration_ns
    if shortest is not None and longest is not None and shortest > longest:
        raise QueryError("the longest duration asked for must not be shorter than the shortest")
    if len(search.tags) > MAX_TAGS:
        raise QueryError(f"at most {MAX_TAGS} tags can be asked for at once; got {len(search.tags)}")
    return search


def _services(_request: Request, reader: Reader, access: Access) -> Answer:
    found = lists.services(reader, access)
    return 200, _body(found, total=len(found))


def _operation_names(request: Request, reader: Reader, access: Access) -> Answer:
    found = lists.operations(reader, request.path_params["service"], access)
    return 200, _body(found, total=len(found))


def _operations(request: Request, reader: Reader, access: Access) -> Answer:
    query = request.query_params
    if not query.get("service"):
        raise QueryError("parameter 'service' is required")
    found = lists.operations_by_kind(reader, query["service"], query.get("spanKind", ""), access)
    return 200, _body(found, total=len(found))


def _traces(request: Request, reader: Reader, access: Access) -> Answer:
    query = request.query_params
    parameters.flag("raw", query.get("raw", ""))
    if query.getlist("traceID"):
        return _traces_by_id(query.getlist("traceID"), reader, access)
    found = find_traces(reader, parse_search(query, now_ns()), access)
    views = load_traces(reader, found, access)
    return 200, _listed(views, [{"msg": text} for text in found.warnings])


def _traces_by_id(texts: list[str], reader: Reader, access: Access) -> Answer:
    if len(texts) > MAX_TRACE_IDS:
        raise QueryError(f"at most {MAX_TRACE_IDS} traces can be asked for by id at once; got {len(texts)}")
    wanted = list(dict.fromkeys(parameters.trace_id("traceID", text) for text in texts))
    views = load_by_id(reader, wanted, access)
    found = {view.trace_id for view in views}
    errors = [{"msg": _TRACE_NOT_FOUND, "traceID": shown_trace_id(one)} for one in wanted if one not in found]
    return 200, _listed(views, errors)


def _trace(request: Request, reader: Reader, access: Access) -> Answer:
    query = request.query_params
    trace_id = parameters.trace_id("traceID", request.path_params["trace_id"])
    parameters.flag("raw", query.get("raw", ""))
    # A hint for stores that are split by time: this one finds a trace without it.
    for name in ("start", "end"):
        if query.get(name):
            parameters.epoch_ns(name, query[name], NS_PER_US)
    views = load_by_id(reader, [trace_id], access)
    if not views:
        return _NOT_FOUND, error_body(_NOT_FOUND, _TRACE_NOT_FOUND)
    return 200, _listed(views)


def _dependencies(request: Request, reader: Reader, access: Access) -> Answer:
    query = request.query_params
    until_ns = parameters.epoch_ns("endTs", query["endTs"], NS_PER_MS) if query.get("endTs") else now_ns()
    lookback_ns = _DAY_NS
    if query.get("lookback"):
        lookback_ns = parameters.epoch_ns("lookback", query["lookback"], NS_PER_MS)
        if lookback_ns < 0:
            raise QueryError("lookback takes a number of milliseconds that is not negative")
    since_ns = max(until_ns - lookback_ns, -parameters.MAX_NS)
    service = parameters.plain_text("service", query.get("service", "")) or None
    return 200, _body(lists.dependencies(reader, since_ns, until_ns, service, access))


def _duration(query: QueryParams, name: str) -> int | None:
    """A duration, or `None`; zero is no bound, as in Jaeger."""
    return parameters.duration_ns(name, query[name]) or None if query.get(name) else None


def _listed(views: list[TraceView], errors: list[dict[str, Any]] | None = None) -> Written:
    """The envelope around traces."""

    def pieces() -> Iterator[bytes]:
        before, after = dumps(_body([], errors=errors)).split(b"[]", 1)
        yield before + b"["
        for number, view in enumerate(views):
            if number:
                yield b","
            yield from ui_trace(view)
        yield b"]" + after

    return Written(pieces(), len(views))


def _body(data: Any, *, total: int = 0, errors: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The envelope; `limit` and `offset` are always zero in Jaeger's own answers."""
    return {"data": data, "total": total, "limit": 0, "offset": 0, "errors": errors or None}
