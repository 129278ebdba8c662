"""A tool that runs: what it may do, what is recorded, what counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from harness_parts import Emitter, HookLog, Probe, ThreadProbe, execute, in_run, of, only, run, soon, with_tools
from tracehold import Tracer
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy, check_limits
from tracehold.governance.hitl import ApprovalRequired, PendingAction
from tracehold.governance.hooks import Hook
from tracehold.tools.base import ToolResponse


def test_the_tools_own_response_comes_back() -> None:  # HAR-41
    answer = ToolResponse.partial("half", data={"n": 1})
    assert execute(with_tools(Probe(does=answer))) == answer


def test_an_exception_becomes_an_error_response(tracer: Tracer) -> None:  # HAR-55
    answer = execute(with_tools(Probe(does=LookupError("no such city")), tracer=tracer))
    assert answer.status == "error"
    assert "LookupError" in answer.text
    assert "no such city" in answer.text
    event = only(tracer, "tool_call")
    assert event["status"] == "error"
    assert type(event["latency_ms"]) is int


def test_an_exception_on_a_worker_thread_does_too() -> None:  # HAR-55
    def fails(_: Any) -> str:
        raise ZeroDivisionError("oops")

    answer = execute(with_tools(ThreadProbe(does=fails)))
    assert answer.status == "error"
    assert "ZeroDivisionError" in answer.text


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_an_exception_that_cannot_be_printed_is_still_an_error_response(tracer: Tracer) -> None:  # HAR-55
    answer = execute(with_tools(Probe(does=UnprintableError()), tracer=tracer))
    assert answer.status == "error"
    assert "UnprintableError" in answer.text
    assert len(tracer.events) == 1


def test_an_executed_call_is_one_event(tracer: Tracer) -> None:  # HAR-56, DEC-15
    execute(with_tools(Probe(does="42 people"), tracer=tracer), {"city": "Paris"}, call_id="c1")
    (event,) = tracer.events
    assert (event["type"], event["tool"], event["params"]) == ("tool_call", "probe", {"city": "Paris"})
    assert (event["status"], event["result"], event["call_id"]) == ("success", "42 people", "c1")
    assert type(event["latency_ms"]) is int
    assert event["latency_ms"] == event["duration_ns"] // 1_000_000
    assert event["started_at_ns"] > 0


@pytest.mark.parametrize("status", ["success", "partial", "error"])
def test_the_event_has_the_status_of_the_response(status: Any, tracer: Tracer) -> None:  # HAR-56
    execute(with_tools(Probe(does=ToolResponse("text", status)), tracer=tracer))
    assert only(tracer, "tool_call")["status"] == status


def test_secrets_are_left_to_the_tracer() -> None:  # HAR-56
    events: list[dict[str, Any]] = []
    secret = "hunter2" + "Xy9"
    execute(with_tools(Probe(does=f"password={secret}"), tracer=Emitter(events)), {"password": secret})
    assert events[0]["params"] == {"password": secret}
    assert events[0]["result"] == f"password={secret}"


def test_the_event_shows_what_the_tool_was_given_whatever_it_does_to_it(tracer: Tracer) -> None:  # HAR-56
    def spoil(parameters: dict[str, Any]) -> str:
        parameters["inner"].clear()
        parameters.clear()
        return "done"

    execute(with_tools(Probe(does=spoil), tracer=tracer), {"city": "Paris", "inner": {"a": 1}})
    assert only(tracer, "tool_call")["params"] == {"city": "Paris", "inner": {"a": 1}}


def test_nobody_changes_the_arguments_between_the_gates_and_the_tool() -> None:  # HOOK-02, DEC-02
    class Meddling(Hook):
        def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
            parameters["city"] = "elsewhere"

    def confirm(tool: Any, parameters: dict[str, Any]) -> bool:
        parameters["city"] = "nowhere"
        return True

    tool = Probe(confirm=True)
    execute(with_tools(tool, confirm=confirm, hooks=[Meddling()]), {"city": "Paris"})
    assert tool.runs == [{"city": "Paris"}]


def test_an_executed_call_counts_also_when_it_raises() -> None:  # HAR-57, POL-04
    async def count() -> None:
        harness = with_tools(Probe(does=LookupError("x")))
        with in_run(RunPolicy(max_tool_calls=2)):
            for _ in range(2):
                assert (await harness.aexec_tool("probe", {})).status == "error"
            with pytest.raises(RunLimitExceeded):
                await harness.aexec_tool("probe", {})

    run(count())


def test_no_tool_call_at_all_leaves_model_calls_alone() -> None:  # POL-05
    async def once() -> None:
        tool = Probe()
        with in_run(RunPolicy(max_tool_calls=0)):
            harness = with_tools(tool)
            await harness.acall_llm([])
            with pytest.raises(RunLimitExceeded):
                await harness.aexec_tool("probe", {})
            await harness.acall_llm([])
        assert tool.runs == []

    run(once())


def test_hooks_stand_around_the_execution() -> None:  # HAR-58, HAR-59, HOOK-06
    log: list[Any] = []
    answer = execute(
        with_tools(Probe(does=lambda _: log.append(("tool",)) or "done"), hooks=[HookLog(log)]), {"city": "Paris"}
    )
    assert log == [
        ("before_tool", "probe", {"city": "Paris"}),
        ("tool",),
        ("after_tool", "probe", {"city": "Paris"}, answer),
    ]
    assert log[-1][-1] is answer


def test_after_tool_gets_the_error_response_of_a_tool_that_raised() -> None:  # HAR-59
    hook = HookLog()
    answer = execute(with_tools(Probe(does=LookupError("x")), hooks=[hook]))
    assert hook.names() == ["before_tool", "after_tool"]
    assert hook.fired[1][-1] is answer


def test_tool_hooks_fire_in_order_and_may_be_async() -> None:  # HOOK-04, HOOK-11
    log: list[str] = []

    class Named(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        def before_tool(self, name: str, parameters: Any) -> None:
            log.append(self.name)

    class Waiting(Named):
        async def before_tool(self, name: str, parameters: Any) -> None:
            await asyncio.sleep(0)
            log.append(self.name)

        async def after_tool(self, name: str, parameters: Any, result: Any) -> None:
            await asyncio.sleep(0)
            log.append(f"{self.name} after")

    execute(with_tools(Probe(does=lambda _: log.append("tool")), hooks=[Waiting("1"), Named("2"), Waiting("3")]))
    assert log == ["1", "2", "3", "tool", "1 after", "3 after"]


def test_a_hook_that_raises_stops_the_tool_and_nothing_is_counted(tracer: Tracer) -> None:  # HOOK-03, HAR-57
    class Strict(Hook):
        raises = True

        def before_tool(self, name: str, parameters: Any) -> None:
            if self.raises:
                raise PermissionError("no")

    async def twice() -> None:
        tool, hook = Probe(), Strict()
        harness = with_tools(tool, hooks=[hook], tracer=tracer)
        with in_run(RunPolicy(max_tool_calls=1)):
            with pytest.raises(PermissionError):
                await harness.aexec_tool("probe", {})
            assert tool.runs == []
            hook.raises = False
            assert (await harness.aexec_tool("probe", {})).text == "done"

    run(twice())
    first, second = of(tracer, "tool_call")
    assert (first["status"], second["status"]) == ("error", "success")
    assert "result" not in first


def test_a_hook_that_raises_after_the_tool_reaches_the_caller_and_the_call_is_recorded(  # HOOK-03, HAR-56
    tracer: Tracer,
) -> None:
    class Strict(Hook):
        def after_tool(self, name: str, parameters: Any, result: Any) -> None:
            raise PermissionError("no")

    with pytest.raises(PermissionError):
        execute(with_tools(Probe(), hooks=[Strict()], tracer=tracer))
    assert only(tracer, "tool_call")["result"] == "done"


SIGNALS = [
    RunLimitExceeded("inner limit", rule="max_tokens"),
    RunCancelled("inner cancel"),
    ApprovalRequired(PendingAction("inner", {}, "c7")),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: type(signal).__name__)
@pytest.mark.parametrize("kind", [Probe, ThreadProbe])
def test_control_signals_pass_through_a_tool(signal: Exception, kind: Any, tracer: Tracer) -> None:  # HAR-60
    def does(_: Any) -> str:
        raise signal

    with pytest.raises(type(signal)) as raised:
        execute(with_tools(kind(does=does), tracer=tracer))
    assert raised.value is signal
    assert len(of(tracer, "tool_call")) == 1
    assert only(tracer, "tool_call")["status"] != "success"


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_the_interpreters_own_signals_pass_through_a_tool(signal: Any) -> None:  # HAR-55
    with pytest.raises(signal):
        execute(with_tools(Probe(does=signal())))


def test_a_cancelled_tool_is_one_cancelled_event_and_counts(tracer: Tracer) -> None:  # HAR-57, DEC-01
    async def cancelled() -> None:
        started = asyncio.Event()

        async def hang() -> str:
            started.set()
            await asyncio.Event().wait()
            return "never"

        with in_run(RunPolicy(max_tool_calls=1)):
            task = asyncio.create_task(with_tools(Probe(does=lambda _: hang()), tracer=tracer).aexec_tool("probe", {}))
            await soon(started.wait())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(RunLimitExceeded):
                check_limits("tool")

    run(cancelled())
    assert only(tracer, "tool_call")["status"] == "cancelled"


def test_a_tools_timeout_of_its_own_is_an_error_like_any_other() -> None:  # HAR-55
    async def too_slow() -> str:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return "never"

    answer = execute(with_tools(Probe(does=lambda _: too_slow())))
    assert answer.status == "error"
    assert "TimeoutError" in answer.text


@pytest.mark.parametrize("odd", [None, 7, "text", b"bytes", ["list"]])
def test_a_tool_that_gives_back_something_else_does_not_break_the_run(odd: Any, tracer: Tracer) -> None:  # HAR-55
    class Odd(Probe):
        async def arun(self, parameters: dict[str, Any]) -> Any:
            return odd

    answer = execute(with_tools(Odd(), tracer=tracer))
    assert isinstance(answer, ToolResponse)
    assert len(of(tracer, "tool_call")) == 1


def test_a_result_of_any_text_is_recorded(tracer: Tracer) -> None:  # HAR-56
    for text in ("", "\ud83e", "a\0b", "x" * 1_000_000):
        tracer.clear()
        assert execute(with_tools(Probe(does=ToolResponse.ok(text)), tracer=tracer)).text == text
        assert len(tracer.events) == 1


class BrokenError(Exception):
    pass


class FailingTracer:
    def emit(self, event: dict[str, Any]) -> None:
        raise BrokenError


def test_a_strict_tracer_raises_after_the_tool_ran_and_the_call_counts() -> None:  # DEC-11, HAR-57
    async def counted() -> None:
        tool = Probe()
        with in_run(RunPolicy(max_tool_calls=1)):
            with pytest.raises(BrokenError):
                await with_tools(tool, tracer=FailingTracer()).aexec_tool("probe", {})
            assert len(tool.runs) == 1
            with pytest.raises(RunLimitExceeded):
                check_limits("tool")

    run(counted())


@pytest.mark.parametrize("decisions", [None, {}, {"c": False}])
def test_a_strict_tracer_that_fails_never_lets_a_stopped_tool_run(decisions: Any) -> None:  # DEC-11
    tool = Probe(confirm=True)
    with pytest.raises((BrokenError, ApprovalRequired)):
        execute(with_tools(tool, tracer=FailingTracer()), call_id="c", decisions=decisions)
    assert tool.runs == []


def test_a_limit_met_in_a_hook_before_the_tool_is_recorded_as_one(tracer: Tracer) -> None:  # DEC-01, HAR-57
    class Stops(Hook):
        def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
            raise RunCancelled("enough")

    tool = Probe()
    with pytest.raises(RunCancelled):
        execute(with_tools(tool, hooks=[Stops()], tracer=tracer), {})
    event = only(tracer, "tool_call")
    assert (event["status"], event["decision"], event["decided_by"]) == ("cancelled", "cancelled", "run_policy")
    assert tool.runs == []
