"""Events as rows of a SQLite table."""

from __future__ import annotations

import os
import sqlite3
from datetime import UTC, datetime

from tracehold.core.database import BUSY_WAIT_S, IN_MEMORY, create_private, leak, use_write_ahead_log
from tracehold.core.errors import ExporterError
from tracehold.core.forks import watch_forks
from tracehold.core.jsontext import dumps
from tracehold.observability.exporters.backlog import Backlog
from tracehold.observability.exporters.base import Event, TraceExporter
from tracehold.observability.exporters.trace_chain import Row, TraceChain, prepare

FORK_WAIT_S = 1.0
"""How long a fork waits for the row that is being written."""

LOCK_WAIT_MS = 20
"""How long an insert may wait for another writer before the row is queued (DEC-11)."""


class SqliteExporter(TraceExporter):
    """Inserts one row per event into `traces(type, run_id, event, created_at)` (EXP-06, EXP-07).

    The file may be shared with the session and checkpoint stores (EXP-08): write-ahead logging, safe across threads
    and processes. A row that meets a lock waits `LOCK_WAIT_MS`, then is queued in order (DEC-11). A new file is
    readable by its owner only. `tracehold log verify` tells whether rows were altered, added or removed since (DEC-08).

    Not a `core.database.Database`: that waits for seconds, and emit must not; its guards are the same.

    Args:
        db_path: the file; default `":memory:"`, for tests.

    Raises:
        ExporterError: the file is no SQLite database or cannot be opened.
    """

    def __init__(self, db_path: str | os.PathLike[str] = IN_MEMORY) -> None:
        self.db_path = os.fspath(db_path)
        # Opened again after a fork, perhaps from another working directory.
        self._file = None if self.db_path == IN_MEMORY else os.path.abspath(self.db_path)  # noqa: PTH100 - resolve() follows links
        self._closed = False
        self._held = False
        self._connection: sqlite3.Connection | None = self._open()
        self._chain = TraceChain(self._connection)
        self._backlog: Backlog[Row] = Backlog(type(self).__name__, self._insert, (sqlite3.OperationalError,))
        watch_forks(self)

    @property
    def dropped(self) -> int:  # type: ignore[override]
        """Events given up because too many waited."""
        return self._backlog.dropped

    def export(self, event: Event) -> None:
        """Insert one row; it is readable when this returns, unless another writer holds the file."""
        if self._closed:
            raise ValueError(f"this SqliteExporter is closed; {self.db_path} was not written")
        run_id = event.get("run_id")
        created_at = datetime.now(UTC).isoformat(timespec="microseconds")
        self._backlog.put(
            (
                str(event.get("type")),
                None if run_id is None else str(run_id),
                dumps(event).decode(),
                created_at,
            )
        )

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Insert what waits."""
        return self._backlog.drain(timeout_s)

    def close(self) -> None:
        """Insert what waits, at most a second, and release the file (EXP-13)."""
        if self._closed:
            return
        if not self._backlog.drain(1.0):
            self._backlog.abandon()
        self._closed = True
        self._let_go()

    def before_fork(self) -> None:
        """Close the file: a child that opens it while this process has it open loses rows (see `core.forks`)."""
        self._held = self._backlog.hold(FORK_WAIT_S)
        if self._held and self._file:
            self._let_go()

    def after_fork(self, *, in_child: bool) -> None:
        """Open the file again at the next row; a child's backlog has a lock of its own."""
        if in_child:
            if self._file and self._connection:  # a row was being written for longer than a fork may wait
                leak(self._connection)
                self._connection = None
        elif self._held:
            self._backlog.release()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _insert(self, row: Row) -> None:
        if self._connection is None:
            self._connection = self._connect(LOCK_WAIT_MS / 1000)
            self._chain = TraceChain(self._connection)
        self._chain.insert(row)

    def _open(self) -> sqlite3.Connection:
        if self._file and os.path.isdir(self._file):  # noqa: PTH112 - the path is text throughout
            raise ExporterError(f"cannot use {self.db_path} for traces: it is a folder; name a file in it")
        try:
            return self._connect(BUSY_WAIT_S)
        except (sqlite3.Error, OSError) as error:
            raise ExporterError(
                f"cannot use {self.db_path} for traces: {error}. Give SqliteExporter a SQLite file or a new path"
            ) from error

    def _connect(self, wait_s: float) -> sqlite3.Connection:
        if self._file:
            create_private(self._file)
        connection = sqlite3.connect(
            self._file or IN_MEMORY, timeout=wait_s, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, wait_s)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _prepare(connection: sqlite3.Connection, wait_s: float) -> None:
    use_write_ahead_log(connection, wait_s)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS traces "
        "(type TEXT NOT NULL, run_id TEXT, event TEXT NOT NULL, created_at TEXT NOT NULL)"
    )
    if "run_id" not in {row[1] for row in connection.execute("PRAGMA table_info(traces)")}:
        connection.execute("ALTER TABLE traces ADD COLUMN run_id TEXT")
    connection.execute("CREATE INDEX IF NOT EXISTS traces_run_id ON traces (run_id)")
    prepare(connection)
    connection.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_MS}")
