"""Maintenance that any process may do at any time (RCV-06 to RCV-09)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from engine_parts import FaultyStore, Idle, engine_on, fact, llm, run, types
from tracehold.engine import Budget
from tracehold.events import Event, EventStore
from tracehold.events.memory_store import InMemoryEventStore

STREAMS = ["late", "orphan", "lost", "open", "heard", "unheard", "done", "child-of-done", "grandchild"]


def begun(run_id: str, parent: str | None = None, deadline_s: float | None = None) -> Event:
    told = {
        "algo": "idle",
        "input": {},
        "parent": parent,
        "run_tag": f"tag-{run_id}",
        "budget": {"deadline_s": deadline_s},
    }
    event = fact(run_id, f"{run_id}:started", "aaa.run.started", **told)
    return event.with_(time=datetime.now(UTC) - timedelta(seconds=100))


def ended(run_id: str, value: object = None) -> Event:
    return fact(run_id, f"{run_id}:completed", "aaa.run.completed", kind="success", value=value, reason=None)


async def what_crashes_left(store: EventStore) -> None:
    """Write a log of every kind of unfinished business, and of some that is finished."""
    await store.append("late", [begun("late", deadline_s=50)])
    await store.append("done", [begun("done"), ended("done")])
    await store.append("child-of-done", [begun("child-of-done", "done")])
    await store.append("grandchild", [begun("grandchild", "child-of-done")])
    await store.append("orphan", [begun("orphan", "never-was")])
    await store.append("open", [begun("open", deadline_s=5000)])
    await store.append("heard", [begun("heard", "open"), ended("heard")])
    await store.append("unheard", [begun("unheard", "open"), llm("unheard", "x", tokens=7), ended("unheard", 42)])
    await store.append("lost", [begun("lost", "open")])
    told = fact("open", "child-heard", "aaa.child.completed", child_run_id="heard", ledger={}, outcome={})
    await store.append("open", [fact("open", "heard:childstarted", "aaa.child.started", child_run_id="heard"), told])


async def logs(store: EventStore) -> dict[str, list[Event]]:
    return {stream: await store.read(stream) for stream in STREAMS}


def test_a_sweep_ends_what_is_overdue_or_orphaned_and_tells_what_was_not_heard(store: EventStore) -> None:  # RCV-06
    async def main() -> None:
        await what_crashes_left(store)
        async with engine_on(store) as engine:
            report = await engine.sweep()
            assert report.timed_out == ["late"]
            assert report.orphans_cancelled == ["child-of-done", "grandchild", "orphan"]
            assert report.announced == ["unheard"]
            after = await logs(store)
            assert types(after["late"]) == ["aaa.run.started", "aaa.timer.fired", "aaa.run.completed"]
            for name in ("orphan", "child-of-done", "grandchild"):
                assert (await engine.handle(name).result()).reason == "parent finished"
            ends = [event for event in after["open"] if event.type == "aaa.child.completed"]
            assert [event.id for event in ends] == ["child-heard", "child-unheard"]
            assert ends[1].data["outcome"] == {"kind": "success", "value": 42, "reason": None}
            assert ends[1].data["ledger"] == {"steps": 1, "tokens": 7, "cost": 0.0}
            fold = await engine.fold_of("open")
            assert fold.is_open
            assert fold.ledger.tokens == 7
            assert fold.children == {"lost": "tag-lost"}  # its start had not been told either
            await engine.abort()
        await store.aclose()

    run(main())


def test_a_second_sweep_has_nothing_to_do(store: EventStore) -> None:  # RCV-07
    async def main() -> None:
        await what_crashes_left(store)
        async with engine_on(store) as engine:
            await engine.sweep()
            before = await logs(store)
            report = await engine.sweep()
            assert (report.timed_out, report.orphans_cancelled, report.announced) == ([], [], [])
            assert await logs(store) == before
            await engine.abort()
        await store.aclose()

    run(main())


def test_sweeps_from_several_engines_at_once_do_it_once(shared: Callable[[], EventStore]) -> None:  # RCV-07
    async def main() -> None:
        stores = [shared() for _ in range(3)]
        await what_crashes_left(stores[0])
        engines = [engine_on(store) for store in stores]
        for engine in engines:
            await engine.__aenter__()
        await asyncio.gather(*(engine.sweep() for engine in engines * 2))
        for stream, log in (await logs(stores[0])).items():
            assert len({event.id for event in log}) == len(log)
            done = types(log).count("aaa.run.completed")
            assert done == (0 if stream in {"open", "lost"} else 1)
        ends = [event.id for event in await stores[0].read("open") if event.type == "aaa.child.completed"]
        assert sorted(ends) == ["child-heard", "child-unheard"]
        for engine, store in zip(engines, stores, strict=True):
            await engine.abort()
            await store.aclose()

    run(main())


def test_a_sweep_while_families_come_and_go_disturbs_none() -> None:  # RCV-07
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as busy, engine_on(store) as sweeper:
            sweeping = True

            async def sweep_on() -> int:
                passes = 0
                while sweeping:
                    report = await sweeper.sweep()
                    assert (report.orphans_cancelled, report.timed_out) == ([], [])
                    passes += 1
                    await asyncio.sleep(0)
                return passes

            sweeps = asyncio.ensure_future(sweep_on())
            for n in range(15):
                await busy.start(Idle(), {}, run_id=f"p{n}", budget=Budget(deadline_s=1000))
                child = await busy.start(Idle(), {}, run_id=f"c{n}", parent=f"p{n}")
                await busy.emit(llm(f"c{n}"))
                await child.signal("test.go")
                assert (await child.result()).kind == "success"
                await busy.handle(f"p{n}").signal("test.go")
                assert (await busy.handle(f"p{n}").result()).kind == "success"
            sweeping = False
            assert await sweeps
            for n in range(15):
                told = types(await store.read(f"p{n}"))
                assert told.count("aaa.child.completed") == told.count("aaa.child.started") == 1
                assert told.count("aaa.run.completed") == 1

    run(main())


def test_a_sweep_holds_a_family_that_several_processes_run_to_its_budget(  # RCV-07, DEC-07
    shared: Callable[[], EventStore],
) -> None:
    async def main() -> None:
        here, there = shared(), shared()
        async with engine_on(here) as first, engine_on(there) as second:
            await first.start(Idle(), {}, run_id="p", budget=Budget(max_steps=3))
            await first.start(Idle(), {}, run_id="a", parent="p")
            await second.start(Idle(), {}, run_id="b", parent="p")
            for n in range(2):
                await first.emit(llm("a", f"a{n}"))
                await second.emit(llm("b", f"b{n}"))
            for engine in (first, second):
                await engine.sweep()
            kinds = [(await first.handle(name).result()).reason for name in ("a", "b")]
            assert "parent budget" in kinds
            assert (await first.handle("p").result()).reason == "steps 4 > 3"
        await here.aclose()
        await there.aclose()

    run(main())


def test_with_an_interval_it_runs_by_itself_and_a_failing_pass_does_not_end_it() -> None:  # RCV-08
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        await faulty.append("late", [begun("late", deadline_s=50)])
        failing = faulty.fail("run_index", ValueError("made up"), times=2)
        async with engine_on(faulty, sweep_interval_s=0.005) as engine:
            await failing.met.wait()
            assert (await engine.handle("late").result()).kind == "timeout"
            assert faulty.calls["run_index"] >= 3

    run(main())


def test_without_an_interval_nobody_sweeps() -> None:  # RCV-08, ENG-01
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        async with engine_on(faulty) as engine:
            await engine.run(Idle(), {}, budget=Budget(deadline_s=0.05))  # time passes
            assert faulty.calls["run_index"] == 0

    run(main())


def test_one_unreadable_run_keeps_no_other_from_being_looked_after() -> None:  # RCV-09
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        await what_crashes_left(faulty)
        faulty.fail("read", ValueError("made up"), times=None, when=lambda stream, *_: stream in {"late", "unheard"})
        async with engine_on(faulty) as engine:
            report = await engine.sweep()
            assert sorted(report.unreadable) == ["late", "unheard"]
            assert report.orphans_cancelled == ["child-of-done", "grandchild", "orphan"]
            faulty.mend()
            report = await engine.sweep()
            assert (report.timed_out, report.announced, report.unreadable) == (["late"], ["unheard"], [])
            await engine.abort()

    run(main())


def test_a_sweep_reads_a_parent_s_log_once_however_many_children_it_has() -> None:  # RCV-06
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        await faulty.append("p", [begun("p")])
        for n in range(200):
            name = f"c{n}"
            start = fact("p", f"{name}:childstarted", "aaa.child.started", child_run_id=name)
            end = fact("p", f"child-{name}", "aaa.child.completed", child_run_id=name, ledger={}, outcome={})
            await faulty.append(name, [begun(name, "p"), ended(name)])
            await faulty.append("p", [start, end])
        async with engine_on(faulty) as engine:
            faulty.calls.clear()
            assert (await engine.sweep()).announced == []
            assert faulty.calls["read"] <= 2
            await engine.abort()

    run(main())
