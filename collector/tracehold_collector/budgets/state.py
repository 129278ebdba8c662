"""How budgets stand: asked of the store, by the very query that shows spend, so that both say the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from tracehold_collector.budgets.budget import Budget
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.store.reader import Access, Reader

State = Literal["ok", "warning", "will be over", "over"]

_FORECAST_FROM: Final = 0.05
"""The share of a period that must have passed before anything is forecast from it: a first call tells no trend."""

_ALL: Final = 10_000
_GROUP: Final = {"everything": "tenant", "user": "user_ref"}


@dataclass(frozen=True, slots=True)
class BudgetState:
    """One budget in the period that holds now.

    Attributes:
        name, by, value, period, timezone: the budget's own; a person's id is told as its pseudonym.
        usd: what may be spent.
        since, until: the period, UTC.
        spent_usd: the sum of the known costs.
        unpriced_calls: calls without a known cost: with any, what was spent is a lower bound and never "free" (FR-31).
        share: of the budget, as a number from 0.
        forecast_usd: what the period comes to at the pace so far; `None` in its first twentieth.
        state: "over", "will be over" (by the forecast), "warning" (from `warn_at` on) or "ok".
    """

    name: str
    by: str
    value: str | None
    period: str
    timezone: str
    usd: float
    since: datetime
    until: datetime
    spent_usd: float
    unpriced_calls: int
    share: float
    forecast_usd: float | None
    state: State

    def as_json(self) -> dict[str, Any]:
        """Return it with times as ISO 8601."""
        told = asdict(self)
        for name in ("since", "until"):
            told[name] = told[name].isoformat().replace("+00:00", "Z")
        return told


class Budgets:
    """The budgets of a collector, and how they stand.

    Args:
        budgets: as they were written down.
        reader: asks the store.
        pseudonyms: turns a person's id into what the store holds.
        access: whose spend counts.
        now: for tests.
    """

    def __init__(
        self,
        budgets: Sequence[Budget],
        reader: Reader,
        pseudonyms: Pseudonyms,
        access: Access,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._budgets = tuple(budgets)
        self._reader = reader
        self._pseudonyms = pseudonyms
        self._access = access
        self._now = now

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._budgets)

    def states(self) -> list[BudgetState]:
        """Return how each stands, in the order of the file.

        Raises:
            CollectorError: the store could not answer.
        """
        now = self._now()
        asked: dict[tuple[str, datetime, datetime], dict[str | None, tuple[float, int]]] = {}
        found = []
        for budget in self._budgets:
            since, until = budget.bounds(now)
            by = _GROUP.get(budget.by, budget.by)
            key = (by, since, until)
            if key not in asked:
                asked[key] = self._spend(*key)
            found.append(self._state(budget, since, until, now, asked[key]))
        return found

    def _spend(self, by: str, since: datetime, until: datetime) -> dict[str | None, tuple[float, int]]:
        span = {"since": since.replace(tzinfo=None), "until": until.replace(tzinfo=None)}
        table = self._reader.query("spend", {"by": by, **span, "limit": _ALL}, self._access)
        columns = (table.column(name).to_pylist() for name in ("value", "cost_usd", "unpriced_calls"))
        return {value: (cost or 0.0, unpriced) for value, cost, unpriced in zip(*columns, strict=True)}

    def _state(
        self,
        budget: Budget,
        since: datetime,
        until: datetime,
        now: datetime,
        spend: dict[str | None, tuple[float, int]],
    ) -> BudgetState:
        value = budget.value
        if budget.by == "user" and value is not None:
            value = self._pseudonyms.user(value)
        if budget.by == "everything":
            spent, unpriced = sum(cost for cost, _ in spend.values()), sum(calls for _, calls in spend.values())
        else:
            spent, unpriced = spend.get(value, (0.0, 0))
        passed = (now - since) / (until - since) if until > since else 1.0
        forecast = spent / passed if passed >= _FORECAST_FROM else None
        return BudgetState(
            name=budget.name or (budget.by if value is None else f"{budget.by} {value}"),
            by=budget.by,
            value=value,
            period=budget.period,
            timezone=budget.timezone,
            usd=budget.usd,
            since=since,
            until=until,
            spent_usd=spent,
            unpriced_calls=unpriced,
            share=spent / budget.usd,
            forecast_usd=forecast,
            state=_word(budget, spent, forecast),
        )


def _word(budget: Budget, spent: float, forecast: float | None) -> State:
    if spent > budget.usd:
        return "over"
    if forecast is not None and forecast > budget.usd:
        return "will be over"
    return "warning" if spent >= budget.usd * budget.warn_at else "ok"


CHECK_EVERY: Final = timedelta(minutes=1)
"""How often a collector looks whether a budget's state has changed."""
