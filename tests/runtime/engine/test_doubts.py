"""Appends and reads whose answers are lost, cut off or late: delivered once, in order, to the right tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine_parts import FAST, FaultyStore, Idle, engine_on, fact, run, types, until
from tracehold.core.errors import StoreUnavailable, TenantMismatch
from tracehold.core.retry import RetryPolicy
from tracehold.engine import Engine
from tracehold.events import ANY_SEQ, Event
from tracehold.events.blob_store import InMemoryBlobStore
from tracehold.events.memory_store import InMemoryEventStore

ONCE = RetryPolicy(max_attempts=1)


async def refused(work: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises(StoreUnavailable):
        await work()


def test_a_completion_is_delivered_although_nobody_could_read_whether_it_was_stored() -> None:
    # ENG-03, ENG-11, ENG-34
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        heard: list[str] = []

        async def hear(event: Event) -> None:
            heard.append(event.stream)

        async with engine_on(faulty, store_retry=RetryPolicy(max_attempts=2, base_delay_s=0.001)) as engine:
            engine.subscribe("aaa.run.completed", hear)
            await engine.start(Idle(), {}, run_id="p")
            await engine.start(Idle(), {}, run_id="kid", parent="p")
            faulty.lose("append", when=lambda stream, *_: stream == "kid")
            faulty.fail("read", times=2, when=lambda stream, *_: stream == "kid")
            await refused(lambda: engine.complete("kid", "success", "v"))
            await engine.complete("kid", "success", "v")
            await engine.bus.drain()
            assert heard == ["kid"]
            assert "aaa.child.completed" in types(await faulty.read("p"))

    run(main())


def test_what_was_unsure_is_delivered_behind_what_comes_before_it() -> None:  # ENG-22
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        algo = Idle(patterns=("x.*",))
        async with engine_on(faulty, store_retry=ONCE) as engine:
            await engine.start(algo, {}, run_id="r")
            run_ = await engine.runs.get("r")
            a, b, g1, g2 = (fact("r", name, f"x.{name}") for name in ("a", "b", "g1", "g2"))
            faulty.lose("append", times=3)
            await refused(lambda: engine.emit(a))
            await refused(lambda: engine.emit_together(run_, [g1, g2]))
            await refused(lambda: engine.emit(b))
            await engine.emit_together(run_, [g1, g2])
            await engine.bus.drain()
            assert [event.seq for event in algo.seen] == [1, 2, 3, 4]

    run(main())


# DEC-06, ENG-13, ENG-16, TEN-14
def test_after_a_start_whose_answer_was_lost_nobody_elses_event_gets_in() -> None:
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        async with engine_on(faulty, store_retry=ONCE) as engine:
            faulty.lose("append")
            await refused(lambda: engine.start(Idle(), {}, run_id="acme/r", tenant="acme", meta={"user": "u"}))
            with pytest.raises(TenantMismatch):
                await engine.emit(Event(type="x.y", stream="acme/r", tenant="evil"))
            await engine.handle("acme/r").signal("x.z")
            told = [(event.type, event.tenant, event.meta) for event in await faulty.read("acme/r")]
            assert told == [("aaa.run.started", "acme", {"user": "u"}), ("x.z", "acme", {"user": "u"})]

    run(main())


def test_a_run_that_another_engine_starts_meanwhile_keeps_others_out() -> None:  # DEC-06, TEN-14
    class SlowBlobs(InMemoryBlobStore):
        entered = asyncio.Event()
        release = asyncio.Event()

        async def put(self, *args: Any, **kw: Any) -> Any:
            self.entered.set()
            await self.release.wait()
            return await super().put(*args, **kw)

    async def main() -> None:
        store, blobs = InMemoryEventStore(), SlowBlobs()
        async with engine_on(store) as first, engine_on(store, blobs=blobs, claim_threshold=10) as second:
            late = Event(type="x.y", stream="acme/r", tenant="evil", data={"a": "x" * 100})
            sending = asyncio.create_task(second.emit(late))
            await blobs.entered.wait()
            await first.start(Idle(), {}, run_id="acme/r", tenant="acme")
            blobs.release.set()
            with pytest.raises(TenantMismatch):
                await sending
            assert types(await store.read("acme/r")) == ["aaa.run.started"]

    run(main())


def test_a_stream_that_is_no_run_takes_events_from_several_engines() -> None:
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as first, engine_on(store) as second:
            for number in range(6):
                await (first, second)[number % 2].emit(fact("notes", f"e{number}"))
            assert [event.id for event in await store.read("notes")] == [f"e{number}" for number in range(6)]
            again = await second.emit(fact("notes", "e0"))
            assert again is not None
            assert again.dup

    run(main())


@pytest.mark.parametrize("is_transient", [None, lambda error: isinstance(error, KeyError)], ids=["default", "custom"])
def test_an_append_that_hangs_and_is_stored_after_all_is_delivered(is_transient: Any) -> None:  # ENG-03, ENG-34
    class Hanging(InMemoryEventStore):
        hang = False
        late: asyncio.Task[Any] | None = None

        async def append(self, stream: str, events: Any, expected_seq: int = ANY_SEQ) -> list[Event]:
            if not self.hang:
                return await super().append(stream, events, expected_seq)
            self.late = self.late or asyncio.create_task(super().append(stream, events, expected_seq))
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    async def main() -> None:
        store, algo = Hanging(), Idle(patterns=("x.*",))
        rules = RetryPolicy(max_elapsed_s=0.05, max_attempts=2, base_delay_s=0.001)
        async with Engine(store, store_retry=rules, is_transient=is_transient) as engine:
            handle = await engine.start(algo, {}, run_id="r")
            store.hang = True
            await refused(lambda: handle.signal("x.y"))
            store.hang = False
            await handle.signal("x.z")
            await engine.bus.drain()
            assert types(algo.seen) == ["x.y", "x.z"]

    run(main())


def test_a_read_that_hangs_is_an_outage_and_blocks_nobody_for_good() -> None:
    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        async with engine_on(faulty, store_retry=RetryPolicy(max_elapsed_s=0.05)) as engine:
            fault = faulty.hang("read", times=None)
            await refused(lambda: engine.emit(fact("r")))
            faulty.mend()
            assert fault.met.is_set()
            assert await engine.emit(fact("r")) is not None

    run(main())


def test_a_child_whose_parent_cannot_be_told_is_started_all_the_same() -> None:  # ENG-17, RCV-06
    async def main() -> None:
        faulty, algo = FaultyStore(InMemoryEventStore()), Idle()
        async with engine_on(faulty, store_retry=FAST) as engine:
            await engine.start(Idle("mother"), {}, run_id="p")
            faulty.fail("append", times=None, when=lambda stream, *_: stream == "p")
            await engine.start(algo, {}, run_id="kid", parent="p")
            await until(lambda: types(algo.seen) == ["aaa.run.started"])
            faulty.mend()
            await engine.sweep()
            assert "aaa.child.started" in types(await faulty.read("p"))

    run(main())
