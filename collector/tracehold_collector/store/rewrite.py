"""Writes the store's file anew without what was deleted from it, while events come in and questions are answered.

DuckDB does not erase: what a DELETE or UPDATE takes away stays in the file after CHECKPOINT and VACUUM, until its place
is used again (`tests/collector/store/test_rewrite.py` shows it). A copy of the rows has none of it.

    1. Behind everybody's back, what is committed is copied into a new file beside the store, a row group at a time.
    2. Commits go on meanwhile and are caught up with, until little is missing.
    3. Whoever reads is waited for, then told to go.
    4. On the writer's thread, so that nothing is written: the rest is copied, both files are counted and checkpointed,
       and the new one takes the place of the old one by a rename. This alone is what senders wait for.
    5. The old file, which has no name any more, is overwritten with zeros.

Until the rename the old file is the store, whole; from then on the new one is. What is left of a process that was
killed in between is removed at the next start. Rows that are changed or deleted during a copy end it, and it is begun
again.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import duckdb
import structlog

from tracehold_collector.core.errors import CollectorError, StoreError
from tracehold_collector.store import copying
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.database import Database
from tracehold_collector.store.leases import ReadersBusyError
from tracehold_collector.store.swap import new_file_of, overwrite, remove_new
from tracehold_collector.store.writer import Writer

_log = structlog.get_logger(__name__)

_MEGABYTE: Final = 1_000_000
_SPARE_BYTES: Final = 64 * _MEGABYTE
_LITTLE_BEHIND_S: Final = 2.0
_LOOK_S: Final = 0.5


class RewriteStoppedError(StoreError):
    """The collector stops; the file stays as it was, and is written anew at another time."""


class _RowsChangedError(CollectorError):
    """Rows were changed that are copied already: they would come back, or be lost."""


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """How the file is written anew.

    Attributes:
        memory_limit: of the new file's DuckDB, as it writes it.
        patience_s: how long exports and long questions that run already are waited for. Longer than a question may
            take; an export to somebody slow is cut off then.
        grace_s: how long readers wait for short questions to end; and then for those that were told to.
        attempts: how often to begin again when rows change meanwhile or readers do not go.
        quiet_s: how long no row must have changed before a copy begins.
        overwrite: fill the old file with zeros.
    """

    memory_limit: str = "64MB"
    patience_s: float = 35.0
    grace_s: float = 2.0
    attempts: int = 10
    quiet_s: float = 0.2
    overwrite: bool = True


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What came of it.

    Attributes:
        bytes_before, bytes_after: size of the file.
        rows: how many were copied.
        took_s: all of it.
        paused_s: how long commits waited.
        readers_paused_s: how long reads waited.
        overwritten: whether the old file's bytes were overwritten; `False` when they were only given back to the file
            system, since a hard link keeps them or the disk refused.
    """

    bytes_before: int
    bytes_after: int
    rows: int
    took_s: float
    paused_s: float
    readers_paused_s: float
    overwritten: bool


