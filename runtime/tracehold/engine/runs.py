"""The runs this process works on: each a fold of its log with a lock and an outbox (ENG-04).

Nothing here is the truth. A run that this process never saw is adopted by reading its log; one that ended is let go, so
that memory stays flat however many runs finish.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from tracehold.engine.run_fold import RunFold
from tracehold.events.event import Event

KEPT: Final = 1024
"""How many streams that are no open run are kept in memory."""

_MOST: Final = 16 * KEPT
"""How many are kept although they are busy: an outage leaves something unsure in every stream that is written to."""

_UNSURE: Final = 1024

Reader = Callable[[str, int], Awaitable[list[Event]]]


class ActiveRun:
    """One run as this process sees it.

    Attributes:
        fold: its state.
        lock: held while an event is appended and folded.
        outbox: stored events that are still to be published, by rising number (ENG-22).
        publishing: whether somebody empties the outbox.
        deadline: the timer of its deadline, or `None`.
        loaded: whether its log was read.
        unsure: ids of events whose append had no answer: an outage outlasted it, or the caller was cancelled.
            The log may hold them, and then nobody has delivered them yet (ENG-33).
        owed: events found in the log that were unsure; what the engine does about them is still to be done.
        room: set when the outbox has become shorter; `None` when nobody waits for it.
        reaction: the algorithm object it was started with here, as `Delivery` knows it, or `None`.
    """

    __slots__ = (
        "__weakref__",
        "deadline",
        "fold",
        "loaded",
        "lock",
        "outbox",
        "owed",
        "publishing",
        "reaction",
        "room",
        "unsure",
    )

    def __init__(self, run_id: str) -> None:
        self.fold = RunFold(run_id)
        self.lock = asyncio.Lock()
        self.outbox: deque[Event] = deque()
        self.publishing = False
        self.deadline: asyncio.TimerHandle | None = None
        self.loaded = False
        self.unsure: dict[str, None] = {}
        self.owed: list[Event] = []
        self.reaction: Any = None
        self.room: asyncio.Event | None = None

    def doubt(self, *events: Event) -> None:
        """Note that their append had no answer."""
        for event in events:
            self.unsure[event.id] = None
            if len(self.unsure) > _UNSURE:
                del self.unsure[next(iter(self.unsure))]

    def settle_doubt(self, event_id: str) -> bool:
        """Return whether an append of that id had no answer; it has one now."""
        if event_id not in self.unsure:
            return False
        del self.unsure[event_id]
        return True

    @property
    def sure(self) -> bool:
        """Whether the log need not be read again before this is gone by; what is unsure, the next append settles."""
        return self.loaded and (self.fold.algo is not None or bool(self.unsure))

    @property
    def busy(self) -> bool:
        """Whether it must stay in memory."""
        return self.fold.is_open or self.lock.locked() or bool(self.outbox or self.unsure)


class Runs:
    """A bounded cache of active runs.

    Args:
        read: returns the stored events of a stream from a number on.
    """

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._open: dict[str, ActiveRun] = {}
        self._other: OrderedDict[str, ActiveRun] = OrderedDict()
        # One that was let go while somebody still works on it must stay the only one of its id: it has the lock.
        self._alive: WeakValueDictionary[str, ActiveRun] = WeakValueDictionary()

    def peek(self, run_id: str) -> ActiveRun | None:
        """Return the run if this process holds it."""
        return self._open.get(run_id) or self._other.get(run_id) or self._alive.get(run_id)

    async def get(self, run_id: str) -> ActiveRun:
        """Return the run, adopted from its log when this process does not hold it."""
        run = self.peek(run_id)
        if run is None:
            run = self._other[run_id] = self._alive[run_id] = ActiveRun(run_id)
        # What was no run when it was read last may have been started elsewhere: to take it for none would let events
        # of any tenant into it (DEC-06, TEN-14).
        if not run.sure:
            try:
                async with run.lock:
                    if not run.sure:
                        await self.refold(run)
                        run.loaded = True
            finally:
                self.settle(run)
        return run

    def begin(self, run_id: str) -> ActiveRun:
        """Return the run of a fresh id: nothing can be stored under it yet."""
        run = self._open[run_id] = self._alive[run_id] = ActiveRun(run_id)
        run.loaded = True
        return run

    async def refold(self, run: ActiveRun) -> list[Event]:
        """Fold what others appended since, and return those events."""
        events = await self._read(run.fold.run_id, run.fold.seq + 1)
        for event in events:
            run.fold.fold(event)
        return events

    async def catch_up(self, run: ActiveRun, seq: int) -> None:
        """Fold what others appended up to the event `seq`, which has been delivered here."""
        if seq > run.fold.seq:
            async with run.lock:
                if seq > run.fold.seq:
                    await self.refold(run)
            self.settle(run)

    def settle(self, run: ActiveRun) -> None:
        """Put the run where it belongs after a change: open runs stay, others may be let go."""
        run_id = run.fold.run_id
        if self._alive.get(run_id) is not run:
            return  # forgotten meanwhile
        if run.fold.is_open:
            self._other.pop(run_id, None)
            self._open[run_id] = run
            return
        self._open.pop(run_id, None)
        self._other[run_id] = run
        self._other.move_to_end(run_id)
        while len(self._other) > KEPT:
            oldest = next(iter(self._other))
            if self._other[oldest].busy and len(self._other) < _MOST:
                self._other.move_to_end(oldest)
                break
            del self._other[oldest]

    def forget(self, run_id: str) -> None:
        """Let a run go: its log has changed beneath it. What waited to be published is dropped (ERA-05)."""
        run = self._alive.pop(run_id, None)
        if run is not None:
            run.outbox.clear()
        self._open.pop(run_id, None)
        self._other.pop(run_id, None)

    def clear(self) -> None:
        """Let all runs go; their locks and timers belong to an event loop that is gone."""
        self._open.clear()
        self._other.clear()
        self._alive.clear()

    def open_runs(self) -> list[ActiveRun]:
        """Return the open runs this process holds."""
        return list(self._open.values())
