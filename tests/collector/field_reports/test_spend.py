"""Spend: nothing twice, nothing free for lack of a price, and days that add up."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.world import TRACE, M, World, chat, span
from tracehold_collector.cli.app import app
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "root"}


def agent(tokens: tuple[int, int], **more: Any) -> dict[str, Any]:
    return chat(tokens, **more) | AGENT


def used(world: World) -> dict[str, Any]:
    """Tokens of the run, as every place that adds up tells them."""
    run = world.ask.row("run", run_id=TRACE)
    (listed,) = world.ask.rows("runs")
    overview, (spent,) = world.ask.row("overview"), world.ask.rows("spend", by="run_id")
    days = world.ask.rows("spend_by_model_day")
    found = [(each["input_tokens"], each["output_tokens"]) for each in (run, listed, overview, spent)]
    found.append((sum(day["input_tokens"] or 0 for day in days), sum(day["output_tokens"] or 0 for day in days)))
    assert len(set(found)) == 1, found
    return {"tokens": found[0], "calls": run["llm_calls"]}


def test_fr_27_a_root_that_repeats_its_calls(world: World) -> None:  # FR-27
    world.send(span(0, None, agent((113, 11))), span(1, 0, chat((56, 5))), span(2, 0, chat((57, 6))))
    assert used(world) == {"tokens": (113, 11), "calls": 2}


def test_fr_27_three_levels_that_repeat_each_other(world: World) -> None:  # FR-27
    world.send(
        span(0, None, agent((113, 11))),
        span(1, 0, agent((113, 11))),
        span(2, 1, chat((56, 5))),
        span(3, 1, chat((57, 6))),
    )
    assert used(world) == {"tokens": (113, 11), "calls": 2}


def test_fr_27_an_agent_with_usage_and_no_calls(world: World) -> None:  # FR-27
    world.send(span(0, None, agent((113, 11))), span(1, 0, {"gen_ai.operation.name": "execute_tool"}))
    assert used(world) == {"tokens": (113, 11), "calls": 0}


def test_fr_27_a_call_that_comes_after_the_agent_that_repeats_it(world: World) -> None:  # FR-27
    world.send(span(0, None, agent((113, 11))))
    assert used(world)["tokens"] == (113, 11)
    world.send(span(1, 0, chat((56, 5))))
    world.send(span(2, 0, chat((57, 6))))
    assert used(world) == {"tokens": (113, 11), "calls": 2}


CACHES = {
    "inside the input": 130_213,
    "beside the input, Anthropic's own form": 5,
}


@pytest.mark.parametrize("name", CACHES)
def test_fr_29_cache_tokens_are_parts_of_the_input_each_at_its_own_price(name: str, world: World) -> None:  # FR-29
    call = chat((CACHES[name], 0), gen_ai__provider__name="anthropic", gen_ai__request__model="claude-sonnet-4-5")
    call |= {
        "gen_ai.usage.cache_read.input_tokens": 128_955,
        "gen_ai.usage.cache_creation.input_tokens": 1_253,
    }
    world.send(span(0, None, call))
    (row,) = world.ask.rows("spend_by_model_day")
    assert (row["input_tokens"], row["cached_tokens"], row["cache_write_tokens"]) == (130_213, 128_955, 1_253)
    # USD per million: 3 plain, 0.3 read, 3.75 written
    assert row["cost_usd"] == pytest.approx((5 * 3 + 128_955 * 0.3 + 1_253 * 3.75) / 1e6)


def test_fr_29_the_same_with_openrouter_whose_cache_is_almost_all_of_it(world: World) -> None:  # FR-29
    call = chat((17_903, 0), gen_ai__provider__name="openrouter", gen_ai__request__model="anthropic/claude-sonnet-4.5")
    world.send(span(0, None, call | {"gen_ai.usage.cache_read.input_tokens": 17_817}))
    (row,) = world.ask.rows("spend_by_model_day")
    assert (row["input_tokens"], row["cached_tokens"]) == (17_903, 17_817)


FAMILY = ["claude-haiku-4-5-20251001", "claude-haiku-4-5-2025-10-01", "claude-haiku-4-5"]


def test_fr_31_dated_ids_cost_what_their_family_costs_and_an_invented_one_is_listed(
    serve: Callable[..., CollectorServer], tmp_path: Path
) -> None:  # FR-31
    budgets = tmp_path / "budgets.toml"
    budgets.write_text('[[budget]]\nname = "all"\nusd = 1000\nperiod = "month"\n')
    world = World(serve(budgets=budgets))
    now = int(datetime.now(UTC).timestamp()) * 1_000_000_000
    for n, model in enumerate([*FAMILY, "invented-9"]):
        call = chat((M, 100_000), gen_ai__provider__name="anthropic", gen_ai__request__model=model)
        world.send(span(n, None, call, startTimeUnixNano=str(now + n), endTimeUnixNano=str(now + n + 5)))
    rows = {row["model"]: (row["cost_usd"], row["unpriced_calls"]) for row in world.ask.rows("spend_by_model_day")}
    assert rows == {model: (pytest.approx(1.5), 0) for model in FAMILY} | {"invented-9": (None, 1)}
    (unpriced,) = world.ask.rows("unpriced")
    assert (unpriced["model"], unpriced["reason"], unpriced["calls"]) == ("invented-9", "price", 1)
    overview = world.ask.row("overview")
    assert (overview["cost_usd"], overview["unpriced_calls"]) == (pytest.approx(4.5), 1)
    (budget,) = world.strict("/api/v1/budgets")["budgets"]
    assert (budget["spent_usd"], budget["unpriced_calls"]) == (pytest.approx(4.5), 1)
    world.close()


def every_hour(*days: str) -> list[str]:
    return [f"{day}T{hour:02}:30" for day in days for hour in range(24)]


CALLS = ["2026-05-01T18:00", "2026-05-01T18:45", "2026-05-01T23:30", "2026-05-02T00:15"]
ZONES = ["UTC", "Asia/Kolkata", "America/Los_Angeles", "Europe/Berlin"]
PERIODS = {
    "plain days": (date(2026, 4, 29), CALLS),
    "Berlin's 23 hours": (date(2026, 3, 27), every_hour("2026-03-28", "2026-03-29", "2026-03-30")),
    "Berlin's 25 hours": (date(2026, 10, 23), every_hour("2026-10-24", "2026-10-25", "2026-10-26")),
}


def by_command(world: World, zone: str, first: date, until: date) -> list[dict[str, Any]]:
    arguments = [
        "spend",
        "--since",
        f"{first}",
        "--until",
        f"{until}",
        "--timezone",
        zone,
        "--json",
        "--url",
        world.url,
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("name", PERIODS)
def test_fr_33_five_days_add_up_to_their_range_in_every_zone_over_http_and_by_command(
    name: str, world: World
) -> None:  # FR-33
    first, moments = PERIODS[name]
    for n, moment in enumerate(moments):
        at = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * 1_000_000_000
        call = chat((1, 1), gen_ai__provider__name="openai", gen_ai__request__model="gpt-4o", operation__cost=0.25)
        world.send(span(n, None, call, startTimeUnixNano=str(at), endTimeUnixNano=str(at + 5)))
    days = [first + timedelta(days=n) for n in range(5)]
    for zone in ZONES:
        whole = world.ask.rows(
            "spend_by_model_day", timezone=zone, from_day=f"{first}", until_day=f"{first + timedelta(days=5)}"
        )
        single = [
            row
            for day in days
            for row in world.ask.rows(
                "spend_by_model_day", timezone=zone, from_day=f"{day}", until_day=f"{day + timedelta(days=1)}"
            )
        ]
        assert sum(row["calls"] for row in whole) == sum(row["calls"] for row in single) == len(moments)
        assert sum(row["cost_usd"] for row in whole) == sum(row["cost_usd"] for row in single) == len(moments) / 4
        assert sorted(row["day"] for row in whole) == sorted(row["day"] for row in single)
        (spent,) = world.ask.rows(
            "spend", by="model", timezone=zone, from_day=f"{first}", until_day=f"{first + timedelta(days=5)}"
        )
        assert spent["calls"] == len(moments)
        told = [row for day in days for row in by_command(world, zone, day, day + timedelta(days=1))]
        assert [(row["day"], row["calls"]) for row in told] == [(row["day"], row["calls"]) for row in single]


def test_fr_33_each_call_is_in_the_one_day_of_its_zone_and_the_report_names_it(world: World) -> None:  # FR-33
    for n, moment in enumerate(CALLS):
        at = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * 1_000_000_000
        world.send(span(n, None, chat((1, 1)), startTimeUnixNano=str(at), endTimeUnixNano=str(at + 5)))
    found = {
        zone: {row["day"]: row["calls"] for row in world.ask.rows("spend_by_model_day", timezone=zone)}
        for zone in ZONES[:3]
    }
    assert found == {
        "UTC": {"2026-05-01": 3, "2026-05-02": 1},
        "Asia/Kolkata": {"2026-05-01": 1, "2026-05-02": 3},
        "America/Los_Angeles": {"2026-05-01": 4},
    }
    one_day = ["--since", "2026-05-01", "--until", "2026-05-02", "--timezone", "Asia/Kolkata"]
    result = CliRunner().invoke(app, ["spend", *one_day, "--url", world.url])
    assert "days in Asia/Kolkata" in result.stdout
    assert "2026-05-02" not in result.stdout