class Rewriter:
    """Writes the file anew, one time after the other.

    Args:
        database: the open store.
        writer: its writer.
        options: how.
    """

    def __init__(self, database: Database, writer: Writer, options: RewriteOptions | None = None) -> None:
        self._database = database
        self._writer = writer
        self._options = options or RewriteOptions()
        self._running = threading.Lock()
        self._stopping = threading.Event()

    def rewrite(self, progress: Callable[[int, int], None] | None = None) -> Rewritten:
        """Write the file anew; returns when the deleted bytes are gone from it. Not on the writer's thread.

        Args:
            progress: called with the rows copied so far and those there are, about.

        Raises:
            RewriteStoppedError: `stop` was called.
            StoreError: there is too little room, readers do not go, or a file cannot be written; the old file goes on
                as the store. The text says what to do.
        """
        if self._database.path is None:
            raise StoreError("a store in memory has no file to write anew")
        with self._running:
            for _ in range(self._options.attempts):
                try:
                    return self._attempt(progress)
                except (_RowsChangedError, ReadersBusyError) as error:
                    _log.info("rewrite_begins_again", because=str(error))
                    last = error
            raise StoreError(
                f"the store was not written anew in {self._options.attempts} attempts ({last}); it is as it was"
            ) from last

    def stop(self) -> None:
        """End a rewrite that runs, from any thread; none begins after that."""
        self._stopping.set()

    def _attempt(self, progress: Callable[[int, int], None] | None) -> Rewritten:
        self._wait_for_quiet()
        copy = _Copy(self._database, self._options, self._stopping, progress)
        self._database.copying = True
        try:
            with _explained(copy):
                copy.begin()
                copy.catch_up()
                self._wait_for_readers()
                copy.catch_up()
                copy.check()
                begun = time.monotonic()
                with self._database.leases.shut(self._options.grace_s):
                    paused_s, old = self._writer.run(copy.finish).result()
                readers_paused_s = time.monotonic() - begun
        finally:
            self._database.copying = False
            copy.close()
        done = copy.rewritten(paused_s, readers_paused_s, overwritten=self._overwrite(old))
        _log.info(
            "store_rewritten",
            bytes_before=done.bytes_before,
            bytes_after=done.bytes_after,
            took_s=round(done.took_s, 2),
            commits_paused_s=round(done.paused_s, 3),
            overwritten=done.overwritten,
        )
        return done

    def _overwrite(self, old: int | None) -> bool:
        if old is None:
            return False
        if not self._options.overwrite:
            os.close(old)
            return False
        return overwrite(old)

    def _wait_for_readers(self) -> None:
        """Exports and long questions that run already may end; a stop waits for none of them."""
        leases, deadline = self._database.leases, time.monotonic() + self._options.patience_s
        readers = leases.reading()
        while not leases.have_ended(readers, min(_LOOK_S, self._options.patience_s)):
            if self._stopping.is_set() or time.monotonic() >= deadline:
                return

    def _wait_for_quiet(self) -> None:
        """Erasing goes page by page; a copy that is begun between two pages is in vain."""
        seen = -1
        while seen != self._database.changes:
            seen = self._database.changes
            if self._stopping.wait(self._options.quiet_s):
                raise RewriteStoppedError("the collector stops; the store is written anew at its next start")


