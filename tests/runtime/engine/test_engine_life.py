"""Construction, entering, leaving, aborting, background work (ENG-01 to ENG-06, DEC-12)."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Callable

import pytest
from engine_parts import Counting, Echo, FaultyStore, Idle, Slow, engine_on, fact, finished, run, types
from tracehold.core.errors import StoreUnavailable
from tracehold.engine import Budget, Ctx, Engine
from tracehold.engine.runs import KEPT
from tracehold.events import Event, EventStore
from tracehold.events.in_process_bus import InProcessBus
from tracehold.events.memory_store import InMemoryEventStore


# DEC-12
def test_the_documented_parameters_stand_in_their_order() -> None:
    assert [*inspect.signature(Engine).parameters][:13] == [
        *("store", "bus", "schemas", "default_budget", "blobs", "claim_threshold", "sweep_interval_s", "store_retry"),
        *("is_transient", "redactor", "require_tenant", "retention", "memory"),
    ]
    ours = [*inspect.signature(Engine).parameters.values()][13:]
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in ours)


# ENG-01
def test_an_engine_needs_no_arguments() -> None:
    async def main() -> None:
        async with Engine() as engine:
            assert (await engine.run(Echo(), {"n": 1})).value == {"n": 1}
            assert isinstance(engine.store, InMemoryEventStore)
            assert isinstance(engine.bus, InProcessBus)
            assert engine.default_budget == Budget()
            assert engine.blobs is None
            assert engine.sweep_interval_s is None

    run(main())


# ENG-02
def test_leaving_waits_for_reactions_and_what_they_emit(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Counting(), {"to": 50}, run_id="r")
        assert (await store.read("r"))[-1].data["value"] == 50

    run(main())


# ENG-02, ENG-06
def test_leaving_ends_timers_and_tracked_tasks(store: EventStore) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, budget=Budget(deadline_s=3600))
            task = engine.spawn(work())
            await asyncio.sleep(0)
        assert ended.is_set()
        assert task.cancelled()
        assert all(held.deadline is None for held in engine.runs.open_runs())

    run(main())


# ENG-06
def test_a_spawned_task_gives_its_result() -> None:
    async def main() -> None:
        async def work() -> int:
            return 7

        async with engine_on() as engine:
            assert await engine.spawn(work()) == 7

    run(main())


# ENG-02
def test_a_tracked_task_that_emits_while_it_is_ended_leaves_no_event_undone(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r")

            async def work() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    await engine.emit(fact("r", "late"))

            engine.spawn(work())
            await asyncio.sleep(0)
        assert await store.has("r", "late")

    run(main())


# ENG-03
def test_what_reaches_a_handler_is_in_the_log_already(store: EventStore) -> None:
    async def main() -> None:
        missing: list[str] = []

        async def look(event: Event) -> None:
            if not await store.has(event.stream, event.id):
                missing.append(event.id)

        async with engine_on(store) as engine:
            engine.subscribe("*", look)
            await engine.run(Counting(), {"to": 20})
        assert missing == []

    run(main())


# ENG-03, ENG-04
def test_a_second_engine_adopts_a_run_it_never_saw(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        first, second = engine_on(shared()), engine_on(shared())
        await first.__aenter__()
        await first.start(Idle(), {"q": 1}, run_id="r", budget=Budget(max_steps=3), tenant="acme")
        await first.abort()
        async with second:
            fold = await second.fold_of("r")
            assert (fold.algo, fold.tenant, fold.budget.max_steps, fold.seq) == ("idle", "acme", 3, 0)
            await second.recover([Idle()])
            await second.handle("r").signal("test.go", {"a": 1})
            assert (await second.handle("r").result()).value == {"a": 1}

    run(main())


# ENG-05
def test_abort_looks_like_a_crash_to_the_log(store: EventStore) -> None:
    async def main() -> None:
        slow, engine = Slow(), engine_on(store)
        async with engine:
            await engine.start(slow, {}, run_id="r")
            await slow.entered.wait()
            await engine.abort()
            assert engine.crashed
            slow.release.set()
        assert types(await store.read("r")) == ["aaa.run.started"]
        assert [info.stream for info in await store.run_index(open_only=True)] == ["r"]
        with pytest.raises(StoreUnavailable, match="aborted"):
            await engine.emit(fact("r"))
        with pytest.raises(RuntimeError, match="aborted"):
            await engine.__aenter__()

    run(main())


# ENG-05
def test_abort_from_inside_a_reaction_or_a_tracked_task_ends(store: EventStore) -> None:
    async def main() -> None:
        engine, aborted = engine_on(store), asyncio.Event()

        class Crashing(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
                await engine.abort()
                aborted.set()
                return finished(event)

        async with engine:
            await engine.start(Crashing(), {}, run_id="r")
            await aborted.wait()
        assert types(await store.read("r")) == ["aaa.run.started"]

        async with engine_on(store) as other:
            await asyncio.wait([other.spawn(other.abort())])
            assert other.crashed

    run(main())


# ENG-04
def test_one_engine_serves_several_event_loops_one_after_another(store: EventStore) -> None:
    engine = engine_on(store)

    async def first() -> None:
        async with engine:
            handle = await engine.start(Idle(), {}, run_id="r")
            await asyncio.gather(*(handle.signal("test.fact", {"n": n}) for n in range(20)))

    async def second() -> None:
        async with engine:
            handle = engine.handle("r")
            await asyncio.gather(*(handle.signal("test.fact", {"n": n}) for n in range(20)))
            await handle.signal("test.go", {"done": True})
            assert (await handle.result()).value == {"done": True}

    run(first())
    run(second())


# ENG-04
def test_memory_stays_flat_over_finished_runs() -> None:
    async def main() -> None:
        echo = Echo()
        async with engine_on() as engine:
            for n in range(3 * KEPT):
                await engine.run(echo if n % 2 else Echo(), {"n": n})
            gc.collect()
            held = [*engine.runs._open, *engine.runs._other]
            assert len(held) <= KEPT
            assert len(engine.runs._alive) <= KEPT
            assert len(engine._delivery._latest) == 1
            assert engine._background.idle

    run(main())


# ENG-17
def test_a_failing_lookup_leaves_nothing_behind_in_memory(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            faulty.fail("read", times=None)
            for n in range(KEPT + 10):
                engine.log._policy = engine.log._policy.__class__(max_attempts=1)
                with pytest.raises(StoreUnavailable):
                    await engine.emit(fact(f"s{n}"))
            assert len(engine.runs._other) <= KEPT

    run(main())


# ENG-02
def test_an_engine_entered_twice_ends_when_it_is_left_twice(store: EventStore) -> None:
    async def main() -> None:
        idle = Idle()
        async with engine_on(store) as engine:
            task = engine.spawn(asyncio.Event().wait())
            async with engine:
                await engine.start(idle, {}, run_id="r")
            assert not task.done()
            await engine.handle("r").signal("test.go", {"a": 1})
            assert (await engine.handle("r").result()).value == {"a": 1}
        assert task.cancelled()

    run(main())
