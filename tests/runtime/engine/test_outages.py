"""What cancelled callers, dropped connections and a failing bus leave behind (ENG-03, ENG-22, ENG-34, ENG-39)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from engine_parts import Counting, Echo, FaultyStore, Idle, RefusingBus, engine_on, fact, outage, run, types, until
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import StoreUnavailable
from tracehold.core.retry import RetryPolicy
from tracehold.events import Event, EventStore
from tracehold.events.in_process_bus import InProcessBus
from tracehold.events.memory_store import InMemoryEventStore


# ENG-03, ENG-22
def test_a_caller_cancelled_while_its_event_is_stored_leaves_the_run_usable(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            handle = await engine.start(idle, {}, run_id="r")
            fault = faulty.hang("append")
            task = asyncio.create_task(engine.emit(fact("r", "e")))
            await fault.met.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await handle.signal("test.go", {"a": 1})
            assert (await handle.result()).value == {"a": 1}
        assert await store.has("r", "e")  # begun, so it is finished

    run(main())


# ENG-03, ENG-33
def test_a_caller_cancelled_when_its_event_was_stored_unseen_has_it_delivered(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty, store_retry=RetryPolicy(base_delay_s=0.001, max_delay_s=0.001)) as engine:
            await engine.start(idle, {}, run_id="r")
            faulty.lose("append")
            second = faulty.hang("append")
            task = asyncio.create_task(engine.emit(fact("r", "e")))
            await second.met.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await engine.emit(fact("r", "f"))
        assert [event.id for event in idle.seen] == ["r:started", "e", "f"]

    run(main())


# ENG-03
def test_a_caller_cancelled_while_it_waits_for_the_run_s_lock_has_emitted_nothing(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            await engine.start(Idle(), {}, run_id="r")
            fault = faulty.hang("append")
            first = asyncio.create_task(engine.emit(fact("r", "e")))
            await fault.met.wait()
            second = asyncio.create_task(engine.emit(fact("r", "f")))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            fault.release.set()
            await first
        assert not await store.has("r", "f")

    run(main())


# ENG-17
def test_a_start_cancelled_while_it_is_stored_still_runs(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            fault = faulty.hang("append")
            task = asyncio.create_task(engine.start(Echo(), {"a": 1}, run_id="r"))
            await fault.met.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await engine.run(Echo(), {"a": 1}, run_id="r")).value == {"a": 1}

    run(main())


# ENG-22, BUS-07
def test_a_publisher_cancelled_while_the_queue_is_full_leaves_nothing_waiting(store: EventStore) -> None:
    async def main() -> None:
        gate, seen = asyncio.Event(), list[str]()

        async def handle(event: Event) -> None:
            await gate.wait()
            seen.append(event.id)

        async with engine_on(store, bus=InProcessBus(queue_size=1)) as engine:
            engine.subscribe("test.fact", handle)
            tasks = [asyncio.create_task(engine.emit(fact("s", f"e{n}"))) for n in range(6)]
            await until(lambda: store.has("s", "e5"))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            gate.set()
            await engine.emit(fact("s", "last"))
            await engine.bus.drain()
        assert seen == [*(f"e{n}" for n in range(6)), "last"]

    run(main())


# ENG-03, ENG-22, ENG-31
@given(st.lists(st.tuples(st.sampled_from(["emit", "signal", "cancel"]), st.integers(0, 6)), min_size=1, max_size=20))
def test_whatever_is_cancelled_when_each_stored_event_is_delivered_once_and_in_order(
    plan: list[tuple[str, int]],
) -> None:
    async def main() -> None:
        class Slowed(FaultyStore):
            async def append(self, *args: object, **kw: object) -> list[Event]:
                await asyncio.sleep(0)
                stored = await super().append(*args, **kw)  # type: ignore[arg-type]  # passed on
                await asyncio.sleep(0)
                return stored

        store, idle = InMemoryEventStore(), Idle()
        async with engine_on(Slowed(store)) as engine:
            await engine.start(idle, {}, run_id="r")
            tasks = []
            for n, (what, turns) in enumerate(plan):
                task = asyncio.create_task(engine.emit(fact("r", f"e{n}")))
                tasks.append(task)
                for _ in range(turns):
                    await asyncio.sleep(0)
                if what == "cancel":
                    task.cancel()
            await asyncio.wait(tasks)
        stored = [event.id for event in await store.read("r")]
        delivered = [event.id for event in idle.seen]
        assert delivered == stored
        assert {f"e{n}" for n, (what, _) in enumerate(plan) if what != "cancel"} <= {*stored}

    run(main())


# ENG-30, ENG-22
def test_a_bus_that_fails_is_asked_again_and_the_caller_gets_its_stored_event(store: EventStore) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def handle(event: Event) -> None:
            seen.append(event.id)

        async with engine_on(store, bus=RefusingBus(2)) as engine:
            engine.subscribe("test.*", handle)
            stored = await engine.emit(fact("s", "a"))
            await engine.emit(fact("s", "b"))
            assert stored is not None
            await until(lambda: len(seen) == 2)
        assert seen == ["a", "b"]

    run(main())


# ENG-02
def test_leaving_does_not_wait_for_a_bus_that_never_works(store: EventStore) -> None:
    async def main() -> None:
        class Broken(InProcessBus):
            async def publish(self, event: Event) -> None:
                raise outage()

        async with engine_on(store, bus=Broken()) as engine:
            await engine.emit(fact("s", "a"))
        assert await store.has("s", "a")

    run(main())


# ENG-39
def test_await_event_finds_stored_and_future_events(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.emit(fact("s", "a", n=1))
            found = await engine.await_event("s", lambda event: event.data["n"] == 1)
            assert found.id == "a"
            waiting = asyncio.create_task(engine.await_event("s", lambda event: event.data["n"] >= 1, from_seq=1))
            await engine.emit(fact("s", "b", n=2))
            assert (await waiting).id == "b"

    run(main())


# ENG-39
def test_a_dropped_connection_resumes_after_the_last_event_seen(store: EventStore) -> None:
    async def main() -> None:
        faulty, asked = FaultyStore(store), list[str]()
        async with engine_on(faulty) as engine:
            for n in range(9):
                await engine.emit(fact("s", f"e{n}", n=n))
            for n in (2, 4, 6, 8):
                faulty.fail("event", at=n)

            def match(event: Event) -> bool:
                asked.append(event.id)
                return bool(event.data["n"] == 8)

            assert (await engine.await_event("s", match)).id == "e8"
            assert asked == [f"e{n}" for n in range(9)]
            assert faulty.calls["subscribe"] >= 4

    run(main())


# ENG-39
def test_the_retry_budget_of_a_subscription_restarts_on_progress(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:  # three attempts
            for n in range(20):
                await engine.emit(fact("s", f"e{n}", n=n))
                faulty.fail("event", when=lambda event, n=n: event.data["n"] == n)
                faulty.fail("event", when=lambda event, n=n: event.data["n"] == n)
            assert (await engine.await_event("s", lambda event: bool(event.data["n"] == 19))).id == "e19"

    run(main())


# ENG-39
@pytest.mark.parametrize("operation", ["subscribe", "event"])
def test_an_outage_that_outlasts_the_rules_ends_the_wait(store: EventStore, operation: str) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            await engine.emit(fact("s", "a"))
            faulty.fail(operation, times=None)
            with pytest.raises(StoreUnavailable) as caught:
                await engine.await_event("s", lambda _event: True)
            assert isinstance(caught.value.__cause__, ConnectionResetError)
            faulty.mend()
            faulty.fail(operation, KeyError("a bug"))
            with pytest.raises(KeyError, match="a bug"):
                await engine.await_event("s", lambda _event: True)

    run(main())


# ENG-39
def test_a_store_that_is_slow_to_refuse_is_an_outage_all_the_same() -> None:
    async def main() -> None:
        class Slow(FaultyStore):
            async def subscribe(self, stream: str, from_seq: int = 0) -> AsyncIterator[Event]:
                time.sleep(0.005)  # noqa: ASYNC251 - longer than the longest pause, as a connection that times out is
                raise outage()
                yield fact(stream)

        slow = Slow(InMemoryEventStore())
        slow.fail("last_seq", times=None)
        with pytest.raises(StoreUnavailable):
            await engine_on(slow).await_event("s", lambda _event: True)

    run(main())


# ENG-39
def test_a_wait_that_ends_leaves_no_subscription_behind() -> None:
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as engine:
            await engine.emit(fact("s"))
            await engine.await_event("s", lambda _event: True)
            waiting = asyncio.create_task(engine.await_event("s", lambda _event: False))
            await until(lambda: store._followers)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not store._followers

    run(main())


# ENG-03, ENG-05
def test_an_append_that_hangs_when_the_engine_is_aborted_delivers_nothing(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            await engine.start(idle, {}, run_id="r")
            await engine.bus.drain()
            fault = faulty.hang("append")
            task = asyncio.create_task(engine.emit(fact("r", "e")))
            await fault.met.wait()
            await engine.abort()
            fault.release.set()
            await asyncio.wait([task])
        assert types(idle.seen) == ["aaa.run.started"]

    run(main())


# ENG-33, ENG-22
def test_an_event_that_is_stored_but_whose_predecessors_cannot_be_read_is_delivered_later(
    shared: Callable[[], EventStore],
) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(shared()), Idle()
        async with engine_on(shared()) as other, engine_on(faulty) as engine:
            await engine.start(idle, {}, run_id="r")
            await other.emit(fact("r", "foreign"))
            faulty.fail("read", times=3)
            with pytest.raises(StoreUnavailable):
                await engine.emit(fact("r", "e"))
            await engine.emit(fact("r", "f"))
            await engine.bus.drain()
            assert [event.id for event in idle.seen] == ["r:started", "e", "f"]
            assert (await engine.fold_of("r")).seq == 3

    run(main())


# ENG-34
@given(
    st.lists(st.tuples(st.sampled_from(["fail", "lose"]), st.integers(1, 12), st.integers(1, 4)), max_size=6),
    st.integers(1, 6),
)
def test_a_run_comes_to_its_end_through_any_outage_of_appends(faults: list[tuple[str, int, int]], to: int) -> None:
    async def main() -> None:
        store = InMemoryEventStore()
        faulty, counting = FaultyStore(store), Counting()
        for kind, at, times in faults:
            getattr(faulty, kind)("append", at=at, times=times)
        async with engine_on(faulty) as engine:
            while True:
                try:
                    handle = await engine.start(counting, {"to": to}, run_id="r")
                except StoreUnavailable:
                    continue
                break
            assert (await handle.result()).value == to
        assert types(await store.read("r")) == ["aaa.run.started", *["count.tick"] * to, "aaa.run.completed"]
        numbers = [event.seq for event in counting.seen]
        assert numbers == sorted(numbers)
        assert {*numbers} == {*range(to + 1)}

    run(main())


# BUS-07
def test_a_slow_handler_slows_all_who_emit_to_a_run_and_not_the_first_only(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("tracehold.engine.appending.CROWDED", 3)
        gate, seen = asyncio.Event(), list[str]()

        async def handle(event: Event) -> None:
            await gate.wait()
            seen.append(event.id)

        async with engine_on(store, bus=InProcessBus(queue_size=1)) as engine:
            engine.subscribe("test.fact", handle)
            tasks = [asyncio.create_task(engine.emit(fact("s", f"e{n}"))) for n in range(40)]
            await until(lambda: store.has("s", "e39"))
            await asyncio.sleep(0)
            # One in hand, one queued, one whose publisher waits, and two that found the outbox short.
            assert sum(task.done() for task in tasks) <= 5
            gate.set()
            await asyncio.gather(*tasks)
        assert seen == [f"e{n}" for n in range(40)]

    run(main())


def test_a_store_that_hangs_is_an_outage_too(store: EventStore) -> None:  # ENG-34, ENG-37
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty, store_retry=RetryPolicy(max_elapsed_s=0.05)) as engine:
            handle = await engine.start(Idle(), {}, run_id="r")
            fault = faulty.hang("append")
            with pytest.raises(StoreUnavailable, match="TimeoutError"):
                await handle.signal("note", {})
            fault.release.set()
            assert (await handle.signal("note", {})) is not None
        await store.aclose()

    run(main())
