"""The engine's events in the same record: live, from history, once, and never at a run's cost."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Counting, Idle, engine_on, fact, llm, run
from tracehold.agent.engine_agent import EngineAgent
from tracehold.core.errors import ConfigurationError
from tracehold.engine import Budget, Engine
from tracehold.engine.observer import Observer, observe_history
from tracehold.engine.observing import Translator, engine_event_id
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.governance.permissions import ToolPermissions
from tracehold.observability.tracer import Tracer
from tracehold.testing import ScriptedLLM, tool_call_reply
from tracehold.tools import tool


@tool
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def agent_that_sends(*replies: Any, **services: Any) -> EngineAgent:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    asks = tool_call_reply("send", {"to": "ann"}, call_id="c-1", usage=usage)
    return EngineAgent("clerk", ScriptedLLM([asks, *replies], usage=usage), tools=[send], **services)


async def observed(engine: Engine, algo: Any, **options: Any) -> list[dict[str, Any]]:
    """What a Tracer has of one run of `algo`, observed live."""
    tracer = Tracer()
    with Observer(tracer) as observer:
        async with engine:
            observer.attach(engine)
            await engine.run(algo, {"task": "send it"}, **options)
            await engine.bus.drain()
    assert (observer.dropped, observer.errors) == (0, 0)
    return tracer.events


def summary(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["status"]) for event in events]


# -- what is told ----------------------------------------------------------------------------------------------------


def test_a_live_run_is_told_call_by_call() -> None:
    events = run(observed(engine_on(), agent_that_sends("Sent.", price=lambda _: 0.25)))
    assert summary(events) == [
        ("run_start", "started"), ("llm_call", "ok"), ("tool_call", "ok"), ("llm_call", "ok"), ("run_end", "ok"),
    ]  # fmt: skip
    start, asked, called, _, end = events
    assert start["name"] == start["agent"] == end["agent"] == "clerk"
    assert (asked["model"], asked["usage"]["total_tokens"], asked["cost_usd"]) == ("scripted", 10, 0.25)
    assert (called["tool"], called["params"], called["call_id"]) == ("send", {"to": "ann"}, "c-1")
    assert called["parent_span_id"] == start["span_id"] == end["span_id"]
    assert called["duration_ns"] >= 0
    assert end["duration_ns"] >= called["duration_ns"]
    assert {event["run_id"] for event in events} == {start["run_id"]}


def test_a_denied_tool_is_one_denial_with_its_rule() -> None:  # DEC-01
    denied = agent_that_sends("I may not.", permissions=ToolPermissions(deny=["send"]))
    events = run(observed(engine_on(), denied))
    (call,) = [event for event in events if event["type"] == "tool_call"]
    assert (call["status"], call["decision"], call["decided_by"]) == ("denied", "denied", "permissions")
    assert call["rule"]
    assert call["params"] == {"to": "ann"}


def test_a_budget_that_trips_is_a_denial_and_the_run_an_error() -> None:  # BUD-02
    events = run(observed(engine_on(), agent_that_sends("Sent."), budget=Budget(max_steps=0)))
    trip = next(event for event in events if event["type"] == "aaa.budget.exceeded")
    assert (trip["kind"], trip["decision"], trip["rule"]) == ("gate", "limited", "budget")
    assert events[-1]["type"] == "run_end"
    assert events[-1]["status"] == "error"


def test_a_deadline_is_told_as_a_timer_and_a_timeout() -> None:  # BUD-05
    events = run(observed(engine_on(), Idle(), budget=Budget(deadline_s=0.01)))
    assert [event["type"] for event in events] == ["run_start", "aaa.timer.fired", "run_end"]
    assert events[-1]["reason"] == "deadline of 0.01 s has passed"


def test_an_answer_of_a_person_is_told_with_who_gave_it() -> None:  # DEC-02
    translator = Translator()
    asked = fact("r", "1", "aaa.approval.requested", call_id="c-1", name="send", digest="sha256:" + "0" * 64)
    denied = fact("r", "2", "aaa.approval.denied", call_id="c-1", by="ann@example.org", reason="no")
    first, second = translator.translate(asked), translator.translate(denied)
    assert first is not None and second is not None  # noqa: PT018 - for the types
    assert (first["kind"], first["decision"], first["tool"]) == ("approval", "suspended", "send")
    assert (second["decision"], second["decided_by"], second["reason"]) == ("rejected", "ann@example.org", "no")


def test_a_child_is_told_in_both_runs() -> None:  # ENG-11
    async def main() -> list[dict[str, Any]]:
        tracer = Tracer()
        with Observer(tracer) as observer:
            async with engine_on() as engine:
                observer.attach(engine)
                await engine.start(Idle(), {}, run_id="mother")
                await engine.run(Counting(), {"to": 1}, run_id="child", parent="mother")
                await engine.bus.drain()
        return tracer.events

    events = run(main())
    (child,) = [event for event in events if event["type"] == "aaa.child.completed"]
    assert (child["run_id"], child["kind"], child["status"]) == ("mother", "task", "ok")
    assert child["duration_ns"] >= 0
    started = next(event for event in events if event["type"] == "run_start" and event["run_id"] == "child")
    assert started["parent_run_id"] == "mother"


def test_an_erasure_is_told_live() -> None:  # ERA-06
    async def main() -> list[dict[str, Any]]:
        tracer = Tracer()
        with Observer(tracer) as observer:
            async with engine_on() as engine:
                observer.attach(engine)
                await engine.run(Counting(), {"to": 1}, run_id="r")
                await engine.bus.drain()
                await engine.erase("r", reason="asked for")
        return tracer.events

    erased = run(main())[-1]
    assert (erased["type"], erased["kind"], erased["reason"]) == ("aaa.run.erased", "erasure", "asked for")


def test_secrets_are_redacted_like_everything_a_tracer_records() -> None:  # TRC-03
    made = fact("r", None, "aaa.tool.completed", call_id="c", name="send", result="mail ann@example.org")
    tracer = Tracer()
    with Observer(tracer) as observer:
        observer.observe(made)
    assert "ann@example.org" not in str(tracer.events)


# -- once ------------------------------------------------------------------------------------------------------------


def test_history_and_live_give_the_same_events(tmp_path: Path) -> None:
    async def main() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        store = SQLiteEventStore(tmp_path / "log.db")
        live = await observed(engine_on(store), agent_that_sends("Sent."), run_id="r", tenant="acme")
        store = SQLiteEventStore(tmp_path / "log.db")
        again = Tracer()
        assert await observe_history(store, again) == 9
        await store.aclose()
        return live, again.events

    live, history = run(main())
    assert history == live


def test_what_a_recovery_delivers_again_is_told_once(tmp_path: Path) -> None:  # RCV-04
    async def main() -> list[dict[str, Any]]:
        tracer = Tracer()
        with Observer(tracer) as observer:
            async with engine_on() as engine:
                observer.attach(engine)
                await engine.start(Idle(), {}, run_id="r")
                await engine.recover([Idle()])
                await engine.bus.drain()
        return tracer.events

    assert summary(run(main())) == [("run_start", "started")]


def test_a_tenant_can_be_named_as_the_collector_knows_it() -> None:
    made = Translator("shop").translate(fact("r", "e"))
    assert made is not None
    assert made["event_id"] == engine_event_id("shop", "r", "e") != engine_event_id("default", "r", "e")


# -- never at a run's cost -------------------------------------------------------------------------------------------


class Stuck:
    """A tracer that does not come back before it is let."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.told = 0

    def emit(self, event: dict[str, Any]) -> None:
        self.entered.set()
        self.go_on.wait()
        self.told += 1


