"""The algorithm protocol (ALG-01 to ALG-05)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
from engine_parts import Counting, Echo, Idle, Parent, engine_on, fact, run, types, until
from tracehold.engine import Algorithm
from tracehold.events import EventStore


# ALG-01
def test_an_algorithm_is_a_protocol_whose_event_and_context_are_positional() -> None:
    assert isinstance(Echo(), Algorithm)
    assert not isinstance(object(), Algorithm)
    parameters = [*inspect.signature(Algorithm.on_event).parameters.values()][1:]
    assert [one.name for one in parameters] == ["event", "ctx"]
    assert all(one.kind is inspect.Parameter.POSITIONAL_ONLY for one in parameters)
    assert inspect.iscoroutinefunction(Algorithm.on_event)


# ALG-02
def test_a_run_moves_to_another_process_because_its_state_is_in_the_log(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        first = engine_on(shared())
        async with first:
            counting = Counting()
            await first.start(counting, {"to": 1000}, run_id="r")
            await until(lambda: len(counting.seen) >= 5)
            await first.abort()
        async with engine_on(shared()) as second:
            assert [*await second.recover([Counting()])] == ["r"]
            assert (await second.handle("r").result()).value == 1000
            ticks = [event.data["n"] for event in await second.stored("r") if event.type == "count.tick"]
            assert ticks == [*range(1, 1001)]

    run(main())


# ALG-03
def test_events_that_match_no_pattern_never_reach_it(store: EventStore) -> None:
    async def main() -> None:
        picky = Idle(patterns=["test.[ab]", "test.g?"])
        async with engine_on(store) as engine:
            await engine.start(picky, {}, run_id="r")
            for type_ in ("test.a", "test.A", "test.c", "test.ab", "other.a", "test.b"):
                await engine.emit(fact("r", type_=type_))
            await engine.handle("r").signal("test.go")
            await engine.handle("r").result()
            await engine.bus.drain()
            assert types(picky.seen) == ["test.a", "test.b", "test.go"]

    run(main())


# ALG-03
def test_an_event_that_several_patterns_match_reaches_it_once(store: EventStore) -> None:
    async def main() -> None:
        greedy = Idle(patterns=["*", "test.*", "test.a"])
        async with engine_on(store) as engine:
            await engine.start(greedy, {}, run_id="r")
            await engine.emit(fact("r", type_="test.a"))
            await engine.bus.drain()
            assert types(greedy.seen) == ["aaa.run.started", "test.a"]

    run(main())


# ALG-04
def test_one_object_serves_many_runs_at_once_beside_others_and_nested_ones(store: EventStore) -> None:
    async def main() -> None:
        counting, parent = Counting(), Parent(Echo())
        async with engine_on(store) as engine:
            outcomes = await asyncio.gather(
                *(engine.run(counting, {"to": n}) for n in range(1, 21)),
                *(engine.run(parent, {"children": {"a": {"n": n}, "b": {}}}) for n in range(20)),
            )
            assert [outcome.value for outcome in outcomes[:20]] == [*range(1, 21)]
            assert [outcome.value["a"]["value"]["n"] for outcome in outcomes[20:]] == [*range(20)]

    run(main())


# ALG-05
def test_two_different_algorithms_of_one_name_cannot_be_recovered(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            with pytest.raises(ValueError, match="same"):
                await engine.recover([Echo("same"), Idle("same")])
            same = Echo("same")
            assert await engine.recover([same, same]) == {}

    run(main())
