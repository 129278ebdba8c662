"""Budgets: whose calendar, what is spent of them, what they will come to, and who hears of it."""

from __future__ import annotations

import json
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from support.keys import bearer, make_key
from support.records import make_record
from tracehold.core.errors import ConfigurationError
from tracehold_collector.budgets import Budget, Budgets, load_budgets
from tracehold_collector.budgets.watch import BudgetWatch
from tracehold_collector.cli.app import app
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.writer import Writer
from typer.testing import CliRunner

Serve = Callable[..., CollectorServer]
ZONES = ["UTC", "Asia/Kolkata", "America/Los_Angeles", "Europe/Berlin", "America/Havana", "Pacific/Apia"]
NOW = datetime(2026, 6, 16, tzinfo=UTC)  # half of June is over
PEOPLE = Pseudonyms(b"k" * 32, "default")


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001 - made aware below
    st.sampled_from(["day", "week", "month"]),
    st.sampled_from(ZONES),
)
def test_periods_hold_now_touch_each_other_and_begin_at_a_days_first_moment(
    naive: datetime, period: Any, zone: str
) -> None:  # FR-33
    now = naive.replace(tzinfo=UTC)
    budget = Budget(usd=1, period=period, timezone=zone)
    since, until = budget.bounds(now)
    assert since <= now < until
    assert budget.bounds(until)[0] == until
    assert budget.bounds(since - timedelta(microseconds=1))[1] == since
    first = since.astimezone(zoneinfo.ZoneInfo(zone))
    before = (since - timedelta(microseconds=1)).astimezone(zoneinfo.ZoneInfo(zone))
    assert first.date() > before.date()
    assert period != "month" or first.day == 1
    assert period != "week" or first.weekday() == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[budget]]\nusd = 0\n", "budget.0.usd"),
        ("[[budget]]\nusd = nan\n", "budget.0.usd"),
        ("[[budget]]\nusd = 1\nby = 'agent'\n", "by and value go together"),
        ("[[budget]]\nusd = 1\nvalue = 'x'\n", "by and value go together"),
        ("[[budget]]\nusd = 1\nby = 'colour'\nvalue = 'x'\n", "budget.0.by"),
        ("[[budget]]\nusd = 1\ntimezone = 'Moon'\n", "'Moon' is no time zone"),
        ("[[budget]]\nusd = 1\nperiod = 'year'\n", "budget.0.period"),
        ("[[budget]]\nusd = 1\n[[budget]]\nusd = 2\n", "two called 'everything'"),
        ("[[budget]]\nusd = 1\nby = 'tenant'\nvalue = 'a'\ntenant = 'a'\n", "leave 'tenant' out"),
        ("[[budget]\n", "is no TOML"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_budgets(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.fixture
def spending(database: Database) -> Iterator[Callable[..., None]]:
    writer = Writer(database)
    numbers = iter(range(10_000))

    def spend(usd: float | None, **fields: Any) -> None:
        at = int((NOW - timedelta(days=1)).timestamp()) * 1_000_000_000
        writer.submit([make_record(next(numbers), cost_usd=usd, **({"started_at": at} | fields))]).result(10)

    yield spend
    writer.close()


def states(database: Database, *budgets: Budget) -> list[Any]:
    return Budgets(budgets, Reader(database), PEOPLE, now=lambda: NOW).states(
        Access(tenants=("default",)), oversees=True
    )


def test_a_budget_tells_what_is_spent_and_what_the_period_will_come_to(database: Database, spending: Any) -> None:
    spending(30.0, agent="support")
    spending(12.0, agent="sales")
    spending(500.0, tenant="another")
    spending(70.0, started_at=int(datetime(2026, 5, 31, 23, 59, tzinfo=UTC).timestamp()) * 1_000_000_000)
    everything, support, nobody = states(
        database,
        Budget(usd=100),
        Budget(usd=50, by="agent", value="support"),
        Budget(usd=50, by="agent", value="nobody"),
    )
    assert (everything.spent_usd, everything.forecast_usd, everything.state) == (42.0, pytest.approx(84), "ok")
    assert (support.spent_usd, support.forecast_usd, support.state) == (30.0, pytest.approx(60), "will be over")
    assert (nobody.spent_usd, nobody.state) == (0.0, "ok")


@pytest.mark.parametrize(
    ("usd", "state"), [(30.01, "ok"), (30, "ok"), (19.9, "warning"), (16.0, "warning"), (14.9, "will be over")]
)
def test_a_state_is_a_word_for_the_spend_and_the_forecast(
    database: Database, spending: Any, usd: float, state: str
) -> None:
    spending(15.0)
    (found,) = Budgets(
        [Budget(usd=usd, period="month", warn_at=0.75)],
        Reader(database),
        PEOPLE,
        now=lambda: datetime(2026, 6, 30, 23, tzinfo=UTC),
    ).states(Access())
    assert found.state == ("over" if usd < 15 else state)


def test_calls_without_a_price_are_told_and_never_free(database: Database, spending: Any) -> None:  # FR-31
    spending(None)
    spending(1.0)
    (found,) = states(database, Budget(usd=10))
    assert (found.spent_usd, found.unpriced_calls) == (1.0, 1)


def test_nothing_is_forecast_from_the_first_hours(database: Database, spending: Any) -> None:
    spending(1.0, started_at=int(datetime(2026, 6, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000_000)
    early = datetime(2026, 6, 1, 2, tzinfo=UTC)
    (found,) = Budgets([Budget(usd=10)], Reader(database), PEOPLE, now=lambda: early).states(Access())
    assert (found.spent_usd, found.forecast_usd, found.state) == (1.0, None, "ok")


def test_who_may_not_see_a_tenant_is_told_nothing_of_its_budget(database: Database, spending: Any) -> None:
    spending(3.0, tenant="acme")
    written = [Budget(usd=10, by="tenant", value="acme"), Budget(usd=10)]
    budgets = Budgets(written, Reader(database), PEOPLE, now=lambda: NOW)
    assert [state.spent_usd for state in budgets.states(Access())] == [3.0, 3.0]
    assert budgets.states(Access(tenants=("other",))) == []


def test_a_tenants_own_budgets_are_told_to_its_keys_and_count_its_spend_alone(
    database: Database, spending: Any
) -> None:
    spending(3.0, tenant="acme", agent="support", user_ref=PEOPLE.of("acme").user("ann"))
    spending(5.0, tenant="beta", agent="support")
    written = [
        Budget(usd=10, by="agent", value="support", tenant="acme"),
        Budget(usd=10, tenant="acme"),
        Budget(usd=10, by="user", value="ann", tenant="acme"),
        Budget(usd=10, by="agent", value="support", tenant="beta"),
        Budget(usd=10, by="agent", value="support"),
    ]
    budgets = Budgets(written, Reader(database), PEOPLE, now=lambda: NOW)
    acme = budgets.states(Access(tenants=("acme",)))
    assert [(state.name.split(" u_")[0], state.spent_usd) for state in acme] == [
        ("agent support of acme", 3.0), ("everything of acme", 3.0), ("user", 3.0),
    ]  # fmt: skip
    assert [state.spent_usd for state in budgets.states(Access())] == [3.0, 3.0, 3.0, 5.0, 8.0]


def test_a_key_of_one_tenant_learns_neither_names_nor_limits_of_others_budgets(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(
        '[[budget]]\nusd = 123\nby = "agent"\nvalue = "secret-project"\n'
        '[[budget]]\nusd = 456\nby = "tenant"\nvalue = "beta"\n'
        '[[budget]]\nusd = 789\nby = "model"\nvalue = "m1"\ntenant = "beta"\n'
        '[[budget]]\nusd = 12\ntenant = "acme"\n'
    )
    one, some, every = (
        make_key(tmp_path / "data", "read", tenants=tenants) for tenants in (("acme",), ("acme", "beta"), None)
    )
    server = serve(budgets=path)

    def limits(key: str) -> list[float]:
        answer = httpx.get(f"{server.url}/api/v1/budgets", headers=bearer(key), timeout=30, trust_env=False)
        return [budget["usd"] for budget in answer.json()["budgets"]]

    assert [limits(key) for key in (one, some, every)] == [[12.0], [456.0, 789.0, 12.0], [123.0, 456.0, 789.0, 12.0]]


def test_a_persons_budget_is_told_under_the_pseudonym(database: Database, spending: Any) -> None:
    spending(3.0, user_ref=PEOPLE.user("ann@example.org"))
    (found,) = states(database, Budget(usd=10, by="user", value="ann@example.org"))
    assert found.spent_usd == 3.0
    assert "ann" not in json.dumps(found.as_json())


def test_a_budget_that_gets_worse_is_said_once_a_period(database: Database, spending: Any) -> None:
    moment = [NOW]
    budgets = Budgets([Budget(usd=100, name="all")], Reader(database), PEOPLE, now=lambda: moment[0])
    watch = BudgetWatch(budgets)
    with capture_logs() as logs:
        for usd in (10.0, 80.0, 0.0, 20.0, 0.0):
            spending(usd)
            watch.look()
        moment[0] = NOW + timedelta(days=30)
        watch.look()
    assert [entry["state"] for entry in logs if entry["event"] == "budget"] == ["will be over", "over"]


def test_a_collector_answers_shows_and_measures_budgets(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text('[[budget]]\nusd = 0.3\n[[budget]]\nusd = 50\nby = "agent"\nvalue = "support"\nperiod = "day"\n')
    server = serve(budgets=path)
    now = int(datetime.now(UTC).timestamp()) * 1_000_000_000
    server.writer.submit([make_record(n, started_at=now, agent="support") for n in range(2)]).result(10)
    answer = httpx.get(f"{server.url}/api/v1/budgets", timeout=30, trust_env=False).json()["budgets"]
    assert (answer[0]["name"], answer[0]["spent_usd"], answer[0]["state"]) == ("everything", 0.5, "over")
    assert answer[1]["name"] == "agent support"
    assert answer[0]["until"].endswith("Z")
    server.budget_watch.look()
    metrics = httpx.get(f"{server.url}/metrics", timeout=30, trust_env=False).text
    assert 'tracehold_budget_spent_ratio{budget="agent support"} 0.01' in metrics
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, ["budgets"])
    assert shown.exit_code == 0
    assert "everything" in shown.output
    assert CliRunner().invoke(app, ["budgets", "--fail", "--json"]).exit_code == 1


def test_without_budgets_the_command_says_how_to_have_some(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEHOLD_URL", serve().url)
    assert "--budgets FILE" in CliRunner().invoke(app, ["budgets", "--fail"]).output
