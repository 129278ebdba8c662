"""What people and the dashboard ask: the catalogue, named queries, one event, contents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tracehold_queries import catalogue

from tracehold_collector.api.access import access_of
from tracehold_collector.api.forms import as_form, json_answer, wanted_form
from tracehold_collector.api.noting import note_rows, note_tenant
from tracehold_collector.core.cells import plain
from tracehold_collector.core.errors import QueryError
from tracehold_collector.store.reader import NO_CONTENT, Access, Reader

MAX_CONTENTS: Final = 200

_T = TypeVar("_T")


async def list_queries(_request: Request) -> Response:
    """Return every named query with its question, parameters and columns."""
    return JSONResponse({"queries": [query.describe() for query in catalogue().values()]})


async def run_query(request: Request) -> Response:
    """Run a named query; parameters come from the URL, the form from `?format=` or `Accept`."""
    form = wanted_form(request)
    parameters = _parameters(request)
    name = request.path_params["name"]
    table = await _read(request, lambda reader, access: reader.query(name, parameters, access))
    note_rows(request, table.num_rows)
    tenant = parameters.get("tenant")
    tenants = access_of(request).tenants
    if isinstance(tenant, str) and (tenants is None or tenant in tenants):
        note_tenant(request, tenant)
    return await asyncio.to_thread(as_form, table, form)


async def get_event(request: Request) -> Response:
    """Return one event, envelope and content."""
    event_id = request.path_params["event_id"]
    found = await _read(request, lambda reader, access: reader.event(event_id, access))
    if found is None:
        return JSONResponse({"error": f"there is no event {event_id[:64]!r} that you may see"}, 404)
    envelope, content = found
    note_rows(request, 1)
    note_tenant(request, envelope["tenant"])
    event = {key: plain(value) for key, value in envelope.items()}
    return await asyncio.to_thread(json_answer, {"event": event, "content": content, **_withheld(request)})


async def get_contents(request: Request) -> Response:
    """Return the contents of up to 200 events."""
    event_ids = request.query_params.getlist("event_id")
    if not 0 < len(event_ids) <= MAX_CONTENTS:
        raise QueryError(f"give 1 to {MAX_CONTENTS} parameters event_id=...; got {len(event_ids)}")
    found = await _read(request, lambda reader, access: reader.contents(event_ids, access))
    note_rows(request, sum(content is not None for content in found.values()))
    return await asyncio.to_thread(json_answer, {"contents": found, **_withheld(request)})


def _withheld(request: Request) -> dict[str, str]:
    """Why what was said is not in an answer, when it is left out on purpose."""
    return {} if access_of(request).content else {"content_withheld": NO_CONTENT}


async def _read(request: Request, work: Callable[[Reader, Access], _T]) -> _T:
    reader: Reader = request.app.state.reader
    access = access_of(request)
    return await asyncio.to_thread(partial(work, reader, access))


def _parameters(request: Request) -> dict[str, object]:
    """Parameters of the URL; a repeated one is a list."""
    parameters: dict[str, object] = {}
    for key in request.query_params:
        if key == "format":
            continue
        values = request.query_params.getlist(key)
        parameters[key] = values[0] if len(values) == 1 else values
    return parameters
