"""Which events of one reaction are stored together, so that a crash leaves all of it or none (ENG-03, RCV-03).

Recovery delivers again what nobody reacted to. An event with half of its reaction in the log would look answered, and
the other half would never come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracehold.engine.budget import SPENDING
from tracehold.engine.event_types import CHILD_COMPLETED, RUN_CANCEL, RUN_COMPLETED
from tracehold.engine.run_fold import RunFold
from tracehold.events.event import Event

_MOST: Final = 256
"""Events of one reaction that are stored together; more than that are stored one by one."""


def belong_together(events: Sequence[Event], run_id: str) -> bool:
    """Whether one append can hold them: several, not too many, all of one stream."""
    return 1 < len(events) <= _MOST and all(event.stream == run_id for event in events)


def up_to_the_end(events: Sequence[Event], fold: RunFold) -> list[Event]:
    """Return the events up to a completion; that is left out when the spend before it ends the run otherwise."""
    group: list[Event] = []
    ledger = fold.ledger
    for event in events:
        if event.type == RUN_COMPLETED:
            if any(one.type == RUN_CANCEL for one in group):
                break  # ENG-42: it ends as cancelled
            spends = any(one.type in SPENDING or one.type == CHILD_COMPLETED for one in group)
            # What an ancestor may spend is looked up only where it is enforced (DEC-07).
            if fold.budget.exceeded_by(ledger) is None and not (spends and fold.parent is not None):
                group.append(event)
            break
        group.append(event)
        ledger = ledger.fold(event)
    return group
