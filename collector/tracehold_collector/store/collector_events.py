"""The collector's own events in the store: written beside the writer, in rows that belong to no run and no tenant."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import duckdb
import pyarrow as pa
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id
from tracehold.core.version import __version__

from tracehold_collector.audit.leaves import (
    DECIMALS,
    EVENT,
    FIELDS,
    HASH_BYTES,
    WHOLE_NUMBERS,
    event_digests,
    leaf_hashes,
)
from tracehold_collector.core.errors import StoreError
from tracehold_collector.store.database import Database
from tracehold_collector.store.log import OWN_LOG, log_size, read_frontier

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
INSERT INTO collector_events
    (event_id, type, cause, started_at, ended_at, refused, version, recorded_at, leaf_index, commitment)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_HASHES: Final = """
INSERT INTO log_hashes (tenant, level, first_index, hashes, received_at)
VALUES (?, ?, ?, ?, ?)
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


class CollectorLog:
    """Writes the collector's own events, each a leaf of a log of its own (decision 39).

    For one thread at a time. In that log an event has the envelope of any other, with the places of `own_columns`.

    Args:
        database: the open store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended: set[str] = set()
        with database.cursor() as cursor:
            self._frontier = read_frontier(cursor, OWN_LOG, log_size(cursor, OWN_LOG))

    @property
    def sizes(self) -> dict[str, int]:
        """Leaves in it, by its name; nothing while there are none."""
        return {OWN_LOG: self._frontier.size} if self._frontier.size else {}

    def head(self, _name: str) -> tuple[int, bytes]:
        """Return its size and root. From any thread."""
        frontier = self._frontier
        return frontier.size, frontier.root()

    def take_ended(self) -> set[str]:
        """Return its name if something was written since this was asked last: a stretch that is over is signed soon."""
        ended, self._ended = self._ended, set()
        return ended

    def write(self, events: Sequence[CollectorEvent]) -> None:
        """Add events and their leaves in a transaction of their own.

        Raises:
            StoreError: nothing was stored.
        """
        moment = now_ns()
        blinds = [os.urandom(HASH_BYTES) for _ in events]
        ids = [uuid.UUID(new_event_id(moment)) for _ in events]
        rows = [
            (event_id, event.type, event.cause, event.started_at, event.ended_at, event.refused, __version__, moment)
            for event_id, event in zip(ids, events, strict=True)
        ]
        digests = event_digests(own_columns(rows), b"".join(blinds), [False] * len(rows))
        leaves = leaf_hashes(EVENT, moment, b"".join(each.bytes for each in ids), b"".join(digests))
        frontier = self._frontier.copy()
        first = frontier.size
        hashes: list[tuple[int, int, bytes]] = [(0, first, b"".join(leaves))]
        hashes += frontier.extend(b"".join(leaves))
        placed = [(*row, first + place, blind) for place, (row, blind) in enumerate(zip(rows, blinds, strict=True))]
        try:
            with self._database.cursor() as cursor:
                cursor.execute("BEGIN TRANSACTION")
                cursor.executemany(_INSERT, placed)
                cursor.executemany(_INSERT_HASHES, [(OWN_LOG, *each, moment) for each in hashes])
                cursor.execute("COMMIT")
        except duckdb.Error as error:
            raise StoreError(f"the collector's own events could not be stored: {type(error).__name__}") from error
        self._frontier = frontier
        self._ended = {OWN_LOG}


def own_columns(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows of `collector_events`, up to `version`, as the envelopes that their leaves commit to."""
    placed = [
        {
            "tenant": OWN_LOG,
            "run_id": "",
            "kind": "other",
            "type": kind,
            "name": cause,
            "status": "ok",
            "started_at": started_at,
            "duration_ns": ended_at,  # the end itself: the beginning may be unknown
            "seq": refused,
            "service": version,
            "source": "collector",
        }
        for _, kind, cause, started_at, ended_at, refused, version, *_ in rows
    ]
    kinds = {**dict.fromkeys(WHOLE_NUMBERS, pa.int64()), **dict.fromkeys(DECIMALS, pa.float64())}
    columns = {name: pa.array([row.get(name) for row in placed], kinds.get(name, pa.string())) for name in FIELDS}
    return pa.table(columns)


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
