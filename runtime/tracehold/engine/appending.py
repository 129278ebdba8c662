"""From a ready event to the log and on to the bus, in the order of the log (ENG-22, ENG-31, ENG-33).

An append without an answer (an outage that outlasted the rules, a cancelled caller) leaves its event *unsure*: the log
may hold it. Whoever next meets it there, by appending its id again or by reading on, delivers it; until then nothing
here says that it happened (ENG-34).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Sequence
from typing import Final

from tracehold.core.errors import ConcurrencyError, SchemaError
from tracehold.core.retry import RetryPolicy
from tracehold.engine.background import Background
from tracehold.engine.event_types import RUN_COMPLETED
from tracehold.engine.log import Log, of_run
from tracehold.engine.reactions import up_to_the_end
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.events.bus import EventBus
from tracehold.events.event import Event
from tracehold.events.store import ANY_SEQ
from tracehold.events.subscription import may_wait

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
                        await self._store(run, [ready], run.fold.seq, None)
                    except ConcurrencyError:
                        await self._read_on(run, [ready])
                        continue
                    if run.fold.algo is None:
                        raise ValueError(f"stream {event.stream} holds another event under the id {event.id}")
        finally:
            self._runs.settle(run)

    async def append(self, run: ActiveRun, ready: Event, retry: RetryPolicy | None) -> Event:
        """Append an event, and put it into the outbox unless it was there before (ENG-33).

        To a stream that is no run as far as this process knows, nothing is appended unread: a start that is in it
        already decides whose the event is (DEC-06).

        Raises:
            TenantMismatch: it names another tenant than the run's; it is not stored.
        """
        async with run.lock:
            while True:
                ready = of_run(ready, run.fold)
                expected_seq = run.fold.seq if run.fold.algo is None else ANY_SEQ
                try:
                    return (await self._store(run, [ready], expected_seq, retry))[0]
                except ConcurrencyError:
                    for ours in await self._read_on(run, [ready]):
                        return ours

    async def append_completion(self, run: ActiveRun, ready: Event, retry: RetryPolicy | None) -> Event | None:
        """Append a completion unless the run has one; two writers cannot both succeed (ENG-31)."""
        async with run.lock:
            while run.fold.completed is None:
                try:
                    return (await self._store(run, [ready], run.fold.seq, retry))[0]
                except ConcurrencyError:
                    for ours in await self._read_on(run, [ready]):
                        return ours
        return None

    async def append_together(self, run: ActiveRun, ready: Sequence[Event]) -> list[Event]:
        """Append the events of one reaction of an open run in one go, up to its completion, and return them.

        Those that it does not return are to be appended one by one.

        Raises:
            TenantMismatch: one names another tenant than the run's; none is stored.
            StoreUnavailable: an outage outlasted the rules; the events are unsure.
        """
        async with run.lock:
            while run.fold.is_open:
                group = up_to_the_end([of_run(event, run.fold) for event in ready], run.fold)
                if len(group) < 2:  # noqa: PLR2004 - one alone is stored whole anyway
                    break
                # Two writers cannot both complete a run (ENG-31).
                expected_seq = run.fold.seq if group[-1].type == RUN_COMPLETED else ANY_SEQ
                try:
                    return await self._store(run, group, expected_seq, None)
                except ConcurrencyError:
                    run.owed += await self._read_on(run, group)
        return []

    async def _store(
        self, run: ActiveRun, ready: Sequence[Event], expected_seq: int, retry: RetryPolicy | None
    ) -> list[Event]:
        """Append under the run's lock and fold; what was not in the log before goes into the outbox."""
        try:
            stored, retried = await self._log.append_all(ready, expected_seq, retry)
        except (ConcurrencyError, SchemaError):
            raise
        except BaseException:  # whatever it is: it does not prove that nothing was stored
            run.doubt(*ready)
            raise
        if len(stored) == 1 and stored[0].seq <= run.fold.seq + 1:
            return [self._take_in(run, stored[0], retried=retried)]
        by_seq = {event.seq: event for event in reversed(stored)}  # of one id twice, the first
        unread = [seq for seq in by_seq if seq > run.fold.seq]
        if unread and max(unread) > run.fold.seq + len(unread):
            await self._read_on(run, stored, besides=by_seq)
        taken = {seq: self._take_in(run, by_seq[seq], retried=retried) for seq in sorted(by_seq)}
        # What was read on may be behind some of these (ENG-22).
        waiting = sorted(run.outbox, key=lambda event: event.seq)
        run.outbox.clear()
        run.outbox.extend(waiting)
        return [taken[event.seq] for event in stored]

    def _take_in(self, run: ActiveRun, event: Event, *, retried: bool) -> Event:
        run.fold.fold(event)
        unsure = run.settle_doubt(event.id)
        if event.dup and (retried or unsure):
            event = event.with_(dup=False)  # an earlier attempt had stored it, and nobody has delivered it
        if not event.dup:
            run.outbox.append(event)
        return event

    async def _read_on(self, run: ActiveRun, ready: Sequence[Event], besides: Container[int] = ()) -> list[Event]:
        """Fold what is new in the log; deliver what was unsure; return those of `ready` that an unseen attempt stored.

        Args:
            run: whose log.
            ready: what is to be stored. An event of its id is another writer's unless its time is the same, or
                an earlier attempt of ours had no answer: to deliver twice is harmless, never to deliver is not.
            besides: numbers of events that the caller takes care of.
        """
        times = {event.id: event.time for event in ready}
        ours: list[Event] = []
        try:
            unread = await self._runs.refold(run)
        except BaseException:
            run.doubt(*ready)  # one of them may be in what could not be read
            raise
        for event in unread:
            if event.seq in besides:
                continue
            doubted = run.settle_doubt(event.id)
            if event.id in times:
                if doubted or event.time == times[event.id]:
                    ours.append(event)
                    run.outbox.append(event)
            elif doubted:
                run.outbox.append(event)
                run.owed.append(event)
        return ours

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
        while may_wait() and run.publishing and len(run.outbox) >= CROWDED:
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
