"""A stored trace as an outline of all its events, and as whole records a few at a time: large ones fit into memory."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.store.opened import Bounds, OpenedChunks
from tracehold_collector.store.records import ROW_COLUMNS, VISIBLE, record_of

Load = Callable[[Sequence[int]], list[Record]]

_OUTLINE: Final = (
    "tenant", "trace_id", "run_id", "kind", "span_id", "parent_span_id", "status", "seq", "started_at", "duration_ns",
)  # fmt: skip
_OF_TRACES: Final = f"trace_id IN (SELECT unnest($trace_ids::VARCHAR[])) AND {VISIBLE}"
_IN_ORDER: Final = "started_at NULLS LAST, seq NULLS LAST, event_id"
_ROWS_AT_ONCE: Final = 5_000


@dataclass(slots=True)
class StoredTrace:
    """One tenant's events of a trace.

    Attributes:
        tenant, trace_id: whose and which.
        outline: its events, by start, then by the source's number: ids, place in the tree, times and status only.
        shown: how many these are.
        events: how many the store has; more than `shown` when the answer has no room for all.
        received_at: UTC nanoseconds: when the first of them was committed.
        unread: how many lack their content because it went beyond the budget.
        load: gives the whole records of some of them by their places in `outline`; `None` when these are whole.
    """

    tenant: str
    trace_id: str
    outline: list[Record] = field(default_factory=list)
    events: int = 0
    received_at: int = 0
    unread: int = 0
    load: Load | None = None
    shown: int = field(init=False)

    def __post_init__(self) -> None:
        """Count."""
        self.shown = len(self.outline)

    def take_outline(self) -> list[Record]:
        """Return the outline, and forget it when records can be loaded without: in a large trace it is much."""
        outline = self.outline
        if self.load is not None:
            self.outline = []
        return outline

    def records(self, places: Sequence[int]) -> list[Record]:
        """Return whole records, with their contents, by their places in the outline."""
        if self.load is None:
            return [self.outline[place] for place in places]
        return self.load(places)


def read_outlines(
    cursor: duckdb.DuckDBPyConnection,
    trace_ids: Collection[str],
    tenants: Sequence[str] | None,
    *,
    max_events: int,
    opened: OpenedChunks,
) -> tuple[list[StoredTrace], Bounds]:
    """Return the outlines of the traces of these ids, one a tenant that has it, in no order.

    Args:
        cursor: the reader's own.
        trace_ids: 32 lower-case hex digits each.
        tenants: whose to look at; `None` is everyone's.
        max_events: of all traces together. When there are more, the largest traces lose their latest events first.
        opened: is told which chunks there are, and says which of them it has no room for.
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
        return [], Bounds(0, 0)
    traces = {(row[0], row[1]): StoredTrace(row[0], row[1], events=row[2]) for row in counted}
    bounds = Bounds(min(row[3] for row in counted), max(row[4] for row in counted))
    most = _fair_share([trace.events for trace in traces.values()], max_events)
    bound |= bounds.bound()
    share = ""
    if any(trace.events > most for trace in traces.values()):  # else not: a window holds all rows in memory once more
        share = f"QUALIFY row_number() OVER (PARTITION BY tenant, trace_id ORDER BY {_IN_ORDER}) <= $most"
        bound["most"] = most
    cursor.execute(
        f"""
        SELECT {", ".join(_OUTLINE)}, event_id, received_at, content_chunk
        FROM events
        WHERE {_OF_TRACES} AND received_at BETWEEN $first_ns AND $last_ns
        {share}
        ORDER BY {_IN_ORDER}
        """,  # noqa: S608 - constants
        bound,
    )
    chunks = _fill(cursor, traces)
    beyond = opened.plan(cursor, {chunk for owner in chunks.values() for chunk in owner}, bounds)
    for key, trace in traces.items():
        trace.shown = len(trace.outline)
        trace.events = max(trace.events, trace.shown)
        trace.unread = sum(count for chunk, count in chunks.get(key, {}).items() if chunk in beyond)
    return list(traces.values()), bounds


def read_whole(
    cursor: duckdb.DuckDBPyConnection, tenant: str, event_ids: Sequence[bytes], bounds: Bounds, opened: OpenedChunks
) -> list[Record]:
    """Return the whole records of a tenant's events, in the order of their ids, with what they said.

    Raises:
        StoreError: one of them is gone since its id was read.
    """
    rows = cursor.execute(
        f"""
        SELECT {ROW_COLUMNS}
        FROM events
        WHERE event_id IN (SELECT unnest($keys::UUID[]))
          AND tenant = $tenant
          AND received_at BETWEEN $first_ns AND $last_ns
        """,  # noqa: S608 - constants
        {"keys": [uuid.UUID(bytes=one) for one in event_ids], "tenant": tenant} | bounds.bound(),
    ).fetchall()
    places = [(row[-2], row[-1]) for row in rows if row[-2] is not None]
    contents = opened.contents(cursor, places, bounds)
    found: dict[bytes, Record] = {}
    for row in rows:
        record = record_of(row)
        record.content = contents.get((row[-2], row[-1]))
        found[record.event_id] = record
    if len(found) < len(set(event_ids)):
        raise StoreError("a part of this trace was deleted while it was read; ask again")
    return [found[one] for one in event_ids]


def _fill(
    cursor: duckdb.DuckDBPyConnection, traces: dict[tuple[str, str], StoredTrace]
) -> dict[tuple[str, str], dict[uuid.UUID, int]]:
    """Put the rows of the statement that was just made into their traces; count events by trace and chunk."""
    chunks: dict[tuple[str, str], dict[uuid.UUID, int]] = {}
    # Most values are those of the row before: one object each is a tenth of the memory.
    same: dict[Any, Any] = {}
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        for *values, event_id, received_at, chunk in rows:
            key = (values[0], values[1])
            trace = traces.get(key)
            if trace is None:  # begun between the two statements
                continue
            shared = [same.setdefault(value, value) if isinstance(value, str) else value for value in values]
            trace.outline.append(Record(event_id.bytes, type="", source="", **dict(zip(_OUTLINE, shared, strict=True))))
            trace.received_at = min(trace.received_at or received_at, received_at)
            if chunk is not None:
                counts = chunks.setdefault(key, {})
                counts[chunk] = counts.get(chunk, 0) + 1
    return chunks


def _fair_share(sizes: Iterable[int], room: int) -> int:
    """The largest part that each may have so that all fit into `room`: the small ones whole, the large ones alike."""
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        waiting = len(ordered) - place
        if size * waiting > room:
            return max(1, room // waiting)
        room -= size
    return max(ordered, default=1)
