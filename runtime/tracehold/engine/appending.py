"""From a ready event to the log and on to the bus, in the order of the log (ENG-22, ENG-31, ENG-33)."""

from __future__ import annotations

from tracehold.core.errors import ConcurrencyError
from tracehold.core.retry import RetryPolicy
from tracehold.engine.log import Log
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.events.bus import EventBus
from tracehold.events.event import Event


class Appender:
    """Appends under a run's lock, publishes outside of it.

    Args:
        log: the way to the store.
        runs: the runs this process works on.
        bus: the bus.
    """

    def __init__(self, log: Log, runs: Runs, bus: EventBus) -> None:
        self._log = log
        self._runs = runs
        self._bus = bus

    async def append_start(self, run: ActiveRun, event: Event) -> None:
        """Append a started event, unless the run exists: here, elsewhere, or by an attempt whose answer was lost."""
        try:
            async with run.lock:
                if run.fold.algo is None:
                    ready = await self._log.ready(event, run.fold)
                    try:
                        stored, _ = await self._log.append(ready, -1)
                    except ConcurrencyError:
                        await self._runs.refold(run)
                    else:
                        run.fold.fold(stored)
                        run.outbox.append(stored)
        finally:
            self._runs.settle(run)

    async def append(self, run: ActiveRun, ready: Event, retry: RetryPolicy | None) -> Event:
        async with run.lock:
            stored, retried = await self._log.append(ready, policy=retry)
            await self._take_in(run, stored)
            if not stored.dup:
                run.outbox.append(stored)
            elif retried:
                stored = stored.with_(dup=False)  # the first attempt had stored it, and nobody delivered it (ENG-33)
                run.outbox.append(stored)
        return stored

    async def append_completion(self, run: ActiveRun, ready: Event, retry: RetryPolicy | None) -> Event | None:
        """Append a completion unless the run has one; two writers cannot both succeed (ENG-31)."""
        async with run.lock:
            while run.fold.completed is None:
                try:
                    stored, _ = await self._log.append(ready, run.fold.seq, retry)
                except ConcurrencyError:
                    ours = [event for event in await self._runs.refold(run) if event.id == ready.id]
                    if not ours:
                        continue
                    stored = ours[0]  # an attempt whose answer was lost
                run.fold.fold(stored)
                run.outbox.append(stored)
                return stored
        return None

    async def _take_in(self, run: ActiveRun, stored: Event) -> None:
        """Fold a stored event, and first what another process stored before it."""
        if stored.seq > run.fold.seq + 1:
            await self._runs.refold(run)
        run.fold.fold(stored)

    async def publish(self, run: ActiveRun) -> None:
        """Publish what waits, by rising number (ENG-22).

        Whoever publishes already does it for all: a handler that emits while its own queue is full must not wait for
        itself (BUS-07).
        """
        if run.publishing:
            return
        run.publishing = True
        try:
            while run.outbox:
                await self._bus.publish(run.outbox[0])
                run.outbox.popleft()
        finally:
            run.publishing = False
            self._runs.settle(run)
