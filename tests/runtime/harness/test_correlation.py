"""Inside the harness, code knows which run it is part of: tools, hooks, callbacks, threads."""

from __future__ import annotations

import asyncio
from typing import Any

from harness_parts import MESSAGES, Model, Probe, ThreadProbe, in_run, of, only, registry, run, with_tools
from tracehold import Scope, Tracer
from tracehold.context import CallableSource, ContextBuilder, ContextConfig
from tracehold.execution import (
    RunPolicy,
    current_run_id,
    current_scope,
    current_step,
    current_trace_carrier,
    new_run_id,
)
from tracehold.governance.hooks import Hook
from tracehold.harness import Harness
from tracehold.retrieval.types import RetrievalResult

CARRIER = {"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"}
SCOPE = Scope(user="u1", session="s1")


def place() -> tuple[Any, Any, Any]:
    return current_run_id(), current_scope(), current_trace_carrier()


class Where(Hook):
    """Notes where each hook fires."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def before_model(self, messages: Any) -> None:
        self.seen["before_model"] = place()

    async def after_model(self, response: Any) -> None:
        self.seen["after_model"] = place()

    def before_tool(self, name: str, parameters: Any) -> None:
        self.seen["before_tool"] = place()

    async def after_tool(self, name: str, parameters: Any, result: Any) -> None:
        self.seen["after_tool"] = place()


def test_every_place_knows_its_run() -> None:  # EXEC-08, EXEC-09, EXEC-12, POL-08
    hook, seen = Where(), {}

    def note(name: str, result: Any) -> Any:
        seen[name] = place()
        return result

    tools = [
        Probe("on_the_loop", lambda _: note("tool", "done")),
        ThreadProbe("on_a_thread", lambda _: note("thread tool", "done"), confirm=True),
    ]
    source = CallableSource(
        "notes", lambda query: note("source", [RetrievalResult(content="c", score=1.0, source="s", id="1")])
    )
    judge = type("Judge", (), {"denial_reason": lambda self, tool: note("permissions", None)})()
    harness = Harness(
        Model(lambda _: note("model", "hi")),
        tool_registry=registry(*tools),
        hooks=[hook],
        permissions=judge,
        confirm=lambda tool, parameters: note("confirm", True),
        context_builder=ContextBuilder(ContextConfig(max_tokens=100, source_ratios={"notes": 1.0})),
        sources=[source],
    )

    async def everywhere() -> str:
        policy = RunPolicy(cancel=lambda: note("cancel", False))
        with in_run(policy, scope=SCOPE, trace_carrier=CARRIER) as run_id:
            await harness.acall_llm(MESSAGES)
            await harness.aexec_tool("on_the_loop", {})
            await harness.aexec_tool("on_a_thread", {})
            await harness.acontext_block("q")
            return run_id

    here = (run(everywhere()), SCOPE, CARRIER)
    wanted = {"tool", "thread tool", "source", "permissions", "model", "confirm", "cancel"}
    assert seen == dict.fromkeys(wanted, here)
    assert hook.seen == dict.fromkeys(["before_model", "after_model", "before_tool", "after_tool"], here)


def test_an_async_confirm_callback_knows_its_run_too() -> None:  # EXEC-09
    seen: list[Any] = []

    async def confirm(tool: Any, parameters: Any) -> bool:
        seen.append(current_run_id())
        return True

    async def once() -> str:
        with in_run() as run_id:
            await with_tools(Probe(confirm=True), confirm=confirm, confirm_timeout_s=20).aexec_tool("probe", {})
            return run_id

    assert [run(once())] == seen


def test_runs_at_the_same_time_do_not_see_each_other(tracer: Tracer) -> None:  # EXEC-08
    seen: dict[str, set[Any]] = {}

    async def does(parameters: Any) -> str:
        for _ in range(5):
            seen.setdefault(parameters["city"], set()).add((current_run_id(), current_scope()))
            await asyncio.sleep(0)
        return "done"

    harness = with_tools(Probe(does=does), tracer=tracer)

    async def one(name: str) -> None:
        with in_run(run_id=name, scope=Scope(user=name)):
            await harness.aexec_tool("probe", {"city": name})
            await harness.acall_llm(MESSAGES)

    async def both() -> None:
        await asyncio.gather(*(asyncio.create_task(one(name)) for name in ("r1", "r2", "r3")))

    run(both())
    assert seen == {name: {(name, Scope(user=name))} for name in ("r1", "r2", "r3")}
    for name in seen:
        events = [event for event in tracer.events if event["run_id"] == name]
        assert [(event["type"], event["step_index"]) for event in events] == [("tool_call", 1), ("llm_call", 2)]


def test_steps_are_numbered_from_one_without_gap_or_repeat(tracer: Tracer) -> None:  # EXEC-11, HAR-16
    harness = with_tools(Probe(), tracer=tracer)

    async def many() -> None:
        with in_run():
            await asyncio.gather(*(harness.aexec_tool("probe", {}) for _ in range(5)))
            await harness.acall_llm(MESSAGES)
            await harness.aexec_tool("ghost", {})
            assert current_step() == 7

    run(many())
    assert sorted(event["step_index"] for event in tracer.events) == list(range(1, 8))


def test_a_continued_run_goes_on_counting_its_steps(tracer: Tracer) -> None:  # EXEC-06, EXEC-11
    async def resumed() -> None:
        with in_run(step=41):
            await Harness(Model(), tracer=tracer).acall_llm(MESSAGES)

    run(resumed())
    assert only(tracer, "llm_call")["step_index"] == 42


def test_a_carrier_decides_the_trace_and_is_in_no_event(tracer: Tracer) -> None:  # EXEC-12, EXP-12
    async def carried() -> None:
        with in_run(trace_carrier=CARRIER):
            await Harness(Model(), tracer=tracer).acall_llm(MESSAGES)

    run(carried())
    event = only(tracer, "llm_call")
    assert event["trace_id"] == "ab" * 16
    assert "traceparent" not in str(event)


def test_a_run_started_inside_a_tool_joins(tracer: Tracer) -> None:  # EXEC-10
    inner = Harness(Model(), tracer=tracer)

    async def nested(_: Any) -> str:
        with in_run(run_id=new_run_id(), scope=Scope(user="somebody else")):
            assert current_scope() == SCOPE
            await inner.acall_llm(MESSAGES)
        assert current_run_id() is not None  # leaving the inner one left the outer one alone
        return "done"

    async def outer() -> str:
        with in_run(scope=SCOPE) as run_id:
            answer = await with_tools(Probe(does=nested), tracer=tracer).aexec_tool("probe", {})
            assert answer.text == "done"
            return run_id

    run_id = run(outer())
    assert {event["run_id"] for event in tracer.events} == {run_id}
    assert sorted(event["step_index"] for event in tracer.events) == [1, 2]
    assert len(of(tracer, "llm_call")) == 1
