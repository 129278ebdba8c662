"""What is read from a log: plain functions over a connection."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable
from typing import Any, Final

from tracehold.core.database import text_from_column
from tracehold.events.event import Event
from tracehold.events.rows import ENVELOPE_FIELDS, build, decode_envelope
from tracehold.events.store import RunInfo, StoredSnapshot

COLUMNS: Final = ("seq", "erased", "content", *ENVELOPE_FIELDS)
COLUMN_LIST: Final = ", ".join(COLUMNS)

_READ: Final = f"""SELECT {COLUMN_LIST} FROM log_events
    WHERE stream_no = (SELECT no FROM log_streams WHERE name = ?) AND stream_no IS NOT NULL AND seq >= ?
    ORDER BY seq LIMIT ?"""  # noqa: S608 - column names of our own

SCRUBBED: Final = 1
"""In the column `erased`: the content was emptied, and reads as such."""

_IDS_AT_ONCE: Final = 500
_EVERYTHING: Final = -1
_NOTHING: Final = '{"data": {}}'


def to_event(stream: str, row: tuple[Any, ...], *, dup: bool = False) -> Event:
    """Return the event of a row of `COLUMNS`."""
    seq, erased, content, *envelope = row
    return build(stream, seq, decode_envelope(tuple(envelope)), content, erased=erased == SCRUBBED, dup=dup)


def read_events(connection: sqlite3.Connection, stream: str, from_seq: int, limit: int | None) -> list[Event]:
    """Return a stream's events in order (STO-04)."""
    return [to_event(stream, row) for row in read_rows(connection, stream, from_seq, limit)]


def read_rows(connection: sqlite3.Connection, stream: str, from_seq: int, limit: int | None) -> list[tuple[Any, ...]]:
    """Return the rows of a stream's events, for `to_event`: so that one that is damaged hides no other."""
    most = _EVERYTHING if limit is None else min(limit, sys.maxsize)
    return connection.execute(_READ, (stream, min(max(from_seq, 0), sys.maxsize), most)).fetchall()


def find_ids(connection: sqlite3.Connection, stream: str, no: int, ids: list[str]) -> dict[str, Event]:
    """Return which of these ids a stream has, with the stored events marked `dup` (STO-03)."""
    found: dict[str, Event] = {}
    for first in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[first : first + _IDS_AT_ONCE]
        marks = ", ".join("?" * len(some))
        query = f"SELECT {COLUMN_LIST} FROM log_events WHERE stream_no = ? AND id IN ({marks})"  # noqa: S608 - question marks
        for row in connection.execute(query, (no, *some)).fetchall():
            event = to_event(stream, row, dup=True)
            found[event.id] = event
    return found


def last_seq(connection: sqlite3.Connection, stream: str) -> int:
    """Return the last number, -1 when empty (STO-06)."""
    row = connection.execute("SELECT last_seq FROM log_streams WHERE name = ?", (stream,)).fetchone()
    return int(row[0]) if row else -1


def is_completed(connection: sqlite3.Connection, stream: str) -> bool:
    """Whether a run has ended, from the index of runs."""
    row = connection.execute("SELECT completed_seq FROM log_streams WHERE name = ?", (stream,)).fetchone()
    return row is not None and row[0] is not None


def has(connection: sqlite3.Connection, stream: str, event_id: str) -> bool:
    """Whether the stream holds that id (STO-06)."""
    query = "SELECT 1 FROM log_events WHERE stream_no = (SELECT no FROM log_streams WHERE name = ?) AND id = ?"
    return connection.execute(query, (stream, event_id)).fetchone() is not None


def run_index(connection: sqlite3.Connection, *, open_only: bool) -> list[RunInfo]:
    """Return the runs, reading two events of each and no other (STO-07)."""
    connection.execute("BEGIN")  # one state of the file for both queries
    try:
        narrowed = "AND s.completed_seq IS NULL" if open_only else ""
        started = _run_events(connection, "started_seq", narrowed)
        completed = {} if open_only else dict(_run_events(connection, "completed_seq", "AND s.started_seq IS NOT NULL"))
    finally:
        connection.execute("ROLLBACK")
    return [RunInfo(stream, event, completed.get(stream)) for stream, event in started]


def _run_events(connection: sqlite3.Connection, column: str, narrowed: str) -> Iterable[tuple[str, Event]]:
    columns = ", ".join(f"e.{name}" for name in COLUMNS)
    query = f"""SELECT s.name, {columns} FROM log_streams s
        JOIN log_events e ON e.stream_no = s.no AND e.seq = s.{column}
        WHERE s.{column} IS NOT NULL {narrowed} ORDER BY s.no"""  # noqa: S608 - column names of our own
    return [(name, _listed(name, tuple(row))) for name, *row in connection.execute(query)]


def _listed(stream: str, row: tuple[Any, ...]) -> Event:
    """Return an event for the list of runs; one whose content is damaged says nothing, and hides no other (RCV-09)."""
    try:
        return to_event(stream, row)
    except (ValueError, KeyError, TypeError, AttributeError):
        return to_event(stream, (row[0], False, _NOTHING, *row[3:]))


def load_snapshot(connection: sqlite3.Connection, stream: str, name: str) -> StoredSnapshot | None:
    """Return a snapshot, or `None` (STO-10)."""
    row = connection.execute(
        "SELECT seq, version, state FROM log_snapshots WHERE stream = ? AND name = ?", (stream, name)
    ).fetchone()
    return StoredSnapshot(stream, name, row[0], row[1], text_from_column(row[2])) if row else None
