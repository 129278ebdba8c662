"""Continuing after a crash, and the maintenance any process may do at any time (RCV)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tracehold.core.errors import StoreUnavailable
from tracehold.core.outcome import OutcomeKind
from tracehold.engine.algorithm import Algorithm
from tracehold.engine.consequences import PARENT_FINISHED, Consequences, seconds_left
from tracehold.engine.copies import finish_erasures
from tracehold.engine.event_types import CHILD_COMPLETED, child_completed_id
from tracehold.engine.handle import RunHandle
from tracehold.engine.ports import EngineOps
from tracehold.engine.run_fold import read_budget
from tracehold.engine.runs import ActiveRun
from tracehold.events.event import Event
from tracehold.events.store import RunInfo

_log = logging.getLogger(__name__)

_PROGRESS: Final = (".started", ".delta", ".progress")
"""Endings of types that only show that something goes on: whoever caused them has not answered yet (RCV-03)."""

_OUTAGE: Final = 3
"""Runs in a row that the store cannot give: that is an outage, and no unreadable run."""


@dataclass
class RecoveryReport:
    """What a recovery or a sweep did (RCV-05); run ids.

    Attributes:
        recovered: runs continued.
        unknown_algo: open runs whose algorithm was not given.
        orphans_cancelled: children whose parent had ended or gone.
        timed_out: runs past their deadline.
        announced: finished children whose parent was told.
        erased: runs erased by a retention policy.
        redelivered: how many events were delivered again.
        unreadable: runs whose log could not be read; the others were served (RCV-09).
    """

    recovered: list[str] = field(default_factory=list)
    unknown_algo: list[str] = field(default_factory=list)
    orphans_cancelled: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)
    redelivered: int = 0
    unreadable: list[str] = field(default_factory=list)


async def recover(engine: EngineOps, algos: Sequence[Algorithm]) -> dict[str, RunHandle]:
    """Continue every open run whose algorithm is given (RCV-01 to RCV-05).

    For a start after a crash. While another engine works on the same runs, both handle what is delivered again; the
    log gains no second copy (RCV-04), but a handler's own effects may happen twice.

    Raises:
        ValueError: two different algorithms of one name (ALG-05).
        StoreUnavailable: an outage, not one unreadable run.
    """
    by_name: dict[str, Algorithm] = {}
    for algo in algos:
        if by_name.setdefault(algo.name, algo) is not algo:
            raise ValueError(f"two different algorithms are called {algo.name}: names must be unique")
    for algo in by_name.values():
        engine.register(algo)
    work = _Pass(engine)
    await work.sweep()
    handles: dict[str, RunHandle] = {}
    for info in await engine.retry(partial(engine.store.run_index, open_only=True), "listing open runs"):
        if await work.attempt(info.stream, work.carry_on(info, by_name)):
            handles[info.stream] = engine.handle(info.stream)
    work.report.recovered = list(handles)
    engine.last_recovery = work.report
    return handles


async def sweep(engine: EngineOps) -> RecoveryReport:
    """End overdue and orphaned runs, tell parents what they missed, apply retention (RCV-06, RCV-07, RET-07).

    Raises:
        StoreUnavailable: an outage, not one unreadable run.
    """
    work = _Pass(engine)
    await work.sweep()
    return work.report


class _Pass:
    """One pass over the runs of a store."""

    def __init__(self, engine: EngineOps) -> None:
        self.report = RecoveryReport()
        self._engine = engine
        self._consequences = Consequences(engine)
        self._heard: dict[str, set[Any]] = {}
        self._outages = 0

    async def attempt(self, run_id: str, work: Awaitable[bool]) -> bool:
        """Await one run's work; one that cannot be read does not stop the others (RCV-09)."""
        try:
            done = await work
        except Exception as error:
            self._outages = self._outages + 1 if isinstance(error, StoreUnavailable) else 0
            if self._outages >= _OUTAGE:
                raise
            _log.warning("run %s was passed over: %s", run_id, type(error).__name__)
            if run_id not in self.report.unreadable:
                self.report.unreadable.append(run_id)
            return False
        self._outages = 0
        return done

    async def sweep(self) -> None:
        """Look after every run, then apply retention."""
        engine = self._engine
        index: list[RunInfo] = await engine.retry(engine.store.run_index, "listing runs")
        ended = {info.stream: info.completed is not None for info in index}
        for info in index:
            if _needs_care(info):
                await self.attempt(info.stream, self._look_after(info, ended))
        await finish_erasures(engine)  # DEC-14
        if engine.retention:
            self.report.erased = (await engine.apply_retention()).streams

    async def _look_after(self, info: RunInfo, ended: dict[str, bool]) -> bool:
        run_id, parent = info.stream, info.started.data.get("parent")
        parent_ended = parent is not None and ended.get(parent, True)
        if info.completed is not None:
            if parent is not None and not parent_ended and run_id not in await self._heard_by(parent):
                await self._consequences.announce_completion(await self._engine.fold_of(run_id), info.completed)
                self.report.announced.append(run_id)
        elif _overdue(info.started):
            await self._engine.expire(run_id)
            self.report.timed_out.append(run_id)
            ended[run_id] = True  # its children come later in the list, and go with it
        elif parent_ended:
            await self._engine.complete(run_id, OutcomeKind.CANCELLED, None, PARENT_FINISHED)
            self.report.orphans_cancelled.append(run_id)
            ended[run_id] = True
        elif parent is not None:
            runs = self._engine.runs
            await self._consequences.repair_family(await runs.get(run_id), await runs.get(parent))
        return True

    async def _heard_by(self, parent: str) -> set[Any]:
        """Return the children that a parent heard the end of; its log is read once a pass."""
        if parent not in self._heard:
            told = await self._engine.stored(parent)
            self._heard[parent] = {
                child
                for event in told
                if event.type == CHILD_COMPLETED
                and isinstance(child := event.data.get("child_run_id"), str)
                and event.id == child_completed_id(child)
            }
        return self._heard[parent]

    async def carry_on(self, info: RunInfo, by_name: Mapping[str, Algorithm]) -> bool:
        """Adopt an open run, arm its deadline, and deliver what nobody reacted to; return whether it is ours."""
        if not info.started.data:
            await self._engine.stored(info.stream)  # damaged, or erased: the first of the two raises
        if info.started.data.get("algo") not in by_name:
            self.report.unknown_algo.append(info.stream)
            return False
        engine = self._engine
        run = await engine.runs.get(info.stream)
        events = await engine.stored(info.stream)
        for event in events:
            run.fold.fold(event)  # what this engine looked up earlier, another may have continued since
        engine.runs.settle(run)
        await self._consequences.settle(run)
        if run.fold.is_open:
            engine.arm_deadline(run)
            waiting = unanswered(events)
            self.report.redelivered += len(waiting)
            await _deliver(engine, run, waiting)
        return True


