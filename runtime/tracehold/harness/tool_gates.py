"""The gates a tool call passes before it may run, in their order (HAR-40).

    limit      may this run make a call at all          -> RunLimitExceeded, RunCancelled
    permission may this agent call this tool            -> denied
    registry   is there such a tool, do arguments fit   -> unknown_tool, invalid_args
    approval   has a person said yes                    -> rejected, expired, unconfirmed, or ApprovalRequired

A gate that fails itself refuses: nothing is let through because its guard broke (FR-61).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracehold.core.clock import now_ns
from tracehold.core.control import STEERING
from tracehold.core.copying import copy_json
from tracehold.core.errors import CanonicalJsonError
from tracehold.governance.approvals import bind
from tracehold.governance.confirm import ask, name_of
from tracehold.governance.decisions import behind
from tracehold.governance.hitl import ApprovalRequired, PendingAction
from tracehold.governance.permissions import Permissions, judge
from tracehold.harness.services import Services
from tracehold.tools.base import Tool
from tracehold.tools.confirmation import needs_confirmation
from tracehold.tools.registry import Refusal


class Stopped(Exception):  # noqa: N818 - a verdict on its way to one place, not a failure
    """A gate said no.

    Attributes:
        decision: one of DEC-01's words.
        reason: why, for the record and the model.
        decided_by: the gate or person behind it.
        rule: the rule behind it, where the gate has rules.
        fields: what else the record should say.
    """

    def __init__(
        self, decision: str, reason: str, decided_by: str, rule: str | None = None, fields: dict[str, Any] | None = None
    ) -> None:
        super().__init__(decision)
        self.decision = decision
        self.reason = reason
        self.decided_by = decided_by
        self.rule = rule
        self.fields = fields or {}


@dataclass(slots=True)
class Passed:
    """All gates let the call through.

    Attributes:
        tool: what to run.
        fields: what the record says about who allowed it.
        waited: whether a person was asked, so that the limits may have changed meanwhile.
    """

    tool: Tool
    fields: dict[str, Any]
    waited: bool = False


async def pass_gates(
    services: Services,
    name: str,
    parameters: dict[str, Any],
    call_id: str | None,
    decisions: Mapping[str, Any] | None,
) -> Passed:
    """Take a call through permission, registry and approval.

    Raises:
        Stopped: a gate said no.
        ApprovalRequired: a person must decide first (HAR-46).
    """
    registry = services.tools
    tool = registry.get(name) if registry is not None else None
    fields = permit(services.permissions, tool if tool is not None else name, parameters)
    if registry is None:
        raise Stopped("unknown_tool", "this agent has no tools", "harness")
    checked: Any = registry.check(name, parameters)
    if isinstance(checked, Refusal):
        raise Stopped(checked.decision, checked.text, "registry")
    if id(checked) != id(tool):
        fields = permit(services.permissions, checked, parameters)  # replaced meanwhile: judge what would run
    if not _asks(checked, parameters):
        return Passed(checked, fields)
    if decisions is not None:
        approved = _approved(services, name, parameters, call_id, decisions)
        return Passed(checked, _by_person(fields, approved))
    return Passed(checked, _by_person(fields, await _confirmed(services, checked, parameters)), waited=True)


def _by_person(permitted: dict[str, Any], approved: dict[str, Any]) -> dict[str, Any]:
    """Return what the record says when a person had the last word: theirs, and the policy that was in force."""
    return {key: value for key, value in permitted.items() if key == "policy_digest"} | approved


def permit(permissions: Permissions | None, tool: Tool | str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what a record says about an allowed call; raise `Stopped` for a denied one (HAR-43, HAR-44)."""
    if permissions is None:
        return {}
    try:
        verdict = judge(permissions, tool, copy_json(parameters))
    except STEERING:
        raise
    except Exception as error:
        raise Stopped("denied", _broke("the permission gate", error), "permissions", "gate_error") from error
    policy = {} if verdict.policy_digest is None else {"policy_digest": verdict.policy_digest}
    if verdict.allowed is not True:
        raise Stopped("denied", verdict.reason or "it is not permitted", "permissions", verdict.rule, policy)
    return {"decision": "allowed", "decided_by": "permissions", "rule": verdict.rule, **policy}


def _asks(tool: Tool, parameters: dict[str, Any]) -> bool:
    try:
        return needs_confirmation(tool, parameters)
    except STEERING:
        raise
    except Exception as error:
        raise Stopped("denied", _broke("needs_confirmation", error), "harness", "gate_error") from error


def _approved(
    services: Services,
    name: str,
    parameters: dict[str, Any],
    call_id: str | None,
    decisions: Mapping[str, Any],
) -> dict[str, Any]:
    """Look the call up in the decision table (HAR-45 to HAR-50)."""
    if call_id is None:
        raise ValueError(f"tool {name} needs approval, and approval mode needs a call_id to look the decision up by")
    who = behind(decisions, call_id)
    decided_by = who.decided_by or "approval"
    decision = decisions.get(call_id)
    if who.expired:
        late = "nobody approved it in time" if decision is None else "the approval came after it had expired"
        raise Stopped("expired", late, decided_by)
    if decision is True:
        return {"decision": "allowed", "decided_by": decided_by}
    if decision is False:
        raise Stopped("rejected", who.reason or "a person rejected this call", decided_by)
    raise ApprovalRequired(_pending(name, parameters, call_id, services.approval_ttl_s))


def _pending(name: str, parameters: dict[str, Any], call_id: str, ttl_s: float | None) -> PendingAction:
    """Return the action that waits, bound to its arguments (DEC-02); arguments that cannot be bound are refused."""
    try:
        return bind(name, parameters, call_id, now_ns=now_ns(), ttl_s=ttl_s)
    except CanonicalJsonError as error:
        raise Stopped("invalid_args", f"an approval cannot be bound to these arguments: {error}", "harness") from error


async def _confirmed(services: Services, tool: Tool, parameters: dict[str, Any]) -> dict[str, Any]:
    """Ask the confirm callback (HAR-52 to HAR-54)."""
    confirm = services.confirm
    if confirm is None:
        raise Stopped("unconfirmed", "it needs confirmation, and there is nobody to ask", "harness")
    decided_by = name_of(confirm)
    try:
        answer = await ask(confirm, tool, copy_json(parameters), services.confirm_timeout_s)
    except STEERING:
        raise
    except TimeoutError as error:
        raise Stopped("unconfirmed", "timeout", decided_by, "confirm_timeout") from error
    except Exception as error:
        raise Stopped("unconfirmed", _broke("the confirm callback", error), decided_by, "gate_error") from error
    if not answer:
        raise Stopped("unconfirmed", "it was not confirmed", decided_by)
    return {"decision": "allowed", "decided_by": decided_by}


def _broke(gate: str, error: BaseException) -> str:
    # Only the type: a gate's error text is for the application's own log.
    return f"{gate} failed with {type(error).__name__}, and a gate that fails refuses"
