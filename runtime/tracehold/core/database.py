"""One SQLite file, safe to share: between threads, between processes, and between our own stores.

Sessions, checkpoints and indexes each hold a `Database` of their own, on one file if the user likes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Final, Literal

from tracehold.core.errors import TraceholdError

BUSY_WAIT_S: Final = 5.0
"""How long a call waits for another writer's lock before it fails."""


class Database:
    """A connection to a SQLite file with write-ahead logging; calls from several threads take turns (SES-27).

    Args:
        db_path: the file; `":memory:"` for tests.
        error: the class that SQLite's errors are raised as; SQLite's own never escape (SES-26, CKPT-08).
        purpose: a few words for messages, such as "sessions".
        prepare: creates or checks the tables; runs in one transaction on each opening.
        synchronous: "NORMAL" survives a killed process, "FULL" also a power cut.

    Raises:
        TraceholdError: of the class `error`, when the file cannot be opened or is no SQLite database.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str],
        *,
        error: type[TraceholdError],
        purpose: str,
        prepare: Callable[[sqlite3.Connection], None],
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    ) -> None:
        self.db_path = os.fspath(db_path)
        self._error = error
        self._purpose = purpose
        self._prepare = prepare
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()
        self._connection = self._open()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one write transaction: committed at the end, rolled back on any exception."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for reading."""
        with self._using() as connection:
            yield connection

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._connection.close()

    @contextlib.contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise self._error(f"the store of {self._purpose} in {self.db_path} is closed")
            if os.getpid() != self._pid:
                # A SQLite connection must not cross a fork; the parent's is left alone, not even closed.
                self._inherited = self._connection
                self._pid = os.getpid()
                self._connection = self._open()
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise self._error(f"the store of {self._purpose} in {self.db_path} failed: {error}") from error

    def _open(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.db_path, timeout=BUSY_WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute("BEGIN IMMEDIATE")
                self._prepare(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise self._error(
                f"cannot use {self.db_path} for {self._purpose}: {error}. Give it a SQLite file or a new path"
            ) from error
        return connection
