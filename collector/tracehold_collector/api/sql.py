"""`/api/v1/sql`: an analyst's own SELECT over the envelope, and what it may read."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Final

import pyarrow as pa
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import Response

from tracehold_collector.api.access import access_of
from tracehold_collector.api.forms import CSV, JSON, PARQUET, as_form, json_answer, json_parts, wanted_form
from tracehold_collector.api.noting import note_export, note_parameters, note_rows
from tracehold_collector.api.objects import read_as_sent
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.sql.desk import DEFAULT_ROWS, MAX_ROWS, SqlAnswer, SqlDesk, Statement
from tracehold_collector.sql.functions import FUNCTIONS
from tracehold_collector.sql.tables import TABLES

CUT_HEADER: Final = "X-Tracehold-Cut"
"""Says `rows` or `bytes` when an answer was cut short there. JSON says it in `cut` as well."""

_MAX_BODY: Final = 256 * 1024
_KNOWN: Final = frozenset({"sql", "max_rows"})


class Sql(HTTPEndpoint):
    """What may be read, and reading it."""

    async def get(self, request: Request) -> Response:
        """Return the tables a statement may read with their columns, the functions it may call, and its limits."""
        return await _list_tables(request)

    async def post(self, request: Request) -> Response:
        """Run one SELECT over the tables of the envelope, as far as the key's tenants reach.

        The body is a JSON object: `sql`, and `max_rows` (10,000 unless said, 1,000,000 at most). The form of the answer
        comes from `?format=` or `Accept`. The access log keeps the statement's length and digest, never its text.
        """
        return await _run_sql(request)


async def _list_tables(request: Request) -> Response:
    desk: SqlDesk = request.app.state.sql
    schemas = await asyncio.to_thread(desk.tables)
    return json_answer(
        {
            "tables": [
                {
                    "name": name,
                    "meaning": meaning,
                    "columns": [{"name": field.name, "type": _type(field.type)} for field in schemas[name]],
                }
                for name, meaning in TABLES.items()
            ],
            "functions": sorted(FUNCTIONS),
            "limits": {
                "seconds": desk.options.timeout_s,
                "memory_bytes": desk.options.memory_bytes,
                "rows": MAX_ROWS,
                "answer_bytes": desk.options.max_answer_bytes,
                "at_once": desk.options.at_once,
            },
        }
    )


async def _run_sql(request: Request) -> Response:
    form = wanted_form(request)
    text, max_rows = _asked(await read_as_sent(request, _KNOWN, max_bytes=_MAX_BODY))
    note_parameters(
        request, sql_sha256=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), sql_chars=len(text)
    )
    if form in {CSV, PARQUET}:
        note_export(request)
    desk: SqlDesk = request.app.state.sql
    statement = await asyncio.to_thread(desk.statement, text, access_of(request), max_rows=max_rows)
    answer = await _run(request, statement)
    note_rows(request, answer.table.num_rows)
    response = await asyncio.to_thread(_written, answer, form)
    if answer.cut:
        response.headers[CUT_HEADER] = answer.cut
    return response


async def _run(request: Request, statement: Statement) -> SqlAnswer:
    """Run it on a thread; when the asker hangs up, it is stopped."""
    work = asyncio.ensure_future(asyncio.to_thread(statement.run))
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await asyncio.to_thread(statement.stop)
        return await work
    finally:
        gone.cancel()
        if not work.done():
            statement.stop()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _written(answer: SqlAnswer, form: str) -> Response:
    if form != JSON:
        return as_form(answer.table, form)
    types = [_type(field.type) for field in answer.table.schema]
    return json_answer({**json_parts(answer.table), "types": types, "cut": answer.cut})


def _type(kind: pa.DataType) -> str:
    return _TYPES.get(kind, str(kind))


_TYPES: Final = {
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.decimal128(38, 0): "HUGEINT",
}


def _asked(body: dict[str, Any]) -> tuple[str, int]:
    text = body.get("sql")
    if not isinstance(text, str) or not text.strip():
        raise BadBodyError("'sql' is a text: one SELECT statement")
    max_rows = body.get("max_rows", DEFAULT_ROWS)
    if type(max_rows) is not int or not 1 <= max_rows <= MAX_ROWS:
        raise BadBodyError(f"'max_rows' is a whole number from 1 to {MAX_ROWS:,}")
    return text, max_rows
