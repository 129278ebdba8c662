"""Algorithms and handlers: order, isolation, redelivery (ENG-20 to ENG-28, BUS-07)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Counting, Echo, Failing, FaultyStore, Idle, engine_on, fact, finished, run, types
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.control import Redeliver
from tracehold.core.errors import StoreUnavailable
from tracehold.engine import Ctx
from tracehold.events import Event, EventStore
from tracehold.events.file_blobs import FileBlobStore
from tracehold.events.in_process_bus import InProcessBus


# ENG-20
def test_registering_the_same_object_again_changes_nothing(store: EventStore) -> None:
    async def main() -> None:
        idle = Idle()
        async with engine_on(store) as engine:
            for _ in range(3):
                engine.register(idle)
            handle = await engine.start(idle, {})
            await handle.signal("test.go", {})
            await handle.result()
            await engine.bus.drain()
            assert types(idle.seen) == ["aaa.run.started", "test.go", "aaa.run.completed"]

    run(main())


# ENG-20
def test_what_is_no_algorithm_is_refused() -> None:
    with pytest.raises(TypeError, match="algorithm"):
        engine_on().register(object())  # type: ignore[arg-type]  # as the test says


# ENG-21
def test_an_algorithm_sees_events_of_its_own_runs_only(store: EventStore) -> None:
    async def main() -> None:
        one, two = Idle("one"), Idle("two")
        async with engine_on(store) as engine:
            await engine.start(one, {}, run_id="a")
            await engine.start(two, {}, run_id="b")
            await engine.emit(fact("a"))
            await engine.emit(fact("b"))
            await engine.emit(fact("neither"))
            await engine.bus.drain()
            assert {event.stream for event in one.seen} == {"a"}
            assert {event.stream for event in two.seen} == {"b"}

    run(main())


# ENG-21
def test_a_run_goes_to_the_object_it_was_started_with_although_another_has_its_name(store: EventStore) -> None:
    async def main() -> None:
        objects = [Idle("same") for _ in range(4)]
        async with engine_on(store) as engine:
            for n, one in enumerate(objects):
                await engine.start(one, {}, run_id=f"r{n}")
            for n in range(4):
                await engine.handle(f"r{n}").signal("test.go", {"n": n})
                await engine.handle(f"r{n}").result()
            await engine.bus.drain()
            for n, one in enumerate(objects):
                assert {event.stream for event in one.seen} == {f"r{n}"}
                assert len(one.seen) == 3

    run(main())


# ENG-22
@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_events_reach_an_algorithm_by_rising_number_and_one_at_a_time(pauses: list[int]) -> None:
    async def main() -> None:
        busy: set[str] = set()
        order: dict[str, list[int]] = {}

        class Yielding(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
                assert event.stream not in busy
                busy.add(event.stream)
                for _ in range(event.data.get("pause", 0)):
                    await asyncio.sleep(0)
                busy.discard(event.stream)
                order.setdefault(event.stream, []).append(event.seq)
                return None

        algo = Yielding()
        async with engine_on() as engine:
            for run_id in ("a", "b"):
                await engine.start(algo, {}, run_id=run_id)
            await asyncio.gather(*(engine.emit(fact(run_id, pause=pause)) for pause in pauses for run_id in ("a", "b")))
            await engine.bus.drain()
            for run_id in ("a", "b"):
                assert order[run_id] == [*range(len(pauses) + 1)]
                assert not engine.is_done(run_id)

    run(main())


# ENG-22, BUS-05
def test_a_redelivered_event_comes_before_the_later_ones_of_its_run_and_holds_up_no_other_run(
    store: EventStore,
) -> None:
    async def main() -> None:
        asked = asyncio.Event()
        order: list[str] = []

        class Stubborn(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
                order.append(event.id)
                if event.id == "hard" and not asked.is_set():
                    raise Redeliver
                return finished(event) if event.type == "test.go" else None

        algo = Stubborn()
        async with engine_on(store) as engine:
            await engine.start(algo, {}, run_id="a")
            await engine.start(algo, {}, run_id="b")
            await engine.emit(fact("a", "hard"))
            await engine.emit(fact("a", "later"))
            await engine.handle("b").signal("test.go")
            await engine.handle("b").result()
            assert "later" not in order
            asked.set()
            await engine.bus.drain()
            own = [id_ for id_ in order if id_ in {"hard", "later"}]
            assert own[-1] == "later"
            assert own.count("later") == 1

    run(main())


# ALG-04
def test_a_slow_reaction_of_one_run_holds_up_no_other_run(store: EventStore) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        class Waiting(Echo):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
                if event.data["input"].get("wait"):
                    await gate.wait()
                return finished(event, "done")

        algo = Waiting()
        async with engine_on(store) as engine:
            slow = await engine.start(algo, {"wait": True})
            for _ in range(30):
                assert (await engine.run(algo, {})).value == "done"
            assert not engine.is_done(slow.run_id)
            gate.set()
            assert (await slow.result()).value == "done"

    run(main())


# ENG-23
def test_events_that_a_handler_returns_are_stored_and_published(store: EventStore) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def first(event: Event) -> list[Event]:
            return [event.caused("test.second", {"n": 1}), event.caused("test.second", {"n": 2})]

        async def second(event: Event) -> None:
            assert await store.has(event.stream, event.id)
            seen.append(event.data["n"])

        async with engine_on(store) as engine:
            engine.subscribe("test.first", first)
            engine.subscribe("test.second", second, group="g", concurrency=1)
            await engine.emit(fact("s", type_="test.first"))
            await engine.bus.drain()
            assert seen == [1, 2]
            assert types(await store.read("s")) == ["test.first", "test.second", "test.second"]

    run(main())


# ENG-24
def test_handlers_and_algorithms_receive_hydrated_events(store: EventStore, tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def handle(event: Event) -> None:
            seen.append(event.data)

        idle = Idle()
        async with engine_on(store, blobs=FileBlobStore(tmp_path / "blobs"), claim_threshold=64) as engine:
            engine.subscribe("test.fact", handle)
            await engine.start(idle, {"text": "y" * 300}, run_id="r")
            await engine.emit(fact("r", text="x" * 300))
            await engine.bus.drain()
            assert seen == [{"text": "x" * 300}]
            assert idle.seen[0].data["input"] == {"text": "y" * 300}
            assert (await store.read("r"))[0].blobs
            assert (await store.read("r"))[1].blobs

    run(main())


# ENG-25, BUS-04
@pytest.mark.parametrize("error", [ZeroDivisionError("made to fail"), KeyError("x"), asyncio.CancelledError()])
def test_an_exception_fails_the_run_naming_it_and_the_bus_goes_on(store: EventStore, error: BaseException) -> None:
    async def main() -> None:
        failing = Failing(error)
        async with engine_on(store) as engine:
            for _ in range(2):
                outcome = await engine.run(failing, {})
                assert outcome.kind == "failed"
                assert type(error).__name__ in str(outcome.reason)
            assert (await engine.run(Echo(), {"a": 1})).ok

    run(main())


# ENG-25
@pytest.mark.parametrize("answer", ["text", 7, [7], fact("r")], ids=["text", "number", "list", "event"])
def test_an_answer_that_is_no_list_of_events_fails_the_run(store: EventStore, answer: Any) -> None:
    async def main() -> None:
        class Odd(Echo):
            async def on_event(self, event: Event, ctx: Ctx, /) -> Any:
                return answer

        async with engine_on(store) as engine:
            outcome = await engine.run(Odd(), {}, run_id="r")
            assert (outcome.kind, str(outcome.reason)[:9]) == ("failed", "TypeError")
            assert types(await store.read("r")) == ["aaa.run.started", "aaa.run.completed"]

    run(main())


# ENG-25
def test_a_plain_handler_s_exception_fails_the_run_and_outside_of_runs_is_isolated(store: EventStore) -> None:
    async def main() -> None:
        errors: list[BaseException] = []

        async def handle(event: Event) -> None:
            raise ZeroDivisionError("made to fail")

        bus = InProcessBus(on_error=lambda _event, error: errors.append(error))
        async with engine_on(store, bus=bus) as engine:
            engine.subscribe("test.*", handle)
            handle_ = await engine.start(Idle(), {}, run_id="r")
            await engine.emit(fact("r"))
            assert (await handle_.result()).reason == "ZeroDivisionError: made to fail"
            await engine.emit(fact("no run"))
            await engine.bus.drain()
            assert len(errors) == 1
            assert types(await store.read("no run")) == ["test.fact"]

    run(main())


# ENG-26
@pytest.mark.parametrize("operation", ["append", "read"])
def test_an_outage_in_a_reaction_does_not_fail_the_run(store: EventStore, operation: str) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)

        class Reading(Counting):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
                await ctx.history()
                return await super().on_event(event, ctx)

        async with engine_on(faulty) as engine:
            handle = await engine.start(Reading(), {"to": 3}, run_id="r")
            faulty.fail(operation, times=7)
            assert (await handle.result()).value == 3
            assert types(await store.read("r")) == [
                "aaa.run.started",
                *["count.tick"] * 3,
                "aaa.run.completed",
            ]

    run(main())


# ENG-26, ENG-33
def test_a_reaction_whose_event_was_stored_unseen_goes_on_after_redelivery(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            ticks = lambda _stream, events, _seq: events[0].type == "count.tick"  # noqa: E731 - short
            faulty.lose("append", when=ticks)
            faulty.fail("append", times=2, when=ticks)
            assert (await engine.run(Counting(), {"to": 3}, run_id="r")).value == 3
            assert types(await store.read("r")).count("count.tick") == 3

    run(main())


# ENG-26
def test_an_outage_while_a_failure_is_recorded_is_ridden_out_too(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            faulty.fail("append", times=5, when=lambda _stream, events, _seq: events[0].type == "aaa.run.completed")
            assert (await engine.run(Failing(), {})).kind == "failed"

    run(main())


# ENG-26
def test_a_run_that_cannot_be_adopted_during_an_outage_loses_no_event(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(shared()), Idle()
        async with engine_on(shared()) as other:
            await other.start(Idle(), {}, run_id="r")
            (event,) = await other.stored("r")
        async with engine_on(faulty) as engine:
            engine.register(idle)
            faulty.fail("read", times=5)
            await engine.bus.publish(event)
            await engine.bus.drain()
            assert types(idle.seen) == ["aaa.run.started"]

    run(main())


# ENG-26
def test_store_unavailable_raised_by_a_handler_itself_means_redelivery(store: EventStore) -> None:
    async def main() -> None:
        attempts: list[str] = []

        async def handle(event: Event) -> None:
            attempts.append(event.id)
            if len(attempts) < 3:
                raise StoreUnavailable("of something else")

        async with engine_on(store) as engine:
            engine.subscribe("test.fact", handle)
            await engine.start(Idle(), {}, run_id="r")
            await engine.emit(fact("r", "e"))
            await engine.bus.drain()
            assert attempts == ["e"] * 3
            assert not engine.is_done("r")

    run(main())


# ENG-27, HND-07
def test_handlers_get_no_events_of_finished_runs_but_lifecycle_ones(store: EventStore) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def handle(event: Event) -> None:
            seen.append(event.type)

        idle = Idle()
        async with engine_on(store) as engine:
            engine.subscribe("*", handle)
            await engine.start(idle, {}, run_id="r")
            await engine.handle("r").signal("test.go")
            await engine.handle("r").result()
            await engine.handle("r").signal("test.late", {"a": 1})
            await engine.emit(fact("r", type_="aaa.run.note"))
            await engine.bus.drain()
            assert seen == ["aaa.run.started", "test.go", "aaa.run.completed", "aaa.run.note"]
            assert types(idle.seen) == seen
            assert "test.late" in types(await store.read("r"))

    run(main())


# ENG-28
def test_in_one_process_the_group_is_ignored(store: EventStore) -> None:
    async def main() -> None:
        seen: list[str] = []

        def note(name: str) -> Callable[[Event], Any]:
            async def handle(_event: Event) -> None:
                seen.append(name)

            return handle

        async with engine_on(store) as engine:
            engine.subscribe("test.*", note("a"), group="g")
            engine.subscribe("test.*", note("b"), group="g")
            await engine.emit(fact("s"))
            await engine.bus.drain()
            assert sorted(seen) == ["a", "b"]

    run(main())


class DistributedBus(InProcessBus):
    """Says of itself that several processes share it, and knows no keys."""

    distributed = True
    keyed = False


# ENG-28, BUS-09
def test_on_a_distributed_bus_one_of_a_group_handles_an_event_and_all_without_one(store: EventStore) -> None:
    async def main() -> None:
        seen: dict[str, list[int]] = {}

        def note(name: str) -> Callable[[Event], Any]:
            async def handle(event: Event) -> None:
                seen.setdefault(name, []).append(event.seq)

            return handle

        async with engine_on(store, bus=DistributedBus()) as engine:
            for name in ("a", "b"):
                engine.subscribe("test.*", note(f"group {name}"), group="g")
                engine.subscribe("test.*", note(f"all {name}"))
            for _ in range(5):
                await engine.emit(fact("s"))
            await engine.bus.drain()
            assert seen["all a"] == seen["all b"] == [0, 1, 2, 3, 4]
            (one,) = [numbers for name, numbers in seen.items() if name.startswith("group")]
            assert one == [0, 1, 2, 3, 4]
            assert (await engine.run(Counting(), {"to": 5})).value == 5

    run(main())


# BUS-07, ENG-23
@pytest.mark.parametrize("keyed", [True, False])
def test_more_follow_ups_than_a_queue_holds_do_not_hang(store: EventStore, keyed: bool) -> None:
    async def main() -> None:
        class Many(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
                self.seen.append(event)
                if event.type == "aaa.run.started":
                    return [event.caused("test.item", {"n": n}) for n in range(1100)]
                return finished(event, len(self.seen)) if event.data.get("n") == 1099 else None

        class Unkeyed(InProcessBus):
            keyed = False

        async with engine_on(store, bus=InProcessBus() if keyed else Unkeyed()) as engine:
            assert (await engine.run(Many(), {}, run_id="r")).value == 1101
            assert len(await store.read("r")) == 1102

    run(main())
