"""From a ready event to the log and on to the bus, in the order of the log (ENG-22, ENG-31, ENG-33).

An append without an answer (an outage that outlasted the rules, a cancelled caller) leaves its event *unsure*: the log
may hold it. Whoever next meets it there, by appending its id again or by reading on, delivers it; until then nothing
here says that it happened (ENG-34).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from tracehold.core.errors import ConcurrencyError, StoreUnavailable, TenantMismatch
from tracehold.core.retry import RetryPolicy
from tracehold.engine.background import Background
from tracehold.engine.log import Log
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.events.bus import EventBus
from tracehold.events.event import Event
from tracehold.events.store import ANY_SEQ
from tracehold.events.subscription import current_delivery

_log = logging.getLogger(__name__)

_PATIENT: Final = RetryPolicy.forever()

CROWDED: Final = 1024
"""Events of one run that may wait to be published before those who emit more of them wait as well."""


class Appender:
    """Appends under a run's lock, publishes outside of it.

    Args:
        log: the way to the store.
        runs: the runs this process works on.
        bus: the bus.
        background: runs what must outlive its caller.
    """

    def __init__(self, log: Log, runs: Runs, bus: EventBus, background: Background) -> None:
        self._log = log
        self._runs = runs
        self._bus = bus
        self._background = background

    async def append_start(self, run: ActiveRun, event: Event) -> None:
        """Append a started event, unless the run exists: here, elsewhere, or by an attempt whose answer was lost.

        Raises:
            ValueError: the stream holds something else under the id of its start.
        """
        try:
            async with run.lock:
                while run.fold.algo is None:
                    ready = await self._log.ready(event, run.fold)
                    try:
                        stored, _ = await self._attempt(run, ready, run.fold.seq, None)
                    except ConcurrencyError:
                        await self._read_on(run, ready)
                        continue
                    run.fold.fold(stored)
                    if run.fold.algo is None:
                        raise ValueError(f"stream {event.stream} holds another event under the id {event.id}")
                    run.settle_doubt(stored.id)
                    run.outbox.append(stored)
        finally:
            self._runs.settle(run)

    async def append(self, run: ActiveRun, ready: Event, retry: RetryPolicy | None) -> Event:
        """Append an event, and put it into the outbox unless it was there before (ENG-33)."""
        async with run.lock:
            if run.fold.algo is not None and ready.tenant != run.fold.tenant:
                ready = _of_tenant(ready, run)  # the run was started since the event was made ready
            stored, retried = await self._attempt(run, ready, ANY_SEQ, retry)
            if stored.seq > run.fold.seq + 1:
                try:
                    await self._read_on(run, None, before=stored.seq)
                except (StoreUnavailable, asyncio.CancelledError):
                    run.doubt(stored)
                    raise
            run.fold.fold(stored)
            unsure = run.settle_doubt(stored.id)
            if stored.dup and (retried or unsure):
                stored = stored.with_(dup=False)  # an earlier attempt had stored it, and nobody has delivered it
            if not stored.dup:
                run.outbox.append(stored)
        return stored

    async def append_completion(self, run: ActiveRun, ready: Event, retry: RetryPolicy | None) -> Event | None:
        """Append a completion unless the run has one; two writers cannot both succeed (ENG-31)."""
        async with run.lock:
            while run.fold.completed is None:
                try:
                    stored, _ = await self._attempt(run, ready, run.fold.seq, retry)
                except ConcurrencyError:
                    ours = await self._read_on(run, ready)
                    if ours is not None:
                        return ours
                    continue
                run.fold.fold(stored)
                run.settle_doubt(stored.id)
                if not stored.dup:
                    run.outbox.append(stored)
                return stored
        return None

    async def _attempt(
        self, run: ActiveRun, ready: Event, expected_seq: int, retry: RetryPolicy | None
    ) -> tuple[Event, bool]:
        try:
            return await self._log.append(ready, expected_seq, retry)
        except (StoreUnavailable, asyncio.CancelledError):
            run.doubt(ready)
            raise

    async def _read_on(self, run: ActiveRun, ready: Event | None, before: int | None = None) -> Event | None:
        """Fold what is new in the log; deliver what was unsure; return `ready` if an unseen attempt had stored it.

        Args:
            run: whose log.
            ready: what is to be stored. An event of its id is another writer's unless its time is the same, or
                an earlier attempt of ours had no answer: to deliver twice is harmless, never to deliver is not.
            before: number of an event that the caller takes care of.
        """
        mine: Event | None = None
        for event in await self._runs.refold(run):
            doubted = event.seq != before and run.settle_doubt(event.id)
            if ready is not None and event.id == ready.id:
                if doubted or event.time == ready.time:
                    mine = event
                    run.outbox.append(event)
            elif doubted:
                run.outbox.append(event)
                run.owed.append(event)
        return mine

    async def publish(self, run: ActiveRun) -> None:
        """Publish what waits, by rising number (ENG-22).

        Whoever publishes already does it for all: a handler that emits while its own queue is full must not wait for
        itself. Callers outside of handlers wait while too much waits already (BUS-07). A bus that fails is asked again
        in the background: the events are in the log, so that the caller must not be told that they failed.
        """
        if run.publishing:
            await self._room(run)
            return
        run.publishing = True
        handed_over = False
        try:
            await self._empty(run)
        except Exception as error:  # noqa: BLE001 - whatever a bus of another kind raises
            _log.warning(
                "the bus refused an event of run %s with %s; it is asked again", run.fold.run_id, type(error).__name__
            )
            handed_over = True
            self._background.carry_on(self._publish_later(run))
        finally:
            run.publishing = handed_over
            _let_in(run)
            self._runs.settle(run)

    async def _publish_later(self, run: ActiveRun) -> None:
        failures = 1
        try:
            while run.outbox and not self._background.closing:
                await asyncio.sleep(_PATIENT.delay_s(failures))
                try:
                    await self._empty(run)
                except Exception:  # noqa: BLE001 - as above; said once
                    failures += 1
            if run.outbox:
                _log.warning("events of run %s were not delivered; recover() continues there", run.fold.run_id)
        finally:
            run.publishing = False
            _let_in(run)
            self._runs.settle(run)

    async def _empty(self, run: ActiveRun) -> None:
        while run.outbox:
            event = run.outbox.popleft()
            try:
                await self._bus.publish(event)
            except BaseException:
                run.outbox.appendleft(event)
                raise
            _let_in(run)

    async def _room(self, run: ActiveRun) -> None:
        delivery = current_delivery.get()
        if delivery is not None and delivery.active:
            return
        while run.publishing and len(run.outbox) >= CROWDED:
            run.room = run.room or asyncio.Event()
            await run.room.wait()


def owed(run: ActiveRun) -> Sequence[Event]:
    """Take the events whose consequences are still to be drawn."""
    events, run.owed = run.owed, []
    return events


def _let_in(run: ActiveRun) -> None:
    if run.room is not None and (not run.publishing or len(run.outbox) < CROWDED):
        run.room.set()
        run.room = None


def _of_tenant(ready: Event, run: ActiveRun) -> Event:
    if ready.tenant is not None:
        raise TenantMismatch(f"an event for run {run.fold.run_id} names another tenant than the run's")
    return ready.with_(tenant=run.fold.tenant)
