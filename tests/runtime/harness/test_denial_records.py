"""Every denial is on record: by what, why, under which policy."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from harness_parts import (
    Model,
    Probe,
    Refusing,
    execute,
    in_run,
    of,
    registry,
    run,
    soon,
    stopped,
    with_tools,
)
from tracehold import Tracer
from tracehold.core.errors import RunLimitExceeded
from tracehold.execution import RunPolicy
from tracehold.governance.permissions import ToolPermissions, Verdict
from tracehold.governance.policy_file import parse_policy
from tracehold.harness import Harness

NO_ETC = {
    "version": 1,
    "default": "allow",
    "rules": [
        {
            "id": "no-etc",
            "effect": "deny",
            "tools": ["probe"],
            "when": [{"argument": "city", "op": "starts_with", "value": "/etc"}],
            "reason": "paths below /etc",
        }
    ],
}


def test_five_ways_to_be_denied_leave_five_records() -> None:  # FR-61
    tracer, tool = Tracer(), Probe(confirm=True)
    released = threading.Event()

    def slow(*_: Any) -> bool:
        return released.wait(20)

    async def all_five() -> str:
        options: dict[str, Any] = {"tracer": tracer}
        arguments = {"city": "/etc/shadow", "password": "hunter2" + "Xy9"}
        with in_run(RunPolicy(max_tool_calls=1)) as run_id:
            gates = [
                {"permissions": ToolPermissions(allow=["another"])},
                {"permissions": parse_policy(NO_ETC)},
                {"permissions": Refusing(OSError("the policy server is away"))},
                {"confirm": slow, "confirm_timeout_s": 0.05},
            ]
            for gate in gates:
                answer = await soon(with_tools(tool, **options, **gate).aexec_tool("probe", arguments))
                assert answer.status == "error"
            released.set()
            await with_tools(Probe("fine")).aexec_tool("fine", {})
            with pytest.raises(RunLimitExceeded):
                await with_tools(tool, **options).aexec_tool("probe", arguments)
            return run_id

    run_id = run(all_five())
    events = of(tracer, "tool_call")
    assert tool.runs == []
    assert [event["status"] for event in events] == ["denied", "denied", "denied", "unconfirmed", "limited"]
    for event in events:
        assert (event["tool"], event["run_id"]) == ("probe", run_id)
        assert event["reason"]
        assert event["decided_by"]
        assert event["params"]["password"] == "***"
        assert "latency_ms" not in event
        assert "result" not in event
    assert [events[n]["rule"] for n in (0, 1, 4)] == ["unlisted", "no-etc", "max_tool_calls"]
    assert events[1]["reason"] == "paths below /etc"
    assert "OSError" in events[2]["reason"]
    assert events[3]["reason"].startswith("timeout")


POLICY = "sha256:" + "a" * 64


class PathRule:
    """Judges by an argument: `decide` sees the parameters, `denial_reason` does not."""

    def denial_reason(self, tool: Any) -> str | None:
        return None

    def decide(self, tool: Any, parameters: Any) -> Verdict:
        if str(parameters.get("city", "")).startswith("/etc"):
            return Verdict(allowed=False, rule="no-etc", reason="paths below /etc", policy_digest=POLICY)
        return Verdict(allowed=True, rule="else", policy_digest=POLICY)


def test_a_verdict_gives_rule_reason_and_policy(tracer: Tracer) -> None:  # PERM-01, DEC-01
    tool = Probe()
    harness = with_tools(tool, permissions=PathRule(), tracer=tracer)
    execute(harness, {"city": "/etc/passwd"})
    event = stopped(tracer, "denied")
    assert (event["rule"], event["reason"]) == ("no-etc", "paths below /etc")
    assert event["policy_digest"] == POLICY
    assert execute(harness, {"city": "Paris"}).status == "success"
    assert tool.runs == [{"city": "Paris"}]


def test_the_record_names_the_rule_and_the_lists_of_tool_permissions(tracer: Tracer) -> None:  # PERM-02, DEC-01
    permissions = ToolPermissions(deny=["probe"])
    execute(with_tools(Probe(), permissions=permissions, tracer=tracer))
    event = stopped(tracer, "denied")
    assert event["rule"] == "deny:probe"
    assert event["policy_digest"] == permissions.policy_digest


@pytest.mark.parametrize("answer", [True, False, None, "allowed", {"allowed": True}])
def test_an_answer_that_is_no_verdict_refuses(answer: Any, tracer: Tracer) -> None:  # FR-61: fail closed
    class Confused(PathRule):
        def decide(self, tool: Any, parameters: Any) -> Any:
            return answer

    tool = Probe()
    assert execute(with_tools(tool, permissions=Confused(), tracer=tracer)).status == "error"
    assert tool.runs == []
    stopped(tracer, "denied")


def test_decide_is_given_the_registered_tool() -> None:  # HAR-43
    seen: list[Any] = []

    class Judge(PathRule):
        def decide(self, tool: Any, parameters: Any) -> Any:
            seen.append((tool, parameters))
            return super().decide(tool, parameters)

    tool = Probe()
    harness = with_tools(tool, permissions=Judge())
    execute(harness, {"city": "Rome"})
    execute(harness, {"city": "Rome"}, name="ghost")
    assert seen == [(tool, {"city": "Rome"}), ("ghost", {"city": "Rome"})]


def test_a_registry_of_many_tools_runs_the_one_that_was_named() -> None:  # HAR-43
    tools = [Probe("a"), Probe("b"), Probe("c")]
    run(Harness(Model(), tool_registry=registry(*tools)).aexec_tool("b", {}))
    assert [len(tool.runs) for tool in tools] == [0, 1, 0]
