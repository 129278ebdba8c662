"""Puts refused requests together into pauses: from the first sender that was sent away to the first commit after."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.errors import QueueFullError, StoreError
from tracehold_collector.lifecycle.clocks import Reading
from tracehold_collector.store.collector_events import Cause, CollectorEvent

QUIET_NS: Final = 30 * NS_PER_S
"""How long nobody must be refused for a pause to be over: a queue that fills again and again is one pause."""


@dataclass(slots=True)
class _Pause:
    begun: Reading
    refused: int
    latest: Reading
    commits: int
    recovered: Reading | None = None


class Pauses:
    """The pauses that are not over. Told on the event loop, looked at by another thread."""

    def __init__(self) -> None:
        self._open: dict[Cause, _Pause] = {}
        self._lock = threading.Lock()

    def refused(self, cause: Cause, now: Reading, commits: int) -> None:
        """Count a request that was told to come back.

        Args:
            cause: why.
            now: when.
            commits: how many transactions were committed until now.
        """
        with self._lock:
            pause = self._open.get(cause)
            if pause is None:
                self._open[cause] = _Pause(now, 1, now, commits)
            else:
                pause.refused += 1
                pause.latest, pause.commits, pause.recovered = now, commits, None

    def over(self, now: Reading, commits: int, *, ending: bool = False) -> list[CollectorEvent]:
        """Return the pauses that are over, and forget them.

        A pause ends when something is committed again; without a sender that comes back, when the collector does.

        Args:
            now: when.
            commits: how many transactions were committed until now.
            ending: whether the collector stops, so that all are over.
        """
        found = []
        with self._lock:
            for cause, pause in list(self._open.items()):
                if pause.recovered is None and commits > pause.commits:
                    pause.recovered = now
                quiet = pause.recovered is not None and now.steady - pause.latest.steady >= QUIET_NS
                if quiet or ending:
                    found.append(_event(cause, pause, pause.recovered or now))
                    del self._open[cause]
        return found


def cause_of(error: Exception) -> Cause | None:
    """Return why a sender is sent away, or `None` when that is no pause of the collector."""
    if isinstance(error, QueueFullError):
        return "queue_full"
    if isinstance(error, StoreError):
        # DuckDB has no error of its own for it, only the system's words in the text.
        full = "no space left" in str(error.__cause__).lower()
        return "disk_full" if full else "store_failed"
    return None


def _event(cause: Cause, pause: _Pause, end: Reading) -> CollectorEvent:
    # By the steady clock: a wall clock that was set back must not make it end before it began.
    ended_at = pause.begun.wall + end.steady - pause.begun.steady
    return CollectorEvent("pause", pause.begun.wall, ended_at, cause, pause.refused)
