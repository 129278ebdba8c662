"""The DuckDB that runs a statement: empty, in memory, without files, with tables that are read from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import duckdb
import pyarrow as pa

from tracehold_collector.sql.remote import RemoteTable


def open_engine(tables: Mapping[str, pa.Schema], source: Any, *, memory_bytes: int) -> duckdb.DuckDBPyConnection:
    """Return a connection that has these tables and nothing else; its settings are locked.

    Args:
        tables: names and columns.
        source: where their rows come from, see `remote.Source`.
        memory_bytes: what DuckDB may use. Nothing is moved to disk beyond it.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "python_enable_replacements": False,
            "memory_limit": f"{memory_bytes}B",
            "threads": 1,
            "temp_directory": "",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    # Whatever the engine and Arrow load on first use is loaded now: later no file can be opened.
    connection.register("warm_up", RemoteTable(_WarmUp(), "warm_up", _WarmUp.schema))
    connection.execute(
        "SELECT word, count(*), now() FROM warm_up WHERE n > 0 AND word <> '' GROUP BY 1"
    ).to_arrow_table()
    connection.unregister("warm_up")
    for name, schema in tables.items():
        connection.register(name, RemoteTable(source, name, schema))
    connection.execute("SET lock_configuration = true")
    return connection


class _WarmUp:
    schema: ClassVar[pa.Schema] = pa.schema([("n", pa.int64()), ("word", pa.string())])

    def rows(self, _table: str, schema: pa.Schema, _condition: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1, 2], "word": ["a", "b"]}, schema=self.schema).select(schema.names)
