"""Goes through events that said something, the latest start first, a page at a time: what search in content reads.

Each page is a statement of its own: no transaction stays open while somebody reads the answer, which would keep the
write-ahead file from being emptied (FR-53).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import duckdb

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.vault import Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, open_chunk
from tracehold_collector.store.filters import equal_conditions, time_conditions

MAX_PACKED_BYTES: Final = 2 * 1024 * 1024
"""Compressed content that is unpacked at once; a chunk that is larger alone is unpacked alone."""

PAGE_ROWS: Final = 8_000
_ENVELOPE: Final = ("tenant", "run_id", "kind", "type", "name", "status", "agent", "model")
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"
"""After it there is no event of the same start."""
_LOWEST: Final = -(1 << 63)
_FIRST_WIDTH_NS: Final = 60 * 10**9
_WIDENING: Final = 8


class Position(NamedTuple):
    """A place in the order of the scan: the start in UTC nanoseconds, `None` when unknown, then the id, as UUID text.

    Events with an unknown start come last. An empty id stands before every event of that start.
    """

    started_at: int | None
    event_id: str


_OF_CHUNKS: Final = """
received_at BETWEEN $first AND $last AND chunk_id IN (SELECT unnest($chunks::UUID[])) AND body IS NOT NULL
"""
_TIMELESS: Final = Position(None, "")


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """Which events to go through; what is not given is any.

    Attributes:
        tenants: whose; `None` is everyone's.
        since_ns, until_ns: started from then on, and before then.
        equal: values of `FILTERS`.
        after: only events that come after this one in the order of the scan.
    """

    tenants: Sequence[str] | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    equal: Mapping[str, str] = field(default_factory=dict)
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Extent:
    """What a scan has before it: events, how many of them have no start, and the first and last start."""

    events: int
    timeless: int
    first_ns: int | None
    last_ns: int | None


class Spot(NamedTuple):
    """One event with a content: its place in the order of the scan, when it came in, and where the content lies."""

    started_at: int | None
    event_id: str
    received_at: int
    chunk: str
    place: int

    @property
    def position(self) -> Position:
        """Its place in the order of the scan."""
        return Position(self.started_at, self.event_id)


@dataclass(slots=True)
class Window:
    """Where the next page is looked for; a scan has one and moves it.

    Attributes:
        upper: the last event seen, or a place before the first.
        width_ns: how far back from there the next page looks: of the table only so much is read.
    """

    upper: Position
    width_ns: int = _FIRST_WIDTH_NS


def read_extent(cursor: duckdb.DuckDBPyConnection, wanted: ScanFilter) -> Extent:
    """Return what the scan has before it."""
    where, bound = _conditions(wanted)
    row = cursor.execute(
        f"SELECT count(*), count(*) - count(started_at), min(started_at), max(started_at) FROM events WHERE {where}",  # noqa: S608 - names of columns come from FILTERS
        bound,
    ).fetchone()
    return Extent(*row) if row else Extent(0, 0, None, None)


def read_page(
    cursor: duckdb.DuckDBPyConnection, wanted: ScanFilter, extent: Extent, window: Window
) -> list[Spot] | None:
    """Return the next events and move the window; the list may be empty, `None` is the end.

    How far back a page looks follows from how many events the one before it found, so that a scan of a long time with
    few events takes few pages, and one of a crowded second reads little of the table.
    """
    started_at = window.upper.started_at
    if started_at is not None and extent.first_ns is not None and started_at >= extent.first_ns:
        return _timed_page(cursor, wanted, window, started_at)
    if not extent.timeless:
        return None
    if started_at is not None:
        window.upper = _TIMELESS
    spots = _page(cursor, wanted, "started_at IS NULL", window.upper, {})
    if not spots:
        return None
    window.upper = spots[-1].position
    return spots


def first_window(extent: Extent, wanted: ScanFilter) -> Window:
    """Return the window before the first page."""
    return Window(wanted.after or (_TIMELESS if extent.last_ns is None else Position(extent.last_ns, "")))


def open_contents(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, spots: Sequence[Spot]
) -> tuple[Sequence[Spot], dict[str, bytes]]:
    """Return the first of these events, as many as fit into `MAX_PACKED_BYTES`, and the chunks they lie in, opened.

    A chunk that was erased or cannot be read is missing.

    Args:
        cursor: the reader's own.
        vault: opens them.
        spots: one or more.
    """
    sizes = _sizes(cursor, spots)
    part = _first_part(spots, sizes)
    return part, _opened(cursor, vault, part, {spot.chunk for spot in part if spot.chunk in sizes})


def read_envelopes(cursor: duckdb.DuckDBPyConnection, spots: Sequence[Spot]) -> dict[Spot, dict[str, Any]]:
    """Return who these events belong to and what they are; one that is gone meanwhile is left out."""
    starts = [spot.started_at for spot in spots if spot.started_at is not None]
    rows = cursor.execute(
        f"""
        SELECT content_chunk::VARCHAR, event_id::VARCHAR, {", ".join(_ENVELOPE)}
        FROM events
        WHERE event_id IN (SELECT unnest($ids::UUID[]))
          AND received_at BETWEEN $first AND $last
          AND (started_at IS NULL OR started_at BETWEEN $first_ns AND $last_ns)
          AND content_chunk IN (SELECT unnest($chunks::UUID[]))
        """,  # noqa: S608 - constants
        {
            "ids": [uuid.UUID(spot.event_id) for spot in spots],
            "chunks": [uuid.UUID(spot.chunk) for spot in spots],
            "first_ns": min(starts, default=0),
            "last_ns": max(starts, default=0),
            **_between(spots),
        },
    ).fetchall()
    # By the chunk too: senders choose ids, and another tenant may have an event of the same.
    found = {row[:2]: dict(zip(("event_id", *_ENVELOPE), row[1:], strict=True)) for row in rows}
    return {spot: found[key] for spot in spots if (key := (spot.chunk, spot.event_id)) in found}


def _timed_page(cursor: duckdb.DuckDBPyConnection, wanted: ScanFilter, window: Window, started_at: int) -> list[Spot]:
    low = max(_LOWEST, started_at - window.width_ns)
    spots = _page(
        cursor, wanted, "started_at BETWEEN $low AND $upper_ns", window.upper, {"low": low, "upper_ns": started_at}
    )
    if len(spots) == PAGE_ROWS:
        window.upper = spots[-1].position
        window.width_ns = max(1, 2 * (started_at - (spots[-1].position.started_at or 0)))
    else:
        window.upper = Position(low, _NO_ID)
        if len(spots) < PAGE_ROWS // _WIDENING:
            window.width_ns *= _WIDENING
    return spots


def _page(
    cursor: duckdb.DuckDBPyConnection, wanted: ScanFilter, place: str, upper: Position, more: Mapping[str, Any]
) -> list[Spot]:
    where, bound = _conditions(wanted)
    bound |= more
    if upper.event_id:
        place += " AND " + ("" if upper.started_at is None else "(started_at < $upper_ns OR ")
        place += "event_id < $upper_id::UUID" + ("" if upper.started_at is None else ")")
        bound["upper_id"] = upper.event_id
    rows = cursor.execute(
        f"""
        SELECT started_at, event_id::VARCHAR, received_at, content_chunk::VARCHAR, content_pos
        FROM events
        WHERE {where} AND {place}
        ORDER BY started_at DESC, event_id DESC
        LIMIT {PAGE_ROWS}
        """,  # noqa: S608 - constants, and names of columns from FILTERS
        bound,
    ).fetchall()
    return list(map(Spot._make, rows))


def _conditions(wanted: ScanFilter) -> tuple[str, dict[str, Any]]:
    bound: dict[str, Any] = {}
    parts = [
        "content_chunk IS NOT NULL",
        *equal_conditions(wanted.tenants, wanted.equal, bound),
        *time_conditions(wanted.since_ns, wanted.until_ns, bound),
    ]
    if wanted.after is not None:
        parts.append(_following(wanted.after, bound))
    return " AND ".join(parts), bound


def _following(after: Position, bound: dict[str, Any]) -> str:
    """The condition that an event comes after this place in the order of the scan."""
    beyond = "event_id < $after_id::UUID" if after.event_id else "true"
    if after.event_id:
        bound["after_id"] = after.event_id
    if after.started_at is None:
        return f"started_at IS NULL AND {beyond}"
    bound["after_ns"] = after.started_at
    return f"(started_at < $after_ns OR started_at IS NULL OR (started_at = $after_ns AND {beyond}))"


def _sizes(cursor: duckdb.DuckDBPyConnection, spots: Sequence[Spot]) -> dict[str, int]:
    """Compressed bytes of each chunk that is there."""
    chunks = list({spot.chunk for spot in spots})
    rows = cursor.execute(
        f"SELECT chunk_id::VARCHAR, octet_length(body) FROM contents WHERE {_OF_CHUNKS}",  # noqa: S608 - constants
        {"chunks": [uuid.UUID(chunk) for chunk in chunks], **_between(spots)},
    ).fetchall()
    return dict(rows)


def _first_part(spots: Sequence[Spot], sizes: Mapping[str, int]) -> Sequence[Spot]:
    seen: set[str] = set()
    packed = 0
    for place, spot in enumerate(spots):
        if spot.chunk not in seen:
            seen.add(spot.chunk)
            packed += sizes.get(spot.chunk, 0)
            if place and packed > MAX_PACKED_BYTES:
                return spots[:place]
    return spots


def _opened(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, spots: Sequence[Spot], chunks: set[str]
) -> dict[str, bytes]:
    if not chunks:
        return {}
    rows = cursor.execute(
        f"SELECT {CHUNK_COLUMNS} FROM contents WHERE {_OF_CHUNKS}",  # noqa: S608 - constants
        {"chunks": [uuid.UUID(chunk) for chunk in chunks], **_between(spots)},
    ).fetchall()
    opened: dict[str, bytes] = {}
    vault.prepare(chunk.key_id for chunk in map(Chunk._make, rows))
    for chunk in map(Chunk._make, rows):
        # One that cannot be read hides no other: its events are counted, as those of an erased one are.
        with contextlib.suppress(StoreError):
            opened[str(chunk.chunk_id)] = open_chunk(chunk, vault)
    return opened


def _between(spots: Sequence[Spot]) -> dict[str, int]:
    """Chunks are committed with their events: of `contents` only that time is read."""
    times = [spot.received_at for spot in spots]
    return {"first": min(times), "last": max(times)}
