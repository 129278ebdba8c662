"""A stretch of a log with the events its leaves are of, and what became of their contents: what verifying reads."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import duckdb
import pyarrow as pa

from tracehold_collector.audit.leaves import FIELDS
from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.vault import DestroyedKeyError, Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, Entry, commitment_of, entries_of
from tracehold_collector.store.collector_events import own_columns
from tracehold_collector.store.log import OWN_LOG

WINDOW: Final = 1 << 16
"""Leaves that are read at once."""

RAW_WINDOW: Final = 512
"""The same when contents come along: each may be as large as its sender was allowed."""

Contents = Literal["none", "check", "raw"]
"""What to do about contents: nothing, hold them against their commitments here, or hand them out as well."""

ContentState = Literal["none", "unchecked", "intact", "altered", "gone", "missing"]
"""Of an event: it says nothing; nobody looked; it is what was committed to; it is not; it is not there any more, though
its chunk is; or not even that."""

_ROWS: Final = f"""
SELECT
    event_id::BLOB AS event_id, received_at, leaf_index, commitment, content_chunk::BLOB AS content_chunk, content_pos,
    {", ".join(FIELDS)}
FROM events
WHERE tenant = $tenant AND leaf_index >= $first AND leaf_index < $end
ORDER BY leaf_index
"""  # noqa: S608 - constants
_OWN_ROWS: Final = """
SELECT event_id, type, cause, started_at, ended_at, refused, version, recorded_at, leaf_index, commitment
FROM collector_events
WHERE leaf_index >= $first AND leaf_index < $end
ORDER BY leaf_index
"""
_CHUNKS: Final = f"""
SELECT {CHUNK_COLUMNS}, received_at
FROM contents
WHERE chunk_id IN (SELECT unnest($chunks::UUID[])) AND received_at BETWEEN $since AND $until
"""  # noqa: S608 - constants
_KEYS: Final = """
SELECT DISTINCT key_id
FROM contents
WHERE chunk_id IN (SELECT unnest($chunks::UUID[])) AND received_at BETWEEN $since AND $until
"""
_CHUNKS_AT_ONCE: Final = 512


def window_of(contents: Contents) -> int:
    """Return how many leaves are read at once."""
    return RAW_WINDOW if contents == "raw" else WINDOW


class Checked(NamedTuple):
    """What became of an event's content; salt and text only when they were asked for."""

    state: ContentState
    salt: bytes | None = None
    content: bytes | None = None


def read_rows(cursor: duckdb.DuckDBPyConnection, tenant: str, first: int, end: int) -> pa.Table:
    """Return the events whose leaves stand in [first, end) of a tenant's log, in order: envelope, id and places.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    if tenant == OWN_LOG:
        return read_own_rows(cursor, first, end)
    return cursor.execute(_ROWS, {"tenant": tenant, "first": first, "end": end}).to_arrow_table().combine_chunks()


def read_own_rows(cursor: duckdb.DuckDBPyConnection, first: int, end: int) -> pa.Table:
    """Return the collector's own events as `read_rows` returns events.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    rows = cursor.execute(_OWN_ROWS, {"first": first, "end": end}).fetchall()
    places = {
        "event_id": pa.array([row[0].bytes for row in rows], pa.binary()),
        "received_at": pa.array([row[7] for row in rows], pa.int64()),
        "leaf_index": pa.array([row[8] for row in rows], pa.int64()),
        "commitment": pa.array([row[9] for row in rows], pa.binary()),
        "content_chunk": pa.nulls(len(rows), pa.binary()),
        "content_pos": pa.nulls(len(rows), pa.int32()),
    }
    envelope = own_columns(rows)
    return pa.table({**places, **{name: envelope.column(name) for name in FIELDS}})


