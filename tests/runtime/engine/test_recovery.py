"""Continuing after a crash, from the log alone (RCV-01 to RCV-05, RCV-09, ENG-03)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_parts import (
    Counting,
    Echo,
    FaultyStore,
    Idle,
    Parent,
    RefusingBus,
    engine_on,
    fact,
    finished,
    llm,
    outage,
    run,
    types,
    until,
)
from support.event_stores import STORES
from tracehold.core.errors import StoreUnavailable
from tracehold.engine import Ctx
from tracehold.engine.appending import CROWDED
from tracehold.engine.recovery import unanswered
from tracehold.events import Event, EventStore
from tracehold.events.memory_store import InMemoryEventStore


class Tools:
    """Requests a tool call for each of its input's `calls`, one after another, and ends with the results."""

    name = "tools"

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started", "aaa.tool.completed"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        done = [one.data["result"] for one in await ctx.history() if one.type == "aaa.tool.completed"]
        wanted = (await ctx.started()).data["input"]["calls"]
        if len(done) == wanted:
            return finished(event, done)
        return [event.caused("aaa.tool.requested", {"n": len(done)})]


class Shop:
    """Runs tool calls; `sold` tells which, and `stop_at` hangs in the middle of one, after its start was recorded."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.sold: list[int] = []
        self.stop_at = stop_at
        self.inside = asyncio.Event()

    async def __call__(self, event: Event) -> list[Event]:
        n = event.data["n"]
        self.sold.append(n)
        if n == self.stop_at:
            self.inside.set()
            await asyncio.Event().wait()
        return [event.caused("aaa.tool.started"), event.caused("aaa.tool.completed", {"result": n * n})]


def begun(run_id: str, algo: str = "idle", parent: str | None = None) -> Event:
    told = {"algo": algo, "input": {}, "parent": parent, "run_tag": None, "budget": {}}
    return fact(run_id, f"{run_id}:started", "aaa.run.started", **told)


def test_open_runs_of_the_given_algorithms_are_continued_to_their_end(store: EventStore) -> None:  # RCV-01, ENG-03
    async def main() -> None:
        async with engine_on(store) as first:
            for n in range(5):
                await first.start(Idle("counting"), {"to": 3}, run_id=f"r{n}")  # nobody reacts to its start
            await first.abort()
        async with engine_on(store) as second:
            handles = await second.recover([Counting()])
            assert sorted(handles) == [f"r{n}" for n in range(5)]
            for handle in handles.values():
                assert (await handle.result()).value == 3
        for n in range(5):
            log = await store.read(f"r{n}")
            assert types(log) == ["aaa.run.started", *["count.tick"] * 3, "aaa.run.completed"]
        await store.aclose()

    run(main())


def test_what_has_no_algorithm_is_left_alone_and_reported_and_what_is_finished_is_untouched() -> None:  # RCV-02, RCV-05
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as first:
            await first.run(Echo(), {}, run_id="done")
            await first.start(Idle("mine"), {}, run_id="mine")
            await first.start(Idle("other"), {}, run_id="other")
            await first.abort()
        before = {name: await store.read(name) for name in ("done", "mine", "other")}
        async with engine_on(store) as second:
            assert second.last_recovery is None
            handles = await second.recover([Idle("mine")])
            assert list(handles) == ["mine"]
            report = second.last_recovery
            assert report is not None
            assert (report.recovered, report.unknown_algo) == (["mine"], ["other"])
            assert (report.orphans_cancelled, report.timed_out, report.announced) == ([], [], [])
            assert (report.erased, report.unreadable) == ([], [])
            assert report.redelivered == 1
            await second.bus.drain()
            assert {name: await store.read(name) for name in before} == before

    run(main())


def test_the_report_tells_what_the_sweep_in_it_did() -> None:  # RCV-05, RCV-06
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("orphan", [begun("orphan", parent="nobody")])
        late = begun("late")
        await store.append("late", [late.with_(data={**late.data, "budget": {"deadline_s": 1e-9}})])
        await store.append("p", [begun("p")])
        end = fact("c", "c:completed", "aaa.run.completed", kind="success", value=1, reason=None)
        await store.append("c", [begun("c", parent="p"), end])
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle()])
            assert list(handles) == ["p"]
            report = engine.last_recovery
            assert report is not None
            assert (report.orphans_cancelled, report.timed_out, report.announced) == (["orphan"], ["late"], ["c"])
            await engine.abort()

    run(main())


def test_results_that_are_recorded_are_not_produced_again(store: EventStore) -> None:  # RCV-03
    async def main() -> None:
        first = Shop(stop_at=2)
        async with engine_on(store) as engine:
            engine.subscribe("aaa.tool.requested", first)
            await engine.start(Tools(), {"calls": 4}, run_id="r")
            await first.inside.wait()
            await engine.abort()
        second = Shop()
        async with engine_on(store) as engine:
            engine.subscribe("aaa.tool.requested", second)
            handles = await engine.recover([Tools()])
            assert (await handles["r"].result()).value == [0, 1, 4, 9]
        assert (first.sold, second.sold) == ([0, 1, 2], [2, 3])
        assert Counter(types(await store.read("r")))["aaa.tool.completed"] == 4
        await store.aclose()

    run(main())


def test_a_request_that_only_shows_progress_has_not_been_reacted_to() -> None:  # RCV-03
    start, request = begun("r"), fact("r", "ask", "aaa.tool.requested", n=3).with_(causation_id="r:started")
    progress = [request.caused(kind) for kind in ("aaa.tool.started", "aaa.llm.delta", "own.progress")]

    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [start.with_(data={**start.data, "algo": "tools", "input": {"calls": 1}})])
        await store.append("r", [request, *progress])
        shop = Shop()
        async with engine_on(store) as engine:
            engine.subscribe("aaa.tool.requested", shop)
            handles = await engine.recover([Tools()])
            assert (await handles["r"].result()).value == [9]
        assert shop.sold == [3]

    run(main())
    assert unanswered([start, request, *progress]) == [request, *progress]
    assert unanswered([start, request, *progress, request.caused("aaa.tool.failed")])[0] is progress[0]


def test_repeated_reactions_leave_no_second_copy(store: EventStore) -> None:  # RCV-04
    async def main() -> None:
        async with engine_on(store) as first:
            await first.start(Idle("counting"), {"to": 4}, run_id="r")
            await first.abort()
        # Two engines recover at once, and each of them twice: the log is that of one undisturbed run.
        async with engine_on(store) as second, engine_on(store) as third:
            told = await asyncio.gather(*(engine.recover([Counting()]) for engine in (second, third, second, third)))
            assert (await told[0]["r"].result()).value == 4
            await second.bus.drain()
            await third.bus.drain()
        log = await store.read("r")
        assert types(log) == ["aaa.run.started", *["count.tick"] * 4, "aaa.run.completed"]
        assert len({event.id for event in log}) == len(log)
        await store.aclose()

    run(main())


def test_recovering_while_the_first_engine_is_alive_changes_no_log(shared: Callable[[], EventStore]) -> None:  # RCV-04
    async def main() -> None:
        here, there = shared(), shared()
        async with engine_on(here) as first, engine_on(there) as second:
            handles = [await first.start(Counting(), {"to": 30}, run_id=f"r{n}") for n in range(5)]
            for _ in range(3):
                await second.recover([Counting()])
            for handle in handles:
                assert (await handle.result()).value == 30
            await first.bus.drain()
            await second.bus.drain()
            for handle in handles:
                log = await here.read(handle.run_id)
                assert [event.data["n"] for event in log if event.type == "count.tick"] == list(range(1, 31))
                assert types(log).count("aaa.run.completed") == 1
        await here.aclose()
        await there.aclose()

    run(main())


def test_a_reaction_that_caused_nothing_is_delivered_again_and_harms_nothing() -> None:  # RCV-03, RCV-04
    """Nothing in a log tells "handled, and there was nothing to do" from "not handled"."""

    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as first:
            await first.start(Idle(), {}, run_id="r")
            await first.emit(fact("r", "a"))
            await first.bus.drain()
            await first.abort()
        before = await store.read("r")
        for _ in range(3):
            algo = Idle()
            async with engine_on(store) as engine:
                await engine.recover([algo])
                await engine.bus.drain()
                assert types(algo.seen) == ["aaa.run.started", "test.fact"]
                assert engine.last_recovery is not None
                assert engine.last_recovery.redelivered == 2
                await engine.abort()
        assert await store.read("r") == before

    run(main())


def test_what_is_delivered_again_comes_in_order_and_before_what_is_new() -> None:  # ENG-22, RCV-03
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [begun("r"), *(fact("r", f"old{n}") for n in range(50))])
        algo = Idle()
        async with engine_on(store) as engine:
            recovering = asyncio.ensure_future(engine.recover([algo]))
            for n in range(20):
                await engine.emit(fact("r", f"new{n}"))
            await recovering
            await engine.bus.drain()
            seqs = [event.seq for event in algo.seen]
            first_seen = list(dict.fromkeys(seqs))
            assert first_seen == sorted(first_seen)
            assert set(seqs) >= set(range(51))
            await engine.abort()

    run(main())


def test_a_bus_that_refuses_what_is_delivered_again_is_asked_again() -> None:  # RCV-03, ENG-30
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [begun("r"), fact("r", "a"), fact("r", "b")])
        algo = Idle()
        async with engine_on(store, bus=RefusingBus(1)) as engine:
            assert list(await engine.recover([algo])) == ["r"]
            assert engine.last_recovery is not None
            assert engine.last_recovery.unreadable == []
            await until(lambda: [event.seq for event in algo.seen] == [0, 1, 2])
            await engine.abort()

    run(main())


def test_who_emits_while_much_is_delivered_again_waits_only_until_it_is() -> None:  # ENG-30, BUS-07
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [begun("r"), *(fact("r", f"old{n}") for n in range(2 * CROWDED))])
        async with engine_on(store) as engine:
            recovering = asyncio.ensure_future(engine.recover([Idle()]))

            def crowded() -> bool:
                held = engine.runs.peek("r")
                return held is not None and held.publishing and len(held.outbox) >= CROWDED

            await until(crowded)
            assert await engine.emit(fact("r", "new")) is not None
            await recovering
            await engine.abort()

    run(main())


@pytest.mark.parametrize("told", [True, False], ids=["completion lost", "nothing lost"])
def test_a_cancellation_that_a_crash_interrupted_is_carried_out(told: bool) -> None:  # ENG-42, ENG-03
    async def main() -> None:
        store = InMemoryEventStore()
        log = [begun("r"), *([fact("r", "stop", "aaa.run.cancel", reason="not needed")] if told else [])]
        await store.append("r", log)
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle()])
            if not told:
                await handles["r"].cancel("not needed")
            outcome = await handles["r"].result()
            assert (outcome.kind, outcome.reason) == ("cancelled", "not needed")

    run(main())


def test_a_crash_in_the_middle_of_a_reaction_loses_none_of_it() -> None:  # ENG-03, RCV-03
    class Planner(Idle):
        async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
            if event.type == "aaa.run.started":
                return [event.caused("plan.first"), event.caused("plan.second")]
            return finished(event, "planned") if event.type == "plan.second" else None

    async def main() -> None:
        store = InMemoryEventStore()
        faulty = FaultyStore(store)
        fault = faulty.hang("append", when=lambda stream, events, *_: events[-1].type == "plan.second")
        async with engine_on(faulty) as first:
            await first.start(Planner(), {}, run_id="r")
            await fault.met.wait()
            await first.abort()
        async with engine_on(store) as second:
            await second.recover([Planner()])
            await second.bus.drain()
            assert second.is_done("r")

    run(main())


def test_two_different_algorithms_of_one_name_are_refused() -> None:  # ALG-05
    async def main() -> None:
        async with engine_on() as engine:
            algo = Idle("same")
            assert await engine.recover([algo, algo]) == {}
            with pytest.raises(ValueError, match="same"):
                await engine.recover([algo, Idle("same")])

    run(main())


def test_a_family_is_recovered_whole() -> None:  # RCV-01, ENG-11
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as first:
            parent = Parent(Idle("echo"))
            await first.start(parent, {"children": {tag: {"n": tag} for tag in "abc"}}, run_id="p")
            await first.bus.drain()
            await first.abort()
        async with engine_on(store) as second:
            handles = await second.recover([Parent(Echo()), Echo()])
            assert sorted(handles) == ["p", "p.a", "p.b", "p.c"]
            outcome = await handles["p"].result()
            assert {tag: told["value"] for tag, told in outcome.value.items()} == {tag: {"n": tag} for tag in "abc"}
        ends = [event for event in await store.read("p") if event.type == "aaa.child.completed"]
        assert len(ends) == 3

    run(main())


# -- what cannot be read (RCV-09) --------------------------------------------------------------------------------------


def test_one_unreadable_run_does_not_stop_the_others() -> None:  # RCV-09
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        for name in ("a", "bad", "broken", "z"):
            await faulty.append(name, [begun(name, "counting").with_(data={**begun(name).data, "algo": "counting"})])
            await faulty.append(name, [fact(name, "tick", "count.tick", n=1, to=1)])
        faulty.fail("read", ValueError("made up"), times=None, when=lambda stream, *_: stream == "bad")
        faulty.fail("read", outage(), times=None, when=lambda stream, *_: stream == "broken")
        async with engine_on(faulty) as engine:
            handles = await engine.recover([Idle("counting", ["count.*"])])
            assert sorted(handles) == ["a", "z"]
            assert engine.last_recovery is not None
            assert sorted(engine.last_recovery.unreadable) == ["bad", "broken"]
            faulty.mend()
            handles = await engine.recover([Idle("counting", ["count.*"])])
            assert sorted(handles) == ["a", "bad", "broken", "z"]
            await engine.abort()

    run(main())


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"algo": ["idle"], "parent": None},
        {"algo": "idle", "parent": ["p"], "budget": {}},
        {"algo": "idle", "parent": 5, "budget": 7},
        {"algo": None, "parent": {"a": 1}},
    ],
)
def test_a_started_event_that_makes_no_sense_stops_nobody(data: dict[str, object]) -> None:  # RCV-09, ENG-36
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("odd", [fact("odd", "odd:started", "aaa.run.started", **data)])
        await store.append("r", [begun("r")])
        async with engine_on(store) as engine:
            assert "r" in await engine.recover([Idle()])
            await engine.sweep()
            assert (await engine.fold_of("r")).is_open
            await engine.abort()

    run(main())


def test_a_store_that_is_down_is_an_outage_and_no_list_of_unreadable_runs() -> None:  # RCV-09, ENG-37
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        for n in range(10):
            await faulty.append(f"r{n}", [begun(f"r{n}")])
        async with engine_on(faulty) as engine:
            faulty.fail("read", times=None)
            with pytest.raises(StoreUnavailable):
                await engine.recover([Idle()])
            faulty.mend()
            assert len(await engine.recover([Idle()])) == 10
            await engine.abort()

    run(main())


@pytest.mark.parametrize("damaged", ["x", "bad:started"])
def test_a_run_whose_stored_bytes_are_damaged_stops_nobody(tmp_path: Path, damaged: str) -> None:  # RCV-09
    async def main() -> None:
        store = STORES["sqlite"](tmp_path)
        for name in ("a", "bad", "z"):
            await store.append(name, [begun(name), llm(name, "x")])
        await store.aclose()
        with sqlite3.connect(tmp_path / "log.db") as file:
            changed = file.execute("UPDATE log_events SET content = '{' WHERE id = ? AND stream_no = 2", [damaged])
            assert changed.rowcount == 1
        file.close()
        store = STORES["sqlite"](tmp_path)
        async with engine_on(store) as engine:
            assert sorted(await engine.recover([Idle()])) == ["a", "z"]
            assert engine.last_recovery is not None
            assert engine.last_recovery.unreadable == ["bad"]
            await engine.sweep()
            assert await store.last_seq("bad") == 1  # nobody took it for an orphan, or for overdue
            await engine.abort()
        await store.aclose()

    run(main())
