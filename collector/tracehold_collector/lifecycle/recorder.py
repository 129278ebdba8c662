"""Writes the collector's own events: what was missed when it starts, what happens while it runs, and its farewell."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.errors import StoreError
from tracehold_collector.lifecycle.clocks import Reading, between, read_clocks
from tracehold_collector.lifecycle.heartbeat import Heartbeat
from tracehold_collector.lifecycle.pauses import Pauses, cause_of
from tracehold_collector.store.collector_events import (
    Cause,
    CollectorEvent,
    CollectorLog,
    last_received_at,
    last_start_or_stop,
)
from tracehold_collector.store.database import Database

_log = structlog.get_logger(__name__)

LOOK_S: Final = 2.0
"""Seconds between looks at the clocks; a gap's beginning is known to about this much."""

_MAX_WAITING: Final = 1_000
"""Events that wait for a store which cannot write; the oldest go first."""


class Lifecycle:
    """The story of one running collector.

    Args:
        database: the open store.
        folder: the data folder, for the heartbeat.
        commits: tells how many transactions were committed since the start.
        clocks: for tests.
        watching: whether a thread looks by itself; a test does that when it sets the clocks.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        commits: Callable[[], int],
        *,
        clocks: Callable[[], Reading] = read_clocks,
        watching: bool = True,
    ) -> None:
        self.stopping = False
        """Set when the collector begins to stop: senders that are sent away from then on meet no pause."""
        self._database = database
        self._commits = commits
        self._clocks = clocks
        self._heartbeat = Heartbeat(folder)
        self.log = CollectorLog(database)
        """The log of what is written here."""
        self._pauses = Pauses()
        self._waiting: deque[CollectorEvent] = deque(maxlen=_MAX_WAITING)
        self._read = clocks()
        self._ending = threading.Event()
        self._running = False
        self._thread = threading.Thread(target=self._work, name="tracehold-lifecycle", daemon=True)
        self._watching = watching

    def start(self) -> None:
        """Write down what was missed and that the collector runs; from then on look at the clocks."""
        self._read = self._clocks()
        now = self._read.wall
        self._waiting.extend(self._missed(now))
        self._waiting.append(CollectorEvent("started", now))
        self._write()
        self._heartbeat.beat(now)
        self._running = True
        if self._watching:
            self._thread.start()

    def refused(self, error: Exception) -> None:
        """Take note of a request with events that was answered with an error. Never blocks for long."""
        cause = None if self.stopping else cause_of(error)
        if cause is not None:
            self._pauses.refused(cause, self._clocks(), self._commits())

    def look(self) -> None:
        """Look once at the clocks and the pauses, and write what there is to tell."""
        before, self._read = self._read, self._clocks()
        self._waiting.extend(between(before, self._read, int(LOOK_S * NS_PER_S)))
        self._waiting.extend(self._pauses.over(self._read, self._commits()))
        self._write()
        self._heartbeat.beat(self._read.wall)

    def close(self) -> None:
        """Say goodbye, while the store is open and after everything is committed; a second call does nothing."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._running:
            self._running = False
            now = self._clocks()
            self._waiting.extend(self._pauses.over(now, self._commits(), ending=True))
            self._waiting.append(CollectorEvent("stopped", now.wall))
            self._write()
            self._heartbeat.beat(now.wall)
        self._heartbeat.close()

    def _work(self) -> None:
        while not self._ending.wait(LOOK_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the thread must go on, whatever a look meets
                _log.error("lifecycle_look_failed", error=type(error).__name__)

    def _missed(self, now: int) -> list[CollectorEvent]:
        last = last_start_or_stop(self._database)
        if last is not None and last[0] == "stopped":
            return _gap(last[1], now, "stopped")
        received = last_received_at(self._database)
        if last is None:
            first = [CollectorEvent("gap", None, now, "first_start")]
            return first if received is None else _gap(received, now, "not_kept")
        signs = (last[1], received, self._heartbeat.last)
        return _gap(max(sign for sign in signs if sign is not None), now, "killed_or_crashed")

    def _write(self) -> None:
        events = list(self._waiting)
        if not events:
            return
        try:
            self.log.write(events)
        except StoreError as error:
            _log.info("lifecycle_not_written", error=str(error), waiting=len(events))
        else:
            self._waiting.clear()


def _gap(since: int, now: int, cause: Cause) -> list[CollectorEvent]:
    """The gap; when the clock was set back behind its beginning, that as well, and a gap of unknown length as none."""
    if since <= now:
        return [CollectorEvent("gap", since, now, cause)]
    return [
        CollectorEvent("clock", now, since, "clock_backward"),
        CollectorEvent("gap", now, now, cause),
    ]
