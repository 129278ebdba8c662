"""Continuing after a crash, and the maintenance any process may do at any time (RCV)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tracehold.core.outcome import OutcomeKind
from tracehold.engine.algorithm import Algorithm
from tracehold.engine.event_types import CHILD_COMPLETED
from tracehold.engine.handle import RunHandle
from tracehold.engine.ports import EngineOps
from tracehold.engine.run_fold import read_budget
from tracehold.events.event import Event
from tracehold.events.store import RunInfo

_log = logging.getLogger(__name__)

_PROGRESS: Final = (".started", ".delta", ".progress")
"""Endings of types that only show that something goes on: whoever caused them has not answered yet (RCV-03)."""


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

    Raises:
        ValueError: two different algorithms of one name (ALG-05).
    """
    by_name: dict[str, Algorithm] = {}
    for algo in algos:
        if by_name.setdefault(algo.name, algo) is not algo:
            raise ValueError(f"two different algorithms are called {algo.name}: names must be unique")
    for algo in by_name.values():
        engine.register(algo)
    report = await sweep(engine)
    handles: dict[str, RunHandle] = {}
    for info in await _index(engine):
        if info.completed is not None:
            continue
        if info.started.data.get("algo") not in by_name:
            report.unknown_algo.append(info.stream)
            continue
        try:
            report.redelivered += await _continue(engine, info.stream)
        except Exception as error:  # noqa: BLE001 - one unreadable run must not stop the others (RCV-09)
            _note_unreadable(report, info.stream, error)
            continue
        report.recovered.append(info.stream)
        handles[info.stream] = engine.handle(info.stream)
    engine.last_recovery = report
    return handles


async def sweep(engine: EngineOps) -> RecoveryReport:
    """End overdue and orphaned runs, tell parents what they missed, apply retention (RCV-06, RCV-07, RET-07)."""
    report = RecoveryReport()
    index = await _index(engine)
    ended = {info.stream for info in index if info.completed is not None}
    known = {info.stream for info in index}
    for info in index:
        try:
            await _look_after(engine, info, known, ended, report)
        except Exception as error:  # noqa: BLE001 - one unreadable run must not stop the others (RCV-09)
            _note_unreadable(report, info.stream, error)
    if engine.retention:
        report.erased = (await engine.apply_retention()).streams
    return report


async def _look_after(
    engine: EngineOps, info: RunInfo, known: set[str], ended: set[str], report: RecoveryReport
) -> None:
    parent = info.started.data.get("parent")
    if info.completed is not None:
        if parent in known and parent not in ended and await _unheard(engine, parent, info.stream):
            await engine.announce_completion(await engine.fold_of(info.stream), info.completed)
            report.announced.append(info.stream)
        return
    if _overdue(info.started):
        await engine.expire(info.stream)
        report.timed_out.append(info.stream)
    elif parent is not None and (parent in ended or parent not in known):
        await engine.complete(info.stream, OutcomeKind.CANCELLED, None, "parent finished")
        report.orphans_cancelled.append(info.stream)


async def _unheard(engine: EngineOps, parent: str, child: str) -> bool:
    """Whether an open parent never heard of a finished child."""
    return not any(
        event.type == CHILD_COMPLETED and event.data.get("child_run_id") == child
        for event in await engine.stored(parent)
    )


async def _continue(engine: EngineOps, run_id: str) -> int:
    """Adopt a run, arm its deadline and deliver what nobody reacted to; return how many events."""
    run = await engine.runs.get(run_id)
    engine.arm_deadline(run)
    events = await engine.stored(run_id)
    waiting = unanswered(events)
    for event in waiting:
        await engine.bus.publish(event)
    return len(waiting)


def unanswered(events: Sequence[Event]) -> list[Event]:
    """Return the events of a log that nobody reacted to, in order (RCV-03).

    An event is answered once another one names it as its cause. A request is not answered by events that only show
    progress. What is delivered twice is absorbed by deterministic ids (RCV-04).
    """
    answered = {
        event.causation_id for event in events if event.causation_id is not None and not event.type.endswith(_PROGRESS)
    }
    return [event for event in events if event.id not in answered]


def _overdue(started: Event) -> bool:
    seconds = read_budget(started.data.get("budget")).deadline_s
    return seconds is not None and datetime.now(UTC) >= started.time + timedelta(seconds=seconds)


async def _index(engine: EngineOps) -> list[RunInfo]:
    index: list[RunInfo] = await engine.retry(engine.store.run_index, "listing runs")
    return index


def _note_unreadable(report: RecoveryReport, run_id: str, error: Exception) -> None:
    _log.warning("run %s was passed over: %s", run_id, type(error).__name__)
    report.unreadable.append(run_id)
