"""A log in memory: for tests, examples and programs whose runs need not outlive them (STO-11)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

from tracehold.events.checks import check_limit, check_stream, closed_error, wrong_seq
from tracehold.events.event import Event
from tracehold.events.following import Followers, follow
from tracehold.events.rows import Picked, build, encode_content, pick_envelope
from tracehold.events.scrubbing import RUN_COMPLETED, RUN_STARTED, is_scrubbed, scrubbed
from tracehold.events.store import ANY_SEQ, RunInfo, StoredSnapshot


class _Stream:
    """One stream's log; the index in `rows` is the event's number."""

    __slots__ = ("completed", "name", "places", "rows", "started")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[tuple[Picked, str]] = []
        self.places: dict[str, int] = {}
        self.started: int | None = None
        self.completed: int | None = None

    def event(self, seq: int, *, dup: bool = False) -> Event:
        picked, content = self.rows[seq]
        return build(self.name, seq, picked, content, erased=False, dup=dup)

    def add(self, row: tuple[Picked, str]) -> int:
        seq = len(self.rows)
        self.rows.append(row)
        self.places[row[0][0]] = seq
        kind = row[0][1]
        if kind == RUN_STARTED and self.started is None:
            self.started = seq
        elif kind == RUN_COMPLETED and self.completed is None:
            self.completed = seq
        return seq


class InMemoryEventStore:
    """An event store without a file; safe from several threads and their loops (STO-01 to STO-11).

    An append keeps the content as JSON text and a read decodes it: nobody shares a dict with the log, and what the
    SQLite store would refuse is refused here too. The events that `append` returns do share `data` with the caller's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}
        self._snapshots: dict[str, dict[str, StoredSnapshot]] = {}
        self._followers = Followers()
        self._closed = False

    async def append(self, stream: str, events: Sequence[Event], expected_seq: int = ANY_SEQ) -> list[Event]:
        """Store events, all or none, and return them with their numbers (STO-01 to STO-03).

        Raises:
            ConcurrencyError: `expected_seq` is not the stream's last number; nothing is stored.
            SchemaError: an event cannot be stored (STO-14); nothing is.
            StoreError: the store is closed.
        """
        self._check_open()
        check_stream(stream)
        rows = [(pick_envelope(event), encode_content(event)) for event in events]
        with self._lock:
            log = self._streams.get(stream)
            last = len(log.rows) - 1 if log else -1
            if expected_seq not in (ANY_SEQ, last):
                raise wrong_seq(stream, expected_seq, last)
            if not rows:
                return []
            if log is None:
                log = self._streams[stream] = _Stream(stream)
            stored = []
            for event, row in zip(events, rows, strict=True):
                place = log.places.get(event.id)
                if place is None:
                    stored.append(event.with_(stream=stream, seq=log.add(row), dup=False))
                else:
                    stored.append(log.event(place, dup=True))
        if self._followers:
            self._followers.wake(stream)
        return stored

    async def read(self, stream: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        """Return events in order; an unknown stream is empty (STO-04)."""
        self._check_open()
        check_limit(limit)
        with self._lock:
            log = self._streams.get(stream)
            if log is None:
                return []
            first = max(from_seq, 0)
            end = len(log.rows) if limit is None else min(len(log.rows), first + limit)
            return [log.event(seq) for seq in range(first, end)]

    def subscribe(self, stream: str, from_seq: int = 0) -> AsyncIterator[Event]:
        """Yield stored events, then new ones as they come (STO-05). Ends with StoreError when the store is closed."""
        return follow(self.read, self._followers, stream, from_seq, self._check_open)

    async def last_seq(self, stream: str) -> int:
        """Return the last number, -1 when empty (STO-06)."""
        self._check_open()
        log = self._streams.get(stream)
        return len(log.rows) - 1 if log else -1

    async def has(self, stream: str, event_id: str) -> bool:
        """Whether the stream holds that id (STO-06)."""
        self._check_open()
        log = self._streams.get(stream)
        return log is not None and event_id in log.places

    async def run_index(self, *, open_only: bool = False) -> list[RunInfo]:
        """Return every stream with a started event (STO-07); with `open_only`, those without a completed one."""
        self._check_open()
        with self._lock:
            return [
                RunInfo(log.name, log.event(log.started), None if log.completed is None else log.event(log.completed))
                for log in self._streams.values()
                if log.started is not None and not (open_only and log.completed is not None)
            ]

    async def scrub(self, stream: str) -> int:
        """Empty every payload of a stream and drop its snapshots; return its number of events (STO-08, ERA-04)."""
        self._check_open()
        with self._lock:
            self._snapshots.pop(stream, None)
            log = self._streams.get(stream)
            if log is None:
                return 0
            log.rows[:] = [(row[0], encode_content(scrubbed(log.event(seq)))) for seq, row in enumerate(log.rows)]
            return len(log.rows)

    async def replace_data(self, stream: str, event_id: str, data: dict[str, Any]) -> bool:
        """Replace one event's payload and drop its blob references; say whether the stream holds that id (DEC-14).

        Raises:
            SchemaError: `data` cannot be stored (STO-14); nothing is changed.
        """
        self._check_open()
        with self._lock:
            log = self._streams.get(stream)
            seq = log.places.get(event_id) if log is not None else None
            if log is None or seq is None:
                return False
            event = log.event(seq)
            log.rows[seq] = (log.rows[seq][0], encode_content(event.with_(data=data, blobs=())))
            self._snapshots.pop(stream, None)
            return True

    async def delete_stream(self, stream: str) -> int:
        """Remove a stream and its snapshots; return how many events went (STO-09)."""
        self._check_open()
        with self._lock:
            self._snapshots.pop(stream, None)
            log = self._streams.pop(stream, None)
            return len(log.rows) if log else 0

    async def load_snapshot(self, stream: str, name: str) -> StoredSnapshot | None:
        """Return a snapshot, or `None` (STO-10)."""
        self._check_open()
        return self._snapshots.get(stream, {}).get(name)

    async def save_snapshot(self, snap: StoredSnapshot) -> None:
        """Keep a snapshot, unless one of a later event is kept (STO-10)."""
        self._check_open()
        with self._lock:
            if not self._still_holds(snap):
                return
            of_stream = self._snapshots.setdefault(snap.stream, {})
            kept = of_stream.get(snap.name)
            if kept is None or snap.seq >= kept.seq:
                of_stream[snap.name] = snap

    async def aclose(self) -> None:
        """End every subscription; a second call does nothing (STO-13). What was stored is gone with the object."""
        self._closed = True
        self._followers.wake_all()

    def _still_holds(self, snap: StoredSnapshot) -> bool:
        if snap.event_id is None:
            return True
        log = self._streams.get(snap.stream)
        if log is None or log.places.get(snap.event_id) != snap.seq:
            return False
        return not is_scrubbed(log.event(snap.seq))

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error("the event store in memory")
