"""Reads tables for a running statement: the asker's tenants only, the columns it needs, as far as it goes on asking."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from tracehold_collector.core.errors import QueryError
from tracehold_collector.sql.frames import ClosedError
from tracehold_collector.sql.tables import selection
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access

_BATCH_ROWS: Final = 20_000
_MAX_OPEN: Final = 64
_INT64: Final = 1 << 63
_COMPARES: Final = {"==": "=", ">=": ">=", "<=": "<=", ">": ">", "<": "<"}


class Scans:
    """The open scans of one statement. What asks may be anybody: nothing it says is believed.

    Args:
        database: the open store.
        tables: the tables on offer with their columns.
        access: what the asker may see.
    """

    def __init__(self, database: Database, tables: Mapping[str, pa.Schema], access: Access) -> None:
        self._database = database
        self.tables = tables
        self._access = access
        self._open: dict[int, _Scan] = {}
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._interrupted = False

    def open(self, asked: Mapping[str, Any]) -> None:
        """Begin to read a table.

        Args:
            asked: `scan`, `table`, `columns`, `bounds`, as the process says them.

        Raises:
            QueryError: too many at once, or what is asked for is not on offer.
        """
        schema = self.tables.get(str(asked.get("table")))
        columns, number = asked.get("columns"), asked.get("scan")
        if schema is None or not isinstance(columns, list) or not isinstance(number, int):
            raise QueryError("the statement reads what is not on offer")
        if not all(column in schema.names for column in columns):
            raise QueryError("the statement reads what is not on offer")
        if len(self._open) >= _MAX_OPEN:
            raise QueryError(f"the statement reads more than {_MAX_OPEN} tables at once; take it apart")
        condition, bound = _condition(schema, asked.get("bounds") or ())
        # A statement that only counts needs no column; a batch without one would have no length.
        text = selection(str(asked["table"]), columns or schema.names[:1], condition)
        cursor = self._stack.enter_context(self._database.cursor())
        with self._lock:
            self._open[number] = _Scan(cursor, text, bound | {"tenants": _tenants(self._access)})

    def next(self, number: object) -> memoryview | None:
        """Return the next rows of a scan as an Arrow message, `None` at its end.

        Raises:
            ClosedError: there is no such scan.
            duckdb.Error: the store cannot be read, or `interrupt` was called.
        """
        if not isinstance(number, int) or number not in self._open:
            raise ClosedError
        scan = self._open[number]
        if self._interrupted:
            raise duckdb.InterruptException
        batch = scan.next()
        if batch is None:
            with self._lock:
                del self._open[number]
            scan.close()
            return None
        return memoryview(batch.serialize())

    def ahead(self, number: object) -> None:
        """Read the next rows before they are asked for, so that store and statement work at the same time."""
        scan = self._open.get(number) if isinstance(number, int) else None
        if scan is not None and not self._interrupted:
            scan.ahead()

    def interrupt(self) -> None:
        """Stop reading, from any thread."""
        self._interrupted = True
        with self._lock:
            for scan in self._open.values():
                with contextlib.suppress(duckdb.Error):
                    scan.cursor.interrupt()

    def close(self) -> None:
        """End all scans."""
        for scan in self._open.values():
            scan.close()
        self._stack.close()


class _Scan:
    def __init__(self, cursor: duckdb.DuckDBPyConnection, text: str, bound: Mapping[str, Any]) -> None:
        self.cursor = cursor
        self._text = text
        self._bound = bound
        self._reader: Any = None
        self._waiting: list[pa.RecordBatch | None] = []

    def next(self) -> pa.RecordBatch | None:
        self.ahead()
        return self._waiting.pop()

    def close(self) -> None:
        # What reads from a cursor keeps the store's file open beyond the cursor's end.
        self._reader = None
        self.cursor.close()

    def ahead(self) -> None:
        if self._waiting:
            return
        if self._reader is None:
            self._reader = self.cursor.execute(self._text, self._bound).to_arrow_reader(_BATCH_ROWS)
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            batch = None
        self._waiting.append(batch)


def _condition(schema: pa.Schema, bounds: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """The condition each row read has to meet, and its values: the asker's tenants, and the statement's own bounds."""
    parts = ["($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))"]
    bound: dict[str, Any] = {}
    for place, entry in enumerate(bounds):
        if not isinstance(entry, list) or len(entry) != 3:  # noqa: PLR2004 - column, comparison, value
            continue
        column, compare, value = entry
        if column not in schema.names or compare not in _COMPARES:
            continue
        kind = schema.field(column).type
        whole = kind == pa.int64() and type(value) is int and -_INT64 <= value < _INT64
        text = kind == pa.string() and isinstance(value, str) and compare == "=="
        if (whole or text) and column not in {"event_id", "attributes"}:
            parts.append(f'"{column}" {_COMPARES[compare]} $b{place}::{"BIGINT" if whole else "VARCHAR"}')
            bound[f"b{place}"] = value
    return " AND ".join(parts), bound


def _tenants(access: Access) -> list[str] | None:
    return None if access.tenants is None else list(access.tenants)
