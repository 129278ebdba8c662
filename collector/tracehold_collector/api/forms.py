"""The forms a table is answered in: JSON, CSV, Parquet, an Arrow stream; and how the asker names one."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from starlette.requests import Request
from starlette.responses import Response
from tracehold.core.jsontext import dumps

from tracehold_collector.core.cells import cell, column_values, csv_text, rows_of
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.hidden import without_hidden

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV: Final = "text/csv"
JSON: Final = "application/json"
PARQUET: Final = "application/vnd.apache.parquet"

FORMATS: Final = {"json": JSON, "csv": CSV, "parquet": PARQUET, "arrow": ARROW}
"""What `?format=` says, for those who cannot set the header `Accept`."""

CSV_TYPE: Final = "text/csv; charset=utf-8"


def wanted_form(request: Request, forms: Collection[str] = tuple(FORMATS.values())) -> str:
    """Return the media type to answer in: that of `?format=`, else the first one of `Accept` that we have, else JSON.

    Raises:
        QueryError: it names none that we have.
    """
    asked = request.query_params.get("format")
    if asked is not None:
        if FORMATS.get(asked) not in forms:
            names = ", ".join(name for name, form in FORMATS.items() if form in forms)
            raise QueryError(f"format takes one of {names}")
        return FORMATS[asked]
    accept = request.headers.get("accept", "")
    for entry in accept.split(","):
        wanted = entry.partition(";")[0].strip().lower()
        if wanted in forms:
            return wanted
        if wanted in {"", "*/*", "application/*"}:
            return JSON
    raise QueryError(f"cannot answer as {accept[:100]!r}; ask for {', '.join(sorted(forms))}")


def as_form(table: pa.Table, form: str) -> Response:
    """Return the answer that holds a table."""
    return _FORMS[form](table)


def json_parts(table: pa.Table) -> dict[str, Any]:
    """Return a table as the columns and rows of a JSON answer."""
    return {"columns": table.column_names, "rows": list(rows_of(table))}


def json_answer(value: object) -> Response:
    """Return a JSON answer; strict, whatever was stored."""
    return Response(dumps(value), media_type=JSON)


def _as_arrow(table: pa.Table) -> Response:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(without_hidden(table))
    return Response(sink.getvalue(), media_type=ARROW)


def _as_json(table: pa.Table) -> Response:
    return json_answer(json_parts(table))


def _as_csv(table: pa.Table) -> Response:
    return Response(csv_text(table), media_type=CSV_TYPE)


def _as_parquet(table: pa.Table) -> Response:
    sink = io.BytesIO()
    columns = [column if _is_storable(column.type) else _as_text(column) for column in table.columns]
    pq.write_table(pa.Table.from_arrays(columns, table.column_names), sink, compression="zstd")
    return Response(sink.getvalue(), media_type=PARQUET)


def _is_storable(kind: pa.DataType) -> bool:
    """Whether Parquet has a place for values of this type; it has none for intervals."""
    try:
        pq.write_table(pa.table({"a": pa.array([], kind)}), io.BytesIO())
    except pa.ArrowException:
        return False
    return True


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    values = [None if value is None else str(cell(value)) for value in column_values(column)]
    return pa.chunked_array([pa.array(values, pa.string())])


_FORMS: Final[dict[str, Callable[[pa.Table], Response]]] = {
    ARROW: _as_arrow,
    JSON: _as_json,
    CSV: _as_csv,
    PARQUET: _as_parquet,
}
