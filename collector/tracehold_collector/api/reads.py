"""What people and the dashboard ask: the catalogue, named queries, one event, contents."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import orjson
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tracehold.core.jsontext import dumps
from tracehold_queries import catalogue

from tracehold_collector.api.access import access_of
from tracehold_collector.api.noting import note_rows, note_tenant
from tracehold_collector.core.errors import QueryError
from tracehold_collector.store.reader import NO_CONTENT, Access, Reader

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV: Final = "text/csv"
JSON: Final = "application/json"

MAX_CONTENTS: Final = 200

_T = TypeVar("_T")


async def list_queries(_request: Request) -> Response:
    """Return every named query with its question, parameters and columns."""
    return JSONResponse({"queries": [query.describe() for query in catalogue().values()]})


async def run_query(request: Request) -> Response:
    """Run a named query; parameters come from the URL, the form of the answer from `Accept`."""
    form = _accepted(request.headers.get("accept", ""))
    parameters = _parameters(request)
    name = request.path_params["name"]
    table = await _read(request, lambda reader, access: reader.query(name, parameters, access))
    note_rows(request, table.num_rows)
    tenant = parameters.get("tenant")
    tenants = access_of(request).tenants
    if isinstance(tenant, str) and (tenants is None or tenant in tenants):
        note_tenant(request, tenant)
    return await asyncio.to_thread(_FORMS[form], table)


async def get_event(request: Request) -> Response:
    """Return one event, envelope and content."""
    event_id = request.path_params["event_id"]
    found = await _read(request, lambda reader, access: reader.event(event_id, access))
    if found is None:
        return JSONResponse({"error": f"there is no event {event_id[:64]!r} that you may see"}, 404)
    envelope, content = found
    note_rows(request, 1)
    note_tenant(request, envelope["tenant"])
    event = {key: _plain(value) for key, value in envelope.items()}
    return await asyncio.to_thread(_json, {"event": event, "content": content, **_withheld(request)})


async def get_contents(request: Request) -> Response:
    """Return the contents of up to 200 events."""
    event_ids = request.query_params.getlist("event_id")
    if not 0 < len(event_ids) <= MAX_CONTENTS:
        raise QueryError(f"give 1 to {MAX_CONTENTS} parameters event_id=...; got {len(event_ids)}")
    found = await _read(request, lambda reader, access: reader.contents(event_ids, access))
    note_rows(request, sum(content is not None for content in found.values()))
    return await asyncio.to_thread(_json, {"contents": found, **_withheld(request)})


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
        values = request.query_params.getlist(key)
        parameters[key] = values[0] if len(values) == 1 else values
    return parameters


def _accepted(accept: str) -> str:
    """Pick the first form the asker names that we have; JSON when it does not care."""
    for entry in accept.split(","):
        wanted = entry.partition(";")[0].strip().lower()
        if wanted in _FORMS:
            return wanted
        if wanted in {"", "*/*", "application/*"}:
            return JSON
    raise QueryError(f"cannot answer as {accept[:100]!r}; ask for {ARROW}, {JSON} or {CSV}")


def _as_arrow(table: pa.Table) -> Response:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return Response(sink.getvalue(), media_type=ARROW)


def _as_json(table: pa.Table) -> Response:
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return _json({"columns": table.column_names, "rows": list(zip(*columns, strict=True))})


def _as_csv(table: pa.Table) -> Response:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(table.column_names)
    columns = [[_cell(_plain(value)) for value in column.to_pylist()] for column in table.columns]
    writer.writerows(zip(*columns, strict=True))
    return Response(sink.getvalue(), media_type="text/csv; charset=utf-8")


_FORMS: Final[dict[str, Callable[[pa.Table], Response]]] = {ARROW: _as_arrow, JSON: _as_json, CSV: _as_csv}


def _json(value: object) -> Response:
    return Response(dumps(value), media_type=JSON)


def _plain(value: Any) -> Any:
    """A value as strict JSON can hold it; times are ISO 8601 in UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value


def _cell(value: Any) -> Any:
    """A CSV cell that a spreadsheet takes for text: a leading sign would make it a formula (CWE-1236)."""
    if isinstance(value, list | dict):
        return orjson.dumps(value).decode()
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return "'" + value
    return value
