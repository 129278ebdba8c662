"""What every bus does, on a clock that moves by itself when everybody waits; and what only the in-process one does."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import selectors
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.control import Redeliver
from tracehold.events.bus import EventBus, Handler
from tracehold.events.event import Event
from tracehold.events.globs import Globs
from tracehold.events.in_process_bus import InProcessBus
from tracehold.events.subscription import TURNS

MakeBus = Callable[..., EventBus]


class _NoWait(selectors.DefaultSelector):
    """Where the loop would wait for a timer, its clock is moved on instead."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen: a deadlock")
        self.skipped += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.waits = _NoWait()
        super().__init__(self.waits)

    def time(self) -> float:
        return self.waits.skipped


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run on a virtual clock; a deadlock is an error at once."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@pytest.fixture(params=[InProcessBus], ids=["in_process"])
def make_bus(request: pytest.FixtureRequest) -> MakeBus:
    """Every bus there is."""
    maker: MakeBus = request.param
    return maker


class Seen:
    """A handler that remembers what it got."""

    def __init__(self, react: Callable[[Event], Awaitable[list[Event] | None]] | None = None) -> None:
        self.events: list[Event] = []
        self._react = react

    async def __call__(self, event: Event) -> list[Event] | None:
        self.events.append(event)
        return await self._react(event) if self._react else None

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    @property
    def numbers(self) -> list[int]:
        return [event.seq for event in self.events]


def numbered(number: int, type: str = "x", stream: str = "s") -> Event:  # noqa: A002 - the field's name
    return Event(type=type, seq=number, stream=stream)


