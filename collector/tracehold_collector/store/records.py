"""Stored rows as the records they were: what is shown or sent on is built from records, wherever they come from."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import duckdb
import orjson

from tracehold_collector.core.record import Record
from tracehold_collector.sealing.vault import Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, read_chunks
from tracehold_collector.store.columns import EVENT_COLUMNS
from tracehold_collector.store.opened import Place

_FIELDS: Final = tuple(name for name, _ in EVENT_COLUMNS)
ROW_COLUMNS: Final = ", ".join(("event_id", *_FIELDS, "attributes", "received_at", "content_chunk", "content_pos"))
"""What `record_of` reads, in its order; the last three say when the row was committed and where its content lies."""
VISIBLE: Final = "($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))"
"""The condition that an event is of the tenants asked for."""


def read_records(
    cursor: duckdb.DuckDBPyConnection,
    vault: Vault,
    event_ids: Collection[str],
    tenants: Sequence[str] | None,
    *,
    between_ns: tuple[int, int],
    max_packed: int,
) -> tuple[dict[str, Record], bool]:
    """Return events with their contents by id (UUID text), and whether every content was read.

    Args:
        cursor: the reader's own.
        vault: opens contents.
        event_ids: UUIDs as text.
        tenants: whose to look at; `None` is everyone's.
        between_ns: the first and last start among them, so that no other part of the table is touched.
        max_packed: bytes of compressed content to unpack at most; 0 leaves all contents out and misses none.
    """
    first_ns, last_ns = between_ns
    rows = cursor.execute(
        f"""
        SELECT {ROW_COLUMNS}
        FROM events
        WHERE event_id IN (SELECT unnest($keys::UUID[]))
          AND started_at BETWEEN $first_ns AND $last_ns
          AND {VISIBLE}
        """,  # noqa: S608 - constants
        {"keys": list(event_ids), "tenants": tenants, "first_ns": first_ns, "last_ns": last_ns},
    ).fetchall()
    records = [record_of(row) for row in rows]
    unread = _fill_contents(cursor, vault, records, rows, max_packed) if max_packed else set()
    return {str(row[0]): record for record, row in zip(records, rows, strict=True)}, not unread


def unpack(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, places: Mapping[uuid.UUID, Place], max_packed: int
) -> tuple[dict[uuid.UUID, dict[str, Any]], set[uuid.UUID]]:
    """Return the contents that lie at `places`, by event, and the events whose content went beyond the budget.

    An erased content is in neither.

    Args:
        cursor: the reader's own.
        vault: opens contents.
        places: where each event's content lies.
        max_packed: bytes of compressed content to unpack at most.
    """
    wanted: dict[uuid.UUID, list[tuple[uuid.UUID, int]]] = {}
    for event_id, (chunk, position) in places.items():
        wanted.setdefault(chunk, []).append((event_id, position))
    cursor.execute(
        f"""
        SELECT {CHUNK_COLUMNS}
        FROM contents
        WHERE chunk_id IN (SELECT unnest(?::UUID[])) AND body IS NOT NULL
        """,  # noqa: S608 - a constant
        [list(wanted)],
    )
    found: dict[uuid.UUID, dict[str, Any]] = {}
    beyond: set[uuid.UUID] = set()
    packed = 0
    # A chunk at a time: the asker wants a few events of each, not all of them in memory.
    while row := cursor.fetchone():
        stored = Chunk(*row)
        packed += len(stored.body)
        if packed > max_packed:
            beyond.update(event_id for event_id, _ in wanted[stored.chunk_id])
            continue
        for chunk_id, contents in read_chunks([row], vault):
            found |= {event_id: contents[position] for event_id, position in wanted[chunk_id]}
    return found, beyond


def _fill_contents(
    cursor: duckdb.DuckDBPyConnection,
    vault: Vault,
    records: Sequence[Record],
    rows: Sequence[tuple[Any, ...]],
    max_packed: int,
) -> set[bytes]:
    places: dict[uuid.UUID, Place] = {row[0]: (row[-2], row[-1]) for row in rows if row[-2] is not None}
    contents, beyond = unpack(cursor, vault, places, max_packed)
    for record, row in zip(records, rows, strict=True):
        record.content = contents.get(row[0])
    return {event_id.bytes for event_id in beyond}


def record_of(row: tuple[Any, ...]) -> Record:
    """Return a row of `ROW_COLUMNS` as a record, its content not yet read."""
    event_id, *values, attributes, _received_at, _chunk, _position = row
    return Record(
        event_id=event_id.bytes,
        attributes=orjson.loads(attributes) if attributes else None,
        **dict(zip(_FIELDS, values, strict=True)),
    )
