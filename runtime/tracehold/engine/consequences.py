"""What the engine itself does about an event: cancellations, budgets, deadlines, families (ENG-11, ENG-12, BUD)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, Final, ParamSpec

from tracehold.core.outcome import OutcomeKind
from tracehold.engine.budget import SPENDING, Budget, Ledger
from tracehold.engine.event_types import (
    BUDGET_EXCEEDED,
    CHILD_COMPLETED,
    CHILD_STARTED,
    RUN_CANCEL,
    RUN_COMPLETED,
    TIMER_FIRED,
    budget_id,
    child_completed_id,
    child_started_id,
    deadline_id,
)
from tracehold.engine.ports import EngineOps
from tracehold.engine.run_fold import RunFold
from tracehold.engine.runs import ActiveRun
from tracehold.events.event import Event
from tracehold.events.subscription import unhindered

P = ParamSpec("P")

PARENT_FINISHED: Final = "parent finished"
PARENT_BUDGET: Final = "parent budget"
_AGAIN_S: Final = 5.0
"""Seconds until a deadline that an outage kept from ending its run is tried again."""

_log = logging.getLogger(__name__)


def _at_once(draw: Callable[P, Awaitable[None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """Let what the engine itself does wait for no queue: a crowded one must not switch limits off (BUS-07)."""

    @wraps(draw)
    async def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        with unhindered():
            await draw(*args, **kwargs)

    return drawn


HAS_CONSEQUENCES: Final = SPENDING | {RUN_COMPLETED, RUN_CANCEL, CHILD_STARTED, CHILD_COMPLETED}
"""The types of which `Consequences.of` does anything; most events are of none of them."""


class Consequences:
    """Ends runs that are cancelled, over budget, overdue or orphaned, and tells families.

    Args:
        engine: emits and completes.
    """

    def __init__(self, engine: EngineOps) -> None:
        self._engine = engine

    @_at_once
    async def announce_start(self, mother: ActiveRun, run: ActiveRun) -> None:
        """Tell a parent of its new child; one that has ended takes it with it (ENG-11, ENG-12)."""
        if not run.fold.is_open:
            if run.fold.completed is not None:
                await self._announce(run.fold, run.fold.completed)
        elif mother.fold.completed is not None:
            await self._cancel_child(mother.fold.run_id, run.fold.run_id)
        else:
            await self._tell_start(mother.fold, run.fold)

    @_at_once
    async def of(self, run: ActiveRun, stored: Event) -> None:
        """What the engine itself does about an event: end runs that are cancelled, over budget or orphaned."""
        if stored.type == RUN_COMPLETED:
            await self._after_completion(run, stored)
        elif stored.type == CHILD_STARTED and run.fold.completed is not None:
            # The parent ended in another process, which did not know of this child yet.
            await self._cancel_child(run.fold.run_id, stored.data.get("child_run_id"))
        elif stored.type == RUN_CANCEL and run.fold.is_open:
            await self._engine.complete(run.fold.run_id, OutcomeKind.CANCELLED, None, run.fold.cancel_reason)
        elif stored.type in SPENDING or stored.type == CHILD_COMPLETED:
            await self._hold_to_budget(run)

    @_at_once
    async def settle(self, run: ActiveRun) -> None:
        """End an open run whose log says that it is over, or that has spent too much: a crash came between (BUD-06)."""
        fold = run.fold
        if not fold.is_open:
            return
        if fold.cancel_reason is not None:
            await self._engine.complete(fold.run_id, OutcomeKind.CANCELLED, None, fold.cancel_reason)
        elif fold.budget_reason is not None:
            await self._engine.complete(fold.run_id, OutcomeKind.BUDGET_EXCEEDED, None, fold.budget_reason)
        else:
            await self._hold_to_budget(run)

    async def _after_completion(self, run: ActiveRun, stored: Event) -> None:
        """Cancel children, tell the parent. What fails here, `sweep` repairs (RCV-06)."""
        stop_deadline(run)
        own = run.fold.run_id
        steps = [partial(self._cancel_child, own, child) for child in run.fold.children]
        for step in (*steps, partial(self.announce_completion, run.fold, stored)):
            try:
                await step()
            except Exception as error:  # noqa: BLE001 - the run has ended, and one relative must not stop the others
                _log.warning(
                    "run %s has ended, but one of its family could not be told (%s); the next sweep will",
                    own,
                    type(error).__name__,
                )

    async def _cancel_child(self, parent: str, child: Any) -> None:
        """Cancel an open child; a run that only claims to be one is nobody's to end."""
        if not isinstance(child, str):
            return
        run = await self._engine.runs.get(child)
        if run.fold.is_open and run.fold.parent == parent:
            await self._engine.complete(child, OutcomeKind.CANCELLED, None, PARENT_FINISHED)

    @_at_once
    async def announce_completion(self, run: RunFold, completed: Event) -> None:
        """Tell a finished run's parent its result and spend, once (ENG-11)."""
        await self._announce(run, run.completed or completed.data)

    async def _announce(self, run: RunFold, outcome: Mapping[str, Any]) -> None:
        if run.parent is None:
            return
        mother = await self._engine.runs.get(run.parent)
        if not await self._reread(mother) or mother.fold.algo is None or mother.fold.erased:
            return  # gone or erased, perhaps by another process: what is told to it would come back to stay
        if run.run_id not in mother.fold.children:
            await self._tell_start(mother.fold, run)  # a crash may have come between; told already, it is a duplicate
        data = {
            "child_run_id": run.run_id,
            "tag": run.tag,
            "outcome": {key: outcome.get(key) for key in ("kind", "value", "reason")},
            "ledger": run.ledger.model_dump(),
        }
        await self._engine.emit(engine_event(mother.fold, child_completed_id(run.run_id), CHILD_COMPLETED, data))

    async def _tell_start(self, mother: RunFold, run: RunFold) -> None:
        data = {"child_run_id": run.run_id, "tag": run.tag}
        await self._engine.emit(engine_event(mother, child_started_id(run.run_id), CHILD_STARTED, data))

    async def _reread(self, run: ActiveRun) -> bool:
        """Fold what other processes have appended; return whether the run is still there."""
        fold = run.fold
        if fold.seq < 0:
            return False
        async with run.lock:
            events = await self._engine.stored(fold.run_id, fold.seq)
            if not run.unsure:  # else whoever appends next must find those, to deliver them
                for event in events:
                    fold.fold(event)
        self._engine.runs.settle(run)
        return bool(events)

    async def _hold_to_budget(self, run: ActiveRun) -> None:
        fold = run.fold
        if not fold.is_open:
            return
        reason = fold.budget.exceeded_by(fold.ledger) or await self._over_parent(fold)
        if reason is None:
            return
        await self._engine.emit(
            engine_event(fold, budget_id(fold.run_id), BUDGET_EXCEEDED, {"reason": reason}, source="aaa")
        )
        await self._engine.complete(fold.run_id, OutcomeKind.BUDGET_EXCEEDED, None, reason)

    async def _over_parent(self, fold: RunFold) -> str | None:
        """Whether the family's spend is beyond what an ancestor may spend (DEC-07).

        What other processes have spent counts as far as this one has read it: at the latest when their part of the
        family completes, or at the next sweep.
        """
        parent, seen = fold.parent, {fold.run_id}
        while parent is not None and parent not in seen:
            seen.add(parent)
            mother = (await self._engine.runs.get(parent)).fold
            if mother.budget.limits_spend and mother.budget.exceeded_by(await self._family_spend(mother)) is not None:
                return PARENT_BUDGET
            parent = mother.parent
        return None

    async def _family_spend(self, mother: RunFold) -> Ledger:
        """What a run and its open descendants have spent together."""
        runs = self._engine.runs
        total, seen = mother.ledger, {mother.run_id}
        waiting = [(mother.run_id, child) for child in mother.children]
        while waiting:
            parent, child = waiting.pop()
            held = runs.peek(child)
            fold = (held if held is not None and held.fold.algo is not None else await runs.get(child)).fold
            if fold.parent != parent or child in seen:
                continue
            seen.add(child)
            total = total.plus(fold.ledger.steps, fold.ledger.tokens, fold.ledger.cost)
            waiting += [(child, one) for one in fold.children]
        return total

    @_at_once
    async def repair_family(self, run: ActiveRun, mother: ActiveRun) -> None:
        """Tell an open parent of an open child it never heard of, and hold the child to its budget."""
        await self._reread(mother)
        await self._reread(run)
        if not run.fold.is_open:
            return
        if run.fold.run_id not in mother.fold.children and mother.fold.is_open:
            await self._tell_start(mother.fold, run.fold)
        await self._hold_to_budget(run)

    def arm_deadline(self, run: ActiveRun) -> None:
        """Set the timer of a run's deadline; wall time counts from its start, across restarts (BUD-05, BUD-06)."""
        fold = run.fold
        left = seconds_left(fold.budget, fold.started_at)
        if left is None or not fold.is_open or run.deadline is not None:
            return
        self._arm(run, left)

    def _arm(self, run: ActiveRun, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        run.deadline = loop.call_later(max(0.0, seconds), lambda: self._engine.spawn(self._at_deadline(run)))

    async def _at_deadline(self, run: ActiveRun) -> None:
        try:
            await self.expire(run.fold.run_id)
        except Exception as error:  # noqa: BLE001 - a deadline that an outage meets is still one
            _log.warning(
                "the deadline of run %s has passed, but it could not be ended (%s); trying again in %g s",
                run.fold.run_id,
                type(error).__name__,
                _AGAIN_S,
            )
            if run.fold.is_open:
                self._arm(run, _AGAIN_S)

    @_at_once
    async def expire(self, run_id: str) -> None:
        """End a run whose deadline has passed: a timer event, then the timeout (BUD-05)."""
        run = await self._engine.runs.get(run_id)
        await self._reread(run)  # another process may have ended it long ago
        if not run.fold.is_open:
            return
        event = engine_event(run.fold, deadline_id(run_id), TIMER_FIRED, {"kind": "deadline"})
        await self._engine.emit(event)
        reason = f"deadline of {run.fold.budget.deadline_s:g} s has passed"
        await self._engine.complete(run_id, OutcomeKind.TIMEOUT, None, reason)


def seconds_left(budget: Budget, started_at: datetime | None) -> float | None:
    """Return the seconds until a deadline, negative once it has passed; `None` when there is none (BUD-05)."""
    if budget.deadline_s is None or started_at is None:
        return None
    # Not as a date: a deadline of a million years is a number of seconds, and no date.
    return budget.deadline_s - (datetime.now(UTC) - started_at).total_seconds()


def engine_event(run: RunFold, event_id: str, kind: str, data: dict[str, Any], *, source: str = "engine") -> Event:
    """Return an event that the engine itself writes to a run's stream."""
    return Event(
        id=event_id,
        type=kind,
        source=source,
        stream=run.run_id,
        run_id=run.run_id,
        tenant=run.tenant,
        data=data,
        meta=run.meta,
    )


def stop_deadline(run: ActiveRun) -> None:
    """Stop the timer of a run's deadline."""
    if run.deadline is not None:
        run.deadline.cancel()
        run.deadline = None
