"""A log in one SQLite file: it survives, verifies, and can be shared by several processes (STO-11)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from tracehold.core.database import IN_MEMORY
from tracehold.core.errors import ConfigurationError
from tracehold.events.chain import ChainReport
from tracehold.events.checks import check_limit, check_stream
from tracehold.events.event import Event
from tracehold.events.following import Followers, follow
from tracehold.events.payload_json import encode_payload
from tracehold.events.rows import encode_content, encode_envelope
from tracehold.events.sqlite import erasing, reading, verifying
from tracehold.events.sqlite.appending import Append, Outcome, append_group
from tracehold.events.sqlite.heads import Heads
from tracehold.events.sqlite.layout import check_version, open_log
from tracehold.events.sqlite.thread import ConnectionThread
from tracehold.events.sqlite.watching import FileWatch
from tracehold.events.store import ANY_SEQ, RunInfo, StoredSnapshot

P = ParamSpec("P")
Answer = TypeVar("Answer")

GROUP: Final = 256
"""The most appends in one transaction."""

_SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")


class _Writing:
    """The connection that writes, and what it knows of the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.heads = Heads()

    def close(self) -> None:
        self.connection.close()


class SQLiteEventStore:
    """An event store in a SQLite file with write-ahead logging; safe from threads, loops, forks and processes (STO-11).

    One thread writes: appends that wait together share a transaction, and an append that comes alone waits for nobody.
    Others read. An append is done when its transaction is: it then survives a killed process, and with
    `synchronous="FULL"` also a power cut. A cancelled append may or may not be stored; repeated, its ids tell.
    A new file is readable by its owner only.

    Args:
        path: the file; its folder must exist. It may hold Tracehold's other tables too.
        synchronous: SQLite's word: "OFF", "NORMAL", "FULL" or "EXTRA".
        poll_s: seconds between looks for what other processes append, while anybody subscribes.

    Raises:
        ConfigurationError: an argument cannot be meant.
        StoreError: the file was written by a newer layout, is no SQLite database, or is a folder; it is left untouched
            (STO-12).

    Operations raise `StoreError` after `aclose` and when the file cannot be opened for good, and SQLite's own
    `sqlite3.Error` for what may pass: a locked file after 5 seconds, with its code, so that `is_transient` of
    `core.retry` sees it. Nothing is half done.
    """

    def __init__(self, path: str | os.PathLike[str], *, synchronous: str = "NORMAL", poll_s: float = 0.2) -> None:
        self.path = _checked_path(path)
        if synchronous.upper() not in _SYNCHRONOUS:
            raise ConfigurationError(f"synchronous must be one of {', '.join(_SYNCHRONOUS)}, not {synchronous!r}")
        if not 0 < poll_s < float("inf"):
            raise ConfigurationError(f"poll_s must be above 0, not {poll_s!r}")
        check_version(self.path)
        self._synchronous = synchronous.upper()
        self._followers = Followers()
        what = f"the event store in {self.path}"
        self._writer: ConnectionThread[_Writing] = ConnectionThread(
            "tracehold-log-writer", what, lambda: _Writing(self._open()), self._write, GROUP
        )
        # Two readers, so that a look at one stream need not wait for a list of all runs.
        self._quick = ConnectionThread("tracehold-log-reader", what, self._open, _call_each, 1)
        self._long = ConnectionThread("tracehold-log-lister", what, self._open, _call_each, 1)
        self._watch = FileWatch(self._quick, self._followers, poll_s)

    async def append(self, stream: str, events: Sequence[Event], expected_seq: int = ANY_SEQ) -> list[Event]:
        """Store events, all or none, and return them with their numbers (STO-01 to STO-03).

        Raises:
            ConcurrencyError: `expected_seq` is not the stream's last number; nothing is stored.
            SchemaError: an event cannot be stored (STO-14); nothing is.
        """
        check_stream(stream)
        # Here, so that what is stored is what the caller holds now, and the writer does nothing but write.
        rows = [(encode_envelope(event), encode_content(event)) for event in events]
        stored: list[Event] = await self._writer.run(Append(stream, tuple(events), rows, expected_seq))
        return stored

    async def read(self, stream: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        """Return events in order; an unknown stream is empty (STO-04)."""
        check_limit(limit)
        return await self._reading(reading.read_events, stream, from_seq, limit)

    def subscribe(self, stream: str, from_seq: int = 0) -> AsyncIterator[Event]:
        """Yield stored events, then new ones as they come, other processes' after `poll_s` (STO-05).

        Ends with StoreError when the store is closed.
        """
        return follow(self.read, self._followers, stream, from_seq, self._watch.start)

    async def last_seq(self, stream: str) -> int:
        """Return the last number, -1 when empty (STO-06)."""
        return await self._reading(reading.last_seq, stream)

    async def has(self, stream: str, event_id: str) -> bool:
        """Whether the stream holds that id (STO-06)."""
        return await self._reading(reading.has, stream, event_id)

    async def run_index(self, *, open_only: bool = False) -> list[RunInfo]:
        """Return every stream with a started event (STO-07); with `open_only`, those without a completed one."""
        runs: list[RunInfo] = await self._long.run(partial(reading.run_index, open_only=open_only))
        return runs

    async def scrub(self, stream: str) -> int:
        """Empty every payload of a stream, drop its snapshots; return its number of events (STO-08, ERA-04, DEC-14).

        The bytes are then gone from the file and its write-ahead file. A scrub leaves a record, and the chain verifies.

        Raises:
            sqlite3.OperationalError: busy: erased, but a reader of an older state keeps the bytes; scrub again.
        """
        events: int = await self._writer.run(partial(erasing.scrub, stream=stream))
        return events

    async def replace_data(self, stream: str, event_id: str, data: dict[str, Any]) -> bool:
        """Replace one event's payload and drop its blob references; say whether the stream holds that id (DEC-14).

        The old bytes are then gone from the file and its write-ahead file. It leaves a record, and the chain verifies.

        Raises:
            SchemaError: `data` cannot be stored (STO-14); nothing is changed.
            sqlite3.OperationalError: as `scrub`; replace again.
        """
        found: bool = await self._writer.run(
            partial(erasing.replace_data, stream=stream, event_id=event_id, raw=encode_payload(data))
        )
        return found

    async def delete_stream(self, stream: str) -> int:
        """Remove a stream and its snapshots, leaving a tombstone; return how many events went (STO-09, DEC-08).

        Raises:
            sqlite3.OperationalError: as `scrub`; delete again.
        """
        events: int = await self._writer.run(partial(erasing.delete_stream, stream=stream))
        return events

    async def load_snapshot(self, stream: str, name: str) -> StoredSnapshot | None:
        """Return a snapshot, or `None` (STO-10)."""
        return await self._reading(reading.load_snapshot, stream, name)

    async def save_snapshot(self, snap: StoredSnapshot) -> None:
        """Keep a snapshot, unless one of a later event is kept (STO-10)."""
        await self._writer.run(partial(erasing.save_snapshot, snap=snap))

    async def schema_version(self) -> int:
        """Return the layout version of the file (STO-12)."""
        return await self._reading(_user_version)

    async def verify_chain(self, stream: str | None = None) -> ChainReport:
        """Check the hash chain of one stream, or of the whole store: streams, deletions and gaps (DEC-08)."""
        report: ChainReport = await self._long.run(partial(verifying.verify, stream=stream))
        return report

    async def compact(self) -> None:
        """Rewrite the file without its dead space; an erasure that leaves a third of it dead does so by itself."""
        await self._writer.run(erasing.compact)

    async def aclose(self) -> None:
        """Finish what was called, end every subscription, release file and threads; repeatable (STO-13)."""
        self._watch.stop()
        for thread in (self._quick, self._long, self._writer):
            await thread.aclose()
        self._followers.wake_all()

    async def _reading(
        self, function: Callable[Concatenate[sqlite3.Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        answer: Answer = await self._quick.run(lambda connection: function(connection, *args, **kwargs))
        return answer

    def _open(self) -> sqlite3.Connection:
        return open_log(self.path, self._synchronous)

    def _write(self, session: _Writing, calls: Sequence[Any]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        group: list[Append] = []
        for call in calls:
            if isinstance(call, Append):
                group.append(call)
                continue
            outcomes += self._append(session, group)
            group = []
            outcomes += _call_each(session.connection, [call])
            session.heads.clear()
        return outcomes + self._append(session, group)

    def _append(self, session: _Writing, group: list[Append]) -> list[Outcome]:
        if not group:
            return []
        return append_group(session.connection, session.heads, group, self._followers.wake)


def _call_each(connection: sqlite3.Connection, calls: Sequence[Any]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for call in calls:
        try:
            outcomes.append((call(connection), None))
        except Exception as error:  # noqa: BLE001 - it is the caller's to handle
            outcomes.append((None, error))
    return outcomes


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _checked_path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not text or text == IN_MEMORY or "\0" in text:
        raise ConfigurationError(
            f"an event store needs a file, not {text!r}: give SQLiteEventStore a path, or use InMemoryEventStore"
        )
    # Opened again after a fork, perhaps from another working directory.
    return os.path.abspath(text)  # noqa: PTH100 - resolve() follows links
