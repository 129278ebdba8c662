"""The chained count of the streams a log ever had: without it the newest ones could go without a trace (DEC-08).

SQLite's own counter (`sqlite_sequence`) is a table like any other, and whoever removes a stream can set it back. So one
row holds how many streams were made and a hash that chains their numbers and names; it moves in the transaction that
makes a stream, and an append to a stream that is there already does not touch it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tracehold.events.chain import ROOT, count_link, name_digest

TABLE: Final = "log_made"


@dataclass(frozen=True, slots=True)
class Count:
    """The row.

    Attributes:
        made: streams ever made.
        adopted: of these, the ones that were there when the count was begun.
        chain: the hash over their numbers and names.
    """

    made: int
    adopted: int
    chain: bytes


def begin(connection: sqlite3.Connection) -> None:
    """Create the count; streams that are there already are counted as they are, and their number is kept."""
    digests = name_digests(connection)
    made = max(sequence(connection), *digests, 0)
    connection.execute(f"CREATE TABLE {TABLE} (made INTEGER NOT NULL, adopted INTEGER NOT NULL, chain BLOB NOT NULL)")
    connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?)", (made, made, chain_of(made, digests)))  # noqa: S608 - our own name


def add(connection: sqlite3.Connection, streams: Iterable[tuple[int, str]]) -> None:
    """Count new streams, given as number and name; call it in the transaction that makes them.

    A count that somebody has damaged must not cost an event: it stays as it is, and `verify` tells.
    """
    count = read(connection)
    if count is None:
        return
    made, chain = count.made, count.chain
    for no, name in streams:
        made, chain = made + 1, count_link(chain, no, name_digest(name))
    connection.execute(f"UPDATE {TABLE} SET made = ?, chain = ?", (made, chain))  # noqa: S608 - our own name


def read(connection: sqlite3.Connection) -> Count | None:
    """Return the count, or `None` when what stands there was never written by us."""
    rows = connection.execute(f"SELECT made, adopted, chain FROM {TABLE} LIMIT 2").fetchall()  # noqa: S608 - our own name
    if len(rows) != 1:
        return None
    made, adopted, chain = rows[0]
    if not (isinstance(made, int) and isinstance(adopted, int) and isinstance(chain, bytes)):
        return None
    return Count(made, adopted, chain) if 0 <= adopted <= made else None


def name_digests(connection: sqlite3.Connection) -> dict[int, bytes]:
    """Return the digest of the name of every stream that is there or whose deletion is on record, by its number."""
    deleted = connection.execute("SELECT stream_no, name_digest FROM log_acts WHERE kind = 'delete'")
    digests = {no: digest for no, digest in deleted if isinstance(no, int) and isinstance(digest, bytes)}
    # As bytes: a name that is no UTF-8 was not written by us, and must not end the check.
    for no, name in connection.execute("SELECT no, CAST(name AS BLOB) FROM log_streams"):
        digests[no] = hashlib.sha256(name).digest()
    return digests


def chain_of(adopted: int, digests: dict[int, bytes]) -> bytes:
    """Return the hash over these streams, in the order of their numbers."""
    # How many were adopted is in it as well: else that could be changed alone.
    chain = count_link(ROOT, adopted, b"") if adopted else ROOT
    for no in sorted(digests):
        chain = count_link(chain, no, digests[no])
    return chain


def sequence(connection: sqlite3.Connection) -> int:
    """Return SQLite's own count of streams; 0 when it is not there or no number."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log_streams'").fetchone()
    return row[0] if row and isinstance(row[0], int) else 0
