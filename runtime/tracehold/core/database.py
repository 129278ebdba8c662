"""One SQLite file, safe to share: between threads, between processes, and between our own stores.

Sessions, checkpoints and indexes each hold a `Database` of their own, on one file if the user likes.

What a crash leaves: a transaction is there as a whole or not at all, whenever the process is killed. With
`synchronous="FULL"` a commit also survives a power cut; with "NORMAL" the last ones before it may be missing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from tracehold.core.errors import TraceholdError
from tracehold.core.forks import watch_forks

BUSY_WAIT_S: Final = 5.0
"""How long a call waits for another writer's lock before it fails."""

IN_MEMORY: Final = ":memory:"

_RETRY_S: Final = 0.01
_creating = threading.Lock()
_leaked: Final[list[sqlite3.Connection]] = []
"""Connections of a parent process: a child must not even close them."""


class Database:
    """A connection to a SQLite file with write-ahead logging; calls from several threads take turns (SES-27).

    A new file is readable by its owner only, and deleted rows are overwritten: conversations are personal data. (SQLite
    may keep an older copy of a row that it moved in a page's free space until VACUUM; the event store's tests show it.)
    Before a fork the file is closed; parent and child each open it again when they next use it. A database in memory
    is copied by a fork, like all memory.

    Args:
        db_path: the file; `":memory:"` for tests.
        error: the class that SQLite's errors are raised as; SQLite's own never escape (SES-26, CKPT-08).
        purpose: a few words for messages, such as "sessions".
        prepare: creates or checks the tables; runs in one transaction on each opening.
        synchronous: "NORMAL" survives a killed process, "FULL" also a power cut.

    Raises:
        TraceholdError: of the class `error`, when the file cannot be opened, is no SQLite database, or stays locked
            by another program for `BUSY_WAIT_S`.
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
        if not self.db_path:
            # SQLite takes an empty name for a database that vanishes when it is closed.
            raise error(f"no file for {purpose}: db_path is empty; give it a path, or {IN_MEMORY!r} for tests")
        # Opened again after a fork, perhaps from another working directory.
        self._file = None if self.db_path == IN_MEMORY else os.path.abspath(self.db_path)  # noqa: PTH100 - resolve() follows links
        self._lock = threading.RLock()
        self._held = False
        self._closed = False
        self._connection: sqlite3.Connection | None = self._open()
        watch_forks(self)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one write transaction: committed at the end, rolled back on any exception."""
        with self._using() as connection:
            if connection.in_transaction:
                raise self._error(f"a transaction on {self.db_path} was begun inside another one of the same thread")
            try:
                # IMMEDIATE: the wait for other writers happens here, where nothing has been read yet.
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for reading; one statement sees one state of the file."""
        with self._using() as connection:
            yield connection

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        with self._lock:
            self._closed = True
            self._let_go()

    def before_fork(self) -> None:
        """Close the file, once the call that uses it has ended."""
        # Bounded: a fork must not hang on a thread that waits for the forking one.
        self._held = self._lock.acquire(timeout=BUSY_WAIT_S + 1)
        if self._held and self._file and not (self._connection and self._connection.in_transaction):
            self._let_go()

    def after_fork(self, *, in_child: bool) -> None:
        """Let the waiting threads go on."""
        if in_child:
            self._lock = threading.RLock()
            if self._file and self._connection:
                leak(self._connection)
                self._connection = None
        elif self._held:
            self._lock.release()

    @contextlib.contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise self._error(f"the store of {self._purpose} in {self.db_path} is closed; open a new one")
            if self._connection is None:
                self._connection = self._open()
            try:
                yield self._connection
            except (sqlite3.Error, OverflowError) as error:  # OverflowError: a text of 2 GiB
                raise self._error(f"the store of {self._purpose} {self._in_words(error)}") from error

    def _open(self) -> sqlite3.Connection:
        if self._file and os.path.isdir(self._file):  # noqa: PTH112 - the path is text throughout
            raise self._error(
                f"the store of {self._purpose} cannot use {self.db_path}: it is a folder; name a file in it"
            )
        try:
            if self._file:
                create_private(self._file)
            connection = sqlite3.connect(
                self._file or IN_MEMORY, timeout=BUSY_WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                use_write_ahead_log(connection, BUSY_WAIT_S)
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("BEGIN IMMEDIATE")
                self._prepare(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: a NUL or a surrogate in the path
            hint = "" if is_busy(error) else ". Give it a SQLite file of its kind, or a new path in an existing folder"
            raise self._error(f"the store of {self._purpose} {self._in_words(error)}{hint}") from error
        return connection

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if connection.in_transaction:  # the disk is gone: the next call starts afresh
            self._let_go()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _in_words(self, error: Exception) -> str:
        if is_busy(error):
            return (
                f"could not use {self.db_path}: another connection has held it locked for {BUSY_WAIT_S:g} s. "
                "Nothing was changed; try again, or end the program that holds it"
            )
        # An OSError's own text repeats the path.
        reason = error.strerror if isinstance(error, OSError) else error
        return f"cannot use {self.db_path}: {reason}"


def is_busy(error: Exception) -> bool:
    """Say whether SQLite gave up because somebody else held a lock."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def require_columns(connection: sqlite3.Connection, table: str, columns: Iterable[str]) -> None:
    """Refuse a table that lacks a column, from inside `prepare` (SES-28, CKPT-09).

    Raises:
        sqlite3.DatabaseError: names the table and what it lacks; `Database` raises it as its own class.
    """
    found = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    missing = [column for column in columns if column not in found]
    if missing:
        raise sqlite3.DatabaseError(f"its table {table} was made by another program and lacks {', '.join(missing)}")


def text_to_column(text: str) -> str | bytes:
    """Return what SQLite can hold: the text, or bytes when it contains a lone surrogate, which UTF-8 has no form for.

    Read back with `text_from_column`, every text returns unchanged.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def text_from_column(value: str | bytes) -> str:
    """Return the text that `text_to_column` was given.

    Raises:
        ValueError: bytes that it never wrote.
    """
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def leak(connection: sqlite3.Connection) -> None:
    """Keep a parent process's connection in a child, unused and open: to close it would drop the parent's locks."""
    _leaked.append(connection)


def create_private(path: str) -> None:
    """Create an empty file that only its owner can read, unless there is one."""
    # O_EXCL: to open and close a file that SQLite has open would drop this process's locks on it. The lock keeps
    # another thread from using the new file before it is closed here.
    with _creating, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _renew_creating() -> None:
    global _creating  # noqa: PLW0603 - another thread may have held it when this process was forked
    _creating = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_creating)


def use_write_ahead_log(connection: sqlite3.Connection, wait_s: float) -> None:
    """Switch a file to write-ahead logging, waiting for others that open it for at most about `wait_s` seconds.

    When several programs open a new file at once, SQLite may answer "busy" to this without waiting itself.

    Raises:
        sqlite3.OperationalError: the file stayed locked.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(_RETRY_S)
