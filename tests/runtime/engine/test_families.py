"""Parents and children: spend rolls up, results are told once, and nobody outlives a parent (ENG-11, ENG-12)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from engine_parts import Echo, FaultyStore, Idle, Parent, Spending, engine_on, fact, llm, outage, run, types
from tracehold.engine import Engine, Ledger
from tracehold.events import Event, EventStore
from tracehold.events.blobs import InMemoryBlobStore
from tracehold.events.memory_store import InMemoryEventStore


async def family(engine: Engine, *runs: str) -> None:
    """Start each run under the one that its name extends: `p.a` under `p`, `p.a.x` under `p.a`."""
    for name in runs:
        await engine.start(Idle(), {}, run_id=name, parent=name.rpartition(".")[0] or None, tag=f"tag-{name}")


async def told(store: EventStore, parent: str, kind: str) -> list[Event]:
    return [event for event in await store.read(parent) if event.type == kind]


def test_a_parent_is_told_of_a_child_s_start_result_and_spend(store: EventStore) -> None:  # ENG-11
    async def main() -> None:
        async with engine_on(store) as engine:
            await family(engine, "p", "p.a")
            (start,) = await told(store, "p", "aaa.child.started")
            assert start.data == {"child_run_id": "p.a", "tag": "tag-p.a"}
            await engine.emit(llm("p.a", tokens=7, cost=0.5))
            await engine.handle("p.a").signal("test.go", {"answer": 42})
            await engine.handle("p.a").result()
            await engine.bus.drain()
            (end,) = await told(store, "p", "aaa.child.completed")
            assert end.data == {
                "child_run_id": "p.a",
                "tag": "tag-p.a",
                "outcome": {"kind": "success", "value": {"answer": 42}, "reason": None},
                "ledger": {"steps": 1, "tokens": 7, "cost": 0.5},
            }
            assert engine.spent("p") == Ledger(steps=1, tokens=7, cost=0.5)
            assert (await engine.fold_of("p")).children == {}
        await store.aclose()

    run(main())


def test_spend_rolls_up_through_the_generations() -> None:  # ENG-11
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, "p", "p.a", "p.a.x", "p.a.y")
            for n, name in enumerate(["p", "p.a", "p.a.x", "p.a.y"]):
                await engine.emit(llm(name, tokens=10**n))
            for name in ["p.a.x", "p.a.y", "p.a"]:
                await engine.handle(name).signal("test.go")
                await engine.handle(name).result()
                await engine.bus.drain()
            assert engine.spent("p") == Ledger(steps=4, tokens=1111)

    run(main())


def test_an_algorithm_hears_of_each_child_once_by_its_tag() -> None:  # ENG-11
    async def main() -> None:
        async with engine_on() as engine:
            children = {f"t{n}": {"n": n} for n in range(20)}
            outcome = await engine.run(Parent(Echo()), {"children": children})
            assert {tag: result["value"] for tag, result in outcome.value.items()} == children
            ends = await told(engine.store, (await engine.store.run_index())[0].stream, "aaa.child.completed")
            assert Counter(event.data["tag"] for event in ends) == dict.fromkeys(children, 1)

    run(main())


def test_starting_a_child_again_tells_nobody_twice(store: EventStore) -> None:  # ENG-08, ENG-11
    async def main() -> None:
        async with engine_on(store) as engine:
            await family(engine, "p", "p.a", "p.a")
            await engine.handle("p.a").signal("test.go")
            await engine.handle("p.a").result()
            await engine.bus.drain()
            await family(engine, "p.a")
            assert types(await store.read("p")) == ["aaa.run.started", "aaa.child.started", "aaa.child.completed"]
        await store.aclose()

    run(main())


def test_a_parent_that_finishes_first_cancels_its_open_children_and_theirs(store: EventStore) -> None:  # ENG-12
    async def main() -> None:
        async with engine_on(store) as engine:
            await family(engine, "p", "p.a", "p.b", "p.a.x", "p.done")
            await engine.handle("p.done").signal("test.go", {"early": True})
            await engine.handle("p.done").result()
            await engine.emit(llm("p.a.x", tokens=3))
            await engine.handle("p").signal("test.go")
            for name in ("p.a", "p.b", "p.a.x"):
                outcome = await engine.handle(name).result()
                assert (outcome.kind, outcome.reason) == ("cancelled", "parent finished")
            assert (await engine.handle("p.done").result()).value == {"early": True}
            await engine.bus.drain()
            # What a cancelled child had spent is spent all the same.
            assert (await engine.fold_of("p")).ledger == Ledger(steps=1, tokens=3)
            for name in ("p", "p.a", "p.b", "p.a.x", "p.done"):
                assert types(await store.read(name)).count("aaa.run.completed") == 1
        await store.aclose()

    run(main())


@pytest.mark.parametrize("end", ["cancel", "budget", "failure", "complete"])
def test_children_end_with_their_parent_however_it_ends(end: str) -> None:  # ENG-12
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, "p", "p.a")
            if end == "cancel":
                await engine.handle("p").cancel("enough")
            elif end == "complete":
                await engine.complete("p", "no_solution")  # type: ignore[arg-type]  # a text is one
            elif end == "failure":
                await engine.complete("p", "failed", None, "broken")  # type: ignore[arg-type]  # likewise
            else:
                await engine.start(Idle(), {}, run_id="q", parent="p")
                await engine.complete("p", "budget_exceeded")  # type: ignore[arg-type]  # likewise
            assert (await engine.handle("p.a").result()).reason == "parent finished"

    run(main())


def test_a_child_of_a_finished_parent_is_cancelled_at_once() -> None:  # ENG-12
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, "p")
            await engine.handle("p").signal("test.go")
            await engine.handle("p").result()
            await family(engine, "p.late")
            assert (await engine.handle("p.late").result()).reason == "parent finished"

    run(main())


def test_a_child_whose_parent_finished_elsewhere_is_cancelled_at_once(  # ENG-12
    shared: Callable[[], EventStore],
) -> None:
    async def main() -> None:
        here, there = shared(), shared()
        async with engine_on(here) as first, engine_on(there) as second:
            await family(first, "p")
            assert (await second.fold_of("p")).is_open
            await first.handle("p").signal("test.go")
            await first.handle("p").result()
            await family(second, "p.late")  # it still takes the parent for open
            assert (await second.handle("p.late").result()).reason == "parent finished"
        await here.aclose()
        await there.aclose()

    run(main())


def test_a_parent_s_end_reaches_children_that_another_process_runs(shared: Callable[[], EventStore]) -> None:  # ENG-12
    async def main() -> None:
        here, there = shared(), shared()
        async with engine_on(here) as first, engine_on(there) as second:
            await family(first, "p")
            await family(second, "p.a")
            await first.handle("p").signal("test.go")
            assert (await second.handle("p.a").result()).reason == "parent finished"
            assert (await first.handle("p.a").result()).reason == "parent finished"
        await here.aclose()
        await there.aclose()

    run(main())


def test_nobody_can_be_cancelled_by_a_run_that_claims_to_be_its_parent() -> None:  # ENG-12
    async def main() -> None:
        async with engine_on() as engine:
            await engine.start(Idle(), {}, run_id="victim", tenant="acme")
            await engine.start(Idle(), {}, run_id="mallory", tenant="evil")
            for claimed in ("victim", None, 5, ["victim"], ""):
                await engine.emit(fact("mallory", f"claim-{claimed}", "aaa.child.started", child_run_id=claimed))
            await engine.handle("mallory").signal("test.go")
            await engine.handle("mallory").result()
            await engine.bus.drain()
            await engine.sweep()
            assert not engine.is_done("victim")

    run(main())


def test_a_child_needs_a_parent_that_was_started() -> None:  # ENG-11
    async def main() -> None:
        async with engine_on() as engine:
            with pytest.raises(KeyError):
                await engine.start(Idle(), {}, run_id="c", parent="nobody")
            assert await engine.store.run_index() == []

    run(main())


def test_one_child_that_cannot_be_read_keeps_no_other_from_being_cancelled() -> None:  # ENG-12, RCV-09
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as engine:
            await family(engine, "p", "p.a", "p.b", "p.c")
        faulty = FaultyStore(store)
        faulty.fail("read", ValueError("made up"), times=None, when=lambda stream, *_: stream == "p.b")
        async with engine_on(faulty) as engine:
            await engine.complete("p", "success")  # type: ignore[arg-type]  # a text is one
            for name in ("p.a", "p.c"):
                assert (await engine.handle(name).result()).reason == "parent finished"
            faulty.mend()
            assert (await engine.sweep()).orphans_cancelled == ["p.b"]

    run(main())


def test_a_completion_whose_family_cannot_be_told_stands_and_is_told_later() -> None:  # ENG-11, RCV-06
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        async with engine_on(faulty) as engine:
            await family(engine, "p", "p.a")
            faulty.fail("append", outage(), times=None, when=lambda stream, *_: stream == "p")
            await engine.emit(llm("p.a", tokens=5))
            await engine.complete("p.a", "success", "x")  # type: ignore[arg-type]  # a text is one
            assert (await engine.handle("p.a").result()).value == "x"
            assert await told(faulty, "p", "aaa.child.completed") == []
            faulty.mend()
            assert (await engine.sweep()).announced == ["p.a"]
            assert (await engine.sweep()).announced == []
            assert engine.spent("p").tokens == 5
            assert len(await told(faulty, "p", "aaa.child.completed")) == 1

    run(main())


def test_a_child_s_end_that_is_told_before_its_start_opens_it_no_more() -> None:  # ENG-11
    async def main() -> None:
        async with engine_on() as engine:
            await family(engine, "p")
            await engine.emit(fact("p", "child-c", "aaa.child.completed", child_run_id="c", ledger={"steps": 1}))
            await engine.emit(fact("p", "c:childstarted", "aaa.child.started", child_run_id="c"))
            assert (await engine.fold_of("p")).children == {}
            await engine.emit(fact("p", "d:childstarted", "aaa.child.started", child_run_id="d"))
            assert (await engine.fold_of("p")).children == {"d": None}

    run(main())


def test_a_large_result_reaches_the_parent_whole_and_its_spend_is_counted() -> None:  # ENG-11, BLB-03
    async def main() -> None:
        async with engine_on(blobs=InMemoryBlobStore(), claim_threshold=64) as engine:
            large: dict[str, Any] = {"text": "x" * 10_000}
            await family(engine, "p", "p.a")
            event = fact("p.a", "big", "aaa.llm.completed", usage={"total_tokens": 9}, cost=0.5, output="y" * 10_000)
            await engine.emit(event)
            await engine.handle("p.a").signal("test.go", large)
            await engine.handle("p.a").result()
            await engine.bus.drain()
            assert engine.spent("p") == Ledger(steps=1, tokens=9, cost=0.5)
            (end,) = await told(engine.store, "p", "aaa.child.completed")
            assert end.blobs
            assert (await engine.hydrate(end)).data["outcome"]["value"] == large
            assert (await engine.fold_of("p")).children == {}

    run(main())


@pytest.mark.parametrize("delete", [False, True], ids=["scrubbed", "deleted"])
def test_a_child_s_result_is_not_told_to_a_parent_that_was_erased(  # ENG-11, RET-12
    shared: Callable[[], EventStore], delete: bool
) -> None:
    """Another process erased the parent: what is told to it would bring content back to stay."""

    async def main() -> None:
        here, there = shared(), shared()
        async with engine_on(here) as first, engine_on(there) as second:
            await family(second, "p")
            await family(second, "p.a")
            # The parent ends without its child being told, as a crash leaves it, and is erased.
            done = fact("p", "p:completed", "aaa.run.completed", kind="success", value=None, reason=None)
            await here.append("p", [done])
            await (here.delete_stream("p") if delete else first.erase("p"))
            await second.complete("p.a", "success", "secret-result")  # type: ignore[arg-type]  # a text is one
            assert (await second.handle("p.a").result()).value == "secret-result"
            assert not any("secret-result" in repr(event.data) for event in await here.read("p"))
            if delete:
                assert await here.read("p") == []
        await here.aclose()
        await there.aclose()

    run(main())


def test_a_hundred_children_in_parallel_spend_on_one_ledger() -> None:  # ENG-11
    async def main() -> None:
        async with engine_on() as engine:
            children = {f"t{n}": {"calls": n % 3, "tokens": 2} for n in range(100)}
            handle = await engine.start(Parent(Spending()), {"children": children}, run_id="p")
            assert (await handle.result()).kind == "success"
            steps = sum(told["calls"] for told in children.values())
            assert (await engine.fold_of("p")).ledger == Ledger(steps=steps, tokens=2 * steps)

    run(main())


def test_children_that_end_at_once_are_each_told_once(store: EventStore) -> None:  # ENG-11
    async def main() -> None:
        async with engine_on(store) as engine:
            names = [f"p.{n}" for n in range(30)]
            await family(engine, "p", *names)
            await asyncio.gather(*(engine.complete(name, "success") for name in names * 2))  # type: ignore[arg-type]
            ends = await told(store, "p", "aaa.child.completed")
            assert Counter(event.data["child_run_id"] for event in ends) == dict.fromkeys(names, 1)
        await store.aclose()

    run(main())
