"""Limits of a run and what it has spent (BUD, LED)."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

from tracehold.core.extras import install_hint

try:
    from pydantic import BaseModel, ConfigDict, Field, field_validator
except ImportError as error:
    raise ImportError(f"the engine needs pydantic; {install_hint('engine')}") from error

from tracehold.engine.event_types import CHILD_COMPLETED
from tracehold.events.event import Event

_STEPS: Final = frozenset({"aaa.llm.completed", "aaa.tool.completed", "aaa.tool.failed"})
"""What counts as a step (LED-02)."""

_SPEND_ONLY: Final = frozenset(
    {"aaa.memory.completed", "aaa.context.summary", "aaa.session.summary", "aaa.guard.verdict"}
)
"""What costs, and is no step (LED-03)."""

SPENDING: Final = _STEPS | _SPEND_ONLY

_MOST: Final = 2**63 - 1
"""Where a count stops: what every database holds. It is beyond every limit that anybody can mean."""

_EQUAL: Final = 1e-9
"""Relative: three times 0.1 is 0.30000000000000004, and not beyond a limit of 0.3."""

_DEPTH: Final = 4
"""How deep counts are looked for in a usage; providers nest theirs once."""


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

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: Any) -> Any:
        """Refuse a bool: `max_cost=True` would be a limit of one dollar that nobody meant."""
        if isinstance(value, bool):
            raise ValueError("a limit is a number or None, not a bool")  # noqa: TRY004 - pydantic wants a ValueError
        return value

    @property
    def limits_spend(self) -> bool:
        """Whether any spend could exceed it."""
        return self.max_steps is not None or self.max_tokens is not None or self.max_cost is not None

    def exceeded_by(self, spent: Ledger) -> str | None:
        """Return which limit `spent` is beyond, such as "steps 3 > 2", or `None` (BUD-03)."""
        if self.max_steps is not None and spent.steps > self.max_steps:
            return f"steps {spent.steps} > {self.max_steps}"
        if self.max_tokens is not None and spent.tokens > self.max_tokens:
            return f"tokens {spent.tokens} > {self.max_tokens}"
        limit = self.max_cost
        if limit is not None and spent.cost > limit and not math.isclose(spent.cost, limit, rel_tol=_EQUAL):
            return f"cost {spent.cost:.12g} > {limit:.12g}"
        return None


class Ledger(BaseModel):
    """What a run has spent: a pure fold of its log (LED-01, LED-06)."""

    model_config = ConfigDict(frozen=True)

    steps: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0, allow_inf_nan=False)

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

    def exceeded(self, b: Budget) -> str | None:
        """Return which limit of `b` this spend is beyond, or `None`."""
        return b.exceeded_by(self)

    def plus(self, steps: int, tokens: int, cost: float) -> Ledger:
        """Return the sum; the parts are credible already, so nothing is validated again.

        It stops at what a log can hold: an infinite cost could be neither stored nor told to a parent.
        """
        if not (steps or tokens or cost):
            return self
        return Ledger.model_construct(
            None,
            steps=min(self.steps + steps, _MOST),
            tokens=min(self.tokens + tokens, _MOST),
            cost=min(self.cost + cost, sys.float_info.max),
        )


def is_credible(value: Any) -> bool:
    """Whether a cost or count is a finite number that is not negative (LED-07, DEC-13)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return 0 <= float(value) < math.inf
    except OverflowError:
        return False


def amount(value: Any) -> float:
    """Return a cost; what is no finite, non-negative number is 0: spend never falls (LED-07, DEC-13)."""
    return float(value) if is_credible(value) else 0.0


def count(value: Any) -> int:
    """Return a whole number of tokens or steps; what is not credible is 0, a part of one counts whole (LED-07)."""
    return min(math.ceil(value), _MOST) if is_credible(value) else 0


def checked_spend(event: Event) -> Event:
    """Return `event` with spend that cannot be read as unknown, and the reason beside it (DEC-13, ENG-36)."""
    if event.type == CHILD_COMPLETED:
        checked = _Checked(event.data)
        checked.counts("ledger", ("steps", "tokens", "cost"))
    elif event.type in SPENDING:
        checked = _Checked(event.data)
        checked.number("cost")
        checked.counts("usage", ("total_tokens",))
    else:
        return event
    return event.with_(data=checked.told()) if checked.problems else event


class _Checked:
    """A payload whose spend is looked through; the payload itself stays as it is."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.problems: list[str] = []
        self._data = data
        self._changes: dict[str, Any] = {}

    def number(self, name: str) -> None:
        """Check one cost."""
        value = self._data.get(name)
        if value is not None and not is_credible(value):
            self._unknown(name)
            self._changes[name] = None

    def counts(self, name: str, must: tuple[str, ...]) -> None:
        """Check what holds counts: those in `must` are numbers or unknown, and no other number is incredible."""
        value = self._data.get(name)
        if value is None:
            return
        if isinstance(value, Mapping):
            checked = self._looked_through(value, name, must, _DEPTH)
            if checked is not value:
                self._changes[name] = checked
        else:
            self._unknown(name)
            self._changes[name] = None

    def told(self) -> dict[str, Any]:
        """Return the payload to store."""
        one = len(self.problems) == 1
        names = ", ".join(self.problems)
        reason = f"{names} {'is' if one else 'are'} no finite, non-negative number{'' if one else 's'}"
        return {**self._data, **self._changes, "spend_error": reason}

    def _looked_through(
        self, held: Mapping[Any, Any], name: str, must: tuple[str, ...], depth: int
    ) -> Mapping[Any, Any]:
        changes: dict[Any, Any] = {}
        for key, value in held.items():
            where = f"{name}.{key}" if key in must else name
            if value is None or is_credible(value):
                continue
            if key in must or (isinstance(value, int | float) and not isinstance(value, bool)):
                self._unknown(where)
                changes[key] = None
            elif isinstance(value, Mapping) and depth:
                inner = self._looked_through(value, name, (), depth - 1)
                if inner is not value:
                    changes[key] = inner
        return {**held, **changes} if changes else held

    def _unknown(self, where: str) -> None:
        if where not in self.problems:
            self.problems.append(where)
