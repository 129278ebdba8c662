"""What the harness tells its tracer, and whom the tracer tells."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness_parts import (
    MESSAGES,
    ContentExporter,
    Emitter,
    HookLog,
    Model,
    Probe,
    ThreadProbe,
    in_run,
    of,
    only,
    registry,
    reply,
    run,
    with_tools,
)
from tracehold import MemoryExporter, Tracer
from tracehold.core.clock import now_ns
from tracehold.harness import Harness
from tracehold.observability.event_types import DECISIONS, EVENT_TYPES


def test_trace_hands_the_event_to_the_tracer(tracer: Tracer) -> None:  # HAR-87
    event = {"type": "memory_search", "hits": 3}
    Harness(Model(), tracer=tracer).trace(event)
    assert only(tracer, "memory_search")["hits"] == 3
    assert event == {"type": "memory_search", "hits": 3}


def test_trace_without_a_tracer_does_nothing() -> None:  # HAR-87, HAR-07
    assert Harness(Model()).trace({"type": "memory_search"}) is None


@pytest.mark.parametrize("status", ["denied", "rejected", "invalid_args"])
def test_a_gate_event_can_be_told_from_outside(status: str, tracer: Tracer) -> None:  # HAR-88
    Harness(Model(), tracer=tracer).trace_tool_gate("probe", {"city": "Paris"}, status, "not today")
    (event,) = tracer.events
    assert (event["type"], event["tool"], event["params"]) == ("tool_call", "probe", {"city": "Paris"})
    assert event["status"] == event["decision"] == status
    assert event["reason"] == "not today"
    assert "latency_ms" not in event


def test_the_detail_of_a_gate_event_may_be_left_out() -> None:  # HAR-88
    assert inspect.signature(Harness.trace_tool_gate).parameters["detail"].default == ""
    events: list[Any] = []
    Harness(Model(), tracer=Emitter(events)).trace_tool_gate("probe", {}, "denied")
    assert len(events) == 1


def test_a_gate_event_without_a_tracer_is_nothing() -> None:  # HAR-88, HAR-07
    assert Harness(Model()).trace_tool_gate("probe", {}, "denied") is None


def test_gate_events_say_which_run_they_are_of() -> None:  # HAR-89
    events: list[dict[str, Any]] = []
    harness = with_tools(Probe(confirm=True), tracer=Emitter(events))

    async def stopped() -> str:
        with in_run() as run_id:
            harness.trace_tool_gate("probe", {}, "invalid_args")
            await harness.aexec_tool("probe", {})
            await harness.aexec_tool("ghost", {})
            return run_id

    run_id = run(stopped())
    assert [(event["run_id"], event["step_index"]) for event in events] == [(run_id, 1), (run_id, 2), (run_id, 3)]


def test_emit_is_all_a_tracer_needs() -> None:  # HAR-07
    events: list[dict[str, Any]] = []
    harness = Harness(Model(), tool_registry=registry(Probe()), tracer=Emitter(events))

    async def everything() -> None:
        with in_run():
            await harness.acall_llm(MESSAGES)
            [_ async for _ in harness.astream_llm(MESSAGES)]
            await harness.aexec_tool("probe", {}, call_id="c")
            await harness.aexec_tool("ghost", {})

    run(everything())
    assert [event["type"] for event in events] == ["llm_call", "llm_call", "tool_call", "tool_call"]
    assert [event["step_index"] for event in events] == [1, 2, 3, 4]


def test_the_types_and_decisions_are_the_known_ones(tracer: Tracer) -> None:  # DEC-01, TRC-22
    harness = Harness(Model(), tool_registry=registry(Probe(confirm=True)), tracer=tracer)
    run(harness.acall_llm(MESSAGES))
    run(harness.aexec_tool("probe", {}))
    run(harness.aexec_tool("ghost", {}))
    assert {event["type"] for event in tracer.events} <= EVENT_TYPES
    assert {event["decision"] for event in tracer.events if "decision" in event} <= DECISIONS


@pytest.mark.parametrize("kind", ["llm_call", "tool_call"])
def test_events_say_when_it_was_and_how_long(kind: str) -> None:  # DEC-15
    events: list[dict[str, Any]] = []
    harness = Harness(Model(), tool_registry=registry(Probe()), tracer=Emitter(events))
    before = now_ns()
    run(harness.acall_llm(MESSAGES))
    run(harness.aexec_tool("probe", {}))
    event = only(events, kind)
    assert before <= event["started_at_ns"] <= now_ns()
    assert event["latency_ms"] == event["duration_ns"] // 1_000_000
    assert event["duration_ns"] >= 0


# -- content (DEC-15) ---------------------------------------------------------------------------------------------

LONG = "the quick brown fox jumps over the lazy dog; " * 100


def recorded(*, content: bool) -> tuple[Any, Any]:
    """Make a call of each kind with texts beyond the cut; return what two kinds of exporters saw."""
    full, short = ContentExporter(), MemoryExporter()
    tracer = Tracer(exporters=[short, full], content=content)
    model = Model(reply(LONG))
    harness = Harness(model, tool_registry=registry(Probe(does=LONG)), tracer=tracer)

    async def both() -> None:
        with in_run():
            await harness.acall_llm([{"role": "user", "content": LONG}])
            [_ async for _ in harness.astream_llm([{"role": "user", "content": LONG}])]
            await harness.aexec_tool("probe", {"city": LONG})

    run(both())
    return full.events, short.events


def test_with_content_whole_messages_and_replies_reach_who_accepts_them() -> None:  # DEC-15
    call, _, _ = recorded(content=True)[0]
    assert call["input"] == [{"role": "user", "content": LONG}]
    assert LONG in str(call["output"])


def test_with_content_a_stream_has_its_whole_text() -> None:  # DEC-15
    _, stream, _ = recorded(content=True)[0]
    assert stream["input"] == [{"role": "user", "content": LONG}]
    assert "abc" in str(stream["output"])


def test_with_content_whole_arguments_and_results_reach_who_accepts_them() -> None:  # DEC-15
    _, _, tool = recorded(content=True)[0]
    assert tool["params"] == {"city": LONG}
    assert tool["result"] == LONG


def test_other_exporters_never_see_content() -> None:  # DEC-15
    for content in (True, False):
        for event in recorded(content=content)[1]:
            assert "input" not in event
            assert "output" not in event
            assert LONG not in str(event)


def test_without_content_nobody_sees_any() -> None:  # DEC-15
    for events in recorded(content=False):
        assert all("input" not in event and "output" not in event for event in events)
        assert all(LONG not in str(event) for event in events)


def test_a_refused_call_has_its_arguments_whole_too() -> None:  # DEC-15, HAR-44
    full = ContentExporter()
    harness = with_tools(Probe(confirm=True), tracer=Tracer(exporters=[full], content=True))
    run(harness.aexec_tool("probe", {"city": LONG}))
    assert only(full.events, "tool_call")["params"] == {"city": LONG}


def test_the_messages_recorded_are_those_that_were_sent() -> None:  # DEC-15
    full = ContentExporter()
    messages = [{"role": "user", "content": "before"}]

    def chat(given: Any) -> Any:
        messages.append({"role": "assistant", "content": "a client that appends to its list"})
        return reply()

    run(Harness(Model(chat), tracer=Tracer(exporters=[full], content=True)).acall_llm(messages))
    assert only(full.events, "llm_call")["input"] == [{"role": "user", "content": "before"}]


def test_wanted_tools_are_part_of_the_output() -> None:  # DEC-15
    full = ContentExporter()
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"to": "maria"}'}}
    tracer = Tracer(exporters=[full], content=True)
    run(Harness(Model(reply("", tool_calls=[call])), tracer=tracer).acall_llm(MESSAGES))
    assert "pay" in str(only(full.events, "llm_call")["output"])


# -- the tree -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Probe, ThreadProbe])
def test_what_a_tool_does_is_below_its_span(kind: Any, tracer: Tracer) -> None:
    inner = Harness(Model(), tool_registry=registry(Probe("inner")), tracer=tracer)

    async def work(_: Any) -> str:
        await inner.acall_llm(MESSAGES)
        await inner.aexec_tool("inner", {})
        with tracer.span("by hand"):
            pass
        return "done"

    does = work if kind is Probe else lambda parameters: asyncio.run(work(parameters))

    async def outer() -> None:
        with in_run():
            await with_tools(kind(does=does), tracer=tracer).aexec_tool("probe", {})
            tracer.emit({"type": "run_error"})

    run(outer())
    outer_call = next(event for event in of(tracer, "tool_call") if event["tool"] == "probe")
    below = [event for event in tracer.events if event is not outer_call and event["type"] != "run_error"]
    assert len(below) == 3
    assert {event["parent_span_id"] for event in below} == {outer_call["span_id"]}
    assert only(tracer, "run_error")["parent_span_id"] == outer_call["parent_span_id"]
    assert len({event["trace_id"] for event in tracer.events}) == 1


def test_tools_that_run_together_have_their_own_children(tracer: Tracer) -> None:
    inner = Harness(Model(), tracer=tracer)

    async def work(parameters: Any) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
            await inner.acall_llm([{"role": "user", "content": parameters["city"]}])
        return parameters["city"]

    async def together() -> None:
        harness = with_tools(Probe(does=work), tracer=tracer)
        with in_run():
            await asyncio.gather(*(harness.aexec_tool("probe", {"city": str(n)}) for n in range(4)))

    run(together())
    parents = [event["parent_span_id"] for event in of(tracer, "llm_call")]
    spans = {event["span_id"] for event in of(tracer, "tool_call")}
    assert len(spans) == 4
    assert all(parents.count(span) == 3 for span in spans)


def test_a_tool_that_fails_leaves_no_span_open(tracer: Tracer) -> None:
    async def fails() -> None:
        with in_run():
            await with_tools(Probe(does=LookupError()), tracer=tracer).aexec_tool("probe", {})
            tracer.emit({"type": "run_error"})

    run(fails())
    assert only(tracer, "run_error")["parent_span_id"] == only(tracer, "tool_call")["parent_span_id"]


def test_a_call_stands_below_the_callers_span(tracer: Tracer) -> None:
    harness = with_tools(Probe(), tracer=tracer)

    async def spanned() -> None:
        with in_run(), tracer.span("turn"):
            await harness.acall_llm(MESSAGES)
            await harness.aexec_tool("probe", {})
            await harness.aexec_tool("ghost", {})

    run(spanned())
    turn = only(tracer, "span")
    others = [event for event in tracer.events if event is not turn]
    assert [event["parent_span_id"] for event in others] == [turn["span_id"]] * 3


def test_events_of_hooks_are_beside_the_call(tracer: Tracer) -> None:
    class Telling(HookLog):
        def before_tool(self, name: str, parameters: Any) -> None:
            tracer.emit({"type": "memory_search"})

    async def told() -> None:
        with in_run():
            await with_tools(Probe(), tracer=tracer, hooks=[Telling()]).aexec_tool("probe", {})

    run(told())
    assert only(tracer, "memory_search")["run_id"] == only(tracer, "tool_call")["run_id"]


def test_tools_on_a_pool_of_threads_leave_their_events_in_the_run(tracer: Tracer) -> None:  # FR-09
    def work(parameters: Any) -> str:
        with ThreadPoolExecutor(1) as pool:  # a bare pool carries no context
            pool.submit(tracer.emit, {"type": "memory_search"}).result(20)
        tracer.emit({"type": "rag_retrieve"})
        return "done"

    async def one() -> None:
        with tracer.run("job"):
            harness = with_tools(ThreadProbe(does=work), tracer=tracer)
            await asyncio.gather(*(harness.aexec_tool("probe", {}) for _ in range(3)))

    run(one())
    calls = of(tracer, "tool_call")
    assert len(calls) == len(of(tracer, "memory_search")) == len(of(tracer, "rag_retrieve")) == 3
    assert len({event["run_id"] for event in tracer.events}) == 1
    carried = {event["parent_span_id"] for event in of(tracer, "rag_retrieve")}
    assert carried == {event["span_id"] for event in calls}
