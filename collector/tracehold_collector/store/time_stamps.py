"""Time stamps of tree heads in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import duckdb

from tracehold_collector.core.errors import StoreError
from tracehold_collector.store.database import Database

_COLUMNS: Final = "tenant, size, signed_at, stamped_at, authority, response"


@dataclass(frozen=True, slots=True)
class StoredStamp:
    """A time stamp as it is kept.

    Attributes:
        tenant, size, signed_at: of which tree head.
        stamped_at: UTC nanoseconds, as the authority says.
        authority: the address that was asked.
        response: a TimeStampResp in DER (RFC 3161) of the head's signed note.
    """

    tenant: str
    size: int
    signed_at: int
    stamped_at: int
    authority: str
    response: bytes


def write_stamp(database: Database, stamp: StoredStamp) -> None:
    """Add a row in a transaction of its own.

    Raises:
        StoreError: nothing was stored.
    """
    row = [stamp.tenant, stamp.size, stamp.signed_at, stamp.stamped_at, stamp.authority, stamp.response]
    try:
        with database.cursor() as cursor:
            cursor.execute(f"INSERT INTO time_stamps ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - a constant
    except duckdb.Error as error:
        raise StoreError(f"a time stamp could not be stored: {type(error).__name__}") from error


def last_stamps(cursor: duckdb.DuckDBPyConnection) -> dict[str, StoredStamp]:
    """Return the newest stamp of each log, by tenant."""
    cursor.execute(
        f"""
        SELECT {_COLUMNS}
        FROM time_stamps
        QUALIFY row_number() OVER (PARTITION BY tenant ORDER BY size DESC, stamped_at DESC) = 1
        """  # noqa: S608 - a constant
    )
    return {row[0]: StoredStamp(*row) for row in cursor.fetchall()}


def first_stamp_covering(cursor: duckdb.DuckDBPyConnection, tenant: str, leaf: int) -> StoredStamp | None:
    """Return the earliest stamp of a tree head that covers a leaf: by then it was recorded."""
    row = cursor.execute(
        f"SELECT {_COLUMNS} FROM time_stamps WHERE tenant = ? AND size > ? ORDER BY stamped_at, size LIMIT 1",  # noqa: S608 - a constant
        [tenant, leaf],
    ).fetchone()
    return None if row is None else StoredStamp(*row)
