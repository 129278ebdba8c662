"""Starting runs, families, tenants, meta (ENG-07 to ENG-19)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from engine_parts import Awaiting, Echo, FaultyStore, Idle, Parent, engine_on, fact, run, types
from tracehold.core.errors import StoreUnavailable, TenantMismatch
from tracehold.engine import Budget
from tracehold.events import EventStore


# ENG-07
def test_start_writes_the_started_event_and_does_not_wait(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {"q": 1}, run_id="r", tag="t", budget=Budget(max_steps=2))
            assert handle.run_id == "r"
            (event,) = await store.read("r")
            assert (event.id, event.type, event.stream, event.run_id) == ("r:started", "aaa.run.started", "r", "r")
            assert event.data == {
                "algo": "idle",
                "input": {"q": 1},
                "parent": None,
                "run_tag": "t",
                "budget": {"max_steps": 2, "max_tokens": None, "max_cost": None, "deadline_s": None},
            }

    run(main())


# ENG-08
@pytest.mark.parametrize("finish", [False, True])
def test_starting_an_id_that_exists_starts_nothing_new(store: EventStore, finish: bool) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            idle = Idle()
            first = await engine.start(idle, {"n": 1}, run_id="r")
            if finish:
                await first.signal("test.go", {"n": 1})
                await first.result()
            before = await store.read("r")
            again = await engine.start(idle, {"n": 2}, run_id="r")
            await engine.bus.drain()
            assert await store.read("r") == before
            assert [event.type for event in idle.seen].count("aaa.run.started") == 1
            if not finish:
                await again.signal("test.go", {"n": 1})
            assert (await again.result()).value == {"n": 1}

    run(main())


# ENG-08
def test_starting_an_id_that_another_engine_started_starts_nothing_new(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        one, two = Idle(), Idle()
        async with engine_on(shared()) as first, engine_on(shared()) as second:
            await asyncio.gather(
                *(e.start(a, {}, run_id="r") for e, a in ((first, one), (second, two)) for _ in range(5))
            )
            await first.bus.drain()
            await second.bus.drain()
            assert types(await first.stored("r")) == ["aaa.run.started"]
            assert len(one.seen) + len(two.seen) == 1
            await first.handle("r").signal("test.go", {})
            await second.handle("r").result()

    run(main())


# ENG-08, ENG-21
def test_an_existing_run_is_not_handed_to_an_algorithm_of_another_name(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            other = Idle("other")
            await engine.start(Idle(), {}, run_id="r")
            handle = await engine.start(other, {}, run_id="r")
            await handle.signal("test.go", {"a": 1})
            assert (await handle.result()).value == {"a": 1}
            assert other.seen == []
            assert (await store.read("r"))[0].data["algo"] == "idle"

    run(main())


# ENG-08
def test_a_stream_that_holds_events_already_can_become_a_run(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.emit(fact("r", "early"))
            assert (await engine.run(Echo(), {"a": 1}, run_id="r")).value == {"a": 1}

    run(main())


# ENG-09
def test_fresh_ids_are_unique(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handles = await asyncio.gather(*(engine.start(Echo(), {}) for _ in range(50)))
            assert len({handle.run_id for handle in handles}) == 50

    run(main())


# ENG-10
def test_the_default_budget_applies_and_is_recorded(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store, default_budget=Budget(max_cost=0.5)) as engine:
            await engine.start(Idle(), {}, run_id="r")
            assert (await store.read("r"))[0].data["budget"]["max_cost"] == 0.5
            await engine.start(Idle(), {}, run_id="s", budget=Budget(max_steps=1))
            assert (await store.read("s"))[0].data["budget"]["max_cost"] is None

    run(main())


# ENG-11, EVT-06, EVT-07
def test_a_child_is_announced_at_its_start_and_with_its_result(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            outcome = await engine.run(Parent(Echo()), {"children": {"a": {"x": 1}}}, run_id="p")
            assert outcome.value == {"a": {"kind": "success", "value": {"x": 1}, "reason": None}}
            told = {event.id: event for event in await store.read("p")}
            assert told["p.a:childstarted"].data == {"child_run_id": "p.a", "tag": "a"}
            done = told["child-p.a"].data
            assert (done["child_run_id"], done["tag"], done["ledger"]["steps"]) == ("p.a", "a", 0)

    run(main())


# ENG-11
def test_a_child_of_an_unknown_parent_is_refused(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            with pytest.raises(KeyError, match="nobody"):
                await engine.start(Echo(), {}, run_id="c", parent="nobody")
            assert await store.read("c") == []

    run(main())


# ENG-12
def test_a_parent_that_finishes_first_cancels_its_open_children(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            parent = await engine.start(Idle("p"), {}, run_id="p")
            child = await engine.start(Idle("c"), {}, run_id="c", parent="p")
            await parent.signal("test.go", {})
            assert (await child.result()).kind == "cancelled"
            late = await engine.start(Idle("c"), {}, run_id="late", parent="p")
            assert (await late.result()).kind == "cancelled"

    run(main())


# ENG-13, ENG-35, ENG-16
def test_tenant_and_meta_are_on_every_event_of_the_run_and_its_children(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(
                Parent(Echo()), {"children": {"a": {}}}, run_id="p", tenant="acme", meta={"user": "ann", "n": 1}
            )
            await engine.handle("p").signal("test.late")
            for stream in ("p", "p.a"):
                events = await store.read(stream)
                assert len(events) >= 2
                assert {event.tenant for event in events} == {"acme"}
                assert all(event.meta == {"user": "ann", "n": 1} for event in events)

    run(main())


# ENG-16
def test_an_explicit_meta_of_a_child_wins_and_an_event_cannot_change_its_run_s(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle("p"), {}, run_id="p", meta={"user": "ann"})
            await engine.start(Idle("c"), {}, run_id="c", parent="p", meta={"user": "bob"})
            assert (await store.read("c"))[0].meta == {"user": "bob"}
            stored = await engine.emit(fact("p").with_(meta={"user": "eve"}))
            assert stored is not None
            assert stored.meta["user"] == "ann"

    run(main())


# ENG-14, ENG-15
def test_a_malformed_or_missing_tenant_is_refused_and_nothing_is_recorded(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store, require_tenant=True) as engine:
            for tenant in (None, "", "a/b", " a"):
                with pytest.raises(ValueError, match="tenant"):
                    await engine.start(Echo(), {}, run_id="r", tenant=tenant)
            assert await store.run_index() == []
            assert (await engine.run(Echo(), {"a": 1}, run_id="r", tenant="acme")).ok

    run(main())


# ENG-13, DEC-06
def test_a_child_or_an_existing_run_of_another_tenant_is_refused(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="p", tenant="acme")
            with pytest.raises(TenantMismatch):
                await engine.start(Echo(), {}, run_id="c", parent="p", tenant="other")
            with pytest.raises(TenantMismatch):
                await engine.start(Idle(), {}, run_id="p", tenant="other")
            assert await store.read("c") == []

    run(main())


# ENG-17
def test_a_start_that_does_not_reach_the_store_can_be_repeated(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            faulty.fail("append", times=None)
            with pytest.raises(StoreUnavailable):
                await engine.start(Echo(), {"a": 1}, run_id="r")
            assert await store.read("r") == []
            assert not engine.is_done("r")
            faulty.mend()
            assert (await engine.run(Echo(), {"a": 1}, run_id="r")).value == {"a": 1}
            assert types(await store.read("r")) == ["aaa.run.started", "aaa.run.completed"]

    run(main())


# ENG-17, ENG-08
@pytest.mark.parametrize("lost", [1, 2])
def test_a_start_whose_answer_is_lost_is_delivered_once(store: EventStore, lost: int) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            faulty.lose("append", times=lost)
            handle = await engine.start(idle, {}, run_id="r")
            await engine.bus.drain()
            assert types(idle.seen) == ["aaa.run.started"]
            await handle.signal("test.go", {"a": 1})
            assert (await handle.result()).value == {"a": 1}

    run(main())


# ENG-17, ENG-34
def test_a_start_that_was_stored_unseen_and_reported_as_failed_runs_when_repeated(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            faulty.lose("append")
            faulty.fail("append", times=2)
            with pytest.raises(StoreUnavailable):
                await engine.start(Echo(), {"a": 1}, run_id="r")
            assert len(await store.read("r")) == 1
            assert (await engine.run(Echo(), {"a": 1}, run_id="r")).value == {"a": 1}

    run(main())


# ENG-18
def test_run_starts_and_returns_the_outcome(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            outcome = await engine.run(Echo(), {"a": [1]}, run_id="r", tenant="t")
            assert (outcome.ok, outcome.value, outcome.reason) == (True, {"a": [1]}, None)

    run(main())


# ENG-19
def test_a_handle_is_given_for_any_id_without_a_look_at_the_store() -> None:
    faulty = FaultyStore(engine_on().store)
    assert engine_on(faulty).handle("no such run").run_id == "no such run"
    assert not faulty.calls


# ALG-04, ENG-22
@pytest.mark.parametrize("children", [1, 20])
def test_a_reaction_may_start_a_child_of_its_own_algorithm_and_await_it(store: EventStore, children: int) -> None:
    async def main() -> None:
        class Nested(Awaiting):
            async def on_event(self, event, ctx, /):  # type: ignore[no-untyped-def]  # as above
                if event.type == "aaa.run.started" and event.data["input"]["depth"] == 0:
                    return [event.caused("aaa.run.completed", {"kind": "success", "value": "deep", "reason": None})]
                if event.type == "aaa.run.started":
                    depth = event.data["input"]["depth"] - 1
                    outcome = await ctx.engine.run(self, {"depth": depth}, parent=ctx.run_id)
                    return [event.caused("aaa.run.completed", {"kind": "success", "value": outcome.value})]
                return None

        nested = Nested(Echo(), name="nested")
        async with engine_on(store) as engine:
            outcomes = await asyncio.gather(*(engine.run(nested, {"depth": 4}) for _ in range(children)))
            assert {outcome.value for outcome in outcomes} == {"deep"}

    run(main())
