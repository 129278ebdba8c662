"""Deadlines: wall time from the start, whatever happens in between (BUD-05, BUD-06)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from engine_parts import Echo, FaultyStore, Idle, engine_on, fact, outage, run, types
from tracehold.engine import Budget
from tracehold.engine import consequences as consequences_module
from tracehold.engine.consequences import seconds_left
from tracehold.events import Event, EventStore
from tracehold.events.memory_store import InMemoryEventStore

SHORT = Budget(deadline_s=0.01)
TIMED_OUT = ["aaa.run.started", "aaa.timer.fired", "aaa.run.completed"]


def begun(run_id: str, ago_s: float, deadline_s: Any, **data: Any) -> Event:
    """Return the started event of a run that began a while ago."""
    told = {"algo": "idle", "input": {}, "parent": None, "run_tag": None, "budget": {"deadline_s": deadline_s}, **data}
    event = fact(run_id, f"{run_id}:started", "aaa.run.started", **told)
    return event.with_(time=datetime.now(UTC) - timedelta(seconds=ago_s))


def test_a_deadline_ends_a_run_as_timeout_after_a_timer_event(store: EventStore) -> None:  # BUD-05
    async def main() -> None:
        async with engine_on(store) as engine:
            outcome = await engine.run(Idle(), {}, run_id="r", budget=SHORT)
            assert (outcome.kind, outcome.value) == ("timeout", None)
            assert outcome.reason == "deadline of 0.01 s has passed"
            log = await store.read("r")
            assert types(log) == TIMED_OUT
            assert (log[1].id, log[1].data) == ("r:deadline", {"kind": "deadline"})
        await store.aclose()

    run(main())


def test_a_run_that_ends_in_time_fires_no_timer() -> None:  # BUD-05
    async def main() -> None:
        async with engine_on() as engine:
            await engine.run(Echo(), {}, run_id="r", budget=Budget(deadline_s=1000))
            held = engine.runs.peek("r")
            assert held is None or held.deadline is None
            await engine.run(Idle(), {}, budget=SHORT)  # time passes
            assert types(await engine.stored("r")) == ["aaa.run.started", "aaa.run.completed"]

    run(main())


@pytest.mark.parametrize("deadline_s", [1e10, 1e18, 1e300])
def test_a_deadline_beyond_every_calendar_is_only_far_away(deadline_s: float) -> None:  # BUD-05
    async def main() -> None:
        store = InMemoryEventStore()
        async with engine_on(store) as engine:
            assert (await engine.run(Echo(), {}, budget=Budget(deadline_s=deadline_s))).kind == "success"
            await engine.start(Idle(), {}, run_id="r", budget=Budget(deadline_s=deadline_s))
            assert (await engine.sweep()).timed_out == []
            await engine.abort()
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle()])
            await handles["r"].signal("test.go", {"n": 1})
            assert (await handles["r"].result()).value == {"n": 1}

    run(main())


def test_a_restart_does_not_reset_the_deadline() -> None:  # BUD-06
    async def main() -> None:
        store = InMemoryEventStore()
        # One minute of an hour is left; one passed while nobody was there; one is about to.
        await store.append("left", [begun("left", 3540, 3600)])
        await store.append("passed", [begun("passed", 3601, 3600)])
        await store.append("soon", [begun("soon", 3600, 3600.05)])
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle()])
            report = engine.last_recovery
            assert report is not None
            assert "passed" in report.timed_out
            assert "left" not in report.timed_out
            assert (await engine.handle("passed").result()).kind == "timeout"
            assert (await engine.handle("soon").result()).kind == "timeout"
            armed = engine.runs.peek("left")
            assert armed is not None
            assert armed.deadline is not None
            left = seconds_left(armed.fold.budget, armed.fold.started_at)
            assert left is not None
            assert 0 < left <= 60
            await handles["left"].signal("test.go")

    run(main())


def test_a_run_started_again_keeps_its_deadline() -> None:  # BUD-06, ENG-08
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [begun("r", 100, 50)])
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {}, run_id="r", budget=Budget(deadline_s=1000))
            assert (await handle.result()).reason == "deadline of 50 s has passed"

    run(main())


def test_a_crash_between_timer_and_completion_fires_once() -> None:  # BUD-05, RCV-06
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [begun("r", 100, 50), fact("r", "r:deadline", "aaa.timer.fired", kind="deadline")])
        async with engine_on(store) as engine:
            assert (await engine.sweep()).timed_out == ["r"]
            assert types(await store.read("r")) == TIMED_OUT

    run(main())


def test_a_run_that_ended_elsewhere_gets_no_timer_event(shared: Callable[[], EventStore]) -> None:  # BUD-05
    async def main() -> None:
        here, there = shared(), shared()
        async with engine_on(here) as first, engine_on(there) as second:
            await first.start(Idle(), {}, run_id="r", budget=Budget(deadline_s=1000))
            await second.complete("r", "success")  # type: ignore[arg-type]  # a text is one
            assert (await first.fold_of("r")).is_open  # as far as it knows
            await first.expire("r")
            assert types(await here.read("r")) == ["aaa.run.started", "aaa.run.completed"]
        await here.aclose()
        await there.aclose()

    run(main())


def test_an_outage_at_the_deadline_delays_the_end_and_does_not_lose_it(  # BUD-05
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consequences_module, "_AGAIN_S", 0.01)

    async def main() -> None:
        faulty = FaultyStore(InMemoryEventStore())
        async with engine_on(faulty) as engine:
            handle = await engine.start(Idle(), {}, run_id="r", budget=SHORT)
            fault = faulty.fail("append", outage(), times=10)
            await fault.met.wait()
            assert (await handle.result()).kind == "timeout"
            assert types(await faulty.read("r")) == TIMED_OUT

    run(main())


def test_leaving_the_engine_stops_its_timers(store: EventStore) -> None:  # ENG-02, ENG-05
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r", budget=Budget(deadline_s=0.02))
        async with engine_on() as other:
            await other.run(Idle(), {}, budget=Budget(deadline_s=0.05))  # time passes
        assert types(await store.read("r")) == ["aaa.run.started"]
        async with engine_on(store) as engine:
            assert (await engine.sweep()).timed_out == ["r"]
        await store.aclose()

    run(main())


def test_a_parent_s_deadline_ends_its_children() -> None:  # BUD-05, ENG-12
    async def main() -> None:
        async with engine_on() as engine:
            await engine.start(Idle(), {}, run_id="p", budget=Budget(deadline_s=0.05))
            child = await engine.start(Idle(), {}, run_id="c", parent="p")
            assert (await child.result()).reason == "parent finished"
            assert (await engine.handle("p").result()).kind == "timeout"

    run(main())


@pytest.mark.parametrize("deadline", ["soon", -5, 0, True, [], {"s": 1}, 10**400])
def test_a_deadline_of_the_log_that_cannot_be_read_breaks_no_run(deadline: Any) -> None:  # ENG-36
    async def main() -> None:
        store = InMemoryEventStore()
        await store.append("r", [begun("r", 100, deadline)])
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle()])
            assert engine.last_recovery is not None
            assert engine.last_recovery.unreadable == []
            await handles["r"].signal("test.go", {"n": 1})
            assert (await handles["r"].result()).value == {"n": 1}

    run(main())
