"""Handles to runs (HND-01 to HND-08, DEC-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_parts import Counting, Echo, Failing, FaultyStore, Idle, engine_on, fact, run, types
from tracehold.engine import RunHandle
from tracehold.events import EventStore
from tracehold.events.file_blobs import FileBlobStore


# HND-01
def test_a_handle_can_be_built_for_any_run() -> None:
    engine = engine_on()
    handle = RunHandle(engine, "any")
    assert (handle.engine, handle.run_id) == (engine, "any")


# HND-02
def test_the_outcome_is_the_same_however_often_it_is_asked_for(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Counting(), {"to": 3})
            outcomes = await asyncio.gather(*(handle.result() for _ in range(10)))
            assert [outcome.value for outcome in outcomes] == [3] * 10
            assert (await engine.handle(handle.run_id).result()).value == 3

    run(main())


# HND-02
def test_the_outcome_is_found_wherever_the_run_was_hosted_and_after_a_restart(
    shared: Callable[[], EventStore],
) -> None:
    async def main() -> None:
        async with engine_on(shared()) as host, engine_on(shared()) as other:
            await host.start(Idle(), {}, run_id="r")
            waiting = asyncio.create_task(other.handle("r").result())
            await host.handle("r").signal("test.go", {"a": 1})
            assert (await waiting).value == {"a": 1}
        async with engine_on(shared()) as later:
            assert (await later.handle("r").result()).value == {"a": 1}

    run(main())


# HND-02
def test_a_failed_run_has_an_outcome_and_raises_nothing(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            outcome = await (await engine.start(Failing(), {})).result()
            assert (outcome.ok, outcome.kind) == (False, "failed")

    run(main())


# HND-02
def test_the_outcome_is_waited_for_through_an_outage(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            handle = await engine.start(Idle(), {})
            faulty.fail("event", times=2)
            await handle.signal("test.go", {"a": 1})
            assert (await handle.result()).value == {"a": 1}

    run(main())


# HND-03
def test_events_gives_the_log_then_what_follows_and_ends_with_the_completion(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {})
            seen = []
            async for event in handle.events():
                seen.append(event)
                if event.type == "aaa.run.started":
                    await handle.signal("test.fact", {"n": 1})
                elif event.type == "test.fact":
                    await handle.signal("test.go", {})
            assert types(seen) == ["aaa.run.started", "test.fact", "test.go", "aaa.run.completed"]
            assert [event.seq for event in seen] == [0, 1, 2, 3]

    run(main())


# HND-03
def test_events_of_a_finished_run_gives_its_log_and_stops(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Counting(), {"to": 2}, run_id="r")
            await engine.handle("r").signal("test.late")
            seen = [event async for event in engine.handle("r").events()]
            assert types(seen) == ["aaa.run.started", "count.tick", "count.tick", "aaa.run.completed", "test.late"]
            assert seen == await store.read("r")

    run(main())


# HND-04
@pytest.mark.parametrize("hydrate", [False, True])
def test_payloads_are_restored_when_asked_for(store: EventStore, tmp_path: Path, hydrate: bool) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=FileBlobStore(tmp_path / "blobs"), claim_threshold=64) as engine:
            handle = await engine.start(Idle(), {"text": "y" * 300})
            await handle.signal("test.fact", {"text": "x" * 300})
            await handle.signal("test.go", {"n": 1})
            events = [event async for event in handle.events(hydrate=hydrate)]
            assert ("input" in events[0].data, "text" in events[1].data) == (hydrate, hydrate)
            assert events[-1].data["value"] == {"n": 1}

    run(main())


# HND-05
def test_a_signal_is_an_external_event_of_the_run_and_is_delivered(store: EventStore) -> None:
    async def main() -> None:
        idle = Idle()
        async with engine_on(store) as engine:
            handle = await engine.start(idle, {}, run_id="r", tenant="acme")
            stored = await handle.signal("test.approved", {"by": "ann"})
            await engine.bus.drain()
            assert stored is not None
            assert (stored.source, stored.tenant, stored.stream, stored.run_id) == ("external", "acme", "r", "r")
            assert stored.data == {"by": "ann"}
            assert idle.seen[-1] == stored
            bare = await handle.signal("test.bare")
            assert bare is not None
            assert bare.data == {}

    run(main())


# HND-07
def test_a_signal_to_a_finished_run_is_stored_and_not_handed_to_its_algorithm(store: EventStore) -> None:
    async def main() -> None:
        idle = Idle()
        async with engine_on(store) as engine:
            handle = await engine.start(idle, {}, run_id="r")
            await handle.signal("test.go", {})
            await handle.result()
            assert await handle.signal("test.late") is not None
            await engine.bus.drain()
            assert "test.late" not in types(idle.seen)
            assert types(await store.read("r"))[-1] == "test.late"

    run(main())


# DEC-05, HND-08
def test_a_run_that_no_store_knows_is_a_key_error(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.emit(fact("stream", "e"))
            for run_id in ("nobody", "stream"):
                handle = engine.handle(run_id)
                with pytest.raises(KeyError, match=run_id):
                    await handle.result()
                with pytest.raises(KeyError, match=run_id):
                    await handle.signal("test.fact")
                with pytest.raises(KeyError, match=run_id):
                    _ = [event async for event in handle.events()]
                with pytest.raises(KeyError, match=run_id):
                    await handle.result(start_timeout=0.01)
            assert await store.read("nobody") == []

    run(main())


# DEC-05
def test_a_handle_waits_for_the_start_as_long_as_it_is_told(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = engine.handle("r")
            waiting = asyncio.create_task(handle.result(start_timeout=20))
            listening = asyncio.create_task(_all(handle))
            await asyncio.sleep(0)
            await engine.start(Echo(), {"a": 1}, run_id="r")
            assert (await waiting).value == {"a": 1}
            assert await listening == ["aaa.run.started", "aaa.run.completed"]

    run(main())


async def _all(handle: RunHandle) -> list[str]:
    return types([event async for event in handle.events(start_timeout=20)])
