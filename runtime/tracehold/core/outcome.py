"""How a run ended (OUT)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Value = TypeVar("Value")


class OutcomeKind(StrEnum):
    """The ways a run can end (OUT-01)."""

    SUCCESS = "success"
    NO_SOLUTION = "no_solution"
    TIMEOUT = "timeout"
    BUDGET_EXCEEDED = "budget_exceeded"
    INVALID_INPUT = "invalid_input"
    CANCELLED = "cancelled"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value]):
    """How a run ended, what it gave, and why (OUT-01).

    Raises:
        ValueError: another kind.
    """

    kind: OutcomeKind
    value: Value | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Take a kind by its word."""
        object.__setattr__(self, "kind", OutcomeKind(self.kind))

    @property
    def ok(self) -> bool:
        """True for success only."""
        return self.kind is OutcomeKind.SUCCESS