async def settle() -> None:
    """Let everybody who can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("*", ["aaa.run.started", "AAA.run.started", "order.placed", "order.placed\n"]),
        ("aaa.*", ["aaa.run.started"]),
        ("AAA.*", ["AAA.run.started"]),
        ("*.started", ["aaa.run.started", "AAA.run.started"]),
        ("order.?laced", ["order.placed"]),
        ("[!aA]*", ["order.placed", "order.placed\n"]),
        ("order.placed", ["order.placed"]),
        ("order", []),
    ],
)
def test_patterns_are_case_sensitive_globs_over_types(make_bus: MakeBus, pattern: str, taken: list[str]) -> None:
    # BUS-01
    async def main() -> list[str]:
        seen = Seen()
        async with make_bus() as bus:
            bus.subscribe(pattern, seen)
            for name in ("aaa.run.started", "AAA.run.started", "order.placed", "order.placed\n"):
                await bus.publish(Event(type="x").with_(type=name))
        return seen.types

    assert run(main()) == taken


def test_a_predicate_is_a_further_condition(make_bus: MakeBus) -> None:  # BUS-01
    async def main() -> list[int]:
        seen = Seen()
        async with make_bus() as bus:
            bus.subscribe("x", seen, predicate=lambda event: event.seq % 2 == 0)
            for number in range(5):
                await bus.publish(numbered(number))
        return seen.numbers

    assert run(main()) == [0, 2, 4]


def test_a_subscription_made_later_gets_later_events(make_bus: MakeBus) -> None:  # BUS-01
    async def main() -> tuple[list[int], list[int]]:
        first, second = Seen(), Seen()
        async with make_bus() as bus:
            bus.subscribe("x", first)
            await bus.publish(numbered(0))
            bus.subscribe("x", second)
            await bus.publish(numbered(1))
        return first.numbers, second.numbers

    assert run(main()) == ([0, 1], [1])


def test_at_most_concurrency_events_are_handled_at_once(make_bus: MakeBus) -> None:  # BUS-01
    async def main() -> int:
        now = most = 0

        async def handle(_event: Event) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(1)
            now -= 1

        async with make_bus() as bus:
            bus.subscribe("x", handle, concurrency=3)
            for number in range(10):
                await bus.publish(numbered(number))
        return most

    assert run(main()) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": ""}, ValueError),
        ({"pattern": None}, TypeError),
        ({"handler": None}, TypeError),
        ({"predicate": 1}, TypeError),
        ({"concurrency": 0}, ValueError),
        ({"concurrency": True}, ValueError),
        ({"group": 1}, TypeError),
    ],
)
def test_a_subscription_that_cannot_be_meant_is_refused(
    make_bus: MakeBus, arguments: dict[str, Any], error: type[Exception]
) -> None:  # BUS-01
    given = {"pattern": "x", "handler": Seen()} | arguments
    with pytest.raises(error):
        make_bus().subscribe(given.pop("pattern"), given.pop("handler"), **given)


def test_follow_ups_are_published(make_bus: MakeBus) -> None:  # BUS-02
    async def main() -> list[str]:
        async def react(event: Event) -> list[Event] | None:
            return [event.caused("b"), event.caused("c")] if event.type == "a" else None

        seen = Seen(react)
        async with make_bus() as bus:
            bus.subscribe("*", seen)
            await bus.publish(Event(type="a"))
        return seen.types

    assert run(main()) == ["a", "b", "c"]


@pytest.mark.parametrize("wrong", [Event(type="y"), [Event(type="y"), "y"], 5])
def test_a_reaction_that_is_no_list_of_events_is_a_failure_and_publishes_nothing(wrong: Any) -> None:  # BUS-02
    async def main() -> tuple[list[str], list[str]]:
        async def react(event: Event) -> Any:
            return wrong if event.type == "x" else None

        errors: list[str] = []
        seen = Seen(react)
        async with InProcessBus(on_error=lambda _event, error: errors.append(type(error).__name__)) as bus:
            bus.subscribe("*", seen)
            await bus.publish(numbered(0))
        return seen.types, errors

    assert run(main()) == (["x"], ["TypeError"])


@given(
    st.lists(st.sampled_from("abc"), max_size=60),
    st.integers(1, 4),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.booleans(),
)
def test_one_worker_sees_events_in_publish_order(types: str, size: int, waits: list[int], outage: bool) -> None:
    # BUS-03
    async def main() -> tuple[list[int], list[int]]:
        failed: set[int] = set()

        async def slow(event: Event) -> None:
            for _ in range(waits[event.seq % len(waits)]):
                await asyncio.sleep(0)
            if outage and event.seq % 5 == 0 and event.seq not in failed:
                failed.add(event.seq)
                raise Redeliver

        everything, some = Seen(slow), Seen()  # type: ignore[arg-type]  # returns None
        async with InProcessBus(size) as bus:
            bus.subscribe("*", everything)
            bus.subscribe("a", some)
            for number, name in enumerate(types):
                await bus.publish(numbered(number, name))
        return everything.numbers, some.numbers

    everything, some = run(main())
    assert list(dict.fromkeys(everything)) == list(range(len(types)))
    assert everything == sorted(everything)
    assert some == [number for number, name in enumerate(types) if name == "a"]


def test_publishers_that_wait_are_let_in_in_their_order(make_bus: MakeBus) -> None:  # BUS-03, BUS-07
    async def main() -> list[int]:
        async def slow(_event: Event) -> None:
            await asyncio.sleep(1)

        seen = Seen(slow)  # type: ignore[arg-type]  # returns None
        async with make_bus(2) as bus:
            bus.subscribe("*", seen)
            await asyncio.gather(*(bus.publish(numbered(number)) for number in range(20)))
        return seen.numbers

    assert run(main()) == list(range(20))


def test_a_failing_handler_disturbs_neither_others_nor_later_events(make_bus: MakeBus) -> None:  # BUS-04
    async def main() -> tuple[list[int], list[int]]:
        async def fail(event: Event) -> list[Event] | None:
            if event.seq == 1:
                raise ValueError("ann")
            return None

        failing, other = Seen(fail), Seen()
        async with make_bus() as bus:
            bus.subscribe("x", failing)
            bus.subscribe("x", other)
            for number in range(3):
                await bus.publish(numbered(number))
        return failing.numbers, other.numbers

    assert run(main()) == ([0, 1, 2], [0, 1, 2])


def test_a_handler_that_something_else_cancelled_has_failed_and_the_worker_goes_on(make_bus: MakeBus) -> None:  # BUS-04
    async def main() -> list[int]:
        async def wait_for_a_cancelled_task(_event: Event) -> None:
            task = asyncio.ensure_future(asyncio.sleep(60))
            task.cancel()
            await task

        seen = Seen(wait_for_a_cancelled_task)  # type: ignore[arg-type]  # returns None
        async with make_bus() as bus:
            bus.subscribe("x", seen)
            for number in range(3):
                await bus.publish(numbered(number))
        return seen.numbers

    assert run(main()) == [0, 1, 2]


def test_failures_are_logged_once_a_kind_without_content_and_each_reaches_the_hook(
    caplog: pytest.LogCaptureFixture,
) -> None:  # BUS-04
    async def main() -> list[tuple[int, str]]:
        async def fail(event: Event) -> list[Event] | None:
            raise (KeyError if event.seq == 2 else ValueError)("ann@example.org")

        told: list[tuple[int, str]] = []

        def hook(event: Event, error: BaseException) -> None:
            told.append((event.seq, type(error).__name__))
            raise RuntimeError("a hook that fails")

        async with InProcessBus(on_error=hook) as bus:
            bus.subscribe("x", fail)
            for number in range(4):
                await bus.publish(numbered(number))
        return told

    with caplog.at_level(logging.WARNING):
        assert run(main()) == [(0, "ValueError"), (1, "ValueError"), (2, "KeyError"), (3, "ValueError")]
    assert [record.getMessage().count("ValueError") for record in caplog.records] == [1, 0]
    assert "ann" not in caplog.text


def test_a_predicate_that_fails_lets_nothing_through_and_is_not_the_publisher_s_problem() -> None:  # BUS-04
    async def main() -> tuple[list[int], int]:
        seen, errors = Seen(), Counter[str]()
        async with InProcessBus(on_error=lambda _event, error: errors.update([type(error).__name__])) as bus:
            bus.subscribe("x", seen, predicate=lambda event: 1 // event.seq > 0)
            await bus.publish(numbered(0))
            await bus.publish(numbered(1))
        return seen.numbers, errors["ZeroDivisionError"]

    assert run(main()) == ([1], 1)


def test_redelivery_comes_after_growing_pauses_and_before_any_later_event(make_bus: MakeBus) -> None:  # BUS-05
    async def main() -> tuple[list[int], list[float]]:
        times: list[float] = []

        async def fail_six_times(event: Event) -> list[Event] | None:
            if event.seq == 0:
                times.append(asyncio.get_running_loop().time())
                if len(times) <= 6:
                    raise Redeliver
            return None

        seen = Seen(fail_six_times)
        async with make_bus(redeliver_base_s=1.0, redeliver_max_s=8.0) as bus:
            bus.subscribe("x", seen)
            for number in range(3):
                await bus.publish(numbered(number))
            await bus.drain()
        return seen.numbers, [after - before for before, after in pairwise(times)]

    numbers, pauses = run(main())
    assert numbers == [0] * 7 + [1, 2]
    assert pauses == pytest.approx([1, 2, 4, 8, 8, 8])


def test_with_several_workers_nothing_later_is_begun_while_an_event_waits_for_redelivery(make_bus: MakeBus) -> None:
    # BUS-05
    async def main() -> list[int]:
        tries = 0

        async def fail_twice(event: Event) -> list[Event] | None:
            nonlocal tries
            if event.seq == 0:
                tries += 1
                if tries <= 2:
                    raise Redeliver
            return None

        seen = Seen(fail_twice)
        async with make_bus(redeliver_base_s=1.0) as bus:
            bus.subscribe("x", seen, concurrency=4)
            await bus.publish(numbered(0))
            await settle()
            for number in range(1, 9):
                await bus.publish(numbered(number))
            await bus.drain()
        return seen.numbers

    assert run(main()) == [0, 0, 0, *range(1, 9)]


def test_redelivery_of_one_subscription_does_not_hold_up_another(make_bus: MakeBus) -> None:  # BUS-05
    async def main() -> list[int]:
        async def never(_event: Event) -> list[Event] | None:
            raise Redeliver

        other = Seen()
        bus = make_bus()
        async with bus:
            bus.subscribe("x", never)
            bus.subscribe("x", other)
            await bus.publish(numbered(0))
            await bus.publish(numbered(1))
            await settle()
            await bus.abort()
        return other.numbers

    assert run(main()) == [0, 1]


def test_a_closing_bus_gives_a_last_attempt_and_then_lets_nothing_overtake(caplog: pytest.LogCaptureFixture) -> None:
    # BUS-05: "until it succeeds or the bus closes"
    async def main() -> tuple[list[int], float]:
        async def never(_event: Event) -> list[Event] | None:
            raise Redeliver

        seen = Seen(never)
        async with InProcessBus(redeliver_base_s=100.0, redeliver_max_s=100.0) as bus:
            bus.subscribe("x", seen)
            for number in range(3):
                await bus.publish(numbered(number))
            await settle()
        return seen.numbers, asyncio.get_running_loop().time()

    with caplog.at_level(logging.WARNING):
        assert run(main()) == ([0, 0], 0.0)
    assert "3 event(s) were not handled" in caplog.text


def test_each_event_goes_to_one_of_a_group_and_to_everybody_else(make_bus: MakeBus) -> None:  # BUS-06
    async def main() -> tuple[list[Seen], Seen, Seen]:
        members, other, alone = [Seen() for _ in range(3)], Seen(), Seen()
        async with make_bus() as bus:
            for member in members:
                bus.subscribe("x", member, group="billing")
            bus.subscribe("x", other, group="audit")
            bus.subscribe("x", alone)
            for number in range(60):
                await bus.publish(numbered(number, stream=f"run-{number % 20}"))
        return members, other, alone

    members, other, alone = run(main())
    assert sorted(number for member in members for number in member.numbers) == list(range(60))
    assert other.numbers == alone.numbers == list(range(60))


def test_a_group_s_events_of_one_stream_stay_in_order(make_bus: MakeBus) -> None:  # BUS-06
    async def main() -> list[tuple[str, int]]:
        ended: list[tuple[str, int]] = []

        async def work(event: Event) -> None:
            await asyncio.sleep(3 - event.seq % 3)
            ended.append((event.stream, event.seq))

        async with make_bus() as bus:
            for _ in range(3):
                bus.subscribe("x", work, group="billing")
            for number in range(30):
                await bus.publish(numbered(number, stream=f"run-{number % 5}"))
        return ended

    ended = run(main())
    assert len(ended) == 30
    for stream in {stream for stream, _ in ended}:
        numbers = [number for name, number in ended if name == stream]
        assert numbers == sorted(numbers)


def test_only_members_that_take_an_event_compete_for_it(make_bus: MakeBus) -> None:  # BUS-06
    async def main() -> tuple[list[str], list[str]]:
        first, second = Seen(), Seen()
        async with make_bus() as bus:
            bus.subscribe("a*", first, group="g")
            bus.subscribe("*", second, group="g", predicate=lambda event: not event.type.startswith("a"))
            for name in ("a1", "b1", "a2", "b2"):
                await bus.publish(Event(type=name))
        return first.types, second.types

    assert run(main()) == (["a1", "a2"], ["b1", "b2"])


def test_a_full_queue_slows_the_publisher(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> None:
        gate = asyncio.Event()

        async def wait(_event: Event) -> None:
            await gate.wait()

        async with make_bus(2) as bus:
            bus.subscribe("x", wait)
            for number in range(3):  # one in the handler's hands, two in the queue
                await bus.publish(numbered(number))
                await settle()
            fourth = asyncio.ensure_future(bus.publish(numbered(3)))
            await settle()
            assert not fourth.done()
            gate.set()
            await fourth

    run(main())


def test_one_subscription_s_full_queue_does_not_slow_events_that_only_others_take(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> list[int]:
        gate = asyncio.Event()

        async def wait(_event: Event) -> None:
            await gate.wait()

        seen = Seen()
        async with make_bus(1) as bus:
            bus.subscribe("slow", wait)
            bus.subscribe("x", seen)
            stuck = [asyncio.ensure_future(bus.publish(Event(type="slow"))) for _ in range(5)]
            await settle()
            for number in range(5):
                await bus.publish(numbered(number))
            await settle()
            numbers = seen.numbers
            gate.set()
            await asyncio.gather(*stuck)
        return numbers

    assert run(main()) == list(range(5))


def test_publishers_to_several_small_queues_do_not_lock_one_another_out(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> tuple[int, int]:
        async def slow(event: Event) -> None:
            await asyncio.sleep(event.seq % 3)

        first, second = Seen(slow), Seen(slow)  # type: ignore[arg-type]  # returns None
        async with make_bus(1) as bus:
            bus.subscribe("[ab]", first)
            bus.subscribe("[bc]", second)
            await asyncio.gather(*(bus.publish(numbered(number, "abc"[number % 3])) for number in range(60)))
        return len(first.events), len(second.events)

    assert run(main()) == (40, 40)


def test_a_publisher_that_is_cancelled_while_it_waits_has_published_nothing(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> list[int]:
        gate = asyncio.Event()

        async def wait(_event: Event) -> None:
            await gate.wait()

        seen = Seen(wait)  # type: ignore[arg-type]  # returns None
        async with make_bus(1) as bus:
            bus.subscribe("x", seen)
            waiting = [asyncio.ensure_future(bus.publish(numbered(number))) for number in range(5)]
            await settle()
            waiting[2].cancel()
            await settle()
            gate.set()
        return seen.numbers

    assert run(main()) == [0, 1, 3, 4]


@pytest.mark.parametrize("size", [1, 16, 1024])
def test_a_reaction_of_1100_follow_ups_does_not_hang(make_bus: MakeBus, size: int) -> None:  # BUS-07
    async def main() -> int:
        async def react(event: Event) -> list[Event] | None:
            return [event.caused("more", {"n": number}) for number in range(1100)] if event.type == "first" else None

        seen = Seen(react)
        async with make_bus(size) as bus:
            bus.subscribe("*", seen)
            await bus.publish(Event(type="first"))
        return len(seen.events)

    assert run(main()) == 1101


def test_a_handler_that_publishes_by_itself_does_not_wait_for_its_own_queue(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> int:
        bus = make_bus(4)

        async def react(event: Event) -> None:
            if event.type == "first":
                for number in range(100):
                    await bus.publish(event.caused("more", {"n": number}))
                await asyncio.gather(*(bus.publish(event.caused("other", {"n": number})) for number in range(100)))

        seen = Seen(react)  # type: ignore[arg-type]  # returns None
        async with bus:
            bus.subscribe("*", seen)
            await bus.publish(Event(type="first"))
        return len(seen.events)

    assert run(main()) == 201


def test_two_handlers_that_fill_one_another_s_queue_go_on(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> tuple[int, float]:
        def bounce(other: str) -> Handler:
            async def react(event: Event) -> list[Event] | None:
                left = event.data["left"]
                return [event.caused(other, {"left": left - 1, "n": number}) for number in range(3)] if left else None

            return react

        there, back = Seen(bounce("back")), Seen(bounce("there"))  # type: ignore[arg-type]  # they return lists
        async with make_bus(2) as bus:
            bus.subscribe("there", there)
            bus.subscribe("back", back)
            await bus.publish(Event(type="there", data={"left": 6}))
        return len(there.events) + len(back.events), asyncio.get_running_loop().time()

    count, seconds = run(main())
    assert count == sum(3**level for level in range(7))
    assert seconds == 0.0


def test_a_fast_handler_does_not_outrun_a_slow_one_that_it_feeds(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> int:
        fed = handled = most = 0

        async def feed(event: Event) -> list[Event]:
            nonlocal fed, most
            fed += 1
            most = max(most, fed - handled)
            return [event.caused("slow", {"n": event.seq})]

        async def slow(_event: Event) -> None:
            nonlocal handled
            await asyncio.sleep(0.1)
            handled += 1

        async with make_bus(5) as bus:
            bus.subscribe("fast", feed)
            bus.subscribe("slow", slow)
            for number in range(100):
                await bus.publish(numbered(number, "fast"))
        return most

    assert run(main()) <= 8  # the slow one's queue, what it has in hand, and what brought the queue over its bound


def test_a_handler_that_waits_for_one_that_it_holds_up_is_not_waited_for_in_vain(make_bus: MakeBus) -> None:  # BUS-07
    async def main() -> int:
        done = asyncio.Event()

        async def worker(event: Event) -> list[Event] | None:
            if event.seq == 9:
                done.set()
            return [event.caused("result", {"n": event.seq})]

        async def boss(event: Event) -> list[Event] | None:
            if event.type == "start":
                await done.wait()
            return None

        seen = Seen(boss)
        async with make_bus(2) as bus:
            bus.subscribe("[rs]*", seen)
            bus.subscribe("task", worker)
            await bus.publish(Event(type="start"))
            for number in range(10):
                await bus.publish(numbered(number, "task"))
        return len(seen.events)

    assert run(main()) == 11


def test_drain_waits_for_what_is_queued_and_what_follows_from_it(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> list[str]:
        async def react(event: Event) -> list[Event] | None:
            await asyncio.sleep(1)
            return [event.caused(event.type + "a")] if len(event.type) < 4 else None

        seen = Seen(react)
        async with make_bus() as bus:
            bus.subscribe("*", seen)
            await bus.publish(Event(type="a"))
            await bus.drain()
            return list(seen.types)

    assert run(main()) == ["a", "aa", "aaa", "aaaa"]


def test_drain_waits_for_publishers_that_wait_and_returns_at_once_when_nothing_is_left(make_bus: MakeBus) -> None:
    # BUS-08
    async def main() -> list[int]:
        async def slow(_event: Event) -> None:
            await asyncio.sleep(1)

        seen = Seen(slow)  # type: ignore[arg-type]  # returns None
        async with make_bus(1) as bus:
            await bus.drain()
            bus.subscribe("x", seen)
            publishers = [asyncio.ensure_future(bus.publish(numbered(number))) for number in range(6)]
            await settle()
            await asyncio.gather(bus.drain(), bus.drain())
            assert all(publisher.done() for publisher in publishers)
            return list(seen.numbers)

    assert run(main()) == list(range(6))


def test_drain_inside_a_handler_says_that_it_would_wait_for_itself() -> None:  # BUS-08
    async def main() -> list[str]:
        errors: list[str] = []
        async with InProcessBus(on_error=lambda _event, error: errors.append(str(error))) as bus:

            async def handle(_event: Event) -> None:
                await bus.drain()

            bus.subscribe("x", handle)
            await bus.publish(numbered(0))
        return errors

    [error] = run(main())
    assert "would wait for that handler" in error


def test_leaving_the_context_drains(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> list[int]:
        async def slow(_event: Event) -> None:
            await asyncio.sleep(1)

        seen = Seen(slow)  # type: ignore[arg-type]  # returns None
        async with make_bus() as bus:
            bus.subscribe("x", seen)
            for number in range(5):
                await bus.publish(numbered(number))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return seen.numbers

    assert run(main()) == list(range(5))


def test_a_cancelled_exit_leaves_no_worker_behind(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> None:
        async def use() -> None:
            async with make_bus() as bus:
                bus.subscribe("x", lambda _event: asyncio.sleep(1e6))
                await bus.publish(numbered(0))

        using = asyncio.ensure_future(use())
        await settle()
        using.cancel()
        await asyncio.wait([using])
        assert using.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_abort_drops_what_is_queued_in_hand_and_waiting_at_once(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> tuple[list[int], float]:
        async def slow(_event: Event) -> None:
            await asyncio.sleep(1000)

        seen = Seen(slow)  # type: ignore[arg-type]  # returns None
        bus = make_bus(2)
        async with bus:
            bus.subscribe("x", seen)
            publishers = [asyncio.ensure_future(bus.publish(numbered(number))) for number in range(6)]
            await settle()
            await bus.abort()
            await asyncio.gather(*publishers, bus.drain())
            await bus.publish(numbered(9))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return seen.numbers, asyncio.get_running_loop().time()

    assert run(main()) == ([0], 0.0)


def test_abort_from_inside_a_handler_ends_the_bus_and_not_the_handler(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> tuple[list[int], bool]:
        finished = False
        bus = make_bus()

        async def stop(_event: Event) -> list[Event]:
            nonlocal finished
            await bus.abort()
            finished = True
            return [numbered(7)]

        seen = Seen(stop)  # type: ignore[arg-type]  # returns a list
        async with bus:
            bus.subscribe("x", seen)
            await bus.publish(numbered(0))
            await bus.publish(numbered(1))
            await settle()
        return seen.numbers, finished

    assert run(main()) == ([0], True)


def test_a_bus_can_be_entered_again(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> list[int]:
        seen, bus = Seen(), make_bus()
        bus.subscribe("x", seen)
        async with bus:
            await bus.publish(numbered(0))
        await bus.publish(numbered(1))  # nobody is there
        async with bus:
            await bus.publish(numbered(2))
        return seen.numbers

    assert run(main()) == [0, 2]


def test_an_inner_context_drains_and_leaves_the_bus_to_the_outer_one(make_bus: MakeBus) -> None:  # BUS-08
    async def main() -> list[int]:
        seen, bus = Seen(), make_bus()
        bus.subscribe("x", seen)
        async with bus:
            async with bus:
                await bus.publish(numbered(0))
            assert seen.numbers == [0]
            await bus.publish(numbered(1))
        return seen.numbers

    assert run(main()) == [0, 1]


def test_the_in_process_bus_is_not_distributed() -> None:  # BUS-09
    assert InProcessBus().distributed is False


def test_forget_drops_a_stream_s_waiting_copies_of_every_subscription_and_counts_them(make_bus: MakeBus) -> None:
    # STO-08, ERA-05
    async def main() -> tuple[int, list[int], list[int]]:
        gate = asyncio.Event()

        async def wait(_event: Event) -> None:
            await gate.wait()

        first, second = Seen(wait), Seen(wait)  # type: ignore[arg-type]  # return None
        async with make_bus() as bus:
            bus.subscribe("x", first)
            bus.subscribe("x", second)
            for number in range(6):
                await bus.publish(numbered(number, stream="ab"[number % 2]))
            await settle()  # both have number 0 in hand
            dropped = bus.forget("a")
            assert bus.forget("a") == 0
            gate.set()
            await bus.drain()
        return dropped, first.numbers, second.numbers

    assert run(main()) == (4, [0, 1, 3, 5], [0, 1, 3, 5])


def test_forget_drops_what_waits_for_redelivery_or_for_room(make_bus: MakeBus) -> None:  # STO-08, ERA-05
    async def main() -> tuple[int, list[int]]:
        async def fail(event: Event) -> list[Event] | None:
            if event.stream == "a":
                raise Redeliver
            return None

        seen = Seen(fail)
        async with make_bus(1, redeliver_base_s=100.0, redeliver_max_s=100.0) as bus:
            bus.subscribe("x", seen)
            await bus.publish(numbered(0, stream="a"))
            await settle()  # waits for redelivery
            await bus.publish(numbered(1, stream="a"))  # queued
            waiting = [asyncio.ensure_future(bus.publish(numbered(2 + n, stream="ab"[n]))) for n in range(2)]
            await settle()
            dropped = bus.forget("a")
            await asyncio.gather(*waiting)
            await bus.drain()
            assert asyncio.get_running_loop().time() == 0.0
        return dropped, seen.numbers

    assert run(main()) == (3, [0, 3])


def test_an_event_forgotten_while_it_is_handled_is_not_delivered_again(make_bus: MakeBus) -> None:  # STO-08, ERA-05
    async def main() -> list[int]:
        bus = make_bus()

        async def forget_and_fail(event: Event) -> list[Event] | None:
            if event.seq == 0:
                assert bus.forget("s") == 0
                raise Redeliver
            return None

        seen = Seen(forget_and_fail)
        async with bus:
            bus.subscribe("x", seen)
            await bus.publish(numbered(0))
            await bus.drain()
            assert asyncio.get_running_loop().time() == 0.0  # it does not even wait
            await bus.publish(numbered(1))
        return seen.numbers

    assert run(main()) == [0, 1]


def test_what_the_publisher_s_context_says_does_not_reach_handlers() -> None:
    tenant: contextvars.ContextVar[str | None] = contextvars.ContextVar("tenant", default=None)

    async def main() -> list[str | None]:
        found: list[str | None] = []

        async def handle(_event: Event) -> None:
            found.append(tenant.get())

        async with InProcessBus() as bus:
            bus.subscribe("x", handle)
            tenant.set("acme")
            await bus.publish(numbered(0))
        return found

    assert run(main()) == [None]


def test_a_task_that_outlives_its_handler_waits_for_room_like_anybody_else() -> None:  # BUS-07
    async def main() -> None:
        gate, bus = asyncio.Event(), InProcessBus(1)
        tasks: list[asyncio.Future[None]] = []

        async def spawn(_event: Event) -> None:
            tasks.append(asyncio.ensure_future(publish_later()))

        async def publish_later() -> None:
            await settle()
            for number in range(4):
                await bus.publish(numbered(number, "slow"))

        async def wait(_event: Event) -> None:
            await gate.wait()

        async with bus:
            bus.subscribe("x", spawn)
            bus.subscribe("slow", wait)
            await bus.publish(numbered(0))
            for _ in range(3):
                await settle()
            assert not tasks[0].done()
            gate.set()
            await tasks[0]

    run(main())


def test_handlers_that_never_wait_leave_the_rest_of_the_program_its_turn() -> None:
    async def main() -> int:
        turns = handled = 0

        async def again(event: Event) -> list[Event] | None:
            nonlocal handled
            handled += 1
            return [event] if handled < TURNS * 50 else None

        async def ticks() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with InProcessBus() as bus:
            bus.subscribe("x", again)
            ticking = asyncio.ensure_future(ticks())
            await bus.publish(numbered(0))
            await bus.drain()
            ticking.cancel()
        return turns

    assert run(main()) >= 49


@pytest.mark.parametrize(
    "arguments",
    [
        *[{"queue_size": value} for value in (0, -1, 1.5, True)],
        *[{name: value} for name in ("redeliver_base_s", "redeliver_max_s") for value in (0, -1, float("nan"), True)],
    ],
)
def test_a_bus_that_cannot_be_meant_is_refused_by_name(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        InProcessBus(**arguments)


def test_globs_of_hostile_types_and_patterns_stay_fast_and_bounded() -> None:
    globs = Globs(["*a*a*a*a*a*a*a*a*b", "x"])
    assert not globs.match("a" * 20_000)
    for number in range(5_000):
        assert not globs.match(f"t{number}")
    assert len(globs._known) <= 1024
    assert Globs([]).match("x") is False
