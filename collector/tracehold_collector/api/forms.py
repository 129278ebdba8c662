"""The forms a table is answered in: JSON, CSV, Parquet, an Arrow stream; and how the asker names one."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from starlette.requests import Request
from starlette.responses import Response
from tracehold.core.jsontext import dumps

from tracehold_collector.core.errors import QueryError

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV: Final = "text/csv"
JSON: Final = "application/json"
PARQUET: Final = "application/vnd.apache.parquet"

FORMATS: Final = {"json": JSON, "csv": CSV, "parquet": PARQUET, "arrow": ARROW}
"""What `?format=` says, for those who cannot set the header `Accept`."""

CSV_TYPE: Final = "text/csv; charset=utf-8"

_FORMULA: Final = frozenset("=+-@\t\r")


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
    columns = [column_values(column) for column in table.columns]
    rows = list(zip(*columns, strict=True)) if columns else []
    return {"columns": table.column_names, "rows": rows}


def json_answer(value: object) -> Response:
    """Return a JSON answer; strict, whatever was stored."""
    return Response(dumps(value), media_type=JSON)


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values as strict JSON can hold them; a time beyond the year 9999 is a number, in its unit."""
    try:
        return [plain(value) for value in column.to_pylist()]
    except (OverflowError, ValueError):
        return [_lenient(scalar) for chunk in column.chunks for scalar in chunk]


def _lenient(scalar: pa.Scalar) -> Any:
    try:
        return plain(scalar.as_py())
    except (OverflowError, ValueError):
        if isinstance(scalar, pa.StructScalar):  # two fields of one name, as ROW(1, 2) has them
            return [_lenient(scalar[place]) for place in range(len(scalar))]
        try:
            return scalar.cast(pa.int64()).as_py()
        except pa.ArrowException:
            return None


def plain(value: Any) -> Any:
    """A value as strict JSON can hold it; times are ISO 8601 in UTC."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        # DuckDB's sum of whole numbers is one, and may be beyond what a float holds.
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, pa.MonthDayNano):
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows of plain values as CSV (RFC 4180). Unknown is empty; see `cell` for formulas."""
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\r\n").writerows([cell(value) for value in row] for row in rows)
    return sink.getvalue()


def cell(value: Any) -> Any:
    """A CSV cell that a spreadsheet takes for text: a leading sign would make it a formula (CWE-1236)."""
    if isinstance(value, list | dict):
        return orjson.dumps(value).decode()
    if isinstance(value, str) and value[:1] in _FORMULA:
        return "'" + value
    return value


def batch_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch as plain values."""
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    return zip(*[column_values(column) for column in table.columns], strict=True)


def _as_arrow(table: pa.Table) -> Response:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return Response(sink.getvalue(), media_type=ARROW)


def _as_json(table: pa.Table) -> Response:
    return json_answer(json_parts(table))


def _as_csv(table: pa.Table) -> Response:
    header = csv_lines([table.column_names])
    return Response(header + csv_lines(batch_rows(table)), media_type=CSV_TYPE)


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
