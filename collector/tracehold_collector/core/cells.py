"""Values of a table as JSON and CSV can hold them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from tracehold.core.jsontext import dumps

_FORMULA: Final = frozenset("=+-@\t\r")
_LEADING: Final = r"^[=+\-@\t\r]"


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table as plain values."""
    return zip(*(column_values(column) for column in table.columns), strict=True)


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values as strict JSON can hold them; a time beyond the year 9999 is a number, in its unit."""
    if _is_number(column.type) or pa.types.is_string(column.type):
        unchanged: list[Any] = column.to_pylist()
        return unchanged
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


def csv_text(table: pa.Table, *, header: bool = True) -> str:
    """Return a table as CSV (RFC 4180). Unknown is empty; see `cell` for formulas."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    if header:
        writer.writerow(cell(name) for name in table.column_names)
    writer.writerows(zip(*(_cells(column) for column in table.columns), strict=True))
    return sink.getvalue()


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """The cells of a column; one look at all of it saves a look at each in nearly every table."""
    values = column_values(column)
    if _is_number(column.type):
        return values
    if pa.types.is_string(column.type) and not pc.any(pc.match_substring_regex(column, _LEADING)).as_py():
        return values
    return [cell(value) for value in values]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def cell(value: Any) -> Any:
    """A CSV cell that a spreadsheet takes for text: a leading sign would make it a formula (CWE-1236)."""
    if isinstance(value, list | dict):
        return dumps(value).decode()
    if isinstance(value, str) and value[:1] in _FORMULA:
        return "'" + value
    return value
