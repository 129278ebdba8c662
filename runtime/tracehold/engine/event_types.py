"""The engine's own event types and their fixed ids (EVT-06, EVT-07)."""

from __future__ import annotations

from typing import Final

RUN_STARTED: Final = "aaa.run.started"
RUN_COMPLETED: Final = "aaa.run.completed"
RUN_CANCEL: Final = "aaa.run.cancel"
RUN_ERASED: Final = "aaa.run.erased"
BUDGET_EXCEEDED: Final = "aaa.budget.exceeded"
TIMER_FIRED: Final = "aaa.timer.fired"
CHILD_STARTED: Final = "aaa.child.started"
CHILD_COMPLETED: Final = "aaa.child.completed"

LIFECYCLE: Final = "aaa.run."
"""Types with this prefix reach handlers of finished runs too (ENG-27)."""


def started_id(run_id: str) -> str:
    """Return the id of a run's started event."""
    return f"{run_id}:started"


def completed_id(run_id: str) -> str:
    """Return the id of a completion that the engine itself writes."""
    return f"{run_id}:completed"


def erased_id(run_id: str) -> str:
    """Return the id of the marker that stays after a scrub."""
    return f"{run_id}:erased"


def budget_id(run_id: str) -> str:
    """Return the id of the one budget-exceeded event of a run."""
    return f"{run_id}:budget"


def deadline_id(run_id: str) -> str:
    """Return the id of the timer event of a run's deadline."""
    return f"{run_id}:deadline"


def child_started_id(run_id: str) -> str:
    """Return the id of a child's start on its parent's stream."""
    return f"{run_id}:childstarted"


def child_completed_id(run_id: str) -> str:
    """Return the id of a child's result on its parent's stream."""
    return f"child-{run_id}"