class Broken:
    """A tracer that fails."""

    def emit(self, event: dict[str, Any]) -> None:
        raise OSError("disk full")


def test_a_tracer_that_hangs_holds_no_run_up() -> None:
    async def main() -> Observer:
        stuck = Stuck()
        observer = Observer(stuck, capacity=4)
        async with engine_on() as engine:
            observer.attach(engine)
            outcome = await engine.run(Counting(), {"to": 50})
            assert outcome.value == 50
            await engine.bus.drain()
            stuck.go_on.set()
        assert observer.close()
        assert stuck.told + observer.dropped == 52
        return observer

    assert run(main()).dropped > 0


def test_a_tracer_that_fails_fails_no_run_and_is_counted() -> None:
    async def main() -> None:
        observer = Observer(Broken())
        async with engine_on() as engine:
            observer.attach(engine)
            assert (await engine.run(Counting(), {"to": 2})).value == 2
            await engine.bus.drain()
        observer.close()
        assert observer.errors == 4

    run(main())


def test_hostile_payloads_are_told_or_counted_and_never_stop_the_observer() -> None:
    tracer = Tracer()
    deep: Any = "x"
    for _ in range(2000):
        deep = [deep]
    with Observer(tracer) as observer:
        observer.observe(fact("r", "1", "aaa.llm.completed", usage=[1], cost="much", response=3))
        observer.observe(fact("r", "2", "aaa.tool.failed", error="text", decision=["denied"], call_id=7))
        observer.observe(fact("r", "3", "aaa.run.completed", kind={"a": 1}))
        observer.observe(fact("r", "4", "test.deep", deep=deep))
        observer.observe(llm("r", "5"))
    assert len(tracer.events) + observer.errors >= 4
    assert tracer.events[-1]["event_id"] == engine_event_id("default", "r", "5")


def test_a_closed_observer_counts_what_still_comes() -> None:
    observer = Observer(Tracer())
    observer.close()
    observer.observe(fact("r"))
    assert observer.dropped == 1


def test_flush_waits_for_what_was_taken_and_says_when_it_is_late() -> None:
    stuck = Stuck()
    observer = Observer(stuck)
    observer.observe(fact("r"))
    stuck.entered.wait()
    assert observer.flush(0.001) is False
    stuck.go_on.set()
    assert observer.flush() is True
    assert observer.close()


def test_a_queue_for_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="capacity"):
        Observer(Tracer(), capacity=0)


def test_history_reads_long_streams_page_by_page() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            await engine.run(Counting(), {"to": 1200}, run_id="r")
            tracer = Tracer()
            assert await observe_history(engine.store, tracer, streams=["r"]) == 1202
            assert [event["step_index"] for event in tracer.events] == list(range(1202))

    asyncio.run(main())
