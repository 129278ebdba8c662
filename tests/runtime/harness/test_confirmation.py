"""The confirm callback: asking a person here and now."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from harness_parts import (
    Probe,
    execute,
    no,
    only,
    run,
    soon,
    stopped,
    until,
    with_tools,
    yes,
)
from tracehold import Tracer
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.tools.base import ToolResponse


def test_the_callback_is_asked_about_the_tool_and_its_parameters() -> None:  # HAR-52
    asked: list[Any] = []
    tool = Probe(confirm=True)
    answer = execute(with_tools(tool, confirm=lambda *given: asked.append(given) or True), {"city": "Paris"})
    assert answer.status == "success"
    assert asked == [(tool, {"city": "Paris"})]


def test_a_yes_is_recorded_with_who_said_it(tracer: Tracer) -> None:  # DEC-01
    execute(with_tools(Probe(confirm=True), confirm=yes, tracer=tracer))
    event = only(tracer, "tool_call")
    assert (event["status"], event["decision"], event["decided_by"]) == ("success", "allowed", "confirm:yes")


def test_a_tool_without_risk_is_not_asked_about(tracer: Tracer) -> None:  # HAR-52
    assert execute(with_tools(Probe(), confirm=no, tracer=tracer)).status == "success"


def test_a_blocking_callback_leaves_the_loop_free() -> None:  # HAR-53
    async def both() -> ToolResponse:
        entered, released = threading.Event(), threading.Event()

        def confirm(tool: Any, parameters: Any) -> bool:
            entered.set()
            return released.wait(20)

        task = asyncio.create_task(with_tools(Probe(confirm=True), confirm=confirm).aexec_tool("probe", {}))
        await until(entered.is_set)
        released.set()  # only a loop that still turns gets here
        return await soon(task)

    assert run(both()).status == "success"


class AsyncCall:
    def __init__(self, answer: bool) -> None:
        self.answer = answer

    async def __call__(self, tool: Any, parameters: Any) -> bool:
        await asyncio.sleep(0)
        return self.answer


async def ask_later(answer: bool) -> bool:
    await asyncio.sleep(0)
    return answer


def async_callbacks(answer: bool) -> dict[str, Any]:
    async def plain(tool: Any, parameters: Any) -> bool:
        return await ask_later(answer)

    class Console:
        async def ask(self, tool: Any, parameters: Any) -> bool:
            return await ask_later(answer)

    return {
        "async def": plain,
        "async __call__": AsyncCall(answer),
        "async method": Console().ask,
        "lambda around a coroutine": lambda tool, parameters: ask_later(answer),
    }


@pytest.mark.parametrize("kind", async_callbacks(answer=True))
def test_an_async_callback_is_awaited(kind: str, tracer: Tracer) -> None:  # HAR-54
    tool = Probe(confirm=True)
    assert execute(with_tools(tool, confirm=async_callbacks(answer=False)[kind], tracer=tracer)).status == "error"
    assert tool.runs == []
    stopped(tracer, "unconfirmed")
    assert execute(with_tools(tool, confirm=async_callbacks(answer=True)[kind])).status == "success"
    assert len(tool.runs) == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_callback_that_raises_refuses(kind: str, tracer: Tracer) -> None:  # FR-61: fail closed
    def broken(tool: Any, parameters: Any) -> bool:
        raise ConnectionError("console at 10.0.0.1 is gone")

    async def broken_later(tool: Any, parameters: Any) -> bool:
        raise ConnectionError("console at 10.0.0.1 is gone")

    tool = Probe(confirm=True)
    answer = execute(with_tools(tool, confirm=broken if kind == "sync" else broken_later, tracer=tracer))
    assert answer.status == "error"
    assert "10.0.0.1" not in answer.text
    assert tool.runs == []
    event = stopped(tracer, "unconfirmed")
    assert "ConnectionError" in event["reason"]
    assert event["decided_by"] == ("confirm:broken" if kind == "sync" else "confirm:broken_later")


def test_a_callback_that_runs_out_of_answers_refuses(tracer: Tracer) -> None:  # FR-61: StopIteration breaks futures
    answers: Any = iter(())
    tool = Probe(confirm=True)
    harness = with_tools(tool, confirm=lambda tool, parameters: next(answers), tracer=tracer)

    async def refused() -> ToolResponse:
        return await asyncio.wait_for(harness.aexec_tool("probe", {}), 5)

    assert run(refused()).status == "error"
    assert tool.runs == []
    stopped(tracer, "unconfirmed")


@pytest.mark.parametrize("signal", [RunLimitExceeded("no"), RunCancelled("no")])
def test_control_signals_of_the_callback_are_not_swallowed(signal: Exception) -> None:  # HAR-60
    def stop(tool: Any, parameters: Any) -> bool:
        raise signal

    tool = Probe(confirm=True)
    with pytest.raises(type(signal)) as raised:
        execute(with_tools(tool, confirm=stop))
    assert raised.value is signal
    assert tool.runs == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_callback_that_takes_too_long_refuses(kind: str, tracer: Tracer) -> None:  # FR-61: timeout of the gate
    released = threading.Event()

    def slow(tool: Any, parameters: Any) -> bool:
        return released.wait(20)

    async def slow_later(tool: Any, parameters: Any) -> bool:
        await asyncio.Event().wait()
        return True

    tool = Probe(confirm=True)
    harness = with_tools(tool, confirm=slow if kind == "sync" else slow_later, confirm_timeout_s=0.05, tracer=tracer)

    async def refused() -> ToolResponse:
        answer = await soon(harness.aexec_tool("probe", {}))
        released.set()
        return answer

    assert run(refused()).status == "error"
    assert tool.runs == []
    event = stopped(tracer, "unconfirmed")
    assert event["reason"].startswith("timeout")
    assert event["rule"] == "confirm_timeout"


def test_a_quick_answer_within_the_timeout_counts() -> None:
    assert execute(with_tools(Probe(confirm=True), confirm=yes, confirm_timeout_s=20)).status == "success"


def test_a_call_cancelled_while_somebody_is_asked_is_one_event(tracer: Tracer) -> None:  # DEC-01
    async def cancelled() -> None:
        asked = asyncio.Event()

        async def hang(tool: Any, parameters: Any) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        task = asyncio.create_task(with_tools(Probe(confirm=True), confirm=hang, tracer=tracer).aexec_tool("probe", {}))
        await soon(asked.wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert only(tracer, "tool_call")["status"] == "cancelled"
