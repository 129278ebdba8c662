"""What the engine itself does about an event: cancellations, budgets, deadlines, families (ENG-11, ENG-12, BUD, DEC-07)."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tracehold.core.errors import StoreUnavailable
from tracehold.core.outcome import OutcomeKind
from tracehold.engine.budget import SPENDING, Ledger
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

PARENT_FINISHED: Final = "parent finished"
PARENT_BUDGET: Final = "parent budget"
_log = logging.getLogger(__name__)


class Consequences:
    """Ends runs that are cancelled, over budget, overdue or orphaned, and tells families.

    Args:
        engine: emits and completes.
    """

    def __init__(self, engine: EngineOps) -> None:
        self._engine = engine

    async def announce_start(self, mother: ActiveRun, run: ActiveRun) -> None:
        """Tell a parent of its new child; one that has ended takes it with it (ENG-11, ENG-12)."""
        own = run.fold.run_id
        if mother.fold.completed is not None:
            if run.fold.is_open:
                await self._engine.complete(own, OutcomeKind.CANCELLED, None, PARENT_FINISHED)
            return
        data = {"child_run_id": own, "tag": run.fold.tag}
        await self._engine.emit(engine_event(mother.fold, child_started_id(own), CHILD_STARTED, data))

    async def of(self, run: ActiveRun, stored: Event) -> None:
        """What the engine itself does about an event: end runs that are cancelled, over budget or orphaned."""
        if stored.type == RUN_COMPLETED:
            await self._after_completion(run, stored)
        elif stored.type == RUN_CANCEL and run.fold.is_open:
            reason = stored.data.get("reason")
            await self._engine.complete(run.fold.run_id, OutcomeKind.CANCELLED, None, str(reason or "cancelled"))
        elif stored.type in SPENDING or stored.type == CHILD_COMPLETED:
            await self._hold_to_budget(run)

    async def _after_completion(self, run: ActiveRun, stored: Event) -> None:
        """Cancel children, tell the parent. What an outage prevents here, `sweep` repairs (RCV-06)."""
        stop_deadline(run)
        try:
            for child in list(run.fold.children):
                await self._cancel_child(child)
            await self.announce_completion(run.fold, stored)
        except StoreUnavailable:
            _log.warning("run %s has ended, but its family could not be told; the next sweep will", run.fold.run_id)

    async def _cancel_child(self, child: str) -> None:
        run = await self._engine.runs.get(child)
        if run.fold.is_open:
            await self._engine.complete(child, OutcomeKind.CANCELLED, None, PARENT_FINISHED)

    async def announce_completion(self, run: RunFold, completed: Event) -> None:
        """Tell a finished run's parent its result and spend, once (ENG-11)."""
        if run.parent is None:
            return
        mother = await self._engine.runs.get(run.parent)
        if mother.fold.algo is None:
            return
        outcome = {key: completed.data.get(key) for key in ("kind", "value", "reason")}
        data = {
            "child_run_id": run.run_id,
            "tag": run.tag,
            "outcome": outcome,
            "ledger": run.ledger.model_dump(),
        }
        await self._engine.emit(engine_event(mother.fold, child_completed_id(run.run_id), CHILD_COMPLETED, data))

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
        """Whether the family's spend is beyond what an ancestor may spend (DEC-07)."""
        parent = fold.parent
        while parent is not None:
            mother = (await self._engine.runs.get(parent)).fold
            spent = await self._family_spend(mother)
            if mother.algo is not None and mother.budget.exceeded_by(spent) is not None:
                return PARENT_BUDGET
            parent = mother.parent
        return None

    async def _family_spend(self, fold: RunFold) -> Ledger:
        """What a run and its open children have spent together."""
        total = fold.ledger
        for child in list(fold.children):
            spent = await self._family_spend((await self._engine.runs.get(child)).fold)
            total = total.plus(spent.steps, spent.tokens, spent.cost)
        return total

    def arm_deadline(self, run: ActiveRun) -> None:
        """Set the timer of a run's deadline; wall time counts from its start, across restarts (BUD-05, BUD-06)."""
        fold = run.fold
        if fold.budget.deadline_s is None or fold.started_at is None or not fold.is_open or run.deadline is not None:
            return
        left = (fold.started_at + timedelta(seconds=fold.budget.deadline_s) - datetime.now(UTC)).total_seconds()
        loop = asyncio.get_running_loop()
        run.deadline = loop.call_later(max(0.0, left), lambda: self._engine.spawn(self.expire(fold.run_id)))

    async def expire(self, run_id: str) -> None:
        """End a run whose deadline has passed: a timer event, then the timeout (BUD-05)."""
        run = await self._engine.runs.get(run_id)
        if not run.fold.is_open:
            return
        event = engine_event(run.fold, deadline_id(run_id), TIMER_FIRED, {"kind": "deadline"})
        await self._engine.emit(event)
        reason = f"deadline of {run.fold.budget.deadline_s:g} s has passed"
        await self._engine.complete(run_id, OutcomeKind.TIMEOUT, None, reason)


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
