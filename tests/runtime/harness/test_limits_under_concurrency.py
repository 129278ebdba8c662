"""Calls issued together never pass a limit together."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness_parts import (
    MESSAGES,
    HookLog,
    Model,
    Probe,
    ThreadProbe,
    in_run,
    of,
    registry,
    reply,
    run,
    soon,
    until,
    with_tools,
)
from hypothesis import given
from hypothesis import strategies as st
from tracehold import Tracer
from tracehold.core.errors import RunLimitExceeded
from tracehold.core.run_context import current_run
from tracehold.execution import RunPolicy, check_limits, record_llm, record_tool
from tracehold.harness import Harness

TOGETHER = 8
ALLOWED = 2


async def together(call: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[int, int]:
    """Start `TOGETHER` calls at once; return how many came back and how many met the limit."""
    outcomes = await soon(asyncio.gather(*(call() for _ in range(TOGETHER)), return_exceptions=True))
    limited = [outcome for outcome in outcomes if isinstance(outcome, RunLimitExceeded)]
    broken = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert broken == limited
    return TOGETHER - len(limited), len(limited)


async def pause(_: Any) -> str:
    for _turn in range(5):
        await asyncio.sleep(0)
    return "done"


@pytest.mark.parametrize("kind", [Probe, ThreadProbe])
def test_eight_tool_calls_under_a_limit_of_two_run_two_tools(kind: Any, tracer: Tracer) -> None:  # POL-04
    tool, hook = kind(does=pause if kind is Probe else "done".format), HookLog()
    harness = with_tools(tool, tracer=tracer, hooks=[hook])

    async def all_at_once() -> tuple[int, int]:
        with in_run(RunPolicy(max_tool_calls=ALLOWED)):
            return await together(lambda: harness.aexec_tool("probe", {}))

    assert run(all_at_once()) == (ALLOWED, TOGETHER - ALLOWED)
    assert len(tool.runs) == ALLOWED
    assert hook.names().count("before_tool") == hook.names().count("after_tool") == ALLOWED
    statuses = [event["status"] for event in of(tracer, "tool_call")]
    assert statuses.count("success") == ALLOWED
    assert statuses.count("limited") == TOGETHER - ALLOWED


def test_calls_that_wait_for_the_same_person_do_not_overshoot(tracer: Tracer) -> None:  # POL-04
    async def all_at_once() -> tuple[int, int]:
        asked, answer = 0, asyncio.Event()

        async def confirm(tool: Any, parameters: Any) -> bool:
            nonlocal asked
            asked += 1
            await soon(answer.wait())
            return True

        tool = Probe(confirm=True)
        harness = with_tools(tool, confirm=confirm, tracer=tracer)
        with in_run(RunPolicy(max_tool_calls=ALLOWED)):
            calls = asyncio.create_task(together(lambda: harness.aexec_tool("probe", {})))
            await until(lambda: asked == TOGETHER)  # every one of them is past the limit check
            answer.set()
            counts = await calls
        assert len(tool.runs) == ALLOWED
        return counts

    assert run(all_at_once()) == (ALLOWED, TOGETHER - ALLOWED)
    limited = [event for event in of(tracer, "tool_call") if event["status"] == "limited"]
    assert len(limited) == TOGETHER - ALLOWED
    assert {(event["decision"], event["rule"], event["decided_by"]) for event in limited} == {
        ("limited", "max_tool_calls", "run_policy")
    }
    assert not any("latency_ms" in event or "result" in event for event in limited)


def test_slow_permissions_do_not_let_calls_overshoot() -> None:  # POL-04
    class Slow:
        def denial_reason(self, tool: Any) -> None:
            return None

    async def all_at_once() -> tuple[int, int]:
        tool = Probe(does=pause)
        with in_run(RunPolicy(max_tool_calls=ALLOWED)):
            return await together(lambda: with_tools(tool, permissions=Slow()).aexec_tool("probe", {}))

    assert run(all_at_once()) == (ALLOWED, TOGETHER - ALLOWED)


def test_eight_model_calls_under_a_limit_of_two_ask_the_model_twice(tracer: Tracer) -> None:  # POL-03
    model = Model(*[lambda messages: _later()] * TOGETHER)
    harness = Harness(model, tracer=tracer)

    async def all_at_once() -> tuple[int, int]:
        with in_run(RunPolicy(max_llm_calls=ALLOWED)):
            return await together(lambda: harness.acall_llm(MESSAGES))

    assert run(all_at_once()) == (ALLOWED, TOGETHER - ALLOWED)
    assert len(model.chats) == ALLOWED
    limited = [event for event in of(tracer, "llm_call") if event.get("status") == "limited"]
    assert len(limited) == TOGETHER - ALLOWED
    assert len(of(tracer, "llm_call")) == TOGETHER


async def _later() -> Any:
    await pause(None)
    return reply()


def test_a_slow_before_model_hook_does_not_let_calls_overshoot() -> None:  # POL-03, HAR-13
    class Slow(HookLog):
        async def before_model(self, messages: Any) -> None:
            await pause(None)

    model = Model()
    harness = Harness(model, hooks=[Slow()])

    async def all_at_once() -> tuple[int, int]:
        with in_run(RunPolicy(max_llm_calls=ALLOWED)):
            return await together(lambda: harness.acall_llm(MESSAGES))

    assert run(all_at_once()) == (ALLOWED, TOGETHER - ALLOWED)
    assert len(model.chats) == ALLOWED


def test_eight_streams_under_a_limit_of_two_open_two() -> None:  # POL-03, HAR-28
    model = Model()
    harness = Harness(model)

    async def drain() -> list[Any]:
        return [piece async for piece in harness.astream_llm(MESSAGES)]

    async def all_at_once() -> tuple[int, int]:
        with in_run(RunPolicy(max_llm_calls=ALLOWED)):
            return await together(drain)

    assert run(all_at_once()) == (ALLOWED, TOGETHER - ALLOWED)
    assert len(model.streams) == ALLOWED


def test_streams_and_calls_share_the_limit() -> None:  # POL-03
    async def mixed() -> None:
        harness = Harness(Model())
        with in_run(RunPolicy(max_llm_calls=ALLOWED)):
            await harness.acall_llm(MESSAGES)
            [_ async for _ in harness.astream_llm(MESSAGES)]
            with pytest.raises(RunLimitExceeded):
                await harness.acall_llm(MESSAGES)

    run(mixed())


def test_failing_model_calls_count_too() -> None:  # POL-03
    model = Model(*[LookupError("down") for _ in range(TOGETHER)])
    harness = Harness(model)

    async def all_at_once() -> list[Any]:
        with in_run(RunPolicy(max_llm_calls=ALLOWED)):
            return await asyncio.gather(*(harness.acall_llm(MESSAGES) for _ in range(TOGETHER)), return_exceptions=True)

    outcomes = [type(outcome) for outcome in run(all_at_once())]
    assert outcomes.count(LookupError) == ALLOWED
    assert outcomes.count(RunLimitExceeded) == TOGETHER - ALLOWED
    assert len(model.chats) == ALLOWED


def test_loops_on_several_threads_share_one_runs_limit(tracer: Tracer) -> None:  # POL-04, EXEC-09
    tool = Probe()
    harness = with_tools(tool, tracer=tracer)
    barrier = threading.Barrier(TOGETHER)

    def on_a_thread() -> bool:
        barrier.wait(20)
        try:
            asyncio.run(harness.aexec_tool("probe", {}))
        except RunLimitExceeded:
            return False
        return True

    with in_run(RunPolicy(max_tool_calls=ALLOWED)), ThreadPoolExecutor(TOGETHER) as pool:
        futures = [pool.submit(contextvars.copy_context().run, on_a_thread) for _ in range(TOGETHER)]
        ran = [future.result(20) for future in futures]
    assert ran.count(True) == len(tool.runs) == ALLOWED


@given(
    limit=st.integers(0, 6),
    calls=st.lists(st.sampled_from(["ok", "raises", "denied", "unknown", "invalid", "unconfirmed"]), max_size=14),
)
def test_whatever_is_mixed_at_most_the_limit_executes(limit: int, calls: list[str]) -> None:  # POL-04, HAR-57
    ran: list[str] = []

    async def does(_: Any) -> str:
        ran.append("ok")
        await asyncio.sleep(0)
        return "done"

    async def fails(_: Any) -> str:
        ran.append("raises")
        await asyncio.sleep(0)
        raise LookupError

    tools = [
        Probe("ok", does),
        Probe("raises", fails),
        Probe("denied", does),
        Probe("invalid", does, required=True),
        Probe("unconfirmed", does, confirm=True),
    ]
    denied = type(
        "D", (), {"denial_reason": lambda self, tool: "no" if getattr(tool, "name", 0) == "denied" else None}
    )()
    tracer = Tracer()
    harness = Harness(Model(), tool_registry=registry(*tools), permissions=denied, tracer=tracer)

    async def all_at_once() -> list[Any]:
        with in_run(RunPolicy(max_tool_calls=limit)):
            return await asyncio.gather(*(harness.aexec_tool(name, {}) for name in calls), return_exceptions=True)

    outcomes = run(all_at_once())
    executable = calls.count("ok") + calls.count("raises")
    assert len(ran) == min(limit, executable)
    assert all(isinstance(outcome, RunLimitExceeded) for outcome in outcomes if isinstance(outcome, BaseException))
    assert len(of(tracer, "tool_call")) == len(calls)


def test_one_runs_counts_are_not_anothers() -> None:  # POL-09
    harness = with_tools(Probe())

    async def one() -> tuple[int, int]:
        with in_run(RunPolicy(max_tool_calls=ALLOWED)):
            return await together(lambda: harness.aexec_tool("probe", {}))

    async def both() -> list[tuple[int, int]]:
        return await asyncio.gather(asyncio.create_task(one()), asyncio.create_task(one()))

    assert run(both()) == [(ALLOWED, TOGETHER - ALLOWED)] * 2


def test_the_documented_functions_count_on_the_same_counters() -> None:  # EXEC-13, POL-03, POL-04
    async def shared() -> None:
        harness = with_tools(Probe())
        with in_run(RunPolicy(max_tool_calls=1, max_llm_calls=1)):
            record_tool()
            with pytest.raises(RunLimitExceeded):
                await harness.aexec_tool("probe", {})
            record_llm(None)
            with pytest.raises(RunLimitExceeded):
                await harness.acall_llm(MESSAGES)

    run(shared())


def test_a_nested_run_cannot_buy_itself_more(caplog: pytest.LogCaptureFixture) -> None:  # POL-10, EXEC-10
    tool = Probe("inner")

    async def nested(_: Any) -> str:
        with in_run(RunPolicy(max_tool_calls=100)):
            for _turn in range(5):
                await with_tools(tool).aexec_tool("inner", {})
        return "done"

    async def outer() -> None:
        with in_run(RunPolicy(max_tool_calls=3)):
            with pytest.raises(RunLimitExceeded):
                await with_tools(Probe(does=nested)).aexec_tool("probe", {})
            assert current_run() is not None
            with pytest.raises(RunLimitExceeded):
                check_limits("tool")

    run(outer())
    assert len(tool.runs) == 2  # the outer call is one of three
    assert any("ignored" in record.getMessage() for record in caplog.records)
