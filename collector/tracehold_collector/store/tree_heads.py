"""Signed tree heads in the store, the latest of each log last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

from tracehold_collector.core.errors import StoreError
from tracehold_collector.store.database import Database

_COLUMNS: Final = "tenant, size, root, signed_at, note"


@dataclass(frozen=True, slots=True)
class StoredHead:
    """A tree head as it is kept.

    Attributes:
        tenant: whose log.
        size: leaves it covers.
        root: the root over them, 32 bytes.
        signed_at: UTC nanoseconds.
        note: the signed note, which says all of this but the tenant.
    """

    tenant: str
    size: int
    root: bytes
    signed_at: int
    note: str


def write_tree_heads(database: Database, heads: Iterable[StoredHead]) -> None:
    """Add rows in a transaction of their own.

    Raises:
        StoreError: nothing was stored.
    """
    rows = [(head.tenant, head.size, head.root, head.signed_at, head.note) for head in heads]
    try:
        with database.cursor() as cursor:
            cursor.execute("BEGIN TRANSACTION")
            cursor.executemany(f"INSERT INTO tree_heads ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", rows)  # noqa: S608 - a constant
            cursor.execute("COMMIT")
    except duckdb.Error as error:
        raise StoreError(f"tree heads could not be stored: {type(error).__name__}") from error


def last_tree_heads(cursor: duckdb.DuckDBPyConnection) -> dict[str, StoredHead]:
    """Return the largest tree head of each log, by tenant."""
    cursor.execute(
        f"""
        SELECT {_COLUMNS}
        FROM tree_heads
        QUALIFY row_number() OVER (PARTITION BY tenant ORDER BY size DESC, signed_at DESC) = 1
        """  # noqa: S608 - a constant
    )
    return {row[0]: StoredHead(*row) for row in cursor.fetchall()}


def read_tree_heads(
    cursor: duckdb.DuckDBPyConnection, tenant: str, *, sizes: tuple[int, int] | None = None
) -> Sequence[StoredHead]:
    """Return the tree heads of a log, the smallest first.

    Args:
        cursor: the reader's own.
        tenant: whose log.
        sizes: only heads of this size up to that; `None` for all.
    """
    first, last = sizes or (0, (1 << 63) - 1)
    cursor.execute(
        f"SELECT {_COLUMNS} FROM tree_heads WHERE tenant = ? AND size BETWEEN ? AND ? ORDER BY size, signed_at",  # noqa: S608 - a constant
        [tenant, first, last],
    )
    return [StoredHead(*row) for row in cursor.fetchall()]
