"""`Tracer.span`, `Tracer.run` and how context follows them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tracehold import Tracer, current_run_id, current_step


def by_name(tracer: Tracer, name: str) -> Any:
    return next(event for event in tracer.events if event.get("name") == name and event["type"] != "run_start")


def test_a_span_emits_one_event_at_its_end() -> None:  # DEC-18
    tracer = Tracer()
    with tracer.span("plan", kind="task", colour="blue", model="m1") as span:
        assert tracer.events == []
        span.set(size=3)
    (event,) = tracer.events
    assert (event["type"], event["name"], event["kind"], event["status"]) == ("span", "plan", "task", "ok")
    assert event["attributes"] == {"colour": "blue", "size": 3}
    assert event["model"] == "m1"
    assert event["duration_ns"] >= 0


def test_what_happens_inside_a_span_is_its_child() -> None:  # DEC-18
    tracer = Tracer()
    with tracer.span("outer"), tracer.span("inner"):
        tracer.emit({"type": "llm_call"})
    outer, inner = by_name(tracer, "outer"), by_name(tracer, "inner")
    call = next(event for event in tracer.events if event["type"] == "llm_call")
    assert call["parent_span_id"] == inner["span_id"]
    assert inner["parent_span_id"] == outer["span_id"]
    assert len({event["trace_id"] for event in tracer.events}) == 1


async def _in_span(tracer: Tracer) -> None:
    async with tracer.span("awaited"):
        await asyncio.sleep(0)


def test_a_span_is_an_async_context_manager_too() -> None:  # DEC-18
    tracer = Tracer()
    asyncio.run(_in_span(tracer))
    assert by_name(tracer, "awaited")["status"] == "ok"


def test_an_exception_marks_the_span_and_passes_through() -> None:
    tracer = Tracer()
    with pytest.raises(LookupError, match="gone"), tracer.span("risky"):
        raise LookupError("gone")
    event = by_name(tracer, "risky")
    assert (event["status"], event["error_type"], event["error"]) == ("error", "LookupError", "gone")


def test_a_run_begins_and_ends_under_its_own_root() -> None:
    tracer = Tracer()
    with tracer.run("job", agent="worker", user="u1", session="s1") as run:
        assert current_run_id() == run.run_id
        tracer.emit({"type": "llm_call"})
        assert current_step() == 2
    assert current_run_id() is None
    start, call, end = tracer.events
    assert [event["type"] for event in tracer.events] == ["run_start", "llm_call", "run_end"]
    assert start["span_id"] == end["span_id"] == call["parent_span_id"]
    assert [event["step_index"] for event in tracer.events] == [1, 2, 3]
    assert all((event["agent"], event["user"], event["session"]) == ("worker", "u1", "s1") for event in tracer.events)
    assert end["status"] == "ok"


def test_a_run_inside_a_run_joins_it_as_an_agent() -> None:  # EXEC-10
    tracer = Tracer()
    with tracer.run("outer", agent="boss") as outer, tracer.run("inner", agent="helper") as inner:
        tracer.emit({"type": "llm_call"})
        assert inner.run_id == outer.run_id
    assert {event["run_id"] for event in tracer.events} == {outer.run_id}
    call = next(event for event in tracer.events if event["type"] == "llm_call")
    span = by_name(tracer, "inner")
    assert (span["kind"], span["agent"], call["agent"]) == ("agent", "helper", "helper")
    assert call["parent_span_id"] == span["span_id"]


def test_an_upstream_carrier_decides_trace_and_parent() -> None:
    tracer = Tracer()
    carrier = {"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"}
    with tracer.run("job", trace_carrier=carrier):
        tracer.emit({"type": "llm_call"})
    start, call, end = tracer.events
    assert {event["trace_id"] for event in tracer.events} == {"ab" * 16}
    assert start["parent_span_id"] == end["parent_span_id"] == "cd" * 8
    assert call["parent_span_id"] == start["span_id"]


def test_a_broken_carrier_is_as_good_as_none() -> None:
    for value in ("", "00-xyz", "00-" + "0" * 32 + "-" + "cd" * 8 + "-01", None):
        tracer = Tracer()
        with tracer.run("job", trace_carrier={"traceparent": value}):
            pass
        assert tracer.events[0]["parent_span_id"] is None


def test_the_carrier_given_out_names_the_open_span() -> None:
    tracer = Tracer()
    with tracer.run("job") as run, tracer.span("step"):
        carrier = tracer.carrier()
    step = by_name(tracer, "step")
    assert carrier == {"traceparent": f"00-{step['trace_id']}-{step['span_id']}-01"}
    assert run.run_id == step["run_id"]


def test_the_same_run_id_gives_the_same_tree_in_every_process() -> None:
    first, second = Tracer(), Tracer()
    for tracer in (first, second):
        with tracer.run("job", run_id="run-7"):
            pass
    assert first.events[0]["trace_id"] == second.events[0]["trace_id"]
    assert first.events[0]["span_id"] == second.events[0]["span_id"]


def test_concurrent_runs_do_not_see_each_other() -> None:  # EXEC-08
    tracer = Tracer()

    async def one(name: str) -> None:
        async with tracer.run(name, agent=name):
            await asyncio.sleep(0)
            tracer.emit({"type": "llm_call", "who": name})
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(one("a"), one("b"))

    asyncio.run(both())
    calls = [event for event in tracer.events if event["type"] == "llm_call"]
    assert len({event["run_id"] for event in calls}) == 2
    assert all(event["agent"] == event["who"] for event in calls)


# FR-07: a span held open across `yield`


async def _turns(tracer: Tracer) -> AsyncIterator[int]:
    with tracer.span("turn"):
        yield 1
        yield 2


async def _close_from_another_task(tracer: Tracer) -> None:
    turns = _turns(tracer)
    await anext(turns)
    await asyncio.create_task(turns.aclose())


async def _break_early(tracer: Tracer) -> None:
    turns = _turns(tracer)
    async for _ in turns:
        break
    await turns.aclose()


async def _cancel_the_consumer(tracer: Tracer) -> None:
    entered = asyncio.Event()

    async def consume() -> None:
        async for _ in _turns(tracer):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gc.collect()
    await asyncio.sleep(0)


async def _let_it_be_collected(tracer: Tracer) -> None:
    turns = _turns(tracer)
    await anext(turns)
    del turns
    gc.collect()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.parametrize("leave", [_close_from_another_task, _break_early, _cancel_the_consumer, _let_it_be_collected])
def test_a_span_across_yield_ends_once_however_it_is_left(
    leave: Any, caplog: pytest.LogCaptureFixture
) -> None:  # FR-07
    tracer = Tracer()

    async def main() -> None:
        async with tracer.run("job"):
            await leave(tracer)
            with tracer.span("later"):
                pass

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    turns = [event for event in tracer.events if event.get("name") == "turn"]
    later = by_name(tracer, "later")
    assert len(turns) == 1
    assert turns[0]["status"] in {"ok", "cancelled"}
    assert later["parent_span_id"] != turns[0]["span_id"]
    assert caplog.records == []


# FR-09: tools on other threads


def _submit(pool: ThreadPoolExecutor, work: Any) -> None:
    for future in [pool.submit(work, n) for n in range(3)]:
        future.result()


def _map(pool: ThreadPoolExecutor, work: Any) -> None:
    list(pool.map(work, range(3)))


def _bare_threads(_pool: ThreadPoolExecutor, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("spread", [_submit, _map, _bare_threads])
def test_a_thread_without_context_still_records_in_the_right_run(spread: Any) -> None:  # FR-09
    tracer = Tracer()
    with tracer.run("job") as run, ThreadPoolExecutor(3) as pool:
        spread(pool, lambda n: tracer.emit({"type": "tool_call", "tool": f"t{n}"}))
    tools = [event for event in tracer.events if event["type"] == "tool_call"]
    assert len(tools) == 3
    assert {event["run_id"] for event in tools} == {run.run_id}
    assert len({event["step_index"] for event in tools}) == 3


@pytest.mark.parametrize("spread", [_submit, _map, _bare_threads])
def test_a_carried_context_makes_tools_children_of_the_calling_step(spread: Any) -> None:  # FR-09
    tracer = Tracer()
    with tracer.run("job"), ThreadPoolExecutor(3) as pool, tracer.span("step"):
        contexts = [contextvars.copy_context() for _ in range(3)]
        spread(pool, lambda n: contexts[n].run(tracer.emit, {"type": "tool_call", "tool": f"t{n}"}))
    step = by_name(tracer, "step")
    tools = [event for event in tracer.events if event["type"] == "tool_call"]
    assert [event["parent_span_id"] for event in tools] == [step["span_id"]] * 3


def test_to_thread_and_run_in_executor_keep_the_calling_step() -> None:  # FR-09
    tracer = Tracer()

    async def main() -> None:
        async with tracer.run("job"), tracer.span("step"):
            await asyncio.gather(*(asyncio.to_thread(tracer.emit, {"type": "tool_call"}) for _ in range(3)))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, tracer.emit, {"type": "tool_call", "bare": True})

    asyncio.run(main())
    step = by_name(tracer, "step")
    tools = [event for event in tracer.events if event["type"] == "tool_call"]
    assert [event["parent_span_id"] for event in tools if "bare" not in event] == [step["span_id"]] * 3
    assert len(tools) == 4
    assert len({event["run_id"] for event in tools}) == 1
