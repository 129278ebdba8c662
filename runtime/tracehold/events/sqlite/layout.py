"""The tables of an event log in a SQLite file, their version, and how a file is opened (STO-12).

What a row of `log_events` holds is in `events.rows`, its hashes in `events.chain`. Rows of events and snapshots are
never removed one by one, only emptied: see `events.sqlite.erasing`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from tracehold.core.database import BUSY_WAIT_S, create_private, is_busy, use_write_ahead_log
from tracehold.core.errors import StoreError
from tracehold.core.retry import is_transient
from tracehold.events.sqlite import counting

Step: TypeAlias = Callable[[sqlite3.Connection], None]

_TABLES: Final = (
    # AUTOINCREMENT: a number is never used again, so that a stream which is gone without a trace leaves a gap (DEC-08).
    """CREATE TABLE log_streams (
        no INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, last_seq INTEGER NOT NULL, head BLOB NOT NULL,
        started_seq INTEGER, completed_seq INTEGER)""",
    "CREATE INDEX log_open_runs ON log_streams (no) WHERE started_seq IS NOT NULL AND completed_seq IS NULL",
    """CREATE TABLE log_events (
        place INTEGER PRIMARY KEY, stream_no INTEGER, seq INTEGER, id TEXT, type TEXT, source TEXT, time TEXT,
        run_id TEXT, tenant TEXT, trace_id TEXT, span_id TEXT, causation_id TEXT, correlation_id TEXT, schema_ref TEXT,
        erased INTEGER NOT NULL DEFAULT 0, content TEXT, salt BLOB, digest BLOB, chain BLOB)""",
    "CREATE UNIQUE INDEX log_events_seq ON log_events (stream_no, seq) WHERE stream_no IS NOT NULL",
    "CREATE UNIQUE INDEX log_events_id ON log_events (stream_no, id) WHERE stream_no IS NOT NULL",
    """CREATE TABLE log_acts (
        no INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, stream_no INTEGER NOT NULL, name_digest BLOB NOT NULL,
        last_seq INTEGER NOT NULL, head BLOB NOT NULL, remains BLOB NOT NULL, at TEXT NOT NULL, chain BLOB NOT NULL)""",
    "CREATE INDEX log_acts_stream ON log_acts (stream_no)",
    """CREATE TABLE log_snapshots (
        place INTEGER PRIMARY KEY, stream TEXT, name TEXT, seq INTEGER, version INTEGER, state TEXT)""",
    "CREATE UNIQUE INDEX log_snapshots_name ON log_snapshots (stream, name) WHERE stream IS NOT NULL",
    "CREATE TABLE log_space (dead_bytes INTEGER NOT NULL)",
    "INSERT INTO log_space VALUES (0)",
)


def _create(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


STEPS: Final[Mapping[int, Step]] = MappingProxyType({1: _create, 2: counting.begin})
"""What leads to each version from the one before; the highest is this program's."""

COUNTED: Final = 2
"""The first version that counts its streams."""

_NAMES: Final = ("log_streams", "log_events", "log_acts", "log_snapshots", "log_space")


def has_log(connection: sqlite3.Connection) -> bool:
    """Whether a file holds a log, or what is left of one."""
    return not _tables(connection).isdisjoint(_NAMES)


def missing_tables(connection: sqlite3.Connection) -> list[str]:
    """Return which tables of a log a file lacks."""
    found = _tables(connection)
    needed = (*_NAMES, counting.TABLE) if version_of(connection) >= COUNTED else _NAMES
    return [name for name in needed if name not in found]


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def check_version(path: str, steps: Mapping[int, Step] = STEPS) -> None:
    """Refuse a file that is not ours to write, without writing to it (STO-12).

    Raises:
        StoreError: it was written by a newer version, is no SQLite database, is a folder, or its folder is missing.
    """
    if os.path.isdir(path):  # noqa: PTH112 - the path is text throughout
        raise StoreError(f"cannot use {path} as an event store: it is a folder; name a file in it")
    if not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 - the path is text throughout
        raise StoreError(f"there is no folder for the event store {path}; create it first")
    if not os.path.exists(path) or os.path.getsize(path) == 0:  # noqa: PTH110, PTH202 - as above
        return
    try:
        # Read-only: whoever opens a file for writing may move its write-ahead log into it on closing.
        with contextlib.closing(
            sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True, timeout=BUSY_WAIT_S)
        ) as file:
            version = version_of(file)
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        raise StoreError(
            f"cannot use {path} as an event store: {error}. Give it a SQLite file or a new path"
        ) from error
    refuse_newer(path, version, max(steps))


def open_log(path: str, synchronous: str, steps: Mapping[int, Step] = STEPS) -> sqlite3.Connection:
    """Return a connection to a log, created or brought up to date where necessary.

    Args:
        path: absolute.
        synchronous: "NORMAL" survives a killed process, "FULL" also a power cut.
        steps: for tests.

    Raises:
        StoreError: the file is newer than this program, or there is none and none can be made.
        OSError: what may pass, such as a full disk; a retry goes by it.
        sqlite3.Error: as OSError; a locked file.
    """
    try:
        return _open(path, synchronous, steps)
    except (OSError, sqlite3.Error) as error:
        if is_transient(error):
            raise
        # An OSError's own text repeats the path.
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(
            f"cannot use {path} as an event store: {reason}. Give it a path where this program may make and write files"
        ) from error


def _open(path: str, synchronous: str, steps: Mapping[int, Step]) -> sqlite3.Connection:
    check_version(path, steps)
    create_private(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    try:
        use_write_ahead_log(connection, BUSY_WAIT_S)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = ON")
        # What a statement may have to take back would else be written to a file of its own.
        connection.execute("PRAGMA temp_store = MEMORY")
        if version_of(connection) != max(steps):
            _migrate(path, connection, steps)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(path: str, connection: sqlite3.Connection, steps: Mapping[int, Step]) -> None:
    for target in sorted(steps):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again under the lock: another process may have done the step meanwhile.
            found = version_of(connection)
            refuse_newer(path, found, max(steps))
            if found < target:
                steps[target](connection)
                connection.execute(f"PRAGMA user_version = {target}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


def version_of(connection: sqlite3.Connection) -> int:
    """Return the layout version that a file says it has; 0 for one without a log."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def refuse_newer(path: str, found: int, known: int = max(STEPS)) -> None:
    """Refuse the layout of a newer program.

    Raises:
        StoreError: `found` is above `known`.
    """
    if found > known:
        raise StoreError(
            f"{path} is an event store of layout {found}; this version of Tracehold knows {known}. "
            "Nothing was changed; install the version that wrote it, or a newer one"
        )
