"""Budgets as somebody writes them down: for whom, how much, for how long, on whose calendar."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from tracehold.core.errors import ConfigurationError

from tracehold_collector.core.toml_files import read_toml

By = Literal["everything", "tenant", "agent", "user", "user_ref", "service", "model", "provider"]
Period = Literal["day", "week", "month"]

_DECEMBER: Final = 12


class Budget(BaseModel):
    """One budget.

    Attributes:
        name: what it is called; default what it is for.
        by: what it is about; with "everything" there is no `value`. "user" is a person's own id, as senders give it,
            and "user_ref" its pseudonym.
        value: which one, such as the agent's name.
        tenant: whose; only its spend counts, and keys of one tenant see this budget and no other's. `None` counts all
            tenants together, and is shown to keys of all only.
        usd: how much may be spent in a period.
        period: "day", "week" (from Monday) or "month", on the calendar of `timezone`.
        warn_at: the share of `usd` from which it is a warning.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("", max_length=128)
    by: By = "everything"
    value: str | None = Field(None, min_length=1, max_length=512)
    tenant: str | None = Field(None, min_length=1, max_length=128)
    usd: float = Field(gt=0, le=1e12, allow_inf_nan=False)
    period: Period = "month"
    timezone: str = "UTC"
    warn_at: float = Field(0.8, gt=0, le=1)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.by == "everything") != (self.value is None):
            raise ValueError("by and value go together, as in by = 'agent', value = 'support'; leave both out for all")
        if self.by == "tenant" and self.tenant is not None:
            raise ValueError("with by = 'tenant' the value names the tenant; leave 'tenant' out")
        try:
            zoneinfo.ZoneInfo(self.timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"{self.timezone!r} is no time zone, such as Europe/Berlin") from None
        return self

    @property
    def title(self) -> str:
        """What it is called."""
        of_what = self.by if self.value is None else f"{self.by} {self.value}"
        return self.name or (of_what if self.tenant is None else f"{of_what} of {self.tenant}")

    @property
    def owner(self) -> str | None:
        """Which tenant it belongs to, `None` when it is about all."""
        return self.value if self.by == "tenant" else self.tenant

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """Return where the period that holds `now` begins and ends, in UTC.

        A day of the time zone begins at its own midnight: one on which clocks are changed has 23 or 25 hours.
        """
        zone = zoneinfo.ZoneInfo(self.timezone)
        today = now.astimezone(zone).date()
        if self.period == "day":
            first, after = today, today + timedelta(days=1)
        elif self.period == "week":
            first = today - timedelta(days=today.weekday())
            after = first + timedelta(days=7)
        else:
            first = today.replace(day=1)
            after = first.replace(year=first.year + first.month // _DECEMBER, month=first.month % _DECEMBER + 1)
        begin, end = (datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC) for day in (first, after))
        return begin, end


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    budget: list[Budget] = Field(max_length=1000)


def load_budgets(path: Path) -> list[Budget]:
    """Read a file of budgets (TOML): tables `[[budget]]`.

    Raises:
        ConfigurationError: it cannot be read; says which entry and what is wrong with it.
    """
    budgets = read_toml(path, _File, "the file of budgets").budget
    titles = [budget.title for budget in budgets]
    if twice := sorted({title for title in titles if titles.count(title) > 1}):
        raise ConfigurationError(
            f"the file of budgets {path} has two called {twice[0]!r}: give each a 'name' of its own"
        )
    return budgets
