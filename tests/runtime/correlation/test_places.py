"""Every function that a program gives an agent is called inside the run it is called for, and records there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from correlation_parts import PATIENCE_S, agent_of, assert_well_formed, by_run, carrier, only, place
from tracehold import (
    Agent,
    CallableGuardrail,
    GuardrailTripwireError,
    Hook,
    Message,
    RunPolicy,
    Scope,
    SqliteCheckpointStore,
    SqliteSessionStore,
    Tracer,
    tool,
)
from tracehold.core.ids import run_root_span_id
from tracehold.execution import reset_run, start_run
from tracehold.testing import ScriptedLLM, tool_call_reply

UPSTREAM = carrier(5)
SCOPE = Scope(user="u1", session="s1")
Kept: TypeAlias = Callable[[Any], Any]


class Notes:
    """Where each function was when it was called; each call is also recorded by the Tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.places: dict[str, Any] = {}

    def __call__(self, name: str, result: Any = None) -> Any:
        self.places[name] = place()
        self.tracer.emit({"type": "memory_search", "who": name})
        return result


class AgentHook(Hook):
    """Notes every hook there is, sync and async alike."""

    def __init__(self, note: Notes) -> None:
        self.note = note

    def on_run_start(self, input_text: str, *, scope: Any = None) -> None:
        self.note("on_run_start")

    async def on_run_end(self, output: str, *, scope: Any = None) -> None:
        self.note("on_run_end")

    def on_error(self, error: Any) -> None:
        self.note("on_error")

    async def on_interrupt(self, pendings: Any, *, scope: Any = None) -> None:
        self.note("on_interrupt")

    def on_guardrail_trip(self, *_: Any) -> None:
        self.note("on_guardrail_trip")

    async def before_model(self, messages: Any) -> None:
        self.note("before_model")

    def after_model(self, response: Any) -> None:
        self.note("after_model")

    def before_tool(self, name: str, parameters: Any) -> None:
        self.note("before_tool")

    async def after_tool(self, name: str, parameters: Any, result: Any) -> None:
        self.note("after_tool")


def everything(note: Notes, tmp_path: Path, kept: Kept, **options: Any) -> Agent:
    """An agent with a function of ours in every place that takes one."""

    @tool(requires_confirmation=True)
    def risky() -> str:
        """On a worker thread."""
        return str(note("tool", "done"))

    class Judge:
        def denial_reason(self, tool: Any) -> str | None:
            return note("permissions")  # type: ignore[no-any-return]  # None

    class Sessions(SqliteSessionStore):
        async def aload(self, *args: Any, **kwargs: Any) -> list[Message]:
            note("session load")
            return await super().aload(*args, **kwargs)

        async def aappend_many(self, messages: Sequence[Message], **kwargs: Any) -> None:
            note("session append")
            await super().aappend_many(messages, **kwargs)

    async def later(text: str) -> bool:
        return bool(note("async guardrail", True))

    given = {
        "tools": [risky],
        "hooks": [AgentHook(note)],
        "permissions": Judge(),
        "confirm": lambda tool, parameters: note("confirm", True),
        "session_store": kept(Sessions(str(tmp_path / "sessions.db"))),
        "input_guardrails": [CallableGuardrail(lambda text: note("input guardrail", True), message="no")],
        "output_guardrails": [CallableGuardrail(later, message="no")],
        "run_policy": RunPolicy(cancel=lambda: note("cancel", False)),
    } | options
    model = ScriptedLLM([lambda _: note("model", tool_call_reply("risky", call_id="c1")), "fine"])
    return Agent("a", model, tracer=note.tracer, **given)


def test_every_function_knows_the_run_it_is_called_for(tracer: Tracer, tmp_path: Path, kept: Kept) -> None:
    # EXEC-08, EXEC-09, EXEC-12
    note = Notes(tracer)
    everything(note, tmp_path, kept).run("go", scope=SCOPE, trace_carrier=UPSTREAM)
    here = (tracer.events[0]["run_id"], SCOPE, UPSTREAM)
    assert note.places == dict.fromkeys(
        [
            "on_run_start", "on_run_end", "before_model", "after_model", "before_tool", "after_tool",
            "tool", "permissions", "confirm", "model", "cancel", "session load", "session append",
            "input guardrail", "async guardrail",
        ],
        here,
    )  # fmt: skip
    assert_well_formed(tracer.events, upstream=UPSTREAM)


