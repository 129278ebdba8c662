"""What a run has spent: a fold that no value can lower or break (LED)."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from engine_parts import Idle, engine_on, fact, run, types
from hypothesis import given
from hypothesis import strategies as st
from tracehold.engine import Budget, Ledger
from tracehold.engine.budget import checked_spend
from tracehold.events import Event, EventStore
from tracehold.events.projections import Projection

STEPS = ["aaa.llm.completed", "aaa.tool.completed", "aaa.tool.failed"]
SPEND_ONLY = ["aaa.memory.completed", "aaa.context.summary", "aaa.session.summary", "aaa.guard.verdict"]
FREE = ["aaa.llm.requested", "aaa.llm.failed", "aaa.tool.requested", "aaa.run.completed", "aaa.llm.completed.x", "own"]
BAD = [math.nan, math.inf, -math.inf, -1, -0.5, "5", "", True, [1], {"a": 1}, 10**400, -(10**400)]

numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.just(10**400),
    st.just(sys.float_info.max),
    st.just(2**63 - 1),
)
usages = st.one_of(numbers, st.fixed_dictionaries({"total_tokens": numbers}))
ledgers = st.one_of(numbers, st.fixed_dictionaries({"steps": numbers, "tokens": numbers, "cost": numbers}))
events = st.one_of(
    st.builds(
        lambda kind, usage, cost: Event(type=kind, data={"usage": usage, "cost": cost}),
        st.sampled_from([*STEPS, *SPEND_ONLY, *FREE]),
        usages,
        numbers,
    ),
    st.builds(lambda told: Event(type="aaa.child.completed", data={"child_run_id": "c", "ledger": told}), ledgers),
)
SPENT = Projection(Ledger, Ledger.fold, name="spent", state_type=Ledger, every=1)


def spending(kind: str = "aaa.llm.completed", **data: Any) -> Event:
    return Event(type=kind, data=data)


def total(ledger: Ledger) -> tuple[int, int, float]:
    return ledger.steps, ledger.tokens, ledger.cost


def test_a_fold_returns_a_new_ledger_and_leaves_the_old_one() -> None:  # LED-01
    before = Ledger(steps=1, tokens=2, cost=3.0)
    event = spending(usage={"total_tokens": 4}, cost=0.5)
    assert total(before.fold(event)) == (2, 6, 3.5)
    assert total(before.fold(event)) == (2, 6, 3.5)
    assert total(before) == (1, 2, 3.0)


@pytest.mark.parametrize("kind", STEPS)
def test_model_and_tool_calls_are_a_step_each_with_tokens_and_cost(kind: str) -> None:  # LED-02
    assert total(Ledger().fold(spending(kind, usage={"total_tokens": 7}, cost=0.25))) == (1, 7, 0.25)
    assert total(Ledger().fold(spending(kind))) == (1, 0, 0.0)
    assert total(Ledger().fold(spending(kind, usage=None, cost=None))) == (1, 0, 0.0)


@pytest.mark.parametrize("kind", SPEND_ONLY)
def test_what_is_done_besides_costs_and_is_no_step(kind: str) -> None:  # LED-03
    assert total(Ledger().fold(spending(kind, usage={"total_tokens": 7}, cost=0.25))) == (0, 7, 0.25)


def test_a_completed_child_adds_what_it_has_spent() -> None:  # LED-04
    told = {"steps": 2, "tokens": 30, "cost": 0.5}
    event = Event(type="aaa.child.completed", data={"child_run_id": "c", "ledger": told})
    assert total(Ledger(steps=1, tokens=1, cost=1.0).fold(event)) == (3, 31, 1.5)


@pytest.mark.parametrize("kind", FREE)
def test_any_other_event_leaves_the_ledger_as_it_is(kind: str) -> None:  # LED-05
    before = Ledger(steps=1, tokens=2, cost=3.0)
    assert before.fold(spending(kind, usage={"total_tokens": 7}, cost=0.25)) == before


@given(st.lists(events, max_size=12))
def test_spend_never_falls_and_stays_a_number_that_a_log_can_hold(log: list[Event]) -> None:  # LED-07
    ledger = Ledger()
    for event in log:
        after = ledger.fold(event)
        assert after.steps >= ledger.steps
        assert after.tokens >= ledger.tokens
        assert after.cost >= ledger.cost
        assert math.isfinite(after.cost)
        assert {type(after.steps), type(after.tokens), type(after.cost)} == {int, float}
        assert Ledger.model_validate_json(after.model_dump_json()) == after
        ledger = after


@given(st.lists(events, max_size=12), st.integers(min_value=0, max_value=12))
def test_a_replay_from_any_point_gives_the_same_spend(log: list[Event], at: int) -> None:  # LED-01, LED-06
    whole = SPENT.replay(log)
    assert SPENT.replay(log[at:], SPENT.replay(log[:at])) == whole


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_value_that_is_no_credible_number_switches_no_limit_off(bad: Any) -> None:  # LED-07
    ledger = Ledger(cost=1.0, tokens=9)
    for event in (spending(cost=bad, usage={"total_tokens": bad}), spending(usage=bad)):
        ledger = ledger.fold(event)
        assert (ledger.tokens, ledger.cost) == (9, 1.0)
    ledger = ledger.fold(spending(cost=0.5, usage={"total_tokens": 2}))
    assert Budget(max_cost=1.4).exceeded_by(ledger) == "cost 1.5 > 1.4"
    assert Budget(max_tokens=10).exceeded_by(ledger) == "tokens 11 > 10"


def test_a_huge_count_is_counted_and_trips_every_limit() -> None:  # LED-07
    ledger = Ledger().fold(spending(usage={"total_tokens": 10**30}, cost=sys.float_info.max))
    ledger = ledger.fold(spending(usage={"total_tokens": 10**30}, cost=sys.float_info.max))
    assert ledger.tokens == 2**63 - 1
    assert ledger.cost == sys.float_info.max
    assert Budget(max_tokens=10**18).exceeded_by(ledger)
    assert Budget(max_cost=1e300).exceeded_by(ledger)


def test_a_count_beyond_what_a_float_holds_is_exact_and_a_part_counts_whole() -> None:
    assert Ledger().fold(spending(usage={"total_tokens": 2**53 + 1})).tokens == 2**53 + 1
    assert Ledger().fold(spending(usage={"total_tokens": 1.2})).tokens == 2


def test_a_fold_over_a_stream_is_what_the_run_has_spent(store: EventStore) -> None:  # LED-06
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {}, run_id="r")
            child = await engine.start(Idle(), {}, run_id="c", parent="r")
            for n, kind in enumerate([*STEPS, *SPEND_ONLY, *FREE[:2]]):
                await engine.emit(fact("r", f"e{n}", kind, usage={"total_tokens": n}, cost=0.125 * n))
            await engine.emit(fact("c", "x", STEPS[0], usage={"total_tokens": 100}, cost=1.0))
            await child.signal("test.go")
            await child.result()
            await engine.bus.drain()
            spent = engine.spent("r")
            assert total(spent) == (4, sum(range(7)) + 100, 0.125 * sum(range(7)) + 1.0)
            assert SPENT.replay(await store.read("r")) == spent
            assert await engine.project(SPENT, "r") == spent
            assert await engine.project(SPENT, "r") == spent  # from its snapshot
            await handle.signal("test.go")
        await store.aclose()

    run(main())


# -- what is checked before it is stored (DEC-13, ENG-36) --------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_spend_that_cannot_be_read_is_recorded_as_unknown_with_the_reason(bad: Any) -> None:  # DEC-13
    event = spending(cost=bad, usage={"total_tokens": bad, "prompt_tokens": 3}, output="kept")
    checked = checked_spend(event)
    assert checked.data == {
        "cost": None,
        "usage": {"total_tokens": None, "prompt_tokens": 3},
        "output": "kept",
        "spend_error": "cost, usage.total_tokens are no finite, non-negative numbers",
    }
    assert event.data["cost"] is bad  # the caller's own is not touched
    assert checked_spend(checked) is checked


@pytest.mark.parametrize("usage", [5, "many", True, [1, 2]])
def test_a_usage_that_is_no_mapping_is_unknown(usage: Any) -> None:  # DEC-13
    checked = checked_spend(spending(usage=usage, cost=0.5))
    assert checked.data == {"usage": None, "cost": 0.5, "spend_error": "usage is no finite, non-negative number"}


def test_a_count_deeper_in_a_usage_breaks_nothing_either() -> None:  # DEC-13
    usage = {"total_tokens": 5, "details": {"cached": math.nan, "tier": "batch"}, "tier": "batch", "fast": True}
    checked = checked_spend(spending(usage=usage))
    assert checked.data["usage"] == {**usage, "details": {"cached": None, "tier": "batch"}}
    assert checked.data["spend_error"]


@pytest.mark.parametrize(
    "event",
    [
        spending(usage={"total_tokens": 5}, cost=1),
        spending(usage={"total_tokens": 5.0}, cost=0),
        spending(),
        spending(usage=None, cost=None),
        Event(type="own", data={"cost": "free", "usage": -1}),
        Event(type="aaa.child.completed", data={"ledger": {"steps": 1, "tokens": 2, "cost": 0.5}}),
    ],
)
def test_credible_spend_and_other_events_stay_as_they_are(event: Event) -> None:  # DEC-13
    assert checked_spend(event) is event


def test_a_child_s_spend_is_checked_as_well() -> None:  # DEC-13
    told = {"steps": -1, "tokens": 2, "cost": math.nan}
    checked = checked_spend(Event(type="aaa.child.completed", data={"child_run_id": "c", "ledger": told}))
    assert checked.data["ledger"] == {"steps": None, "tokens": 2, "cost": None}
    assert checked.data["spend_error"] == "ledger.steps, ledger.cost are no finite, non-negative numbers"


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_spend_that_cannot_be_read_never_breaks_the_run(store: EventStore, bad: Any) -> None:  # DEC-13, ENG-36
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {}, run_id="r", budget=Budget(max_cost=1.0))
            event = fact("r", "bad", "aaa.llm.completed", usage={"total_tokens": bad}, cost=bad)
            stored = await engine.emit(event)
            assert stored is not None
            assert stored.data["cost"] is None
            assert stored.data["usage"] == {"total_tokens": None}
            assert "cost" in stored.data["spend_error"]
            await engine.emit(fact("r", "good", "aaa.llm.completed", cost=1.5))
            outcome = await handle.result()
            assert (outcome.kind, outcome.reason) == ("budget_exceeded", "cost 1.5 > 1")
        async with engine_on(store) as other:  # who reads the log later
            assert (await other.fold_of("r")).ledger.steps == 2
            assert types(await store.read("r"))[-1] == "aaa.run.completed"
        await store.aclose()

    run(main())
