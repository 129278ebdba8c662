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
_Asked = tuple[str, datetime, datetime, str | None]
"""What spend is asked by, from when, until when, of which tenant."""

_GROUP: Final = {"everything": "tenant", "user": "user_ref"}


@dataclass(frozen=True, slots=True)
class BudgetState:
    """One budget in the period that holds now.

    Attributes:
        name, by, value, tenant, period, timezone: the budget's own; a person's id is told as its pseudonym.
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
    tenant: str | None
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
        now: for tests.
    """

    def __init__(
        self,
        budgets: Sequence[Budget],
        reader: Reader,
        pseudonyms: Pseudonyms,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._budgets = tuple(budgets)
        self._reader = reader
        self._pseudonyms = pseudonyms
        self._now = now

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._budgets)

    def states(self, access: Access, *, oversees: bool | None = None) -> list[BudgetState]:
        """Return how each stands, in the order of the file.

        What a budget is called, whom it is about and how much it is are its tenant's alone: others are not shown it.

        Args:
            access: whose spend counts.
            oversees: whether budgets that belong to no tenant are shown; by default to those who may see all tenants.

        Raises:
            CollectorError: the store could not answer.
        """
        now = self._now()
        all_too = access.tenants is None if oversees is None else oversees
        asked: dict[_Asked, dict[str | None, tuple[float, int]]] = {}
        found = []
        for budget in self._budgets:
            if not _shown(budget.owner, access, all_too):
                continue
            since, until = budget.bounds(now)
            by = _GROUP.get(budget.by, budget.by)
            key = (by, since, until, budget.tenant)
            if key not in asked:
                asked[key] = self._spend(key, access)
            found.append(self._state(budget, since, until, now, asked[key]))
        return found

    def _spend(self, asked: _Asked, access: Access) -> dict[str | None, tuple[float, int]]:
        by, since, until, tenant = asked
        span = {"since": since.replace(tzinfo=None), "until": until.replace(tzinfo=None)}
        table = self._reader.query("spend", {"by": by, **span, "tenant": tenant, "limit": _ALL}, access)
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
            own = self._pseudonyms if budget.tenant is None else self._pseudonyms.of(budget.tenant)
            value = own.user(value)
        if budget.by == "everything":
            spent, unpriced = sum(cost for cost, _ in spend.values()), sum(calls for _, calls in spend.values())
        else:
            spent, unpriced = spend.get(value, (0.0, 0))
        passed = (now - since) / (until - since) if until > since else 1.0
        forecast = spent / passed if passed >= _FORECAST_FROM else None
        return BudgetState(
            name=budget.model_copy(update={"value": value}).title,
            by=budget.by,
            value=value,
            tenant=budget.owner,
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


def _shown(owner: str | None, access: Access, oversees: bool) -> bool:
    if access.tenants is None:
        return True
    return oversees if owner is None else owner in access.tenants


def _word(budget: Budget, spent: float, forecast: float | None) -> State:
    if spent > budget.usd:
        return "over"
    if forecast is not None and forecast > budget.usd:
        return "will be over"
    return "warning" if spent >= budget.usd * budget.warn_at else "ok"


CHECK_EVERY: Final = timedelta(minutes=1)
"""How often a collector looks whether a budget's state has changed."""