async def _deliver(engine: EngineOps, run: ActiveRun, waiting: Sequence[Event]) -> None:
    """Publish by way of the run's outbox: what is stored meanwhile comes behind what waited (ENG-22)."""
    queued = {event.seq: event for event in (*waiting, *run.outbox)}
    run.outbox.clear()
    run.outbox.extend(queued[seq] for seq in sorted(queued))
    await engine.publish(run)


def unanswered(events: Sequence[Event]) -> list[Event]:
    """Return the events of a log that nobody reacted to, in order (RCV-03).

    An event is answered once another one names it as its cause; what a reaction returns is stored together, so that
    half an answer is none. A request is not answered by events that only show progress. A handler that returned
    nothing left no trace, and is asked again after each recovery; what it repeats is absorbed by deterministic ids
    (RCV-04). Of several handlers that react to one event, the first to answer counts for all.
    """
    answered = {
        event.causation_id for event in events if event.causation_id is not None and not event.type.endswith(_PROGRESS)
    }
    return [event for event in events if event.id not in answered]


def _needs_care(info: RunInfo) -> bool:
    """Whether a pass could have anything to do for a run; most have neither family nor deadline."""
    return info.started.data.get("parent") is not None or (info.completed is None and bool(info.started.data))


def _overdue(started: Event) -> bool:
    left = seconds_left(read_budget(started.data.get("budget")), started.time)
    return left is not None and left <= 0
