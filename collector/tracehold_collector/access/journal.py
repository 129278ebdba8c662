"""The access log: who asked for what, whose data it was, and what was refused. It holds no content.

No line is changed. Lines that were kept for the stated time are removed, and a line says so.

Lines are written by a thread of its own, many at a time. An answer waits a moment for its line, never for long.
"""

from __future__ import annotations

import contextlib
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.access.file import open_file
from tracehold_collector.access.tokens import masked
from tracehold_collector.access.trimming import Trimmed, Trimmer
from tracehold_collector.core.tenants import Tenants

_log = structlog.get_logger(__name__)

Action = Literal["read", "export", "admin", "denied", "lost"]

_MAX_WAITING: Final = 10_000
_MAX_BATCH: Final = 500
_MAX_TEXT: Final = 200
_PER_MINUTE: Final = 10
_MINUTE_S: Final = 60.0
_MAX_SOURCES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line.

    Attributes:
        action: what it was.
        what: the route with its place-holders, or the command.
        key_id, who: which key, and its name or what stands for it.
        parameters: what was asked for, without content.
        tenants: whose data it may have shown; `None` is everybody's, empty nobody's.
        status: of the answer.
        rows: how many it had; `None` when that is not known.
        repeated: how many the line stands for.
        at: UTC nanoseconds.
    """

    action: Action
    what: str
    key_id: str | None
    who: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tenants: Tenants = ()
    status: int | None = None
    rows: int | None = None
    repeated: int = 1
    at: int = field(default_factory=now_ns)


def write_entries(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Add lines, inside the caller's transaction or each on its own."""
    connection.executemany(
        "INSERT INTO access_log (at, key_id, who, action, what, parameters, tenants, status, row_count, repeated) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                entry.at,
                entry.key_id,
                _fit(entry.who),
                entry.action,
                _fit(entry.what),
                json.dumps(_fit(dict(entry.parameters))),
                None if entry.tenants is None else json.dumps(entry.tenants),
                entry.status,
                entry.rows,
                entry.repeated,
            )
            for entry in entries
        ],
    )


class AccessLog:
    """Writes the lines of a running collector, on a thread of its own.

    Args:
        folder: the data folder.
        keep_days: how many days a line is kept, 183 or more; `None` keeps all.

    Raises:
        StoreError: the file cannot be opened.
    """

    def __init__(self, folder: Path, keep_days: int | None = None) -> None:
        self._connection = open_file(folder)
        self._trimmer = Trimmer(keep_days)
        self._waiting: queue.Queue[tuple[Entry, Future[bool]] | None] = queue.Queue(_MAX_WAITING)
        self._lost = 0
        self._refusals: dict[str, tuple[float, int]] = {}
        self._complained_at = -_MINUTE_S
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="tracehold-access-log", daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> Future[bool]:
        """Hand a line over; the future tells when it is written, `False` when it could not be. Never blocks."""
        done: Future[bool] = Future()
        taken = False
        if not self._closed:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait((entry, done))
                taken = True
        if not taken:
            with self._lock:
                self._lost += entry.repeated
            done.set_result(False)
        return done

    def refused(self, entry: Entry, source: str) -> None:
        """Hand over the line of a refusal; beyond ten a minute from one source, they are counted in its next line.

        So a stranger who knocks without end fills no disk.
        """
        now = time.monotonic()
        with self._lock:
            if len(self._refusals) > _MAX_SOURCES:
                self._refusals.clear()
            until, count = self._refusals.get(source, (0.0, 0))
            if now > until:
                withheld = max(0, count - _PER_MINUTE)
                self._refusals[source] = (now + _MINUTE_S, 1)
            else:
                withheld = 0
                self._refusals[source] = (until, count + 1)
                if count >= _PER_MINUTE:
                    return
        self.add(_repeated(entry, 1 + withheld))

    def close(self) -> None:
        """Write what waits and end; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._waiting.put(None)
        self._thread.join()
        with self._lock:
            withheld = sum(max(0, count - _PER_MINUTE) for _, count in self._refusals.values())
        if withheld:
            self._write([Entry("denied", "refusals not listed one by one", None, "various", repeated=withheld)])
        self._connection.close()

    def _work(self) -> None:
        ending = False
        while not ending:
            if self._trimmer.due_in_s() == 0.0:
                self._trim()
            try:
                batch = [self._waiting.get(timeout=self._trimmer.due_in_s())]
            except queue.Empty:
                continue
            while len(batch) < _MAX_BATCH:
                try:
                    batch.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            ending = None in batch
            lines = [line for line in batch if line is not None]
            with self._lock:
                lost, self._lost = self._lost, 0
            gap = (
                [Entry("lost", "lines that could not be written", None, "the collector", repeated=lost)] if lost else []
            )
            written = self._write([*gap, *(entry for entry, _ in lines)])
            if not written:
                with self._lock:
                    self._lost += lost + sum(entry.repeated for entry, _ in lines)
            for _, done in lines:
                if done.set_running_or_notify_cancel():
                    done.set_result(written)

    def _trim(self) -> None:
        trimmed: list[Trimmed] = []

        def remove(connection: sqlite3.Connection) -> None:
            removed = self._trimmer.trim(connection)
            if removed is not None:
                trimmed.append(removed)
                said = {"until": removed.before, "lines": removed.lines}
                write_entries(connection, [Entry("admin", "access log trim", None, "the collector", said, None)])

        written = self._in_transaction(remove, 0)
        self._trimmer.done(trimmed[0] if trimmed and written else None)

    def _write(self, entries: Sequence[Entry]) -> bool:
        return not entries or self._in_transaction(lambda opened: write_entries(opened, entries), len(entries))

    def _in_transaction(self, work: Callable[[sqlite3.Connection], None], lines: int) -> bool:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            work(connection)
            connection.execute("COMMIT")
        except (sqlite3.Error, ValueError) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if time.monotonic() - self._complained_at > _MINUTE_S:
                self._complained_at = time.monotonic()
                _log.error("access_log_not_written", error=type(error).__name__, lines=lines)
            return False
        return True


def _repeated(entry: Entry, count: int) -> Entry:
    return entry if count == 1 else Entry(
        entry.action, entry.what, entry.key_id, entry.who, entry.parameters, entry.tenants, entry.status,
        entry.rows, count, entry.at,
    )  # fmt: skip


def _fit(value: Any) -> Any:
    """A value as a line may hold it: short, valid text, without anything that looks like a key."""
    if isinstance(value, str):
        return masked(value[: 4 * _MAX_TEXT]).encode("utf-8", "replace").decode()[:_MAX_TEXT]
    if isinstance(value, list | tuple):
        return [_fit(item) for item in value[:50]]
    if isinstance(value, dict):
        return {_fit(str(key)): _fit(item) for key, item in list(value.items())[:50]}
    return value
