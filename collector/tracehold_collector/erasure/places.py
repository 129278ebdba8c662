"""Erases in places beyond the database: an engine's log, trace files, sessions and checkpoints.

Copies of traces lose what is erased whole, also when the database keeps its envelope: that stands there. Each place may
be done again after a crash; a repeat tells of what was left to do.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import orjson
import structlog
from tracehold.core.errors import TraceholdError
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.engine import Engine
from tracehold.events.file_blobs import FileBlobStore
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.execution.checkpoints import SqliteCheckpointStore
from tracehold.sessions.sqlite import SqliteSessionStore

from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.places_file import Place, PlaceKind
from tracehold_collector.erasure.record import ErasureRecord, PlaceCount, Stayed
from tracehold_collector.erasure.wanted import Wanted
from tracehold_collector.store.database import Database

_log = structlog.get_logger(__name__)

_BUSY_S: Final = 10.0
_ROWS_AT_ONCE: Final = 1_000
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class Places:
    """The places that were registered.

    Args:
        database: the open store.
        pseudonyms: of the store.
        places: as they were written down.
    """

    def __init__(self, database: Database, pseudonyms: Pseudonyms, places: Sequence[Place]) -> None:
        self._database = database
        self._pseudonyms = pseudonyms
        self._places = tuple(places)

    def erase(self, record: ErasureRecord) -> tuple[list[PlaceCount], list[Stayed]]:
        """Erase it in every place of its tenant; one that cannot be reached is told, and hinders no other.

        Raises:
            duckdb.Error: the manifest cannot be read.
        """
        places = [place for place in self._places if place.tenant == record.tenant]
        if not places:
            return [], []
        with self._database.cursor() as cursor:
            wanted = Wanted.of(cursor, record, self._pseudonyms)
        counts = [_erased(place, wanted) for place in places]
        stayed = [
            Stayed(f"what {count.place} holds of it", f"it could not be reached ({count.error}): ask again then")
            for count in counts
            if count.error is not None
        ]
        return counts, stayed


def _erased(place: Place, wanted: Wanted) -> PlaceCount:
    try:
        if not place.path.exists():
            return PlaceCount(place.name, 0, error="there is no such file")
        removed = _ERASERS[place.kind](place, wanted)
    except (OSError, sqlite3.Error, TraceholdError, duckdb.Error) as error:
        _log.warning("place_not_reached", place=place.name, error=type(error).__name__)
        return PlaceCount(place.name, 0, error=type(error).__name__)
    return PlaceCount(place.name, removed, removed=removed)


def erase_lines(place: Place, wanted: Wanted) -> int:
    """Overwrite lines of a JSONL file with spaces, where they stand; return how many.

    In place, because an exporter may be appending: a new file under the old name would lose what it writes into the old
    one. Who reads such files passes over blank lines.
    """
    removed = 0
    with place.path.open("r+b", buffering=1024 * 1024) as file:
        start = 0
        for line in _lines(file):
            if _is_wanted_line(line, wanted):
                os.pwrite(file.fileno(), b" " * len(line.rstrip(b"\n")), start)
                removed += 1
            start += len(line)
        os.fsync(file.fileno())
    return removed


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(_MAX_LINE_BYTES):
        yield line


def _is_wanted_line(line: bytes, wanted: Wanted) -> bool:
    try:
        event = orjson.loads(line) if line.strip() else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(event, dict) and is_wanted_event(event, wanted)


def is_wanted_event(event: dict[str, Any], wanted: Wanted) -> bool:
    """Whether an event as an exporter writes it is one that goes."""
    if wanted.run(event.get("run_id")) or wanted.event(event.get("event_id")):
        return True
    return wanted.user(event.get("user")) or wanted.session(event.get("session"))


def erase_rows(place: Place, wanted: Wanted) -> int:
    """Delete rows of a trace file in SQLite, with what they leave in its pages and its write-ahead file.

    Its hash chain tells from then on that rows were removed, as it should.
    """
    removed = 0
    with _sqlite(place.path) as connection:
        last = -1
        while True:
            rows = connection.execute(
                "SELECT rowid, event FROM traces WHERE rowid > ? ORDER BY rowid LIMIT ?", (last, _ROWS_AT_ONCE)
            ).fetchall()
            if not rows:
                break
            last = rows[-1][0]
            gone = [(rowid,) for rowid, event in rows if _is_wanted_line(event.encode("utf-8", "replace"), wanted)]
            if gone:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM traces WHERE rowid = ?", gone)
                connection.execute("COMMIT")
                removed += len(gone)
    return removed


def erase_sessions(place: Place, wanted: Wanted) -> int:
    """Clear sessions of the person or the session it is about, by the session store's own means."""
    with closing(SqliteSessionStore(place.path)) as store:
        return _clear(place, "session_messages", wanted, lambda scope: store.clear(scope=scope))


def erase_checkpoints(place: Place, wanted: Wanted) -> int:
    """Clear checkpoints of the person or the session it is about, by the checkpoint store's own means."""
    with closing(SqliteCheckpointStore(place.path)) as store:
        return _clear(place, "run_checkpoints", wanted, lambda scope: store.clear(scope=scope))


def _clear(place: Place, table: str, wanted: Wanted, clear: Callable[[Scope], None]) -> int:
    removed = 0
    with _sqlite(place.path) as connection:
        scopes = connection.execute(
            f"SELECT {', '.join(DIMENSIONS)}, count(*) FROM {table} GROUP BY {', '.join(DIMENSIONS)}"  # noqa: S608 - ours
        ).fetchall()
        for *values, count in scopes:
            named = dict(zip(DIMENSIONS, values, strict=True))
            if wanted.user(named["user"]) or wanted.session(named["session"]):
                clear(Scope(**{name: value or None for name, value in named.items()}))
                removed += count
    return removed


def erase_engine_runs(place: Place, wanted: Wanted) -> int:
    """Erase runs of an engine's log by the engine's own means: blobs first, the log last; open runs as well."""
    return asyncio.run(_erase_engine_runs(place, wanted))


async def _erase_engine_runs(place: Place, wanted: Wanted) -> int:
    store = SQLiteEventStore(place.path)
    try:
        engine = Engine(store=store, blobs=FileBlobStore(place.blobs) if place.blobs else None)
        runs = [info.stream for info in await store.run_index() if wanted.run(info.stream)]
        for run_id in runs:
            await engine.erase(run_id, delete=wanted.record.mode == "delete", force=True)
        await store.compact()
    finally:
        await store.aclose()
    return len(runs)


@contextmanager
def _sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that leaves nothing of what is deleted, neither in pages nor in the write-ahead file."""
    with closing(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        yield connection
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


_ERASERS: Final[dict[PlaceKind, Callable[[Place, Wanted], int]]] = {
    "engine-sqlite": erase_engine_runs,
    "trace-sqlite": erase_rows,
    "jsonl": erase_lines,
    "sessions": erase_sessions,
    "checkpoints": erase_checkpoints,
}
