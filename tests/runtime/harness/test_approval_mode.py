"""Approval mode: a table of decisions stands between a risky tool and its run."""

from __future__ import annotations

from typing import Any

import pytest
from harness_parts import (
    HookLog,
    Probe,
    execute,
    in_run,
    of,
    only,
    run,
    stopped,
    with_tools,
    yes,
)
from tracehold import Tracer
from tracehold.execution import RunPolicy
from tracehold.governance.decisions import Behind, Decisions
from tracehold.governance.hitl import ApprovalRequired
from tracehold.observability.event_types import DENIALS


@pytest.mark.parametrize("decisions", [{}, {"other": True}, {"c2": False}])
def test_without_a_decision_the_call_is_suspended(decisions: Any, tracer: Tracer) -> None:  # HAR-45, HAR-46, DEC-01
    tool, hook = Probe(confirm=True), HookLog()
    harness = with_tools(tool, confirm=yes, tracer=tracer, hooks=[hook])
    with pytest.raises(ApprovalRequired) as raised:
        execute(harness, {"city": "Paris"}, call_id="c1", decisions=decisions)
    pending = raised.value.pending
    assert (pending.tool_name, pending.arguments, pending.call_id) == ("probe", {"city": "Paris"}, "c1")
    assert tool.runs == hook.fired == []
    (event,) = tracer.events
    assert (event["type"], event["decision"]) == ("approval_request", "suspended")
    assert (event["tool"], event["params"], event["call_id"]) == ("probe", {"city": "Paris"}, "c1")
    assert event["digest"]
    assert event["digest"] == pending.digest


def test_the_digest_is_of_the_tool_and_its_arguments() -> None:  # DEC-02
    def digest(name: str, parameters: dict[str, Any]) -> Any:
        with pytest.raises(ApprovalRequired) as raised:
            execute(with_tools(Probe(name, confirm=True)), parameters, name=name, call_id="c", decisions={})
        return raised.value.pending.digest

    first = digest("pay", {"to": "a", "sum": 1})
    assert first == digest("pay", {"sum": 1, "to": "a"})
    assert first != digest("pay", {"to": "a", "sum": 2})
    assert first != digest("send", {"to": "a", "sum": 1})


def test_a_pending_call_keeps_its_own_copy_of_the_arguments() -> None:  # DEC-02: what is approved is what was asked
    parameters = {"to": ["a"]}
    with pytest.raises(ApprovalRequired) as raised:
        execute(with_tools(Probe(confirm=True)), parameters, call_id="c", decisions={})
    parameters["to"].append("mallory")
    assert raised.value.pending.arguments == {"to": ["a"]}


def test_a_suspended_call_does_not_count() -> None:  # HAR-57
    async def count() -> None:
        with in_run(RunPolicy(max_tool_calls=1)):
            harness = with_tools(Probe(confirm=True))
            for _ in range(3):
                with pytest.raises(ApprovalRequired):
                    await harness.aexec_tool("probe", {}, call_id="c", decisions={})
            assert (await harness.aexec_tool("probe", {}, call_id="c", decisions={"c": True})).text == "done"

    run(count())


def test_a_rejected_call_is_an_error_response(tracer: Tracer) -> None:  # HAR-47, HAR-58
    tool, hook = Probe(confirm=True), HookLog()
    answer = execute(with_tools(tool, confirm=yes, tracer=tracer, hooks=[hook]), call_id="c1", decisions={"c1": False})
    assert answer.status == "error"
    assert tool.runs == hook.fired == []
    event = stopped(tracer, "rejected")
    assert event["decided_by"] == "approval"
    assert event["call_id"] == "c1"


def test_an_approved_call_runs_and_nobody_is_asked_again(tracer: Tracer) -> None:  # HAR-48, DEC-02
    tool, asked = Probe(confirm=True), []
    harness = with_tools(tool, confirm=lambda *given: asked.append(given) or False, tracer=tracer)
    assert execute(harness, call_id="c1", decisions={"c1": True}).status == "success"
    assert len(tool.runs) == 1
    assert asked == []
    event = only(tracer, "tool_call")
    assert (event["decision"], event["decided_by"]) == ("allowed", "approval")


def test_the_record_says_who_approved_or_rejected(tracer: Tracer) -> None:  # DEC-02, DEC-01
    harness = with_tools(Probe(confirm=True), tracer=tracer)
    for word in (True, False):
        table = Decisions({"c1": word}, decided_by="user:maria", reason="seen and weighed")
        execute(harness, call_id="c1", decisions=table)
    approved, rejected = of(tracer, "tool_call")
    assert (approved["decision"], approved["decided_by"]) == ("allowed", "user:maria")
    assert (rejected["decision"], rejected["decided_by"]) == ("rejected", "user:maria")
    assert rejected["reason"] == "seen and weighed"


def test_an_expired_approval_refuses(tracer: Tracer) -> None:  # DEC-02
    tool = Probe(confirm=True)
    decisions = Decisions({"c1": True}, decided_by="user:maria")
    decisions.behind["c1"] = Behind("user:maria", expired=True)
    answer = execute(with_tools(tool, tracer=tracer), call_id="c1", decisions=decisions)
    assert answer.status == "error"
    assert tool.runs == []
    assert stopped(tracer, "expired")["decided_by"] == "user:maria"


@pytest.mark.parametrize("value", [1, 0, "true", "yes", "", None, [True], 1.0])
def test_only_booleans_are_decisions(value: Any) -> None:  # HAR-49
    tool = Probe(confirm=True)
    with pytest.raises(ApprovalRequired):
        execute(with_tools(tool, confirm=yes), call_id="c1", decisions={"c1": value})
    assert tool.runs == []


def test_approval_needs_a_call_id() -> None:  # HAR-50
    tool = Probe(confirm=True)
    with pytest.raises(ValueError, match="call_id"):
        execute(with_tools(tool), decisions={})
    with pytest.raises(ValueError, match="call_id"):
        execute(with_tools(tool), decisions={None: True})
    assert tool.runs == []


@pytest.mark.parametrize("decisions", [{}, {"c1": False}])
def test_a_harmless_tool_needs_no_decision(decisions: Any) -> None:  # HAR-51
    tool = Probe()
    assert execute(with_tools(tool), call_id="c1", decisions=decisions).status == "success"
    assert execute(with_tools(tool), decisions=decisions).status == "success"


def test_a_tool_may_decide_per_call_whether_to_ask(tracer: Tracer) -> None:  # HAR-51, HAR-52, REG-02
    class Careful(Probe):
        def needs_confirmation(self, parameters: dict[str, Any]) -> bool:
            return parameters.get("city") == "Paris"

    tool = Careful()
    harness = with_tools(tool, tracer=tracer)
    assert execute(harness, {"city": "Rome"}).status == "success"
    assert execute(harness, {"city": "Paris"}).status == "error"
    with pytest.raises(ApprovalRequired):
        execute(harness, {"city": "Paris"}, call_id="c", decisions={})
    assert tool.runs == [{"city": "Rome"}]


def test_a_tool_that_cannot_say_whether_to_ask_is_refused(tracer: Tracer) -> None:  # REG-02: fail closed
    class Broken(Probe):
        def needs_confirmation(self, parameters: dict[str, Any]) -> bool:
            raise LookupError("no idea")

    tool = Broken()
    assert execute(with_tools(tool, confirm=yes, tracer=tracer)).status == "error"
    assert tool.runs == []
    assert len(tracer.events) == 1
    assert tracer.events[0]["decision"] in DENIALS
