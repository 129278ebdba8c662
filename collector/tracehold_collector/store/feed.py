"""The events in the order they were committed, from a place on: the store as a queue that is never emptied.

All rows of a commit carry one `received_at`, which grows from commit to commit, whatever the clock does. A place in
that order therefore stays right however long nobody reads on, and needs nothing of the writer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import structlog

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.sealing.vault import DestroyedKeyError, Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, read_chunk
from tracehold_collector.store.records import ROW_COLUMNS, record_of

_log = structlog.get_logger(__name__)

# Within a commit by where the contents lie, so that each chunk is unpacked once. An event without content stands at its
# own id. The ids at the end tell apart what several tenants sent under one id.
_PART: Final = "coalesce(content_chunk, event_id), coalesce(content_pos, -1), event_id, tenant"
_BEYOND: Final = f"""
received_at >= $received_at
AND (received_at > $received_at OR ($chunk IS NOT NULL AND ({_PART}) > ($chunk::UUID, $pos, $event_id::UUID, $tenant)))
"""
_WAITING: Final = f"SELECT count(*), min(received_at) FROM events WHERE {_BEYOND}"  # noqa: S608 - constants
_EDGE: Final = "SELECT received_at FROM events WHERE received_at > ? ORDER BY received_at LIMIT 1 OFFSET ?"
_PAGE: Final = f"""
SELECT {ROW_COLUMNS}
FROM events
WHERE {_BEYOND}
  AND received_at <= $upto
ORDER BY received_at, {_PART}
LIMIT $most
"""  # noqa: S608 - constants
_SIZES: Final = """
SELECT chunk_id, octet_length(body)
FROM contents
WHERE chunk_id IN (SELECT unnest(?::UUID[]))
  AND body IS NOT NULL
"""
_BODIES: Final = _SIZES.replace("chunk_id, octet_length(body)", CHUNK_COLUMNS)

_LAST_NS: Final = (1 << 63) - 1
_RECEIVED_AT, _PLACE = -3, slice(-2, None)
"""Where these stand in a row of `ROW_COLUMNS`."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the order of commits: everything up to it was read.

    Attributes:
        received_at: the commit's, UTC nanoseconds.
        part: the last event of it that was read, as (chunk id, position in the chunk, event id, tenant); `None` when
            the commit was read whole.
    """

    received_at: int
    part: tuple[str, int, str, str] | None = None

    def bound(self) -> dict[str, Any]:
        """Return the parameters of the statements here."""
        chunk, pos, event_id, tenant = self.part or (None, None, None, None)
        return {
            "received_at": self.received_at,
            "chunk": chunk,
            "pos": pos,
            "event_id": event_id,
            "tenant": tenant,
        }


def last_position(cursor: duckdb.DuckDBPyConnection) -> Position:
    """Return the place after everything that is committed."""
    row = cursor.execute("SELECT max(received_at) FROM events").fetchone()
    return Position(row[0] if row and row[0] is not None else 0)


def count_beyond(cursor: duckdb.DuckDBPyConnection, position: Position) -> tuple[int, int | None]:
    """Return how many events lie beyond `position`, and when the first of them was committed (UTC nanoseconds)."""
    row = cursor.execute(_WAITING, position.bound()).fetchone()
    return (row[0], row[1]) if row else (0, None)


def read_beyond(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, position: Position, *, max_records: int, max_packed: int
) -> Iterator[tuple[Position, Record]]:
    """Yield the next events with their contents, each with the place after it; nothing when there are none.

    One unpacked chunk is held at a time. A content that was erased, or that is damaged, is `None`.

    Args:
        cursor: the reader's own, until the last one was taken.
        vault: opens contents.
        position: where to go on.
        max_records: events at most.
        max_packed: bytes of compressed contents at most; the first chunk is read however large it is.
    """
    # Rows lie in the order they came in. Sorting all that waits for its first few would touch the whole backlog, each
    # time: 20 ms more for each million that waits.
    edge = cursor.execute(_EDGE, [position.received_at, max_records - 1]).fetchone()
    bound = position.bound() | {"upto": edge[0] if edge else _LAST_NS, "most": max_records}
    rows = cursor.execute(_PAGE, bound).fetchall()
    if not rows:
        return
    bodies = _bodies(cursor, rows, max_packed)
    unpacked: tuple[uuid.UUID | None, list[dict[str, Any]]] = (None, [])
    for row in rows:
        chunk, pos = row[_PLACE]
        record = record_of(row)
        if chunk in bodies:
            packed = bodies[chunk]
            if packed is None:
                return
            if unpacked[0] != chunk:
                unpacked = (chunk, _unpacked(packed, vault))
            record.content = unpacked[1][pos] if pos < len(unpacked[1]) else None
        yield _after(row), record


def _bodies(
    cursor: duckdb.DuckDBPyConnection, rows: Sequence[tuple[Any, ...]], max_packed: int
) -> dict[uuid.UUID, Chunk | None]:
    """Return each chunk that is not erased; `None` in place of those over the budget."""
    wanted: dict[uuid.UUID, None] = dict.fromkeys(row[-2] for row in rows if row[-2] is not None)
    if not wanted:
        return {}
    sizes = dict(cursor.execute(_SIZES, [list(wanted)]).fetchall())
    found: dict[uuid.UUID, Chunk | None] = {}
    taken: list[uuid.UUID] = []
    room = max_packed
    for chunk in filter(sizes.__contains__, wanted):
        if taken and sizes[chunk] > room:
            room = 0
            found[chunk] = None
        else:
            room -= sizes[chunk]
            taken.append(chunk)
    read = cursor.execute(_BODIES, [taken]).fetchall()
    return found | {row[0]: Chunk(*row) for row in read}


def _unpacked(chunk: Chunk, vault: Vault) -> list[dict[str, Any]]:
    try:
        return read_chunk(chunk, vault)
    except DestroyedKeyError:
        return []
    except StoreError as error:
        # Whoever reads on for ever must not stop at it for ever.
        _log.error("content_unreadable", error=str(error))
        return []


def _after(row: tuple[Any, ...]) -> Position:
    place: tuple[uuid.UUID | None, int | None] = row[_PLACE]
    chunk, pos = place
    event_id, tenant = row[0], row[1]
    return Position(row[_RECEIVED_AT], (str(chunk or event_id), -1 if pos is None else pos, str(event_id), tenant))
