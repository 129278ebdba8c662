"""Limits that the engine holds runs and families to, whatever an algorithm does (BUD, DEC-07)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from engine_parts import Echo, Idle, Parent, Spending, engine_on, fact, llm, run, types
from pydantic import ValidationError
from tracehold.core.outcome import Outcome
from tracehold.engine import Budget, Ctx, Engine, Ledger
from tracehold.engine.run_fold import read_budget
from tracehold.events import Event, EventStore
from tracehold.events.memory_store import InMemoryEventStore


class Greedy:
    """Makes model calls for ever, heeding no budget."""

    name = "greedy"

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started", "aaa.llm.completed"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        return [event.caused("aaa.llm.completed", {"usage": {"total_tokens": 10}, "cost": 0.1})]


def outcome_of(budget: Budget, algo: Any = None, told: dict[str, Any] | None = None) -> Outcome[Any]:
    async def main() -> Outcome[Any]:
        async with engine_on() as engine:
            return await engine.run(algo or Greedy(), told or {}, budget=budget)

    return run(main())


# -- one run -----------------------------------------------------------------------------------------------------------


def test_none_is_unlimited() -> None:  # BUD-01
    spent = Ledger(steps=10**9, tokens=10**12, cost=1e9)
    assert Budget().exceeded_by(spent) is None
    assert spent.exceeded(Budget()) is None
    assert outcome_of(Budget(), Spending(), {"calls": 30, "cost": 5.0}).kind == "success"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_steps": 5}, "steps 6 > 5"),
        ({"max_steps": 0}, "steps 1 > 0"),
        ({"max_tokens": 25}, "tokens 30 > 25"),
        ({"max_cost": 0.25}, "cost 0.3 > 0.25"),
        ({"max_cost": 0}, "cost 0.1 > 0"),
    ],
)
def test_an_algorithm_that_ignores_its_budget_is_stopped(limit: dict[str, Any], reason: str) -> None:  # BUD-02, BUD-03
    outcome = outcome_of(Budget(**limit))
    assert (outcome.kind, outcome.reason, outcome.value) == ("budget_exceeded", reason, None)


def test_spending_a_limit_whole_is_within_it() -> None:  # BUD-03
    assert outcome_of(Budget(max_steps=5), Spending(), {"calls": 5}).kind == "success"
    assert outcome_of(Budget(max_steps=5), Spending(), {"calls": 6}).reason == "steps 6 > 5"
    # 0.1 + 0.1 + 0.1 is 0.30000000000000004 to a machine, and not more than 0.3 to anybody else.
    assert outcome_of(Budget(max_cost=0.3), Spending(), {"calls": 3, "cost": 0.1}).kind == "success"


def test_tripping_appends_one_event_and_ends_the_run_naming_the_limit(store: EventStore) -> None:  # BUD-04
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {}, run_id="r", budget=Budget(max_steps=2))
            await asyncio.gather(*(engine.emit(llm("r", f"e{n}")) for n in range(6)))
            outcome = await handle.result()
            assert outcome.kind == "budget_exceeded"
            assert outcome.reason.startswith("steps ")
            log = await store.read("r")
            tripped = [event for event in log if event.type == "aaa.budget.exceeded"]
            assert [event.id for event in tripped] == ["r:budget"]
            assert tripped[0].data["reason"] == outcome.reason
            assert types(log).count("aaa.run.completed") == 1
        await store.aclose()

    run(main())


def test_the_default_budget_holds_runs_without_one_and_is_recorded() -> None:  # BUD-02
    async def main() -> None:
        async with engine_on(default_budget=Budget(max_steps=1)) as engine:
            handle = await engine.start(Greedy(), {})
            assert (await handle.result()).reason == "steps 2 > 1"
            own = await engine.start(Greedy(), {}, budget=Budget(max_steps=3))
            assert (await own.result()).reason == "steps 4 > 3"
            started = (await engine.stored(own.run_id))[0]
            assert started.data["budget"] == {"max_steps": 3, "max_tokens": None, "max_cost": None, "deadline_s": None}

    run(main())


def test_a_second_started_event_raises_no_budget() -> None:  # BUD-02
    async def main() -> None:
        async with engine_on() as engine:
            handle = await engine.start(Idle(), {}, run_id="r", budget=Budget(max_steps=1))
            more = {"algo": "other", "parent": "x", "budget": {"max_steps": 1000}}
            await engine.emit(fact("r", "again", "aaa.run.started", **more))
            await engine.emit(llm("r", "a"))
            await engine.emit(llm("r", "b"))
            assert (await handle.result()).reason == "steps 2 > 1"

    run(main())


@pytest.mark.parametrize("name", ["max_steps", "max_tokens", "max_cost", "deadline_s"])
@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "many", True, [1]], ids=repr)
def test_a_limit_that_cannot_be_meant_is_refused(name: str, bad: Any) -> None:  # BUD-01
    with pytest.raises(ValidationError):
        Budget(**{name: bad})


def test_a_budget_has_no_unknown_limit_and_does_not_change() -> None:
    with pytest.raises(ValidationError):
        Budget(max_step=1)  # type: ignore[call-arg]  # the point
    with pytest.raises(ValidationError):
        Budget().max_steps = 1


def test_a_limit_of_the_log_that_cannot_be_read_switches_no_other_off() -> None:  # LED-07, ENG-36
    told = {"max_steps": "?", "max_tokens": 5, "max_cost": math.nan, "deadline_s": 2.5, "of_a_later_version": 1}
    assert read_budget(told) == Budget(max_tokens=5, deadline_s=2.5)
    for nothing in (None, [], "x", 5, {}):
        assert read_budget(nothing) == Budget()


# -- across restarts ---------------------------------------------------------------------------------------------------


def test_a_restart_resets_no_spend(store: EventStore) -> None:  # BUD-06
    async def main() -> None:
        first = engine_on(store)
        async with first:
            await first.start(Idle(), {}, run_id="r", budget=Budget(max_steps=2))
            await first.emit(llm("r", "a"))
            await first.emit(llm("r", "b"))
            await first.abort()
        async with engine_on(store) as second:
            handles = await second.recover([Idle()])
            assert second.spent("r").steps == 2
            await second.emit(llm("r", "c"))
            assert (await handles["r"].result()).reason == "steps 3 > 2"
        await store.aclose()

    run(main())


@pytest.mark.parametrize("left", [1, 2], ids=["before the exceeded event", "before the completion"])
def test_a_crash_between_spend_and_stop_stops_at_recovery(left: int) -> None:  # BUD-02, BUD-06, ENG-03
    async def main() -> None:
        store = InMemoryEventStore()
        started = {"algo": "idle", "input": {}, "parent": None, "run_tag": None, "budget": {"max_steps": 0}}
        log = [
            fact("r", "r:started", "aaa.run.started", **started),
            llm("r", "a"),
            fact("r", "r:budget", "aaa.budget.exceeded", reason="steps 1 > 0"),
        ]
        await store.append("r", log[: 1 + left])
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle()])
            outcome = await handles["r"].result()
            assert (outcome.kind, outcome.reason) == ("budget_exceeded", "steps 1 > 0")
            assert types(await store.read("r")) == [
                *("aaa.run.started", "aaa.llm.completed", "aaa.budget.exceeded", "aaa.run.completed")
            ]

    run(main())


# -- families (DEC-07) -------------------------------------------------------------------------------------------------


async def family(engine: Engine, limit: Budget, *children: str, own: Budget | None = None) -> None:
    """Start `p`, and each child under the run that its name extends: `p.a` under `p`, `p.a.x` under `p.a`."""
    await engine.start(Idle(), {}, run_id="p", budget=limit)
    for child in children:
        await engine.start(Idle(), {}, run_id=child, parent=child.rpartition(".")[0], budget=own)


def test_a_child_is_held_to_what_is_left_of_its_parent_s_budget_while_it_runs() -> None:  # DEC-07
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, Budget(max_steps=5), "p.a")
            for n in range(3):
                await engine.emit(llm("p", f"own{n}"))
            await engine.emit(llm("p.a", "x"))
            await engine.emit(llm("p.a", "y"))
            assert not engine.is_done("p.a")
            await engine.emit(llm("p.a", "z"))
            outcome = await engine.handle("p.a").result()
            assert (outcome.kind, outcome.reason) == ("budget_exceeded", "parent budget")
            # What the child has spent is its parent's spend, which is beyond its own limit now.
            assert (await engine.handle("p").result()).reason == "steps 6 > 5"

    run(main())


def test_siblings_in_parallel_share_what_is_left() -> None:  # DEC-07
    async def main() -> None:
        async with engine_on() as engine:
            children = [f"p.{n}" for n in range(4)]
            await family(engine, Budget(max_tokens=100), *children)
            for n in range(25):
                await asyncio.gather(*(engine.emit(llm(child, f"{child}-{n}")) for child in children))
            assert not any(engine.is_done(child) for child in children)
            await engine.emit(llm("p.2", "more"))
            assert (await engine.handle("p.2").result()).reason == "parent budget"
            assert not engine.is_done("p.0")  # it has spent nothing since
            for sibling in ("p.0", "p.1", "p.3"):
                await engine.emit(llm(sibling, "more"))
                assert (await engine.handle(sibling).result()).reason == "parent budget"
            assert (await engine.handle("p").result()).reason == "tokens 104 > 100"

    run(main())


def test_a_finished_sibling_s_spend_counts_once() -> None:  # DEC-07, ENG-11
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, Budget(max_steps=4), "p.a", "p.b")
            await engine.emit(llm("p.a", "1"))
            await engine.emit(llm("p.a", "2"))
            await engine.handle("p.a").signal("test.go")
            await engine.handle("p.a").result()
            await engine.bus.drain()
            await engine.emit(llm("p.b", "3"))
            await engine.emit(llm("p.b", "4"))
            assert not engine.is_done("p.b")
            await engine.emit(llm("p.b", "5"))
            assert (await engine.handle("p.b").result()).reason == "parent budget"

    run(main())


def test_a_grandchild_is_held_to_every_ancestor_s_budget() -> None:  # DEC-07
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, Budget(max_cost=1.0), "p.a", "p.a.x", "p.b")
            await engine.emit(llm("p.b", "1", cost=0.5))
            await engine.emit(llm("p.a", "2", cost=0.25))
            await engine.emit(llm("p.a.x", "3", cost=0.25))
            assert not engine.is_done("p.a.x")
            await engine.emit(llm("p.a.x", "4", cost=0.25))
            outcome = await engine.handle("p.a.x").result()
            assert (outcome.kind, outcome.reason) == ("budget_exceeded", "parent budget")

    run(main())


def test_a_child_s_own_smaller_limit_is_named_as_such() -> None:  # DEC-07, BUD-04
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, Budget(max_steps=10), "p.a", own=Budget(max_steps=1))
            await engine.emit(llm("p.a", "1"))
            await engine.emit(llm("p.a", "2"))
            assert (await engine.handle("p.a").result()).reason == "steps 2 > 1"
            assert not engine.is_done("p")

    run(main())


def test_a_run_that_is_nobody_s_child_weighs_on_no_budget() -> None:  # DEC-07
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, Budget(max_steps=2), "p.a")
            await engine.start(Idle(), {}, run_id="stranger")
            await engine.emit(llm("stranger", "1"))
            await engine.emit(llm("stranger", "2"))
            for claimed in ("stranger", "p", "p.a"):
                await engine.emit(fact("p", f"claim-{claimed}", "aaa.child.started", child_run_id=claimed))
            await engine.emit(llm("p.a", "3"))
            await engine.emit(llm("p.a", "4"))
            assert not engine.is_done("p.a")

    run(main())


def test_a_greedy_child_ends_its_parent_which_hears_of_it() -> None:  # DEC-07, BUD-02
    async def main() -> None:
        async with engine_on() as engine:
            outcome = await engine.run(
                Parent(Greedy()), {"children": {"a": {}, "b": {}}}, run_id="p", budget=Budget(max_steps=9)
            )
            assert outcome.kind == "budget_exceeded"
            for child in ("p.a", "p.b"):
                assert (await engine.handle(child).result()).kind in {"budget_exceeded", "cancelled"}
            await engine.bus.drain()
            spent = sum(engine.spent(child).steps for child in ("p.a", "p.b"))
            assert (await engine.fold_of("p")).ledger.steps == spent
            assert spent in {10, 11}  # each child is stopped by its own first step too many

    run(main())


def test_a_family_without_limits_is_not_counted_together() -> None:
    """The cost of DEC-07 falls on whom it protects: no ancestor with a limit, no look at the siblings."""

    async def main() -> None:
        async with engine_on() as engine:
            await engine.run(Parent(Echo()), {"children": {"a": {}}}, run_id="p")
            assert (await engine.handle("p").result()).kind == "success"

    run(main())
    assert not Budget(deadline_s=1).limits_spend
    assert Budget(max_cost=0).limits_spend
