"""A stretch of a log with the events its leaves are of, and what became of their contents: what verifying reads."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import duckdb
import pyarrow as pa

from tracehold_collector.audit.leaves import FIELDS
from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.vault import DestroyedKeyError, Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, Entry, commitment_of, entries_of

WINDOW: Final = 1 << 16
"""Leaves that are read at once."""

Contents = Literal["none", "check", "raw"]
"""What to do about contents: nothing, hold them against their commitments here, or hand them out as well."""

ContentState = Literal["none", "unchecked", "intact", "altered", "gone", "missing"]
"""Of an event: it says nothing; nobody looked; it is what was committed to; it is not; it is not there any more, though
its chunk is; or not even that."""

_ROWS: Final = f"""
SELECT event_id, received_at, leaf_index, commitment, content_chunk, content_pos, {", ".join(FIELDS)}
FROM events
WHERE tenant = $tenant AND leaf_index >= $first AND leaf_index < $end
ORDER BY leaf_index
"""  # noqa: S608 - constants
_CHUNKS: Final = f"""
SELECT {CHUNK_COLUMNS}
FROM contents
WHERE chunk_id IN (SELECT unnest($chunks::UUID[])) AND received_at BETWEEN $since AND $until
"""  # noqa: S608 - constants
_CHUNKS_AT_ONCE: Final = 512


class Checked(NamedTuple):
    """What became of an event's content; salt and text only when they were asked for."""

    state: ContentState
    salt: bytes | None = None
    content: bytes | None = None


class ErasedLeaf(NamedTuple):
    """A leaf whose event an erasure is about."""

    leaf_index: int
    erasure_id: str


def read_rows(cursor: duckdb.DuckDBPyConnection, tenant: str, first: int, end: int) -> pa.Table:
    """Return the events whose leaves stand in [first, end) of a tenant's log, in order: envelope, id and places.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    return cursor.execute(_ROWS, {"tenant": tenant, "first": first, "end": end}).to_arrow_table().combine_chunks()


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
    of_chunk: dict[Any, list[int]] = {}
    for row, chunk in enumerate(chunks):
        if chunk is not None:
            of_chunk.setdefault(uuid.UUID(str(chunk)), []).append(row)
    wanted = list(of_chunk)
    for start in range(0, len(wanted), _CHUNKS_AT_ONCE):
        part = wanted[start : start + _CHUNKS_AT_ONCE]
        times = [received[row] for chunk in part for row in of_chunk[chunk]]
        cursor.execute(_CHUNKS, {"chunks": part, "since": min(times), "until": max(times)})
        found = [Chunk(*row) for row in cursor.fetchall()]
        vault.prepare(chunk.key_id for chunk in found)
        for chunk in found:
            entries = _entries(chunk, vault)
            for row in of_chunk[chunk.chunk_id]:
                checked[row] = _checked(entries, positions[row], commitments[row], raw=contents == "raw")
    return checked


def read_erased(cursor: duckdb.DuckDBPyConnection, tenant: str, first: int, end: int) -> list[ErasedLeaf]:
    """Return the leaves in [first, end) that erasures are about, by their frozen manifests."""
    cursor.execute(
        """
        SELECT leaf_index, erasure_id
        FROM erased_events
        WHERE tenant = $tenant AND leaf_index >= $first AND leaf_index < $end
        ORDER BY leaf_index
        """,
        {"tenant": tenant, "first": first, "end": end},
    )
    return [ErasedLeaf(*row) for row in cursor.fetchall()]


class Outside(NamedTuple):
    """Rows that no leaf is of.

    Attributes:
        before: events from before there was a log; no alarm.
        added: ids of events that were put beside it, as far as they are listed.
        repeated: leaves that more than one event claims, as far as they are listed.
    """

    before: int
    added: list[str]
    repeated: list[int]


def read_outside(cursor: duckdb.DuckDBPyConnection, tenant: str, size: int, *, most: int = 100) -> Outside:
    """Return what of a tenant's events stands outside of its log.

    Args:
        cursor: the reader's own.
        tenant: whose.
        size: of the log.
        most: how many to list.
    """
    bound = {"tenant": tenant, "size": size, "most": most}
    began = "(SELECT coalesce(min(received_at), 9223372036854775807) FROM log_hashes WHERE tenant = $tenant)"
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
    return Outside(before[0] if before else 0, [row[0] for row in added], [row[0] for row in repeated])


def _entries(chunk: Chunk, vault: Vault) -> Sequence[Entry] | ContentState:
    if chunk.body is None:
        return "gone"
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
