"""Generators that are left early, closed elsewhere or never closed at all take their run's record with them only."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from correlation_parts import (
    PATIENCE_S,
    agent_of,
    assert_well_formed,
    by_run,
    carrier,
    only,
    place,
    trace_of,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tracehold import Agent, OTelExporter, RunPolicy, Tracer, current_run_id, current_step, current_trace_carrier
from tracehold.core.run_context import current_span
from tracehold.execution import reset_run, start_run
from tracehold.harness import Harness
from tracehold.testing import ScriptedLLM

MESSAGES = [{"role": "user", "content": "hello"}]
UPSTREAM = carrier(3)


def stream_of(tracer: Tracer) -> AsyncGenerator[Any, None]:
    llm = ScriptedLLM(["many pieces of text, one after the other"], usage={"total_tokens": 9})
    return Harness(llm, tracer=tracer).astream_llm(MESSAGES)


async def span_of(tracer: Tracer) -> AsyncGenerator[int, None]:
    with tracer.span("turn"):
        for number in range(3):
            yield number


async def _aclose(items: AsyncGenerator[Any, None]) -> None:
    await anext(items)
    await items.aclose()


async def _aclose_in_a_task(items: AsyncGenerator[Any, None]) -> None:
    await anext(items)
    await asyncio.create_task(items.aclose())  # type: ignore[arg-type]  # a coroutine in all but name


async def _aclose_from_a_task_outside_the_run(items: AsyncGenerator[Any, None]) -> None:
    await anext(items)
    await asyncio.get_running_loop().create_task(items.aclose(), context=contextvars.Context())  # type: ignore[arg-type]


async def _break(items: AsyncGenerator[Any, None]) -> None:
    async for _ in items:
        break


async def _raise_in_the_middle(items: AsyncGenerator[Any, None]) -> None:
    await anext(items)
    with pytest.raises(LookupError):
        await items.athrow(LookupError("no more"))


async def _forget(items: AsyncGenerator[Any, None]) -> None:
    await anext(items)


async def _cancel_the_consumer(items: AsyncGenerator[Any, None]) -> None:
    entered = asyncio.Event()

    async def consume() -> None:
        async for _ in items:
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _pass_on_to_another_task(items: AsyncGenerator[Any, None]) -> None:
    await anext(items)

    async def drain() -> None:
        [_ async for _ in items]

    await asyncio.create_task(drain())


LEAVINGS: dict[str, Callable[[Any], Coroutine[Any, Any, None]]] = {
    "aclose": _aclose,
    "aclose in a task": _aclose_in_a_task,
    "aclose outside the run": _aclose_from_a_task_outside_the_run,
    "break": _break,
    "an error thrown in": _raise_in_the_middle,
    "forgotten": _forget,
    "consumer cancelled": _cancel_the_consumer,
    "drained by another task": _pass_on_to_another_task,
}


async def collected() -> None:
    """Let the garbage collector close what nobody holds any more, and the loop carry that out."""
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)


@pytest.mark.parametrize("opened", [span_of, stream_of])
@pytest.mark.parametrize("leaving", LEAVINGS)
def test_a_generator_left_in_a_tool_stays_below_its_call_and_takes_nothing_along(
    leaving: str, opened: Callable[[Tracer], AsyncGenerator[Any, None]], tracer: Tracer, caplog: Any
) -> None:  # FR-07
    async def leave() -> None:
        await LEAVINGS[leaving](opened(tracer))
        await collected()
        tracer.emit({"type": "rag_retrieve"})

    with caplog.at_level(logging.WARNING):
        agent_of(tracer, "outer", {"leave": leave}).run("go", trace_carrier=UPSTREAM)
    assert_well_formed(tracer.events, upstream=UPSTREAM)
    call = only(tracer.events, type="tool_call")
    inside = [event for event in tracer.events if event["parent_span_id"] == call["span_id"]]
    assert sorted(event["type"] for event in inside) == sorted(
        ["rag_retrieve", "span" if opened is span_of else "llm_call"]
    )
    assert caplog.records == []


@pytest.mark.parametrize("opened", [span_of, stream_of])
def test_a_generator_closed_inside_another_run_belongs_where_it_began(
    opened: Callable[[Tracer], AsyncGenerator[Any, None]], tracer: Tracer
) -> None:  # FR-07, EXEC-08
    handed_over: list[AsyncGenerator[Any, None]] = []

    async def begin() -> None:
        handed_over.append(opened(tracer))
        await anext(handed_over[0])

    async def end() -> None:
        await handed_over[0].aclose()
        tracer.emit({"type": "rag_retrieve"})

    async def two_runs() -> None:
        await agent_of(tracer, "first", {"begin": begin}).arun("go", trace_carrier=UPSTREAM)
        await agent_of(tracer, "second", {"end": end}).arun("go", trace_carrier=carrier(4))

    asyncio.run(two_runs())
    runs = {events[0]["agent"]: events for events in by_run(tracer.events).values()}
    assert_well_formed(runs["first"], upstream=UPSTREAM)
    assert_well_formed(runs["second"], upstream=carrier(4))
    left = [event for event in runs["first"] if event["type"] == "span" or event.get("streamed")]
    assert [event["status"] for event in left] == ["cancelled"]
    call = only(runs["second"], type="tool_call")
    assert only(runs["second"], type="rag_retrieve")["parent_span_id"] == call["span_id"]


def test_tokens_of_a_stream_closed_inside_another_run_count_where_it_began(tracer: Tracer) -> None:
    # FR-07, DEC-03: the second run must not pay for the first one's stream
    handed_over: list[AsyncGenerator[Any, None]] = []
    policy = RunPolicy(max_tokens=5)

    async def begin() -> None:
        handed_over.append(stream_of(tracer))
        await anext(handed_over[0])

    async def end() -> None:
        [_ async for _ in handed_over[0]]

    async def two_runs() -> Any:
        await agent_of(tracer, "first", {"begin": begin}).arun("go")
        return await agent_of(tracer, "second", {"end": end}, run_policy=policy).arun("go")

    assert asyncio.run(two_runs()) == "second is done"


async def _traced_run(tracer: Tracer) -> AsyncIterator[int]:
    async with tracer.run("left", trace_carrier=UPSTREAM):
        yield 1
        yield 2


async def _started_run(_tracer: Tracer) -> AsyncIterator[int]:
    token = start_run("left", trace_carrier=UPSTREAM)
    try:
        yield 1
        yield 2
    finally:
        reset_run(token)


async def _agent_run(tracer: Tracer) -> AsyncIterator[int]:
    async with tracer.run("left", trace_carrier=UPSTREAM):
        await Agent("inner", ScriptedLLM(["hi"]), tracer=tracer).arun("x")
        yield 1
        yield 2


@pytest.mark.parametrize("opened", [_traced_run, _agent_run, _started_run])
@pytest.mark.parametrize(
    "leaving", ["aclose", "aclose in a task", "aclose outside the run", "break", "forgotten", "consumer cancelled"]
)
def test_a_run_held_across_yield_and_closed_elsewhere_is_over(
    leaving: str, opened: Callable[[Tracer], AsyncGenerator[Any, None]], tracer: Tracer
) -> None:  # FR-07, EXEC-07, EXEC-08: what comes next must not join a run that has ended
    async def leave_and_go_on() -> Any:
        await LEAVINGS[leaving](opened(tracer))
        await collected()
        here = (place(), current_step(), current_span())
        await Agent("after", ScriptedLLM(["hi"]), tracer=tracer).arun("x")
        return here

    assert asyncio.run(leave_and_go_on()) == ((None, None, None), 0, None)
    after = next(events for events in by_run(tracer.events).values() if events[0].get("agent") == "after")
    assert [event["type"] for event in after] == ["run_start", "llm_call", "run_end"]
    assert after[0]["trace_id"] != trace_of(UPSTREAM)


# However a run of an agent ends, nothing of it is current afterwards.


async def _answered(tracer: Tracer) -> None:
    await Agent("a", ScriptedLLM(["hi"]), tracer=tracer).arun("x", trace_carrier=UPSTREAM)


async def _failed(tracer: Tracer) -> None:
    with pytest.raises(ConnectionError):
        await Agent("a", ScriptedLLM([ConnectionError()]), tracer=tracer).arun("x", trace_carrier=UPSTREAM)


async def _cancelled(tracer: Tracer) -> None:
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(agent_of(tracer, "a", {"hang": hang}).arun("x"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _timed_out(tracer: Tracer) -> None:
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    async def stop_soon(scope: asyncio.Timeout) -> None:
        await entered.wait()
        scope.reschedule(asyncio.get_running_loop().time())

    async def run_until_then() -> None:
        async with asyncio.timeout(PATIENCE_S) as scope, asyncio.TaskGroup() as group:
            group.create_task(stop_soon(scope))
            await agent_of(tracer, "a", {"hang": hang}).arun("x", trace_carrier=UPSTREAM)

    with pytest.raises(TimeoutError):
        await run_until_then()


async def _interrupted(tracer: Tracer) -> None:
    with pytest.raises(KeyboardInterrupt):
        await Agent("a", ScriptedLLM([lambda _: KeyboardInterrupt()]), tracer=tracer).arun("x", trace_carrier=UPSTREAM)


ENDINGS: dict[str, Callable[[Tracer], Coroutine[Any, Any, None]]] = {
    "answered": _answered,
    "failed": _failed,
    "cancelled": _cancelled,
    "timed out": _timed_out,
    "Ctrl-C": _interrupted,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_of_a_run_is_current_after_it(ending: str, tracer: Tracer) -> None:  # EXEC-07, EXEC-13
    async def and_then() -> Any:
        await ENDINGS[ending](tracer)
        here = (place(), current_step(), current_span())
        tracer.emit({"type": "rag_retrieve"})
        return here

    assert asyncio.run(and_then()) == ((None, None, None), 0, None)
    *_, end, stray = tracer.events
    assert end["type"] == "run_end"
    assert stray["run_id"] != end["run_id"]
    assert current_run_id() is None


def _closed_in_a_task(items: AsyncGenerator[Any, None]) -> Any:
    return asyncio.create_task(items.aclose())  # type: ignore[arg-type]  # a coroutine in all but name


@pytest.mark.parametrize("opened", [span_of, stream_of])
def test_what_ends_inside_another_run_is_exported_with_its_own_run_s_carrier(
    opened: Callable[[Tracer], AsyncGenerator[Any, None]],
) -> None:  # FR-07, EXP-12, EXEC-12
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = Tracer(exporters=[OTelExporter(tracer_provider=provider, carrier_provider=current_trace_carrier)])
    handed_over: list[AsyncGenerator[Any, None]] = []

    async def begin() -> None:
        handed_over.append(opened(tracer))
        await anext(handed_over[0])

    async def end() -> None:
        await _closed_in_a_task(handed_over[0])

    async def two_runs() -> None:
        await agent_of(tracer, "first", {"begin": begin}).arun("go", run_id="first", trace_carrier=UPSTREAM)
        await agent_of(tracer, "second", {"end": end}).arun("go", run_id="second", trace_carrier=carrier(4))

    asyncio.run(two_runs())
    traces = {(span.attributes["run_id"], f"{span.context.trace_id:032x}") for span in spans.get_finished_spans()}
    assert traces == {("first", trace_of(UPSTREAM)), ("second", trace_of(carrier(4)))}