class _Copy:
    """One attempt: the new file, and how far it is."""

    def __init__(
        self,
        database: Database,
        options: RewriteOptions,
        stopping: threading.Event,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        assert database.path is not None  # noqa: S101 - `rewrite` refuses a store in memory
        self.database = database
        self.path = database.path
        self.file = new_file_of(self.path)
        self._options = options
        self._stopping = stopping
        self._progress = progress
        self._begun = time.monotonic()
        self._changes = database.changes
        self._bytes_before = database.disk_bytes()
        self._upto: dict[str, int] = {}
        self._rows = 0
        self._rows_in_all = 0
        self._new: duckdb.DuckDBPyConnection | None = None

    def begin(self) -> None:
        """Make the new file, with the tables of the old one."""
        remove_new(self.path)
        free, needed = shutil.disk_usage(self.path.parent).free, self._bytes_before + _SPARE_BYTES
        if free < needed:
            raise StoreError(
                f"writing {self.path} anew needs {needed // _MEGABYTE} MB beside it, and {free // _MEGABYTE} MB are "
                "free; make room: what was erased stays in the file's unused parts until then"
            )
        self._open_new()
        with self.database.cursor() as cursor:
            copying.copy_schema(cursor, self.new)
            appended = [name for name in copying.tables(cursor) if name in copying.APPENDED]
            self._upto = dict.fromkeys(appended, 0)
            for name in appended:
                self._rows_in_all += cursor.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0]  # noqa: S608

    def _open_new(self) -> None:
        """Open the new file, once more after each piece: DuckDB gives back only then what it took for that."""
        if self._new is not None:
            self._new.close()
        self._new = duckdb.connect(
            str(self.file),
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "enable_external_access": False,
                "python_enable_replacements": False,
                "memory_limit": self._options.memory_limit,
                "threads": 1,
            },
        )
        self.file.chmod(0o600)
        self._new.execute("SET TimeZone = 'UTC'")

    def catch_up(self) -> None:
        """Copy what is committed, until what came meanwhile is little."""
        while True:
            begun = time.monotonic()
            for table in self._upto:
                self._copy_table(table)
            if time.monotonic() - begun < _LITTLE_BEHIND_S:
                return

    def _copy_table(self, table: str) -> None:
        with self.database.cursor() as cursor:
            mark = copying.last_commit(cursor, table)
        while self._upto[table] < mark:
            self._check()
            # A cursor for each piece: one that is held holds back checkpoints.
            with self.database.cursor() as cursor:
                stretch = copying.next_stretch(cursor, table, self._upto[table], mark)
                if stretch is not None:
                    self._copied(copying.copy_stretch(cursor, self.new, stretch))
                self._upto[table] = mark if stretch is None else stretch.upto_ns
            self._open_new()

    def check(self) -> None:
        """Compare what is copied, before anybody has to wait; `finish` looks at what came after it only."""
        with self.database.cursor() as cursor:
            differing = [
                table for table, upto in self._upto.items() if copying.differ(cursor, self.new, table, upto_ns=upto)
            ]
        _refuse(differing)

    def finish(self, committer: Committer) -> tuple[float, int | None]:
        """Copy the rest and change over; on the writer's thread, while nobody reads.

        Returns:
            How long it took, and a descriptor of the old file as `Database.exchange` gives it.
        """
        begun = time.monotonic()
        self._check()
        old = self.database.connection
        differing = []
        for table in copying.tables(old):
            checked = self._upto.get(table)
            if checked is None:
                self._copied(copying.copy_whole(old, self.new, table))
            else:
                rest = copying.Stretch(table, checked, copying.last_commit(old, table))
                self._copied(copying.copy_stretch(old, self.new, rest))
            if copying.differ(old, self.new, table, after_ns=checked):
                differing.append(table)
        _refuse(differing)
        self.new.execute("CHECKPOINT")
        self.close(remove=False)
        try:
            descriptor = self.database.exchange(self.file)
        finally:
            committer.attach()
        return time.monotonic() - begun, descriptor

    def rewritten(self, paused_s: float, readers_paused_s: float, *, overwritten: bool) -> Rewritten:
        """Sum up."""
        return Rewritten(
            bytes_before=self._bytes_before,
            bytes_after=self.database.disk_bytes(),
            rows=self._rows,
            took_s=time.monotonic() - self._begun,
            paused_s=paused_s,
            readers_paused_s=readers_paused_s,
            overwritten=overwritten,
        )

    @property
    def new(self) -> duckdb.DuckDBPyConnection:
        """The new store, open."""
        if self._new is None:
            raise StoreError("the new store is closed")
        return self._new

    def close(self, *, remove: bool = True) -> None:
        """Close the new file, and remove it unless it took the place of the old one."""
        if self._new is not None:
            self._new.close()
            self._new = None
        if remove:
            remove_new(self.path)

    def _check(self) -> None:
        if self._stopping.is_set():
            raise RewriteStoppedError("the collector stops; the store is written anew at its next start")
        if self.database.changes != self._changes:
            raise _RowsChangedError("rows were changed while they were copied")

    def _copied(self, rows: int) -> None:
        self._rows += rows
        if self._progress is not None:
            self._progress(self._rows, max(self._rows, self._rows_in_all))


def _refuse(differing: Sequence[str]) -> None:
    # Such as by the collector's own log: its writer's commit may have an earlier time than the last one here.
    if differing:
        names = ", ".join(differing)
        raise _RowsChangedError(f"the new store would differ from the old one in {names}")


@contextmanager
def _explained(copy: _Copy) -> Iterator[None]:
    """Say what an error of DuckDB's means here."""
    try:
        yield
    except duckdb.Error as error:
        raise _explanation(copy, error) from error
    except StoreError as error:
        if isinstance(error.__cause__, duckdb.Error):
            raise _explanation(copy, error.__cause__) from error
        raise


def _explanation(copy: _Copy, error: duckdb.Error) -> StoreError:
    free = shutil.disk_usage(copy.path.parent).free
    if isinstance(error, duckdb.IOException) or "space" in str(error).lower():
        return StoreError(
            f"{copy.file} could not be written ({free // _MEGABYTE} MB are free); the old store goes on. Make room: "
            "what was erased stays in the file's unused parts until it is written anew"
        )
    return StoreError(f"the store could not be written anew ({type(error).__name__}); the old one goes on")
