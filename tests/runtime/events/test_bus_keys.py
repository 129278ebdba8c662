"""Subscriptions with a key: in order per key, different keys at once (BUS-03, BUS-05, BUS-07, BUS-08)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.event_stores import run
from tracehold.core.control import Redeliver
from tracehold.events import Event
from tracehold.events.in_process_bus import InProcessBus
from tracehold.events.subscription import SPARE

MANY = 10_000


def event(stream: str, n: int) -> Event:
    return Event(type="test.fact", id=f"{stream}{n}", stream=stream, data={"n": n})


def stream_of(one: Event) -> str:
    return one.stream


def quick(**options: Any) -> InProcessBus:
    return InProcessBus(redeliver_base_s=0.001, redeliver_max_s=0.001, **options)


# BUS-03
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=40), st.integers(1, 5))
def test_events_of_one_key_are_handled_one_after_another_in_order(plan: list[tuple[str, int]], at_once: int) -> None:
    async def main() -> None:
        busy: set[str] = set()
        seen: dict[str, list[int]] = {}

        async def handle(one: Event) -> None:
            assert one.stream not in busy
            assert len(busy) < at_once
            busy.add(one.stream)
            for _ in range(plan[one.data["n"]][1]):
                await asyncio.sleep(0)
            busy.discard(one.stream)
            seen.setdefault(one.stream, []).append(one.data["n"])

        async with quick() as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=at_once)
            for n, (stream, _) in enumerate(plan):
                await bus.publish(event(stream, n))
        for stream in "abc":
            assert seen.get(stream, []) == [n for n, (one, _) in enumerate(plan) if one == stream]

    run(main())


# BUS-03
def test_a_handler_that_waits_holds_up_its_own_key_only() -> None:
    async def main() -> None:
        gate, seen = asyncio.Event(), list[str]()

        async def handle(one: Event) -> None:
            if one.stream == "slow":
                await gate.wait()
            seen.append(one.id)
            if one.id == "fast4":
                gate.set()

        async with quick() as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=MANY)
            for n in range(5):
                await bus.publish(event("slow", n))
                await bus.publish(event("fast", n))
        assert seen[:5] == [f"fast{n}" for n in range(5)]
        assert seen[5:] == [f"slow{n}" for n in range(5)]

    run(main())


# BUS-05
def test_a_redelivered_event_comes_before_the_later_ones_of_its_key_and_holds_up_no_other() -> None:
    async def main() -> None:
        seen, others = list[str](), asyncio.Event()

        async def handle(one: Event) -> None:
            if one.id == "a0" and not others.is_set():
                raise Redeliver
            seen.append(one.id)
            if one.id == "b2":
                others.set()

        async with quick() as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=MANY)
            for n in range(3):
                await bus.publish(event("a", n))
                await bus.publish(event("b", n))
            await bus.drain()
        assert seen == ["b0", "b1", "b2", "a0", "a1", "a2"]

    run(main())


# BUS-05, BUS-08
def test_a_key_that_still_asks_for_redelivery_at_the_end_takes_no_other_with_it() -> None:
    async def main() -> None:
        gate, seen = asyncio.Event(), list[str]()

        async def handle(one: Event) -> None:
            if one.stream == "a":
                raise Redeliver
            await gate.wait()
            seen.append(one.id)

        async with quick() as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=MANY)
            for n in range(3):
                await bus.publish(event("a", n))
                await bus.publish(event("b", n))
            asyncio.get_running_loop().call_later(0.02, gate.set)
        assert seen == ["b0", "b1", "b2"]

    run(main())


# BUS-07
def test_what_is_in_hand_counts_towards_the_bound_for_a_publisher_from_outside() -> None:
    async def main() -> None:
        gate, taken = asyncio.Event(), list[str]()

        async def handle(one: Event) -> None:
            taken.append(one.id)
            await gate.wait()

        async with quick(queue_size=3) as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=MANY)
            for n in range(3):
                await bus.publish(event(f"s{n}", n))
            waiting = asyncio.create_task(bus.publish(event("s3", 3)))
            while len(taken) < 3:  # noqa: ASYNC110 - no event to wait for: it is about what does not happen
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not waiting.done()
            gate.set()
            await waiting
        assert len(taken) == 4

    run(main())


# BUS-07
def test_a_handler_publishes_to_its_own_full_queue_without_waiting_for_itself() -> None:
    async def main() -> None:
        seen = list[int]()

        async def handle(one: Event) -> list[Event]:
            seen.append(one.data["n"])
            return [event(f"s{n % 7}", n) for n in range(1, 51)] if one.data["n"] == 0 else []

        async with quick(queue_size=2) as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=MANY)
            await bus.publish(event("s", 0))
            await bus.drain()
        assert sorted(seen) == [*range(51)]

    run(main())


# STO-08
def test_forget_drops_what_waits_behind_one_of_its_key() -> None:
    async def main() -> None:
        gate, seen = asyncio.Event(), list[str]()

        async def handle(one: Event) -> None:
            await gate.wait()
            seen.append(one.id)

        async with quick() as bus:
            bus.subscribe("*", handle, key=lambda one: one.data["n"] % 2, concurrency=MANY)
            for n in range(6):
                await bus.publish(event("gone" if n in {2, 3, 4} else "kept", n))
            assert bus.forget("gone") == 3
            gate.set()
            await bus.drain()
            await bus.publish(event("gone", 9))
        assert sorted(seen) == ["gone9", "kept0", "kept1", "kept5"]

    run(main())


# BUS-04
@pytest.mark.parametrize(
    "key", [lambda one: one.data["no such field"], lambda one: [one.stream]], ids=["raises", "list"]
)
def test_events_whose_key_cannot_be_told_are_handled_all_the_same(key: Any) -> None:
    async def main() -> None:
        seen, errors = list[str](), list[BaseException]()

        async def handle(one: Event) -> None:
            seen.append(one.id)

        async with quick(on_error=lambda _event, error: errors.append(error)) as bus:
            bus.subscribe("*", handle, key=key, concurrency=MANY)
            for n in range(3):
                await bus.publish(event("a", n))
        assert seen == ["a0", "a1", "a2"]
        assert errors

    run(main())


# BUS-08
def test_after_a_wave_of_keys_few_workers_and_no_keys_are_kept() -> None:
    async def main() -> None:
        async def handle(one: Event) -> None:
            await asyncio.sleep(0)

        async with quick() as bus:
            bus.subscribe("*", handle, key=stream_of, concurrency=MANY)
            for n in range(500):
                await bus.publish(event(f"s{n}", n))
            await bus.drain()
            (subscription,) = bus._subscriptions
            await asyncio.sleep(0)
            assert not subscription._lanes
            assert len(subscription._workers) <= SPARE

    run(main())


# BUS-01
def test_a_key_that_cannot_be_called_is_refused() -> None:
    async def handle(_one: Event) -> None: ...

    with pytest.raises(TypeError, match="key"):
        InProcessBus().subscribe("*", handle, key="stream")  # type: ignore[arg-type]  # as the test says