def check_contents(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, rows: pa.Table, contents: Contents
) -> list[Checked]:
    """Hold the content of each row of `read_rows` against its commitment.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    chunks = rows.column("content_chunk").to_pylist()
    if contents == "none":
        return [Checked("none" if chunk is None else "unchecked") for chunk in chunks]
    positions = rows.column("content_pos").to_pylist()
    commitments = rows.column("commitment").to_pylist()
    received = rows.column("received_at").to_pylist()
    checked = [Checked("none" if chunk is None else "missing") for chunk in chunks]
    of_chunk: dict[bytes, list[int]] = {}
    for row, chunk in enumerate(chunks):
        if chunk is not None:
            of_chunk.setdefault(chunk, []).append(row)
    wanted = list(of_chunk)
    for start in range(0, len(wanted), _CHUNKS_AT_ONCE):
        part = wanted[start : start + _CHUNKS_AT_ONCE]
        times = [received[row] for chunk in part for row in of_chunk[chunk]]
        bound = {"chunks": [uuid.UUID(bytes=chunk) for chunk in part], "since": min(times), "until": max(times)}
        vault.prepare(key_id for (key_id,) in cursor.execute(_KEYS, bound).fetchall())
        cursor.execute(_CHUNKS, bound)
        # One chunk in memory at a time: opened, it may be large.
        while fetched := cursor.fetchone():
            *row_of_chunk, received_at = fetched
            chunk = Chunk(*row_of_chunk)
            entries: Sequence[Entry] | ContentState = "gone" if chunk.body is None else _entries(chunk, vault)
            for row in of_chunk[chunk.chunk_id.bytes]:
                if received_at != received[row]:
                    checked[row] = Checked("altered")
                    continue
                checked[row] = _checked(entries, positions[row], commitments[row], raw=contents == "raw")
    return checked


def read_erased(cursor: duckdb.DuckDBPyConnection, tenant: str, first: int, end: int) -> dict[int, list[str]]:
    """Return the erasures that the leaves in [first, end) fell under, by leaf, as their frozen manifests have it."""
    cursor.execute(
        """
        SELECT leaf_index, erasure_id
        FROM erased_events
        WHERE tenant = $tenant AND leaf_index >= $first AND leaf_index < $end
        ORDER BY leaf_index
        """,
        {"tenant": tenant, "first": first, "end": end},
    )
    found: dict[int, list[str]] = {}
    for leaf_index, erasure_id in cursor.fetchall():
        found.setdefault(leaf_index, []).append(erasure_id)
    return found


# By the events first: their times are what the leaves commit to.
_BEGAN: Final = """
SELECT coalesce(min(received_at), (SELECT min(received_at) FROM log_hashes WHERE tenant = $tenant), 4611686018427387904)
FROM events
WHERE tenant = $tenant AND leaf_index IS NOT NULL
"""
_FULL: Final = """
SELECT level, first_index, hashes
FROM log_hashes
WHERE tenant = $tenant AND level > 0
ORDER BY level, first_index
"""
_MISDATED: Final = """
SELECT log_hashes.first_index
FROM log_hashes
JOIN events ON events.tenant = log_hashes.tenant AND events.leaf_index = log_hashes.first_index
WHERE log_hashes.tenant = $tenant AND log_hashes.level = 0 AND events.received_at <> log_hashes.received_at
LIMIT $most
"""


class Outside(NamedTuple):
    """Rows that no leaf is of, and hashes that fit nothing.

    Attributes:
        before: events from before there was a log; no alarm.
        added: ids of events that were put beside it, as far as they are listed.
        repeated: leaves that more than one event claims, as far as they are listed.
        misdated: first leaves of commits whose hashes have another time than the event, as far as they are listed.
        full: the roots of full subtrees that the store keeps, as (level, index of the first, hashes).
    """

    before: int
    added: list[str]
    repeated: list[int]
    misdated: list[int]
    full: list[tuple[int, int, bytes]]


def read_outside(cursor: duckdb.DuckDBPyConnection, tenant: str, size: int, *, most: int = 100) -> Outside:
    """Return what of a tenant's events stands outside of its log.

    Args:
        cursor: the reader's own.
        tenant: whose.
        size: of the log.
        most: how many to list.
    """
    if tenant == OWN_LOG:
        return _outside_own(cursor, size, most)
    bound = {"tenant": tenant, "size": size, "most": most}
    began = f"({_BEGAN})"
    before = cursor.execute(
        f"SELECT count(*) FROM events WHERE tenant = $tenant AND leaf_index IS NULL AND received_at < {began}",  # noqa: S608 - a constant
        {"tenant": tenant},
    ).fetchone()
    added = cursor.execute(
        f"""
        SELECT event_id::VARCHAR
        FROM events
        WHERE tenant = $tenant
          AND (leaf_index < 0 OR leaf_index >= $size OR (leaf_index IS NULL AND received_at >= {began}))
        LIMIT $most
        """,  # noqa: S608 - a constant
        bound,
    ).fetchall()
    repeated = cursor.execute(
        """
        SELECT leaf_index
        FROM events
        WHERE tenant = $tenant AND leaf_index IS NOT NULL
        GROUP BY leaf_index
        HAVING count(*) > 1
        LIMIT $most
        """,
        {"tenant": tenant, "most": most},
    ).fetchall()
    misdated = cursor.execute(_MISDATED, {"tenant": tenant, "most": most}).fetchall()
    full = cursor.execute(_FULL, {"tenant": tenant}).fetchall()
    return Outside(
        before[0] if before else 0,
        [row[0] for row in added],
        [row[0] for row in repeated],
        [row[0] for row in misdated],
        full,
    )


def _outside_own(cursor: duckdb.DuckDBPyConnection, size: int, most: int) -> Outside:
    began = "(SELECT min(recorded_at) FROM collector_events WHERE leaf_index IS NOT NULL)"
    before = cursor.execute(
        f"SELECT count(*) FROM collector_events WHERE leaf_index IS NULL AND recorded_at < {began}"  # noqa: S608 - a constant
    ).fetchone()
    added = cursor.execute(
        f"""
        SELECT event_id::VARCHAR
        FROM collector_events
        WHERE leaf_index < 0 OR leaf_index >= $size OR (leaf_index IS NULL AND recorded_at >= {began})
        LIMIT $most
        """,  # noqa: S608 - a constant
        {"size": size, "most": most},
    ).fetchall()
    repeated = cursor.execute(
        """
        SELECT leaf_index
        FROM collector_events
        WHERE leaf_index IS NOT NULL
        GROUP BY leaf_index
        HAVING count(*) > 1
        LIMIT ?
        """,
        [most],
    ).fetchall()
    full = cursor.execute(_FULL, {"tenant": OWN_LOG}).fetchall()
    return Outside(before[0] if before else 0, [row[0] for row in added], [row[0] for row in repeated], [], full)


def _entries(chunk: Chunk, vault: Vault) -> Sequence[Entry] | ContentState:
    try:
        return entries_of(chunk, vault)
    except DestroyedKeyError:
        return "gone"
    except StoreError:
        return "altered"


def _checked(
    entries: Sequence[Entry] | ContentState, position: int | None, commitment: bytes | None, *, raw: bool
) -> Checked:
    if isinstance(entries, str):
        return Checked(entries)
    if position is None or not 0 <= position < len(entries):
        return Checked("altered")
    entry = entries[position]
    if commitment_of(entry) != commitment:
        return Checked("altered")
    return Checked("intact", entry.salt, entry.content) if raw else Checked("intact")