@pytest.mark.parametrize("ending", ["an error", "a trip", "an interrupt"])
def test_the_hooks_of_another_ending_know_the_run_too(ending: str, tracer: Tracer, tmp_path: Path, kept: Kept) -> None:
    # HOOK-08, EXEC-09
    note = Notes(tracer)
    options: dict[str, Any] = {
        "an error": {"session_store": None, "permissions": None, "confirm": lambda *_: True},
        "a trip": {"output_guardrails": [CallableGuardrail(lambda _: False, message="no")]},
        "an interrupt": {"checkpoint_store": kept(SqliteCheckpointStore(tmp_path / "runs.db"))},
    }[ending]
    agent = everything(note, tmp_path, kept, **options)
    if ending == "an error":
        agent.harness.llm = ScriptedLLM([ConnectionError("down")])
    expected = {"an error": ConnectionError, "a trip": GuardrailTripwireError}.get(ending)
    if expected is None:
        agent.run("go", scope=SCOPE, trace_carrier=UPSTREAM)
    else:
        with pytest.raises(expected):
            agent.run("go", scope=SCOPE, trace_carrier=UPSTREAM)
    hook = {"an error": "on_error", "a trip": "on_guardrail_trip", "an interrupt": "on_interrupt"}[ending]
    assert note.places[hook] == (tracer.events[0]["run_id"], SCOPE, UPSTREAM)
    assert {event["run_id"] for event in tracer.events} == {tracer.events[0]["run_id"]}


def test_a_run_around_an_agent_is_its_run(tracer: Tracer) -> None:  # EXEC-10, DEC-18
    async def look() -> None:
        assert place()[0] == outer.run_id

    async def main() -> None:
        with tracer.span("step"):
            await agent_of(tracer, "inner", {"look": look}, run_policy=RunPolicy(max_tool_calls=1)).arun("x")

    with tracer.run("outer", trace_carrier=UPSTREAM) as outer:
        asyncio.run(main())
    assert_well_formed(tracer.events, upstream=UPSTREAM)
    step = only(tracer.events, type="span", name="step")
    assert only(tracer.events, type="span", kind="agent")["parent_span_id"] == step["span_id"]


def test_agents_in_a_task_group_each_have_a_run_of_their_own(tracer: Tracer) -> None:  # EXEC-08
    met = asyncio.Barrier(3)

    async def meet() -> None:
        await met.wait()
        tracer.emit({"type": "memory_search"})

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for number in range(3):
                agent = agent_of(tracer, f"a{number}", {"meet": meet})
                group.create_task(agent.arun("x", trace_carrier=carrier(number)))

    asyncio.run(main())
    runs = by_run(tracer.events)
    assert len(runs) == 3
    for events in runs.values():
        (name,) = {event["agent"] for event in events}
        assert_well_formed(events, upstream=carrier(int(name[1:])))
        assert only(events, type="memory_search")["parent_span_id"] == only(events, type="tool_call")["span_id"]


def test_two_tracers_tell_the_same_tree(tracer: Tracer) -> None:  # EXEC-10: a sub-agent may have a Tracer of its own
    other = Tracer()

    async def nested() -> None:
        await agent_of(other, "inner", {"work": noop}).arun("x")

    async def noop() -> None:
        """Nothing to do."""

    agent_of(tracer, "outer", {"nest": nested}).run("go", trace_carrier=UPSTREAM)
    both = sorted([*tracer.events, *other.events], key=lambda event: event["step_index"])
    assert_well_formed(both, upstream=UPSTREAM)
    inner = only(other.events, type="span", kind="agent")
    assert inner["parent_span_id"] == only(tracer.events, type="tool_call")["span_id"]
    assert "inner" not in {event["agent"] for event in tracer.events}


def test_a_span_outside_any_run_adopts_nothing_of_a_run_inside_it(tracer: Tracer) -> None:  # EXEC-08, DEC-18
    with tracer.span("outside"):
        Agent("a", ScriptedLLM(["hi"]), tracer=tracer).run("x", run_id="agent-run")
        token = start_run("started-run")
        tracer.emit({"type": "memory_search"})
        reset_run(token)
    runs = by_run(tracer.events)
    assert_well_formed(runs["agent-run"])
    (lone,) = runs["started-run"]
    assert lone["parent_span_id"] == run_root_span_id("started-run")
    assert len(runs) == 3
