"""A tool may hand its work on in any way Python has: what is done there belongs to the call, or at least to its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from correlation_parts import (
    WITH_CONTEXT,
    WITHOUT_CONTEXT,
    Job,
    agent_of,
    ancestors,
    assert_well_formed,
    by_run,
    carrier,
    only,
    place,
    tool_of,
    trace_of,
)
from tracehold import Agent, RunLimitExceeded, RunPolicy, Scope, ToolRegistry, Tracer, current_step, governed_chat
from tracehold.harness import Harness
from tracehold.testing import ScriptedLLM

UPSTREAM = carrier(6)
SCOPE = Scope(user="u1", session="s1")
MESSAGES = [{"role": "user", "content": "hello"}]


def _emit(tracer: Tracer) -> Job:
    async def work() -> None:
        tracer.emit({"type": "rag_retrieve", "mark": "here"})

    return work


def _span(tracer: Tracer) -> Job:
    async def work() -> None:
        async with tracer.span("piece", mark="here"):
            await asyncio.sleep(0)

    return work


def _governed_chat(tracer: Tracer) -> Job:
    async def work() -> None:
        await governed_chat(ScriptedLLM(["a summary"]), MESSAGES, tracer=tracer, origin="memory")

    return work


def _model_call(tracer: Tracer) -> Job:
    async def work() -> None:
        await Harness(ScriptedLLM(["an answer"], model="inner"), tracer=tracer).acall_llm(MESSAGES)

    return work


def _stream(tracer: Tracer) -> Job:
    async def work() -> None:
        [_ async for _ in Harness(ScriptedLLM(["an answer"]), tracer=tracer).astream_llm(MESSAGES)]

    return work


def _tool_call(tracer: Tracer) -> Job:
    async def nothing() -> None:
        """No more work."""

    async def work() -> None:
        registry = ToolRegistry()
        registry.register_all([tool_of("inner", nothing)])
        await Harness(ScriptedLLM(), tool_registry=registry, tracer=tracer).aexec_tool("inner", {})

    return work


def _stopped_call(tracer: Tracer) -> Job:
    async def work() -> None:
        await Harness(ScriptedLLM(), tracer=tracer).aexec_tool("ghost", {})

    return work


def _agent(tracer: Tracer) -> Job:
    async def work() -> None:
        await Agent("helper", ScriptedLLM(["helped"]), tracer=tracer).arun("help")

    return work


KINDS: dict[str, tuple[Callable[[Tracer], Job], dict[str, Any]]] = {
    "an event": (_emit, {"type": "rag_retrieve"}),
    "a span": (_span, {"type": "span"}),
    "governed_chat": (_governed_chat, {"type": "llm_call", "origin": "memory"}),
    "a model call": (_model_call, {"type": "llm_call", "model": "inner"}),
    "a streamed model call": (_stream, {"type": "llm_call", "streamed": True}),
    "a tool call": (_tool_call, {"type": "tool_call", "tool": "inner"}),
    "a stopped tool call": (_stopped_call, {"type": "tool_call", "tool": "ghost"}),
    "an agent": (_agent, {"type": "span", "kind": "agent", "name": "helper"}),
}


def below(events: list[Any], name: str) -> list[Any]:
    """What stands directly below the call of a tool."""
    call = only(events, type="tool_call", tool=name)
    return [event for event in events if event["parent_span_id"] == call["span_id"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WITH_CONTEXT)
def test_work_that_carries_its_context_stands_below_the_call(way: str, kind: str, tracer: Tracer) -> None:
    # FR-07, FR-09, EXEC-09, EXEC-10
    job, fields = KINDS[kind]
    outer = agent_of(tracer, "outer", {"spread": lambda: WITH_CONTEXT[way](job(tracer))})
    outer.run("go", trace_carrier=UPSTREAM)
    assert_well_formed(tracer.events, upstream=UPSTREAM)
    (found,) = below(tracer.events, "spread")
    assert fields.items() <= found.items()


@pytest.mark.parametrize("way", WITH_CONTEXT)
def test_work_that_carries_its_context_knows_its_run(way: str, tracer: Tracer) -> None:  # EXEC-08, EXEC-09, EXEC-12
    seen: list[Any] = []

    async def look() -> None:
        seen.append((place(), current_step()))

    agent_of(tracer, "outer", {"spread": lambda: WITH_CONTEXT[way](look)}).run(
        "go", scope=SCOPE, trace_carrier=UPSTREAM
    )
    assert seen == [((tracer.events[0]["run_id"], SCOPE, UPSTREAM), 2)]


@pytest.mark.parametrize("way", WITH_CONTEXT)
def test_work_that_carries_its_context_is_held_to_the_run_s_limits(way: str, tracer: Tracer) -> None:
    # EXEC-16, POL-10, DEC-01
    outer = agent_of(
        tracer,
        "outer",
        {"spread": lambda: WITH_CONTEXT[way](_governed_chat(tracer))},
        run_policy=RunPolicy(max_llm_calls=1),
    )
    with pytest.raises(RunLimitExceeded):
        outer.run("go")
    limited = only(tracer.events, type="llm_call", origin="memory")
    assert (limited["decision"], limited["rule"]) == ("limited", "max_llm_calls")
    assert ancestors(limited, tracer.events)[0]["tool"] == "spread"


EVENT_KINDS = [kind for kind in KINDS if kind != "an agent"]


@pytest.mark.parametrize("kind", EVENT_KINDS)
@pytest.mark.parametrize("way", WITHOUT_CONTEXT)
def test_work_without_a_context_is_recorded_in_the_only_run_there_is(way: str, kind: str, tracer: Tracer) -> None:
    # FR-09: where context cannot be carried, spans still appear, in the right run
    job, fields = KINDS[kind]
    outer = agent_of(tracer, "outer", {"spread": lambda: WITHOUT_CONTEXT[way](job(tracer))})
    outer.run("go", trace_carrier=UPSTREAM)
    assert_well_formed(tracer.events, upstream=UPSTREAM)
    assert only(tracer.events, **fields)["agent"] == "outer"


@pytest.mark.parametrize("way", WITHOUT_CONTEXT)
def test_an_agent_without_a_context_is_a_whole_run_of_its_own(way: str, tracer: Tracer) -> None:
    # FR-09, EXEC-08: joining whatever run happens to be open would mix strangers up
    seen: list[Any] = []

    async def look() -> None:
        seen.append(place())

    async def nested() -> None:
        await agent_of(tracer, "helper", {"look": look}).arun("help")

    agent_of(tracer, "outer", {"spread": lambda: WITHOUT_CONTEXT[way](nested)}).run("go", trace_carrier=UPSTREAM)
    runs = {events[0]["agent"]: events for events in by_run(tracer.events).values()}
    assert_well_formed(runs["outer"], upstream=UPSTREAM)
    assert_well_formed(runs["helper"])
    assert seen == [(runs["helper"][0]["run_id"], None, None)]
    assert {event["agent"] for event in runs["helper"]} == {"helper"}


@pytest.mark.parametrize("way", WITHOUT_CONTEXT)
def test_work_without_a_context_is_given_to_no_run_while_several_are_open(way: str, tracer: Tracer) -> None:
    # FR-09, EXEC-08: a guess would put one run's work into another's record
    together = asyncio.Barrier(2)

    async def spread() -> None:
        await together.wait()
        await WITHOUT_CONTEXT[way](_emit(tracer))
        await together.wait()

    async def both() -> None:
        runs = [agent_of(tracer, name, {"spread": spread}) for name in ("one", "other")]
        await asyncio.gather(*(run.arun("go") for run in runs))

    asyncio.run(both())
    runs = by_run(tracer.events)
    lost = [event for event in tracer.events if event["type"] == "rag_retrieve"]
    assert len(lost) == 2
    assert all("agent" not in event for event in lost)
    agents = [events for events in runs.values() if events[0].get("agent")]
    assert len(agents) == 2
    for events in agents:
        assert_well_formed(events)


@pytest.mark.parametrize("way", ["to_thread", "Thread, context copied", "submit, context copied"])
def test_agents_on_threads_nest_to_any_depth(way: str, tracer: Tracer) -> None:  # EXEC-09, EXEC-10, FR-09
    def nested(depth: int) -> Job:
        async def work() -> None:
            if depth:
                await WITH_CONTEXT[way](lambda: agent_of(tracer, f"level-{depth}", {"on": nested(depth - 1)}).arun("x"))
            else:
                tracer.emit({"type": "rag_retrieve"})

        return work

    agent_of(tracer, "level-4", {"on": nested(3)}).run("go", trace_carrier=UPSTREAM)
    assert_well_formed(tracer.events, upstream=UPSTREAM)
    above = ancestors(only(tracer.events, type="rag_retrieve"), tracer.events)
    assert [event.get("tool") or event["name"] for event in above] == [
        "on", "level-1", "on", "level-2", "on", "level-3", "on", "level-4",
    ]  # fmt: skip
    assert [event["agent"] for event in above[::2]] == ["level-1", "level-2", "level-3", "level-4"]


def test_work_that_outlives_its_run_is_still_that_run_s(tracer: Tracer) -> None:  # EXEC-08
    kept: list[asyncio.Task[Any]] = []
    may_go_on = asyncio.Event()

    async def later() -> None:
        await may_go_on.wait()
        tracer.emit({"type": "rag_retrieve"})
        assert place()[2] == UPSTREAM

    async def begin() -> None:
        kept.append(asyncio.create_task(later()))

    async def end() -> None:
        may_go_on.set()
        await kept[0]

    async def two_runs() -> None:
        await agent_of(tracer, "first", {"begin": begin}).arun("go", trace_carrier=UPSTREAM)
        await agent_of(tracer, "second", {"end": end}).arun("go", trace_carrier=carrier(7))

    asyncio.run(two_runs())
    late = only(tracer.events, type="rag_retrieve")
    first = only(tracer.events, type="run_end", agent="first")
    assert (late["run_id"], late["trace_id"], late["agent"]) == (first["run_id"], trace_of(UPSTREAM), "first")
    assert late["step_index"] == first["step_index"] + 1
    second = next(events for events in by_run(tracer.events).values() if events[0]["agent"] == "second")
    assert_well_formed(second, upstream=carrier(7))
