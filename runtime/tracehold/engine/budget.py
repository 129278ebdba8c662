"""Limits of a run and what it has spent (BUD, LED)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from tracehold.engine.event_types import CHILD_COMPLETED
from tracehold.events.event import Event

_STEPS: Final = frozenset({"aaa.llm.completed", "aaa.tool.completed", "aaa.tool.failed"})
"""What counts as a step (LED-02)."""

_SPEND_ONLY: Final = frozenset(
    {"aaa.memory.completed", "aaa.context.summary", "aaa.session.summary", "aaa.guard.verdict"}
)
"""What costs, and is no step (LED-03)."""

SPENDING: Final = _STEPS | _SPEND_ONLY


class Budget(BaseModel):
    """Hard limits of a run; `None` is unlimited (BUD-01). The engine enforces them (BUD-02).

    Attributes:
        max_steps: completed model calls, completed and failed tool calls.
        max_tokens: the sum of `usage.total_tokens`.
        max_cost: USD, the sum of `cost`.
        deadline_s: seconds of wall time from the start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    def exceeded_by(self, spent: Ledger) -> str | None:
        """Return which limit `spent` is beyond, such as "steps 3 > 2", or `None` (BUD-03)."""
        for name, used, limit in (
            ("steps", spent.steps, self.max_steps),
            ("tokens", spent.tokens, self.max_tokens),
            ("cost", spent.cost, self.max_cost),
        ):
            if limit is not None and used > limit:
                return f"{name} {used:g} > {limit:g}" if name == "cost" else f"{name} {used} > {limit}"
        return None


class Ledger(BaseModel):
    """What a run has spent: a pure fold of its log (LED-01, LED-06)."""

    model_config = ConfigDict(frozen=True)

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0

    def fold(self, e: Event) -> Ledger:
        """Return the ledger after `e`; unchanged for an event that spends nothing (LED-05)."""
        if e.type == CHILD_COMPLETED:
            told = e.data.get("ledger")
            if not isinstance(told, Mapping):
                return self
            return self.plus(count(told.get("steps")), count(told.get("tokens")), amount(told.get("cost")))
        if e.type not in SPENDING:
            return self
        usage = e.data.get("usage")
        tokens = count(usage.get("total_tokens")) if isinstance(usage, Mapping) else 0
        return self.plus(int(e.type in _STEPS), tokens, amount(e.data.get("cost")))

    def plus(self, steps: int, tokens: int, cost: float) -> Ledger:
        """Return the sum; the parts are credible already, so nothing is validated again."""
        if not (steps or tokens or cost):
            return self
        return Ledger.model_construct(
            None, steps=self.steps + steps, tokens=self.tokens + tokens, cost=self.cost + cost
        )


def amount(value: Any) -> float:
    """Return a finite, non-negative number; anything else is 0: spend never falls (LED-07, DEC-13)."""
    credible = type(value) in {int, float} and 0 <= value < math.inf
    return float(value) if credible else 0.0


def count(value: Any) -> int:
    """Return a whole, non-negative number of tokens or steps; anything else is 0 (LED-07)."""
    return int(amount(value))


def checked_spend(event: Event) -> Event:
    """Return `event` with spend that cannot be read as unknown, and the reason beside it (DEC-13, ENG-36)."""
    if event.type not in SPENDING:
        return event
    data = event.data
    problems = []
    cost = data.get("cost")
    if cost is not None and not (type(cost) in {int, float} and 0 <= cost < math.inf):
        problems.append("cost")
    usage = data.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    if (usage is not None and not isinstance(usage, Mapping)) or (
        total is not None and not (type(total) is int and total >= 0)
    ):
        problems.append("usage")
    if not problems:
        return event
    reason = f"{' and '.join(problems)} is no finite, non-negative number"
    return event.with_(data={**data, **dict.fromkeys(problems), "spend_error": reason})
