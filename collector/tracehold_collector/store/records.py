"""Stored rows as the records they were: what is shown or sent on is built from records, wherever they come from."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import orjson

from tracehold_collector.core.record import Record
from tracehold_collector.store.chunks import read_chunk
from tracehold_collector.store.columns import EVENT_COLUMNS

Place = tuple[uuid.UUID, int]
"""Where a content lies: its chunk, and the position in it."""

_FIELDS: Final = tuple(name for name, _ in EVENT_COLUMNS)
ROW_COLUMNS: Final = ", ".join(("event_id", *_FIELDS, "attributes", "received_at", "content_chunk", "content_pos"))
"""What `record_of` reads, in its order; the last three say when the row was committed and where its content lies."""

_VISIBLE: Final = "($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))"
_OF_TRACES: Final = f"trace_id IN (SELECT unnest($trace_ids::VARCHAR[])) AND {_VISIBLE}"
_IN_ORDER: Final = "started_at NULLS LAST, seq NULLS LAST, event_id"


@dataclass(slots=True)
class StoredTrace:
    """One tenant's events of a trace.

    Attributes:
        tenant, trace_id: whose and which.
        records: by start, then by the source's number.
        events: how many the store has; more than `records` when the answer had no room for all.
        received_at: UTC nanoseconds: when the first of `records` was committed.
        unread: how many of `records` lack their content because it went beyond the budget.
    """

    tenant: str
    trace_id: str
    records: list[Record] = field(default_factory=list)
    events: int = 0
    received_at: int = 0
    unread: int = 0


def read_traces(
    cursor: duckdb.DuckDBPyConnection,
    trace_ids: Collection[str],
    tenants: Sequence[str] | None,
    *,
    max_events: int,
    max_packed: int,
) -> list[StoredTrace]:
    """Return the traces of these ids, one a tenant that has it, in no order.

    Args:
        cursor: the reader's own.
        trace_ids: 32 lower-case hex digits each.
        tenants: whose to look at; `None` is everyone's.
        max_events: of all traces together. When there are more, the largest traces lose their latest events first.
        max_packed: bytes of compressed content to unpack at most; 0 leaves all contents out and counts none as unread.
    """
    bound: dict[str, Any] = {"trace_ids": list(trace_ids), "tenants": tenants}
    counted = cursor.execute(
        f"""
        SELECT tenant, trace_id, count(*), min(received_at), max(received_at)
        FROM events
        WHERE {_OF_TRACES}
        GROUP BY ALL
        """,  # noqa: S608 - constants
        bound,
    ).fetchall()
    if not counted:
        return []
    traces = {(row[0], row[1]): StoredTrace(row[0], row[1], events=row[2]) for row in counted}
    # Rows lie in the order they came in: with these bounds the wide columns are read where the traces are, only.
    bound |= {"first_ns": min(row[3] for row in counted), "last_ns": max(row[4] for row in counted)}
    most = _fair_share([trace.events for trace in traces.values()], max_events)
    rows = cursor.execute(
        f"""
        SELECT {ROW_COLUMNS}
        FROM events
        WHERE {_OF_TRACES}
          AND received_at BETWEEN $first_ns AND $last_ns
        QUALIFY row_number() OVER (PARTITION BY tenant, trace_id ORDER BY {_IN_ORDER}) <= $most
        ORDER BY {_IN_ORDER}
        """,  # noqa: S608 - constants
        bound | {"most": most},
    ).fetchall()
    records = [record_of(row) for row in rows]
    unread = _fill_contents(cursor, records, rows, max_packed) if max_packed else set()
    for record, row in zip(records, rows, strict=True):
        trace = traces.get((record.tenant, record.trace_id or ""))
        if trace is None:  # begun between the two statements
            continue
        trace.records.append(record)
        trace.received_at = min(trace.received_at or row[-3], row[-3])
        trace.unread += record.event_id in unread
    for trace in traces.values():
        trace.events = max(trace.events, len(trace.records))
    return list(traces.values())


def read_records(
    cursor: duckdb.DuckDBPyConnection,
    event_ids: Collection[str],
    tenants: Sequence[str] | None,
    *,
    between_ns: tuple[int, int],
    max_packed: int,
) -> tuple[dict[str, Record], bool]:
    """Return events with their contents by id (UUID text), and whether every content was read.

    Args:
        cursor: the reader's own.
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
          AND {_VISIBLE}
        """,  # noqa: S608 - constants
        {"keys": list(event_ids), "tenants": tenants, "first_ns": first_ns, "last_ns": last_ns},
    ).fetchall()
    records = [record_of(row) for row in rows]
    unread = _fill_contents(cursor, records, rows, max_packed) if max_packed else set()
    return {str(row[0]): record for record, row in zip(records, rows, strict=True)}, not unread


def unpack(
    cursor: duckdb.DuckDBPyConnection, places: Mapping[uuid.UUID, Place], max_packed: int
) -> tuple[dict[uuid.UUID, dict[str, Any]], set[uuid.UUID]]:
    """Return the contents that lie at `places`, by event, and the events whose content went beyond the budget.

    An erased content is in neither.

    Args:
        cursor: the reader's own.
        places: where each event's content lies.
        max_packed: bytes of compressed content to unpack at most.
    """
    wanted: dict[uuid.UUID, list[tuple[uuid.UUID, int]]] = {}
    for event_id, (chunk, position) in places.items():
        wanted.setdefault(chunk, []).append((event_id, position))
    cursor.execute(
        "SELECT chunk_id, codec, body FROM contents WHERE chunk_id IN (SELECT unnest(?::UUID[])) AND body IS NOT NULL",
        [list(wanted)],
    )
    found: dict[uuid.UUID, dict[str, Any]] = {}
    beyond: set[uuid.UUID] = set()
    packed = 0
    # A chunk at a time: the asker wants a few events of each, not all of them in memory.
    while row := cursor.fetchone():
        chunk, codec, body = row
        packed += len(body)
        if packed > max_packed:
            beyond.update(event_id for event_id, _ in wanted[chunk])
            continue
        contents = read_chunk(body, codec)
        found |= {event_id: contents[position] for event_id, position in wanted[chunk]}
    return found, beyond


def _fill_contents(
    cursor: duckdb.DuckDBPyConnection, records: Sequence[Record], rows: Sequence[tuple[Any, ...]], max_packed: int
) -> set[bytes]:
    places: dict[uuid.UUID, Place] = {row[0]: (row[-2], row[-1]) for row in rows if row[-2] is not None}
    contents, beyond = unpack(cursor, places, max_packed)
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


def _fair_share(sizes: Iterable[int], room: int) -> int:
    """The largest part that each may have so that all fit into `room`: the small ones whole, the large ones alike."""
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        waiting = len(ordered) - place
        if size * waiting > room:
            return max(1, room // waiting)
        room -= size
    return max(ordered, default=1)
