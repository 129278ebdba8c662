"""Storing what one reaction returns together, so that a crash leaves all of it or none (ENG-03, RCV-03).

Recovery delivers again what nobody reacted to. An event with half of its reaction in the log would look answered, and
the other half would never come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracehold.core.errors import ConcurrencyError
from tracehold.engine.budget import SPENDING
from tracehold.engine.event_types import CHILD_COMPLETED, RUN_COMPLETED
from tracehold.engine.log import Log
from tracehold.engine.run_fold import RunFold
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.events.event import Event
from tracehold.events.store import ANY_SEQ

_MOST: Final = 256
"""Events of one reaction that are stored together; more than that are stored one by one."""


async def store_together(log: Log, runs: Runs, run: ActiveRun, events: Sequence[Event]) -> None:
    """Store the events of one reaction in one append, and put them into the run's outbox.

    Whoever emits them afterwards finds them stored, publishes them, and draws the consequences. Events for other
    streams are left to that.

    Raises:
        SchemaError: one does not fit its schema; none is stored.
        StoreUnavailable: an outage outlasted the rules; the events are unsure.
    """
    fold = run.fold
    if not 1 < len(events) <= _MOST or any(event.stream != fold.run_id for event in events):
        return
    ready = [await log.ready(event, fold) for event in events]
    async with run.lock:
        while fold.is_open:
            group = _up_to_the_end(ready, fold)
            if len(group) < 2:  # noqa: PLR2004 - one alone is stored whole anyway
                break
            # Two writers cannot both complete a run (ENG-31).
            expected_seq = fold.seq if group[-1].type == RUN_COMPLETED else ANY_SEQ
            before = set(run.unsure)
            for event in group:
                run.doubt(event)
            try:
                stored, retried = await log.append_all(group, expected_seq)
            except ConcurrencyError:
                for event in group:
                    if event.id not in before:
                        run.unsure.pop(event.id, None)
                await _read_on(runs, run)
                continue
            for event in stored:
                if event.dup and not retried and event.id not in before:
                    run.unsure.pop(event.id, None)  # an earlier reaction had stored it, and delivered it
            await _take_in(runs, run, stored)
            break
    runs.settle(run)


async def _take_in(runs: Runs, run: ActiveRun, stored: Sequence[Event]) -> None:
    if [event.seq for event in stored] != list(range(run.fold.seq + 1, run.fold.seq + 1 + len(stored))):
        await _read_on(runs, run)
        return
    for event in stored:
        run.fold.fold(event)
        _hand_over(run, event)


async def _read_on(runs: Runs, run: ActiveRun) -> None:
    for event in await runs.refold(run):
        _hand_over(run, event)


def _hand_over(run: ActiveRun, event: Event) -> None:
    """Let an event be delivered and its consequences be drawn, if an append of ours stored it."""
    if run.settle_doubt(event.id):
        event = event.with_(dup=False)
        run.outbox.append(event)
        run.owed.append(event)


def _up_to_the_end(ready: Sequence[Event], fold: RunFold) -> list[Event]:
    """Return the events up to a completion; that is left out when the spend before it ends the run otherwise."""
    group: list[Event] = []
    ledger = fold.ledger
    for event in ready:
        if event.type == RUN_COMPLETED:
            spends = any(one.type in SPENDING or one.type == CHILD_COMPLETED for one in group)
            # What an ancestor may spend is looked up only where it is enforced (DEC-07).
            if fold.budget.exceeded_by(ledger) is None and not (spends and fold.parent is not None):
                group.append(event)
            break
        group.append(event)
        ledger = ledger.fold(event)
    return group
