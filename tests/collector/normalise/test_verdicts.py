"""Blocked attempts in every dialect that can express them, and nothing else taken for one (DEC-01)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spans import Read, read_span
from tracehold.observability.event_types import DENIALS

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.usage.input_tokens": 7}
LOGFIRE = {"logfire.msg_template": "Guardrail {name!r} {triggered=}", "name": "no_secrets"}
ADK = TOOL | {"gcp.vertex.agent.llm_request": "{}"}
CHECK = {"gen_ai.operation.name": "guardrail_check"}
WAITED = {"span.type": "claude_code.tool.blocked_on_user"}
AGENTCORE = "aws.agentcore.policy.authorization_decision"
THREAT = "agent.threat.detection."


def reject(text: str) -> str:
    return json.dumps({"error": text})


REJECTED, ASKED = "This tool call is rejected.", "This tool call requires confirmation, please approve or reject."

DENIED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str, str | None, str | None]] = {
    # attributes, other fields of the span, kind, decision, rule, decided by
    "ours": (TOOL | {"tracehold.decision": "denied", "tracehold.rule": "net"}, {}, "gate", "denied", "net", None),
    "a policy with its rule": (
        TOOL | {"policy.decision": "deny", "policy.rule": "no-pay"}, {}, "gate", "denied", "no-pay", None,
    ),
    "OpenAI Agents SDK by Logfire": (LOGFIRE | {"triggered": True}, {}, "guardrail", "tripped", None, "no_secrets"),
    "OpenAI Agents SDK by OpenTelemetry": (
        CHECK | {"gen_ai.guardrail.triggered": True, "gen_ai.guardrail.name": "pii"},
        {}, "guardrail", "tripped", None, "pii",
    ),
    "an OpenInference guardrail with an action": (
        {"openinference.span.kind": "GUARDRAIL", "gen_ai.guardrail.action": "deny", "gen_ai.guardrail.name": "tox"},
        {}, "guardrail", "tripped", None, "tox",
    ),
    "a Langfuse guardrail with an action": (
        {"langfuse.observation.type": "guardrail", "gen_ai.guardrail.action": "BLOCK"},
        {}, "guardrail", "tripped", None, None,
    ),
    "Bedrock Agents": (
        {"gen_ai.guardrails.action": "INTERVENED", "gen_ai.guardrails.name": "finance"},
        {}, "guardrail", "tripped", None, "finance",
    ),
    "Bedrock's ApplyGuardrail": (
        {"gen_ai.guardrail.action": "GUARDRAIL_INTERVENED"}, {}, "guardrail", "tripped", None, None,
    ),
    "Bedrock Converse": (
        CHAT | {"gen_ai.response.finish_reasons": ["guardrail_intervened"], "aws.bedrock.guardrail.id": "sgi5gkybzqak"},
        {}, "llm", "tripped", "sgi5gkybzqak", "openai",
    ),
    "OpenAI's content filter": (
        CHAT | {"gen_ai.response.finish_reasons": ["stop", "content_filter"]}, {}, "llm", "tripped", None, "openai",
    ),
    "finish reasons written as text": (
        CHAT | {"gen_ai.response.finish_reasons": '["content_filter"]'}, {}, "llm", "tripped", None, "openai",
    ),
    "Gemini, by ADK": (CHAT | {"gen_ai.response.finish_reasons": ["safety"]}, {}, "llm", "tripped", None, "openai"),
    "the AI SDK": (
        {"ai.operationId": "ai.generateText.doGenerate", "ai.response.finishReason": "content-filter"},
        {}, "llm", "tripped", None, None,
    ),
    "apply_guardrail": (
        {
            "gen_ai.operation.name": "apply_guardrail", "gen_ai.security.decision.type": "deny",
            "gen_ai.security.policy.id": "pol-3", "gen_ai.guardian.name": "Content Filter",
        },
        {}, "guardrail", "tripped", "pol-3", "Content Filter",
    ),
    "threat detection": (
        TOOL | {THREAT + "action": "block", THREAT + "rule_id": "ATR-2026-00440", THREAT + "ruleset": "atr@v2.2.1"},
        {}, "gate", "denied", "ATR-2026-00440", "atr@v2.2.1",
    ),
    "AgentCore's policy": (
        {AGENTCORE: "DENY", "aws.agentcore.policy.determining_policies": ["p-1", "p-2"]},
        {"name": "AgentCore.Policy.AuthorizeAction"}, "gate", "denied", "p-1,p-2", "AgentCore Policy",
    ),
    "ADK's tool confirmation": (
        ADK | {"gcp.vertex.agent.tool_response": reject(REJECTED)}, {"status_code": 1}, "gate", "rejected", None, None,
    ),
    "Strands, under an OK status": (
        TOOL | {"gen_ai.tool.status": "denied"}, {"status_code": 1}, "gate", "denied", None, None,
    ),
    "Claude Code, a person": (
        WAITED | {"decision": "reject", "source": "user_reject"}, {}, "approval", "rejected", None, "user_reject",
    ),
    "Claude Code, its settings": (
        WAITED | {"decision": "reject", "source": "config"}, {}, "approval", "denied", None, "config",
    ),
}  # fmt: skip

NOT_DENIED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str | None, str]] = {
    # attributes, other fields of the span, kind, decision, status
    "a decision of ours that is none": (TOOL | {"tracehold.decision": "no way"}, {}, "tool", None, "unset"),
    "a policy without a rule": (TOOL | {"policy.decision": "deny"}, {}, "tool", None, "unset"),
    "a guardrail that let it pass": (LOGFIRE | {"triggered": False}, {}, "guardrail", "allowed", "unset"),
    "a guardrail that says nothing": (LOGFIRE, {}, "guardrail", None, "unset"),
    "triggered on a span that is no guardrail": (TOOL | {"triggered": True}, {}, "tool", None, "unset"),
    "triggered as a word": (LOGFIRE | {"triggered": "yes"}, {}, "guardrail", None, "unset"),
    "OpenTelemetry's guardrail, not triggered": (
        {"gen_ai.operation.name": "guardrail_check", "gen_ai.guardrail.triggered": False},
        {}, "guardrail", "allowed", "unset",
    ),
    "an OpenInference guardrail whose output says BLOCKED": (
        {"openinference.span.kind": "GUARDRAIL", "output.value": "BLOCKED", "metadata.action": "block_and_log"},
        {}, "guardrail", None, "unset",
    ),
    "a Langfuse guardrail whose output says so": (
        {"langfuse.observation.type": "guardrail", "langfuse.observation.output": '{"blocked": true}'},
        {}, "guardrail", None, "unset",
    ),
    "Bedrock's NONE": ({"gen_ai.guardrails.action": "NONE"}, {}, "guardrail", "allowed", "unset"),
    "a guardrail action of another word": ({"gen_ai.guardrail.action": "flagged"}, {}, "other", None, "unset"),
    "a guardrail that is only attached": (CHAT | {"aws.bedrock.guardrail.id": "g"}, {}, "llm", None, "unset"),
    "a call that ended": (CHAT | {"gen_ai.response.finish_reasons": ["stop"]}, {}, "llm", None, "unset"),
    "a model that declined by itself": (
        CHAT | {"gen_ai.response.finish_reasons": ["refusal"]}, {}, "llm", None, "unset",
    ),
    "a finish reason on a tool": (
        TOOL | {"gen_ai.response.finish_reasons": ["content_filter"]}, {}, "tool", None, "unset",
    ),
    "a reply that talks of a content filter": (
        CHAT | {"gen_ai.output.messages": '[{"finish_reason": "content_filter"}]'}, {}, "llm", None, "unset",
    ),
    "a warning": (
        {"gen_ai.operation.name": "apply_guardrail", "gen_ai.security.decision.type": "warn"},
        {}, "guardrail", "allowed", "unset",
    ),
    "a threat that was let through": (TOOL | {THREAT + "action": "warn"}, {}, "tool", "allowed", "unset"),
    "a threat that is asked about": (TOOL | {THREAT + "action": "ask"}, {}, "tool", "suspended", "suspended"),
    "AgentCore's ALLOW": (
        {AGENTCORE: "ALLOW"}, {"name": "AgentCore.Policy.AuthorizeAction"}, "gate", "allowed", "unset",
    ),
    "AgentCore's DENY where it only logs": (
        {AGENTCORE: "DENY", "aws.agentcore.gateway.policy.mode": "LOG_ONLY"},
        {"name": "AgentCore.Policy.AuthorizeAction"}, "gate", "allowed", "unset",
    ),
    "the tool that AgentCore's gate has stopped": (
        {AGENTCORE: "DENY", "tool.name": "refund"}, {"name": "AgentCore.Gateway.InvokeTool"}, "gate", None, "unset",
    ),
    "the tool that AgentCore's gate let pass": (
        {AGENTCORE: "ALLOW", "tool.name": "refund"}, {"name": "AgentCore.Gateway.InvokeTool"}, "tool", None, "unset",
    ),
    "ADK waiting for a confirmation": (
        ADK | {"gcp.vertex.agent.tool_response": reject(ASKED)}, {}, "tool", "suspended", "suspended",
    ),
    "a tool that says it with more words": (
        ADK | {"gcp.vertex.agent.tool_response": json.dumps({"error": REJECTED, "code": 1})}, {}, "tool", None, "unset",
    ),
    "a tool's own error": (
        ADK | {"gcp.vertex.agent.tool_response": reject("permission denied")}, {}, "tool", None, "unset",
    ),
    "a Strands tool that failed": (TOOL | {"gen_ai.tool.status": "error"}, {"status_code": 1}, "tool", None, "error"),
    "a tool status on an agent": (
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.tool.status": "denied"}, {}, "agent", None, "unset",
    ),
    "Claude Code, accepted": (WAITED | {"decision": "accept", "source": "config"}, {}, "approval", "allowed", "unset"),
    "Claude Code, another word": (WAITED | {"decision": "maybe"}, {}, "approval", None, "unset"),
    "the same plain words on another's span": (
        TOOL | {"decision": "reject", "source": "config"}, {}, "tool", None, "unset",
    ),
    "LangGraph's interrupt": (
        {"openinference.span.kind": "CHAIN"},
        {"status_code": 2, "exception_type": "langgraph.errors.GraphInterrupt"}, "task", "suspended", "suspended",
    ),
    "Pydantic AI's deferred approval": (
        TOOL, {"status_code": 2, "exception_type": "pydantic_ai.exceptions.ApprovalRequired"},
        "tool", "suspended", "suspended",
    ),
    "an exception that is like it": (
        TOOL, {"status_code": 2, "exception_type": "my.NotAGraphInterruptError"}, "tool", None, "error",
    ),
    "a permission error of the tool": (
        TOOL, {"status_code": 2, "exception_type": "PermissionError"}, "tool", None, "error",
    ),
    "MCP's invalid arguments": (
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "pay", "rpc.response.status_code": "-32602"},
        {"status_code": 2}, "tool", None, "error",
    ),
    "MCP's tool error": (
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "pay", "error.type": "tool_error"},
        {"status_code": 2}, "tool", None, "error",
    ),
    "a status message that says denied": (
        TOOL, {"status_code": 2, "extra": {"status_message": "denied by policy"}}, "tool", None, "error",
    ),
    "arguments and results that say denied": (
        TOOL | {"gen_ai.tool.call.result": '{"decision": "denied", "rule": "x"}'}, {"status_code": 1},
        "tool", None, "ok",
    ),
    "the AI SDK's denied tool result inside a prompt": (
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": '[{"type":"tool-result","output":{"type":"execution-denied"}}]',
        },
        {}, "llm", None, "unset",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DENIED)
def test_a_blocked_attempt_is_one(name: str, read: Read) -> None:
    # DEC-01, FR-61
    attributes, fields, kind, decision, rule, decided_by = DENIED[name]
    record = read(attributes, **fields)
    assert decision in DENIALS
    assert (record.kind, record.status, record.decision) == (kind, "blocked", decision)
    assert (record.rule, record.decided_by) == (rule, decided_by)


@pytest.mark.parametrize("name", NOT_DENIED)
def test_anything_else_is_none(name: str, read: Read) -> None:
    # DEC-01
    attributes, fields, kind, decision, status = NOT_DENIED[name]
    record = read(attributes, **fields)
    assert (record.kind, record.decision, record.status) == (kind, decision, status)


def test_a_call_that_was_stopped_on_its_way_out_is_still_paid_for(read: Read) -> None:
    record = read(CHAT | {"gen_ai.response.finish_reasons": ["content_filter"]})
    assert (record.kind, record.input_tokens) == ("llm", 7)


def test_our_own_decision_comes_before_any_other(read: Read) -> None:
    record = read(LOGFIRE | {"triggered": True, "tracehold.decision": "allowed"})
    assert (record.decision, record.status) == ("allowed", "unset")


words = st.sampled_from(["deny", "denied", "blocked", "reject", "tripped", "DENY", "content_filter", REJECTED])
free = st.sampled_from(
    [
        "input.value", "output.value", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.result",
        "gen_ai.tool.call.arguments", "ai.toolCall.result", "ai.prompt.messages", "langfuse.observation.output",
        "exception.message", "mlflow.spanOutputs", "traceloop.entity.output", "reason", "message", "decision", "action",
        "status", "outcome", "result", "metadata",
    ]
)  # fmt: skip


@given(st.dictionaries(free, words | words.map(reject), max_size=6), st.sampled_from([{}, TOOL, CHAT, LOGFIRE]))
def test_no_text_makes_a_denial(said: dict[str, Any], base: dict[str, Any]) -> None:
    # DEC-01
    assert read_span(base | said).decision is None
