"""Copies a store into another DuckDB file, table by table, in the order the rows lie in.

The two files are two instances of DuckDB, and rows go from one to the other as Arrow: what befalls the new file, such
as a full disk, cannot make the live one unusable, and no connection to the live one may open a second file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import duckdb

from tracehold_collector.core.errors import StoreError

APPENDED: Final = ("events", "contents", "log_hashes", "run_deltas")
"""Tables that only grow while nobody erases or folds, each commit's rows with a later `received_at` than all before."""

_IN_ONE_PIECE: Final = frozenset({"run_deltas"})
"""Not in the order of `received_at` when they were folded; to copy them by that would mix them up."""

WHOLE: Final = (
    "collector_events",
    "costs",
    "erased_events",
    "erased_keys",
    "erased_runs",
    "erasures",
    "legal_holds",
    "mapping_versions",
    "schema_migrations",
    "time_stamps",
    "tree_heads",
    "usage_shares",
)
"""Tables that are small or change, copied while nothing is written; so is every table that is named in neither list."""

PIECE_ROWS: Final = 2 * 122_880
"""Some row groups of DuckDB's: fewer rows than one would go through the new file's write-ahead file first, and the last
of a piece is not filled."""

_BATCH_ROWS: Final = 2_048

_COLUMNS: Final = """
SELECT table_name, column_name, data_type, is_nullable, column_default
FROM duckdb_columns()
WHERE NOT internal
  AND database_name <> 'temp'
ORDER BY ALL
"""
_KINDS: Final = {
    "schemas": "SELECT schema_name FROM duckdb_schemas() WHERE NOT internal AND schema_name <> 'main'",
    "sequences": "SELECT sequence_name FROM duckdb_sequences()",
    "macros": "SELECT function_name FROM duckdb_functions() WHERE NOT internal",
    "types": "SELECT type_name FROM duckdb_types() WHERE NOT internal",
    "foreign keys": "SELECT table_name FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'",
}
"""What no migration makes; a store that has some was changed by hand."""


class Stretch(NamedTuple):
    """Rows of one table by when they were committed: after `after_ns`, up to and with `upto_ns`."""

    table: str
    after_ns: int
    upto_ns: int


def tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of all tables."""
    return [
        name
        for (name,) in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY 1"
        ).fetchall()
    ]


def copy_schema(old: duckdb.DuckDBPyConnection, new: duckdb.DuckDBPyConnection) -> None:
    """Make the tables, indexes and views of `old` in the empty `new`.

    Raises:
        StoreError: the old store has something that is not known to be copied whole.
    """
    for kind, sql in _KINDS.items():
        if found := old.execute(sql).fetchall():
            raise StoreError(f"the store has {kind} that Tracehold did not make ({found[0][0]}); remove them first")
    for (sql,) in old.execute("SELECT sql FROM duckdb_tables() WHERE NOT temporary ORDER BY table_oid").fetchall():
        new.execute(sql)
    for (sql,) in old.execute("SELECT sql FROM duckdb_indexes() ORDER BY index_oid").fetchall():
        new.execute(sql)
    _make_views(
        new,
        [
            sql
            for (sql,) in old.execute("SELECT sql FROM duckdb_views() WHERE NOT internal AND NOT temporary").fetchall()
        ],
    )
    if old.execute(_COLUMNS).fetchall() != new.execute(_COLUMNS).fetchall():
        raise StoreError("the new store would not have the columns of the old one; nothing was changed")


def _make_views(new: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> None:
    """A view that was replaced may come before one that it reads: try until none is left."""
    waiting = list(statements)
    while waiting:
        left = []
        for sql in waiting:
            try:
                new.execute(sql)
            except duckdb.CatalogException:
                left.append(sql)
        if len(left) == len(waiting):
            raise StoreError(f"{len(left)} views of the store cannot be made anew; nothing was changed")
        waiting = left


def last_commit(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """Return when a row of an appended table was committed last, 0 when it has none."""
    row = connection.execute(f'SELECT max(received_at) FROM "{table}"').fetchone()  # noqa: S608 - a name of ours
    return (row[0] if row else None) or 0


def next_stretch(connection: duckdb.DuckDBPyConnection, table: str, after_ns: int, mark_ns: int) -> Stretch | None:
    """Return the next commits of a table to copy at once, `PIECE_ROWS` rows or less; `None` when there are no more."""
    if table in _IN_ONE_PIECE:
        return Stretch(table, after_ns, mark_ns)
    row = connection.execute(
        f"""
        SELECT
            count(*),
            max(received_at),
            max(received_at) FILTER (received_at < last)
        FROM (
            SELECT received_at, max(received_at) OVER () AS last
            FROM (
                SELECT received_at
                FROM "{table}"
                WHERE received_at > $after AND received_at <= $mark
                LIMIT {PIECE_ROWS}
            )
        )
        """,  # noqa: S608 - names and numbers of ours
        {"after": after_ns, "mark": mark_ns},
    ).fetchone()
    rows, last, before = row or (0, None, None)
    if last is None:
        return None
    # The limit may have cut the last commit in two: the next piece has it, or this would overflow its groups.
    return Stretch(table, after_ns, last if rows < PIECE_ROWS or before is None else before)


def copy_stretch(old: duckdb.DuckDBPyConnection, new: duckdb.DuckDBPyConnection, stretch: Stretch) -> int:
    """Copy these rows; return how many there are."""
    return _copy(
        old,
        new,
        stretch.table,
        "WHERE received_at > $after AND received_at <= $upto",
        {"after": stretch.after_ns, "upto": stretch.upto_ns},
    )


def copy_whole(old: duckdb.DuckDBPyConnection, new: duckdb.DuckDBPyConnection, table: str) -> int:
    """Copy a table; return how many rows it has."""
    return _copy(old, new, table, "", {})


def _copy(
    old: duckdb.DuckDBPyConnection, new: duckdb.DuckDBPyConnection, table: str, where: str, bound: dict[str, Any]
) -> int:
    # Ids and wide numbers keep their types on the way.
    old.execute("SET arrow_lossless_conversion = true")
    try:
        reader = old.execute(f'SELECT * FROM "{table}" {where}', bound).to_arrow_reader(_BATCH_ROWS)  # noqa: S608
        new.register("incoming", reader)
        try:
            (rows,) = new.execute(f'INSERT INTO "{table}" SELECT * FROM incoming').fetchall()[0]  # noqa: S608
        finally:
            new.unregister("incoming")
            reader.close()
    finally:
        old.execute("RESET arrow_lossless_conversion")
    return int(rows)


def differ(
    old: duckdb.DuckDBPyConnection,
    new: duckdb.DuckDBPyConnection,
    table: str,
    *,
    after_ns: int | None = None,
    upto_ns: int | None = None,
) -> bool:
    """Whether a table has another number of rows in the other file, or another number of values in one of its columns.

    Args:
        old: the live file.
        new: the other file.
        table: its name.
        after_ns: count values only in rows committed after it; rows are counted all the same.
        upto_ns: count values and rows only up to it, and with it.
    """
    columns = ", ".join(f'count("{row[0]}")' for row in old.execute(f'DESCRIBE "{table}"').fetchall())
    bound = {name: value for name, value in (("after", after_ns), ("upto", upto_ns)) if value is not None}
    conditions = {"after": "received_at > $after", "upto": "received_at <= $upto"}
    where = " AND ".join(conditions[name] for name in bound) or "true"
    counts = f'SELECT count(*), {columns} FROM "{table}" WHERE {where}'  # noqa: S608 - names of the catalogue
    if old.execute(counts, bound).fetchall() != new.execute(counts, bound).fetchall():
        return True
    rows = f'SELECT count(*) FROM "{table}"'  # noqa: S608 - as above
    return upto_ns is None and old.execute(rows).fetchall() != new.execute(rows).fetchall()
