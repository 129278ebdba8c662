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


# Without slots: `Outcome[int](...)` fails for a generic class that is frozen and has them.
@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """How a run ended, what it gave, and why (OUT-01). Immutable.

    Attributes:
        kind: one of `OutcomeKind`; its word does as well.
        value: what it gave; `None` when nothing.
        reason: why it ended so, for people; `None` when there is nothing to say.

    Raises:
        ValueError: another kind.
        TypeError: a reason that is no text.
    """

    kind: OutcomeKind
    value: Value | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Take a kind by its word."""
        if type(self.kind) is not OutcomeKind:
            try:
                kind = OutcomeKind(self.kind)
            except ValueError:
                words = ", ".join(OutcomeKind)
                raise ValueError(f"{self.kind!r:.64} is no kind of outcome; the kinds are {words}") from None
            object.__setattr__(self, "kind", kind)
        if not (self.reason is None or isinstance(self.reason, str)):
            raise TypeError(f"an outcome's reason is a text or None, not {type(self.reason).__name__}")

    @property
    def ok(self) -> bool:
        """True for success only."""
        return self.kind is OutcomeKind.SUCCESS
