"""The gates before a tool: each stopped call is an error response and exactly one event (DEC-01)."""

from __future__ import annotations

from typing import Any

import pytest
from harness_parts import (
    HookLog,
    Model,
    Probe,
    Refusing,
    execute,
    in_run,
    no,
    only,
    run,
    stopped,
    with_tools,
)
from tracehold import Tracer
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy
from tracehold.governance.permissions import ToolPermissions
from tracehold.harness import Harness
from tracehold.tools.base import ToolResponse

# -- order ---------------------------------------------------------------------------------------------------------


def test_the_gates_stand_in_one_order() -> None:  # HAR-40
    order: list[str] = []

    class Judge:
        def denial_reason(self, tool: Any) -> None:
            order.append("permission")

    def confirm(tool: Any, parameters: Any) -> bool:
        order.append("confirm")
        return True

    def cancel() -> bool:
        order.append("limits")
        return False

    def does(_: Any) -> str:
        order.append("tool")
        return "done"

    async def once() -> None:
        with in_run(RunPolicy(cancel=cancel)):
            await with_tools(Probe(does=does, confirm=True), permissions=Judge(), confirm=confirm).aexec_tool(
                "probe", {}
            )

    run(once())
    assert order[0] == "limits"
    assert [word for word in order if word != "limits"] == ["permission", "confirm", "tool"]


def test_a_reached_limit_comes_before_a_denial(tracer: Tracer) -> None:  # HAR-40, POL-05
    judge, tool = Refusing(), Probe()

    async def once() -> None:
        with in_run(RunPolicy(max_tool_calls=0)), pytest.raises(RunLimitExceeded):
            await with_tools(tool, permissions=judge, tracer=tracer).aexec_tool("probe", {})

    run(once())
    assert judge.judged == []
    event = stopped(tracer, "limited")
    assert (event["rule"], event["decided_by"]) == ("max_tool_calls", "run_policy")


def test_a_cancel_comes_before_everything(tracer: Tracer) -> None:  # HAR-40, POL-08, HAR-60
    judge, tool = Refusing(), Probe()

    async def once() -> None:
        with in_run(RunPolicy(cancel=lambda: True)), pytest.raises(RunCancelled):
            await with_tools(tool, permissions=judge, tracer=tracer).aexec_tool("probe", {"city": "Paris"})

    run(once())
    assert judge.judged == tool.runs == []
    event = stopped(tracer, "cancelled")
    assert (event["rule"], event["decided_by"]) == ("cancel", "run_policy")
    assert event["params"] == {"city": "Paris"}


@pytest.mark.parametrize("decisions", [None, {}, {"c1": True}])
def test_a_denied_tool_is_never_offered_for_approval(decisions: Any, tracer: Tracer) -> None:  # HAR-40
    asked: list[Any] = []
    tool = Probe(confirm=True)
    harness = with_tools(
        tool, permissions=Refusing(), confirm=lambda *given: asked.append(given) or True, tracer=tracer
    )
    assert execute(harness, call_id="c1", decisions=decisions).status == "error"
    assert asked == tool.runs == []
    stopped(tracer, "denied")


def test_bad_parameters_are_refused_before_anyone_is_asked(tracer: Tracer) -> None:  # HAR-40, REG-10
    asked: list[Any] = []
    tool = Probe(confirm=True, required=True)
    answer = execute(with_tools(tool, confirm=lambda *given: asked.append(given) or True, tracer=tracer))
    assert answer.status == "error"
    assert asked == tool.runs == []
    stopped(tracer, "invalid_args")


def test_bad_parameters_are_not_suspended_for_approval(tracer: Tracer) -> None:  # HAR-40, REG-10
    tool = Probe(confirm=True, required=True)
    assert execute(with_tools(tool, tracer=tracer), call_id="c1", decisions={}).status == "error"
    stopped(tracer, "invalid_args")


# -- refusals come back, they are not raised ----------------------------------------------------------------------


def _denied(**options: Any) -> Harness:
    return with_tools(Probe(), permissions=Refusing(), **options)


def _unconfirmed(**options: Any) -> Harness:
    return with_tools(Probe(confirm=True), confirm=no, **options)


def _nobody_to_ask(**options: Any) -> Harness:
    return with_tools(Probe(confirm=True), **options)


def _unknown(**options: Any) -> Harness:
    return with_tools(Probe("another"), **options)


def _no_registry(**options: Any) -> Harness:
    return Harness(Model(), **options)


def _invalid(**options: Any) -> Harness:
    return with_tools(Probe(required=True), **options)


