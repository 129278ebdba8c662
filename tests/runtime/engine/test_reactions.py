"""What one reaction returns is stored together (ENG-03), and budgets, order and completions stand as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from engine_parts import FaultyStore, Idle, engine_on, fact, finished, outage, run, types, until
from tracehold.engine import Budget, Ctx
from tracehold.events import Event, EventStore
from tracehold.events.blobs import InMemoryBlobStore
from tracehold.events.memory_store import InMemoryEventStore

Kind = tuple[str, dict[str, Any]]


class Planner:
    """Reacts to its start with the events of these types, and ends when the last of them is delivered."""

    name = "planner"

    def __init__(self, *kinds: Kind, ends: bool = True) -> None:
        self.kinds = kinds
        self.ends = ends
        self.seen: list[Event] = []

    def subscriptions(self) -> list[str]:
        return ["*"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> Sequence[Event] | None:
        self.seen.append(event)
        if event.type == "aaa.run.started":
            return [event.caused(kind, data) for kind, data in self.kinds]
        return finished(event, "planned") if self.ends and event.type == self.kinds[-1][0] else None


STEPS: list[Kind] = [(f"plan.{n}", {}) for n in range(4)]
DONE: Kind = ("aaa.run.completed", {"kind": "success", "value": 1, "reason": None})
CALL: Kind = ("aaa.llm.completed", {"usage": {"total_tokens": 5}, "cost": 0.0})


def test_the_events_of_a_reaction_are_one_append_and_are_delivered_in_order(
    store: EventStore,
) -> None:  # ENG-22, ENG-23
    async def main() -> None:
        faulty = FaultyStore(store)
        algo = Planner(*STEPS)
        sizes: list[int] = []
        faulty.fail("append", when=lambda _stream, events, *_: bool(sizes.append(len(events))))
        async with engine_on(faulty) as engine:
            assert (await engine.run(algo, {}, run_id="r")).value == "planned"
            await engine.bus.drain()
            assert sizes == [1, 4, 1]
            log = await faulty.read("r")
            assert types(log) == ["aaa.run.started", *(kind for kind, _ in STEPS), "aaa.run.completed"]
            assert [event.seq for event in algo.seen] == list(range(6))
            assert not any(event.dup for event in algo.seen)
        await store.aclose()

    run(main())


@pytest.mark.parametrize("how", ["fail", "lose"])
def test_an_outage_in_a_reaction_delivers_each_event_and_stores_it_once(how: str) -> None:  # ENG-26, ENG-33
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        algo = Planner(*STEPS)
        async with engine_on(faulty) as engine:
            outages = getattr(faulty, how)("append", outage(), times=7, when=lambda _, events, *__: len(events) > 1)
            assert (await engine.run(algo, {}, run_id="r")).value == "planned"
            assert outages.met.is_set()
            await engine.bus.drain()
            log = await faulty.read("r")
            assert types(log) == ["aaa.run.started", *(kind for kind, _ in STEPS), "aaa.run.completed"]
            assert {event.seq for event in algo.seen} == set(range(6))

    run(main())


@pytest.mark.parametrize("crash", ["before", "after"])
def test_a_crash_at_the_append_of_a_reaction_loses_none_of_it(crash: str) -> None:  # ENG-03, RCV-03
    async def main() -> None:
        store = InMemoryEventStore()
        faulty = FaultyStore(store)
        together: Callable[..., bool] = lambda _, events, *__: len(events) > 1  # noqa: E731 - typed
        async with engine_on(faulty) as first:
            if crash == "before":
                fault = faulty.hang("append", when=together)
                await first.start(Planner(*STEPS), {}, run_id="r")
                await fault.met.wait()
            else:
                faulty.lose("append", when=together, times=None)
                await first.start(Planner(*STEPS), {}, run_id="r")
                await first.await_event("r", lambda event: event.type == STEPS[-1][0])
            await first.abort()
        async with engine_on(store) as second:
            handles = await second.recover([Planner(*STEPS)])
            assert (await handles["r"].result()).value == "planned"
            assert types(await store.read("r")) == [
                *("aaa.run.started", "plan.0", "plan.1", "plan.2", "plan.3", "aaa.run.completed")
            ]

    run(main())


def test_a_completion_among_the_events_is_stored_with_them_and_is_the_only_one() -> None:  # ENG-31, ENG-03
    async def main() -> None:
        async with engine_on() as engine:
            await engine.start(Idle(), {}, run_id="p")
            handle = await engine.start(Planner(STEPS[0], DONE, DONE, STEPS[1], ends=False), {}, run_id="r", parent="p")
            assert (await handle.result()).value == 1
            await engine.bus.drain()
            assert types(await engine.stored("r"))[:3] == ["aaa.run.started", "plan.0", "aaa.run.completed"]
            assert types(await engine.stored("r")).count("aaa.run.completed") == 1
            assert (await engine.fold_of("p")).children == {}
            await engine.abort()

    run(main())


@pytest.mark.parametrize("family", [False, True])
def test_a_reaction_that_spends_too_much_cannot_end_as_a_success(family: bool) -> None:  # BUD-02, BUD-04, DEC-07
    async def main() -> None:
        async with engine_on() as engine:
            limit = Budget(max_tokens=9)
            if family:
                await engine.start(Idle(), {}, run_id="p", budget=limit)
            calls: list[Kind] = [(CALL[0], {**CALL[1], "n": n}) for n in range(2)]
            handle = await engine.start(
                Planner(*calls, DONE, ends=False),
                {},
                run_id="r",
                budget=None if family else limit,
                parent="p" if family else None,
            )
            outcome = await handle.result()
            assert outcome.kind == "budget_exceeded"
            assert outcome.reason == ("parent budget" if family else "tokens 10 > 9")
            assert types(await engine.stored("r"))[-2:] == ["aaa.budget.exceeded", "aaa.run.completed"]

    run(main())


# ENG-26, ENG-33, ENG-11
def test_an_answer_lost_at_the_append_that_ends_a_run_is_delivered_and_told_to_its_parent() -> None:
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        async with engine_on(faulty) as engine:
            parent, algo = Idle(), Planner(STEPS[0], DONE, ends=False)
            await engine.start(parent, {}, run_id="p")
            lost = faulty.lose("append", when=lambda _, events, *__: len(events) > 1)
            handle = await engine.start(algo, {}, run_id="r", parent="p")
            assert (await handle.result()).value == 1
            assert lost.met.is_set()
            await engine.await_event("p", lambda event: event.type == "aaa.child.completed")
            await until(lambda: {event.seq for event in algo.seen} == {0, 2})  # no others once a run has ended (ENG-27)
            await engine.abort()

    run(main())


def test_a_reaction_is_of_the_tenant_of_a_run_that_was_started_meanwhile() -> None:  # DEC-06, TEN-14
    async def main() -> None:
        class Gate(InMemoryBlobStore):
            met, release = asyncio.Event(), asyncio.Event()

            async def put(self, *args: Any, **kw: Any) -> Any:
                self.met.set()
                await self.release.wait()
                return await super().put(*args, **kw)

        blobs = Gate()

        async def handle(event: Event) -> list[Event]:
            return [event.caused("plan.large", {"x": "x" * 9999}), event.caused("plan.small", {})]

        async with engine_on(blobs=blobs, claim_threshold=5000) as engine:
            engine.subscribe("test.fact", handle)
            await engine.emit(fact("r", "a"))
            await blobs.met.wait()
            await engine.start(Idle(), {}, run_id="r", tenant="t")
            blobs.release.set()
            await engine.await_event("r", lambda event: event.type == "plan.small")
            told = {event.type: event.tenant for event in await engine.stored("r")}
            assert told == {"test.fact": None, "aaa.run.started": "t", "plan.large": "t", "plan.small": "t"}
            await engine.abort()

    run(main())


def test_one_event_that_cannot_be_stored_keeps_the_others_from_it(store: EventStore) -> None:  # ENG-25, ENG-32
    async def main() -> None:
        async with engine_on(store) as engine:
            outcome = await engine.run(Planner(STEPS[0], ("plan.bad", {"x": float("nan")})), {}, run_id="r")
            assert outcome.kind == "failed"
            assert types(await store.read("r")) == ["aaa.run.started", "aaa.run.completed"]
        await store.aclose()

    run(main())


def test_writers_of_several_processes_disturb_no_reaction(shared: Callable[[], EventStore]) -> None:  # ENG-22, ENG-31
    async def main() -> None:
        here, there = shared(), shared()
        algo = Planner(*STEPS, ("plan.last", {}))
        async with engine_on(here) as first, engine_on(there) as second:
            for n in range(10):
                handle = await first.start(algo, {}, run_id=f"r{n}")
                await asyncio.gather(*(second.emit(fact(f"r{n}", f"x{k}")) for k in range(5)))
                assert (await handle.result()).value == "planned"
                log = types(await here.read(f"r{n}"))
                assert [kind for kind in log if kind.startswith("plan")] == [kind for kind, _ in algo.kinds]
                assert log.count("aaa.run.completed") == 1
            await first.bus.drain()
            for n in range(10):
                seqs = [event.seq for event in algo.seen if event.stream == f"r{n}"]
                assert seqs == sorted(set(seqs))
        await here.aclose()
        await there.aclose()

    run(main())
