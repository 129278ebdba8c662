"""Jaeger's third query API (`/api/v3/...`): the same traces as OTLP, and summaries of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tracehold_collector.api.jaeger import Answer, Written, answer, checked
from tracehold_collector.core.errors import QueryError
from tracehold_collector.jaeger import lists, parameters
from tracehold_collector.jaeger.otlp_json import traces_data
from tracehold_collector.jaeger.search import DEFAULT_TRACES, Search, find_traces, load_by_id, load_traces
from tracehold_collector.jaeger.view import TraceView
from tracehold_collector.store.reader import Access, Reader

_NOT_FOUND: Final = 404
_UNREAD: Final = ("query.filter", "query.pagination.pageSize", "query.pagination.pageToken")
"""Parameters of newer Jaegers. Ignored they would answer with more than was asked for."""


async def get_services(request: Request) -> Response:
    """Return the names of the services."""
    return await answer(request, _services, error_body)


async def get_operations(request: Request) -> Response:
    """Return a service's operations with their kinds of span."""
    return await answer(request, _operations, error_body)


async def get_traces(request: Request) -> Response:
    """Return the traces that have a span like this."""
    return await answer(request, _traces, error_body)


async def get_trace(request: Request) -> Response:
    """Return one trace."""
    return await answer(request, _trace, error_body)


async def get_summaries(request: Request) -> Response:
    """Return summaries of the traces that have a span like this."""
    return await answer(request, _summaries, error_body)


ROUTES: Final = (
    Route("/api/v3/services", get_services),
    Route("/api/v3/operations", get_operations),
    Route("/api/v3/traces", get_traces),
    Route("/api/v3/traces/{trace_id}", get_trace),
    Route("/api/v3/trace-summaries", get_summaries),
)


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return an error as Jaeger's gateway writes one."""
    return {"error": {"httpCode": status, "message": message}}


def parse_search(query: QueryParams) -> Search:
    """Return what a search asks for; every parameter has a newer name and an older one.

    Raises:
        QueryError: a parameter cannot be used, or the time is not given.
    """
    for name in _UNREAD:
        if query.get(name):
            raise QueryError(f"{name} is not understood here; ask by service, operation, attributes, time and duration")
    service, service_name = _either(query, "serviceName", "service_name")
    operation, operation_name = _either(query, "operationName", "operation_name")
    since, since_name = _either(query, "startTimeMin", "start_time_min")
    until, until_name = _either(query, "startTimeMax", "start_time_max")
    if not since or not until:
        raise QueryError("query.start_time_min and query.start_time_max are required")
    limit, limit_name = _either(query, "searchDepth", "search_depth", "num_traces")
    raw, raw_name = _either(query, "rawTraces", "raw_traces")
    parameters.flag(raw_name, raw)
    attributes = query.get("query.attributes", "")
    return checked(
        Search(
            service=parameters.plain_text(service_name, service) or None,
            operation=parameters.plain_text(operation_name, operation) or None,
            tags=parameters.tag_map("query.attributes", attributes) if attributes else {},
            since_ns=parameters.moment_ns(since_name, since),
            # Here the end is no part of the time asked for.
            until_ns=parameters.moment_ns(until_name, until) - 1,
            min_duration_ns=_duration(query, "durationMin", "duration_min"),
            max_duration_ns=_duration(query, "durationMax", "duration_max"),
            limit=parameters.trace_limit(limit_name, limit) if limit not in {"", "0"} else DEFAULT_TRACES,
        )
    )


def _services(_request: Request, reader: Reader, access: Access) -> Answer:
    return 200, {"services": lists.services(reader, access)}


def _operations(request: Request, reader: Reader, access: Access) -> Answer:
    query = request.query_params
    service = query.get("service", "")
    if not service:
        raise QueryError("service is required")
    kind = query.get("spanKind") or query.get("span_kind", "")
    found = lists.operations_by_kind(reader, service, kind, access)
    # This API has no empty kind; Jaeger says internal where none was given.
    return 200, {"operations": [{**one, "spanKind": one["spanKind"] or "internal"} for one in found]}


def _traces(request: Request, reader: Reader, access: Access) -> Answer:
    found = find_traces(reader, parse_search(request.query_params), access)
    views = load_traces(reader, found, access)
    if not views:
        return _NOT_FOUND, error_body(_NOT_FOUND, "; ".join(["No traces found", *found.warnings]))
    return 200, _result(views, found.warnings)


def _trace(request: Request, reader: Reader, access: Access) -> Answer:
    query = request.query_params
    trace_id = parameters.trace_id("trace_id", request.path_params["trace_id"])
    for name in ("startTime", "start_time", "endTime", "end_time"):
        if query.get(name):
            parameters.moment_ns(name, query[name])
    for name in ("rawTraces", "raw_traces"):
        parameters.flag(name, query.get(name, ""))
    views = load_by_id(reader, [trace_id], access)
    if not views:
        return _NOT_FOUND, error_body(_NOT_FOUND, "No traces found")
    return 200, _result(views)


def _result(views: Iterable[TraceView], warnings: Iterable[str] = ()) -> Written:
    return Written(chain((b'{"result":',), traces_data(views, warnings), (b"}",)))


def _summaries(request: Request, reader: Reader, access: Access) -> Answer:
    found = find_traces(reader, parse_search(request.query_params), access)
    return 200, {"summaries": lists.summaries(reader, found, access)}


def _either(query: QueryParams, *names: str) -> tuple[str, str]:
    """The first of these parameters that says something, and what it is called."""
    given = [f"query.{name}" for name in names if query.get(f"query.{name}")]
    name = given[0] if given else f"query.{names[0]}"
    return query.get(name, ""), name


def _duration(query: QueryParams, *names: str) -> int | None:
    text, name = _either(query, *names)
    return parameters.duration_ns(name, text) or None if text else None
