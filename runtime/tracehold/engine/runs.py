"""The runs this process works on: each a fold of its log with a lock and an outbox (ENG-04).

Nothing here is the truth. A run that this process never saw is adopted by reading its log; one that ended is let go, so
that memory stays flat however many runs finish.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final

from tracehold.engine.run_fold import RunFold
from tracehold.events.event import Event

KEPT: Final = 1024
"""How many streams that are no open run are kept in memory."""

Reader = Callable[[str, int], Awaitable[list[Event]]]


class ActiveRun:
    """One run as this process sees it.

    Attributes:
        fold: its state.
        lock: held while an event is appended and folded.
        outbox: stored events that are still to be published, by rising number (ENG-22).
        publishing: whether somebody empties the outbox.
        deadline: the timer of its deadline, or `None`.
    """

    __slots__ = ("deadline", "fold", "loaded", "lock", "outbox", "publishing")

    def __init__(self, run_id: str) -> None:
        self.fold = RunFold(run_id)
        self.lock = asyncio.Lock()
        self.outbox: deque[Event] = deque()
        self.publishing = False
        self.deadline: asyncio.TimerHandle | None = None
        self.loaded = False

    @property
    def busy(self) -> bool:
        """Whether it must stay in memory."""
        return self.fold.is_open or self.lock.locked() or bool(self.outbox)


class Runs:
    """A bounded cache of active runs.

    Args:
        read: returns the stored events of a stream from a number on.
    """

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._open: dict[str, ActiveRun] = {}
        self._other: OrderedDict[str, ActiveRun] = OrderedDict()

    def peek(self, run_id: str) -> ActiveRun | None:
        """Return the run if this process holds it."""
        return self._open.get(run_id) or self._other.get(run_id)

    async def get(self, run_id: str) -> ActiveRun:
        """Return the run, adopted from its log when this process does not hold it."""
        run = self.peek(run_id)
        if run is None:
            run = self._other[run_id] = ActiveRun(run_id)
        if not run.loaded:
            async with run.lock:
                if not run.loaded:
                    await self.refold(run)
                    run.loaded = True
            self.settle(run)
        return run

    def begin(self, run_id: str) -> ActiveRun:
        """Return the run of a fresh id: nothing can be stored under it yet."""
        run = self._open[run_id] = ActiveRun(run_id)
        run.loaded = True
        return run

    async def refold(self, run: ActiveRun) -> list[Event]:
        """Fold what others appended since, and return those events."""
        events = await self._read(run.fold.run_id, run.fold.seq + 1)
        for event in events:
            run.fold.fold(event)
        return events

    def settle(self, run: ActiveRun) -> None:
        """Put the run where it belongs after a change: open runs stay, others may be let go."""
        run_id = run.fold.run_id
        if run.fold.is_open:
            self._other.pop(run_id, None)
            self._open[run_id] = run
            return
        self._open.pop(run_id, None)
        self._other[run_id] = run
        self._other.move_to_end(run_id)
        while len(self._other) > KEPT:
            oldest = next(iter(self._other))
            if self._other[oldest].busy:
                self._other.move_to_end(oldest)
                break
            del self._other[oldest]

    def forget(self, run_id: str) -> None:
        """Let a run go: its log has changed beneath it."""
        self._open.pop(run_id, None)
        self._other.pop(run_id, None)

    def open_runs(self) -> list[ActiveRun]:
        """Return the open runs this process holds."""
        return list(self._open.values())
