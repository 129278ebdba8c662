"""The collector's own events in the store: written beside the writer, in rows that belong to no run and no tenant."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import duckdb
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id
from tracehold.core.version import __version__

from tracehold_collector.core.errors import StoreError
from tracehold_collector.store.database import Database

Type = Literal["started", "stopped", "gap", "pause", "clock"]
Cause = Literal[
    "first_start",
    "not_kept",
    "stopped",
    "killed_or_crashed",
    "asleep",
    "frozen",
    "disk_full",
    "store_failed",
    "queue_full",
    "clock_forward",
    "clock_backward",
]

_INSERT: Final = """
INSERT INTO collector_events (event_id, type, cause, started_at, ended_at, refused, version, recorded_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

# By `rowid`, the order in which they were written: a clock that was set back must not hide the latest.
_LAST: Final = """
SELECT type, started_at
FROM collector_events
WHERE type IN ('started', 'stopped')
ORDER BY rowid DESC
LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class CollectorEvent:
    """One thing that happened to the collector.

    Attributes:
        type: a moment (`started`, `stopped`) or a stretch: of no collector (`gap`), of one that sent senders away
            (`pause`), of time that was skipped or came twice (`clock`).
        started_at: UTC nanoseconds; `None` is before the store began.
        ended_at: UTC nanoseconds; `None` for a moment.
        cause: of a stretch.
        refused: requests that were told to come back, of a pause.
    """

    type: Type
    started_at: int | None
    ended_at: int | None = None
    cause: Cause | None = None
    refused: int | None = None


def write_collector_events(database: Database, events: Sequence[CollectorEvent]) -> None:
    """Add rows in a transaction of their own.

    Raises:
        StoreError: nothing was stored.
    """
    moment = now_ns()
    rows = [
        (
            uuid.UUID(new_event_id(moment)),
            event.type,
            event.cause,
            event.started_at,
            event.ended_at,
            event.refused,
            __version__,
            moment,
        )
        for event in events
    ]
    try:
        with database.cursor() as cursor:
            cursor.execute("BEGIN TRANSACTION")
            cursor.executemany(_INSERT, rows)
            cursor.execute("COMMIT")
    except duckdb.Error as error:
        raise StoreError(f"the collector's own events could not be stored: {type(error).__name__}") from error


def last_start_or_stop(database: Database) -> tuple[str, int] | None:
    """Return `started` or `stopped`, whichever was written last, and when; `None` when neither ever was."""
    with database.cursor() as cursor:
        found: tuple[str, int] | None = cursor.execute(_LAST).fetchone()
    return found


def last_received_at(database: Database) -> int | None:
    """Return when an event was last taken in, UTC nanoseconds; `None` for a store without any."""
    with database.cursor() as cursor:
        row = cursor.execute("SELECT max(received_at) FROM events").fetchone()
    return None if row is None else row[0]