REFUSALS = {
    "denied": (_denied, "denied", "permissions"),
    "confirm said no": (_unconfirmed, "unconfirmed", "confirm:no"),
    "no confirm callback": (_nobody_to_ask, "unconfirmed", "harness"),
    "unknown tool": (_unknown, "unknown_tool", None),
    "no registry": (_no_registry, "unknown_tool", None),
    "invalid": (_invalid, "invalid_args", None),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_is_an_error_response_and_one_event(refusal: str, tracer: Tracer) -> None:  # HAR-41, DEC-01
    make, decision, decided_by = REFUSALS[refusal]
    answer = execute(make(tracer=tracer), {"extra": 1}, call_id="c9")
    assert isinstance(answer, ToolResponse)
    assert answer.status == "error"
    assert "probe" in answer.text
    event = stopped(tracer, decision)
    assert event["tool"] == "probe"
    assert event["params"] == {"extra": 1}
    assert event["call_id"] == "c9"
    if decided_by is not None:
        assert event["decided_by"] == decided_by
    else:
        assert event["decided_by"] in {"harness", "registry"}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_fires_no_tool_hook(refusal: str) -> None:  # HAR-58, HOOK-06
    hook = HookLog()
    execute(REFUSALS[refusal][0](hooks=[hook]))
    assert hook.fired == []


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_does_not_count(refusal: str) -> None:  # HAR-57
    async def count() -> None:
        with in_run(RunPolicy(max_tool_calls=1)):
            for _ in range(3):
                await REFUSALS[refusal][0]().aexec_tool("probe", {})
            tool = Probe("fine")
            assert (await with_tools(tool).aexec_tool("fine", {})).text == "done"
            with pytest.raises(RunLimitExceeded):
                await with_tools(tool).aexec_tool("fine", {})

    run(count())


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_without_a_tracer_is_the_same(refusal: str) -> None:  # HAR-07, HAR-41
    assert execute(REFUSALS[refusal][0]()).status == "error"


def test_without_a_registry_the_answer_names_the_tool() -> None:  # HAR-42
    answer = run(Harness(Model()).aexec_tool("send_money", {}))
    assert answer.status == "error"
    assert "send_money" in answer.text


# -- permissions --------------------------------------------------------------------------------------------------


def test_the_registered_tool_object_is_judged() -> None:  # HAR-43
    judge, tool = Refusing(), Probe()
    execute(with_tools(tool, permissions=judge))
    assert judge.judged == [tool]


def test_an_unregistered_name_is_judged_by_name(tracer: Tracer) -> None:  # HAR-43
    judge = Refusing()
    execute(with_tools(Probe(), permissions=judge, tracer=tracer), name="ghost")
    assert judge.judged == ["ghost"]
    assert stopped(tracer, "denied")["tool"] == "ghost"


def test_an_unregistered_name_that_is_allowed_is_an_unknown_tool(tracer: Tracer) -> None:  # HAR-43
    execute(with_tools(Probe(), permissions=Refusing(None), tracer=tracer), name="ghost")
    stopped(tracer, "unknown_tool")


def test_a_tools_origin_counts(tracer: Tracer) -> None:  # HAR-43, PERM-04
    tool = Probe(origin="mcp:stranger")
    harness = with_tools(
        tool, permissions=ToolPermissions(allow=["probe"], deny_origins=["mcp:stranger"]), tracer=tracer
    )
    assert execute(harness).status == "error"
    assert tool.runs == []
    stopped(tracer, "denied")


def test_a_denial_says_what_was_tried_and_why(tracer: Tracer) -> None:  # HAR-44
    harness = with_tools(Probe(), permissions=Refusing("not on fridays"), tracer=tracer)
    answer = execute(harness, {"city": "Paris"})
    assert "not on fridays" in answer.text
    event = stopped(tracer, "denied")
    assert (event["tool"], event["params"], event["reason"]) == ("probe", {"city": "Paris"}, "not on fridays")
    assert event["decided_by"] == "permissions"


def test_an_allowed_tool_runs(tracer: Tracer) -> None:  # HAR-43
    tool = Probe()
    assert execute(with_tools(tool, permissions=ToolPermissions(allow=["probe"]), tracer=tracer)).status == "success"
    assert only(tracer, "tool_call")["decision"] == "allowed"


@pytest.mark.parametrize("error", [RuntimeError("db at 10.0.0.1"), KeyError("x"), RecursionError()])
def test_permissions_that_raise_refuse(error: Exception, tracer: Tracer) -> None:  # FR-61: fail closed
    tool = Probe()
    answer = execute(with_tools(tool, permissions=Refusing(error), tracer=tracer))
    assert answer.status == "error"
    assert tool.runs == []
    assert type(error).__name__ in stopped(tracer, "denied")["reason"]
    assert "10.0.0.1" not in answer.text


@pytest.mark.parametrize("signal", [RunLimitExceeded("no"), RunCancelled("no"), KeyboardInterrupt()])
def test_control_signals_of_the_gate_are_not_swallowed(signal: BaseException) -> None:  # HAR-60
    with pytest.raises(type(signal)):
        execute(with_tools(Probe(), permissions=Refusing(signal)))


def test_the_allow_list_judges_the_tool_the_model_named() -> None:  # PERM-03
    tool = Probe()
    assert execute(with_tools(tool, permissions=ToolPermissions(allow=[]))).status == "error"
    assert tool.runs == []
