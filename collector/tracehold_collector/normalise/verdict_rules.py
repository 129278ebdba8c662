"""Which words of which attribute are a gate's decision (DEC-01), as data: the other half of the mapping table.

A rule names a field of `dialects.FIELD_KEYS` and lists the words that mean something; any other word is none, and is
kept as it came. No rule reads a text that a model, a tool or a person wrote: whoever can print "denied" must not be
able to make a denial, nor hide one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tracehold.observability.event_types import Kind


class VerdictRule(NamedTuple):
    """How one attribute says what a gate decided.

    Attributes:
        field: of `FIELD_KEYS`, which lists the attributes.
        words: a word, without case -> a decision of DEC-01. True and false are "true" and "false".
        kinds: the rule holds only on spans of these kinds; empty is any.
        becomes: our kind of a span that carries it, unless its dialect says one; `None` leaves it.
        ran: a model call or tool that was stopped on its way out did run, and was paid for: its kind stays.
        rule_from, by_from: fields that name the rule and who decided, the most trusted first.
        by: who decided when no field says.
        source: where the words are from.
    """

    field: str
    words: dict[str, str]
    source: str
    kinds: frozenset[str] = frozenset()
    becomes: Kind | None = None
    ran: bool = False
    rule_from: tuple[str, ...] = ()
    by_from: tuple[str, ...] = ()
    by: str = ""


_TRIGGERED: Final = {"true": "tripped", "false": "allowed"}

VERDICT_RULES: Final = (
    VerdictRule(
        field="guardrail_triggered",
        words=_TRIGGERED,
        becomes="guardrail",
        by_from=("guardrail_name",),
        source="opentelemetry-instrumentation-openai-agents-v2, span attributes of guardrails",
    ),
    VerdictRule(
        field="logfire_triggered",
        words=_TRIGGERED,
        kinds=frozenset({"guardrail"}),
        by_from=("logfire_name",),
        source="logfire/_internal/integrations/openai_agents.py, the template of GuardrailSpanData",
    ),
    VerdictRule(
        field="guardrail_action",
        words={
            "deny": "tripped",
            "denied": "tripped",
            "block": "tripped",
            "blocked": "tripped",
            "intervened": "tripped",
            "guardrail_intervened": "tripped",
            "allow": "allowed",
            "allowed": "allowed",
            "none": "allowed",
        },
        becomes="guardrail",
        by_from=("guardrail_name",),
        source="OpenLLMetry's Bedrock Agents instrumentation; Bedrock's GuardrailTrace and ApplyGuardrail",
    ),
    VerdictRule(
        field="security_decision",
        words={"deny": "tripped", "allow": "allowed", "warn": "allowed", "modify": "allowed", "audit": "allowed"},
        becomes="guardrail",
        rule_from=("security_policy",),
        by_from=("guardrail_name",),
        source="the span apply_guardrail proposed for the GenAI conventions; Microsoft's and Google's exporters",
    ),
    VerdictRule(
        field="threat_action",
        words={"block": "denied", "ask": "suspended", "allow": "allowed", "warn": "allowed"},
        rule_from=("threat_rule",),
        by_from=("threat_ruleset",),
        source="GenAI conventions, registry, agent.threat.detection.action",
    ),
    VerdictRule(
        field="finish_reason",
        words=dict.fromkeys(
            (
                "content_filter",
                "content-filter",
                "content_filtered",
                "guardrail_intervened",
                "safety",
                "image_safety",
                "blocklist",
                "prohibited_content",
                "spii",
                "model_armor",
            ),
            "tripped",
        ),
        kinds=frozenset({"llm"}),
        ran=True,
        rule_from=("bedrock_guardrail",),
        by_from=("provider",),
        source="finish reasons of OpenAI (content_filter), the AI SDK (content-filter), Bedrock Converse "
        "(content_filtered, guardrail_intervened) and Gemini (the others)",
    ),
)
"""The first rule with a word listed for it decides. Our own attributes, and a policy's, come before all of these."""

TOOL_STATUS_WORDS: Final = {"denied": "denied", "blocked": "denied", "rejected": "rejected", "cancelled": "cancelled"}
"""`gen_ai.tool.status` of a tool's span, which Strands sets beside an OK span status (strands/telemetry/tracer.py)."""

AGENTCORE_WORDS: Final = {"deny": "denied", "allow": "allowed"}
"""`aws.agentcore.policy.authorization_decision` (AWS, "AgentCore generated policy observability data")."""

AGENTCORE_GATE: Final = "AgentCore.Policy."
"""How the spans of the gate itself begin; the tool's span repeats the decision, and must not be a second denial."""

AGENTCORE_LOG_ONLY: Final = "log_only"
"""The mode in which a policy says deny and the call goes on all the same."""

CLAUDE_CODE_WAITS: Final = "claude_code.tool.blocked_on_user"
"""The span in which Claude Code asks; its words and who is no person are those of its events (`log_dialects`)."""

ADK_ANSWERS: Final = {
    "This tool call is rejected.": "rejected",
    "This tool call requires confirmation, please approve or reject.": "suspended",
}
"""What Google's ADK puts in the place of a tool's answer (google/adk/tools/function_tool.py), alone under `error`.

A tool could print the very same object; ADK has no other sign, and a rejected call would look like one that ran.
"""

WAITS: Final = frozenset({"GraphInterrupt", "NodeInterrupt", "ApprovalRequired", "CallDeferred"})
"""Exceptions that are no failure but a wait for a person: LangGraph's (langgraph/errors.py) and Pydantic AI's
(pydantic_ai/exceptions.py), by the last part of `exception.type`."""

MERGED_BY_ADK: Final = "(merged tools)"
"""The tool name of the span under which ADK puts the answers of parallel calls together: no call of its own."""
