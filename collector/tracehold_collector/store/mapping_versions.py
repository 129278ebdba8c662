"""Notes in the store which version of the mapping table read what it holds."""

from __future__ import annotations

import duckdb

from tracehold_collector.normalise.mapping import MAPPING_VERSION


def note_mapping(connection: duckdb.DuckDBPyConnection, at_ns: int) -> None:
    """Note in a store that this version reads what is received from now on, unless the last note says so.

    Args:
        connection: the writer's.
        at_ns: now, UTC nanoseconds.

    Raises:
        duckdb.Error: it could not be written.
    """
    last = connection.execute("SELECT version FROM mapping_versions ORDER BY since DESC LIMIT 1").fetchone()
    if last is None or last[0] != MAPPING_VERSION:
        connection.execute("INSERT INTO mapping_versions VALUES (?, ?)", [MAPPING_VERSION, at_ns])
