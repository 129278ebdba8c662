"""What single dialects say beyond the table of fields: decisions of their gates, and fields in forms of their own.

Asked only about spans that carry one of `MARKS` or an exception, so that all others pay one set operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from tracehold.observability.event_types import Kind, Status

from tracehold_collector.normalise.classify import Classified
from tracehold_collector.normalise.dialects import CLAUDE_CODE_FIELDS, MLFLOW_FIELDS, MLFLOW_USAGE
from tracehold_collector.normalise.log_dialects import CLAUDE_CODE
from tracehold_collector.normalise.span_item import SpanItem
from tracehold_collector.normalise.usage import tokens
from tracehold_collector.normalise.verdict_rules import (
    ADK_ANSWERS,
    AGENTCORE_GATE,
    AGENTCORE_LOG_ONLY,
    AGENTCORE_WORDS,
    CLAUDE_CODE_WAITS,
    MERGED_BY_ADK,
    TOOL_STATUS_WORDS,
    VERDICT_RULES,
    WAITS,
)

CACHE_APART: Final = "cache_apart"
"""A field that no attribute fills: the dialect counts cache tokens beside the input."""

WRAPS_A_CALL: Final = "call_llm"
"""The type of ADK's span around a model call, which newer versions trace a second time below it."""

TOLD_BY_EVENTS: Final = {"claude_code.llm_request": "claude_code.api_request"}
"""Types of model-call spans -> the log event of the same program that tells the same call once more, if it is sent."""

_DIALECTS: Final = ("mcp_method", "span_type", "mlflow", "adk_request", "adk_response", "reasoning_beside")
MARKS: Final = frozenset(
    {*_DIALECTS, "status", "agentcore_decision", *(rule.field for rule in VERDICT_RULES)} - {"finish_reason"}
)
"""Fields that make a span worth a second look; a finish reason is looked at by `ends_plainly`."""

_PLAIN_ENDS: Final = frozenset(
    {"stop", "STOP", "length", "end_turn", "max_tokens", "tool_calls", "tool-calls", "tool_use", "function_call"}
)
_SERVER: Final = 2
_ERROR: Final = 2
_MAX_WORD: Final = 256


def ends_plainly(reason: object) -> bool:
    """Whether a finish reason is surely no gate's: nearly all are, and this is asked of every model call."""
    if type(reason) is list and len(reason) == 1:
        reason = reason[0]
    return type(reason) is str and reason in _PLAIN_ENDS


@dataclass(slots=True)
class Verdict:
    """What was found; `None` and empty leave what the table says.

    Attributes:
        kind, type: of the span.
        status: of the span, when it is neither an error nor a denial.
        decision, rule, decided_by: of a gate (DEC-01); the last two raw.
        ran: what the gate stopped did run all the same; it is no `gate`.
    """

    kind: Kind | None = None
    type: str = ""
    status: Status | None = None
    decision: str | None = None
    rule: Any = None
    decided_by: Any = None
    ran: bool = False


def look_again(span: SpanItem, fields: dict[str, Any], classified: Classified, decision: str | None) -> Verdict | None:
    """Return what the span's dialect says beyond the table, or `None` for nothing.

    Args:
        span: as it came.
        fields: as `classify.fields_of` gives them; fields in a dialect's own form are added.
        classified: its kind by the table.
        decision: what our own attributes, or a policy's, say: then no other is looked for.
    """
    found = Verdict()
    for mark in _DIALECTS:
        if mark in fields:
            _READERS[mark](span, fields, found)
    if decision is None and found.decision is None:
        _decide(span, fields, found.kind or classified.kind, found)
    return found if found != _NOTHING else None


_NOTHING: Final = Verdict()


def _decide(span: SpanItem, fields: Mapping[str, Any], kind: str, found: Verdict) -> None:
    if "agentcore_decision" in fields:
        return _agentcore(span, fields, found)
    for rule in VERDICT_RULES:
        if rule.field not in fields or (rule.kinds and kind not in rule.kinds):
            continue
        decision = next((rule.words[word] for word in _words(fields[rule.field]) if word in rule.words), None)
        if decision is None:
            continue
        found.decision, found.ran = decision, rule.ran
        found.rule = _first(fields, rule.rule_from)
        found.decided_by = _first(fields, rule.by_from) or rule.by
        if rule.becomes and kind == "other":
            found.kind = rule.becomes
        if decision == "suspended":
            found.status = "suspended"
        return None
    if "status" in fields and kind == "tool":
        word = span.attributes.get("gen_ai.tool.status")
        found.decision = TOOL_STATUS_WORDS.get(word.lower()) if isinstance(word, str) else None
    if span.exception_type is not None and _is_wait(span.exception_type):
        found.decision, found.status = "suspended", "suspended"
    return None


def _words(value: Any) -> list[str]:
    if value is True or value is False:
        return ["true" if value else "false"]
    if isinstance(value, str):
        # Some senders write a list of one as its text.
        value = _json(value) if value.startswith("[") else [value]
    return [word.lower() for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _is_wait(exception_type: Any) -> bool:
    return isinstance(exception_type, str) and exception_type.rpartition(".")[2] in WAITS


def _agentcore(span: SpanItem, fields: Mapping[str, Any], found: Verdict) -> None:
    word = fields["agentcore_decision"]
    decision = AGENTCORE_WORDS.get(word.lower()) if isinstance(word, str) else None
    if decision is None:
        return
    mode = fields.get("agentcore_mode")
    if isinstance(mode, str) and mode.lower() == AGENTCORE_LOG_ONLY:
        decision = "allowed"
    if span.name.startswith(AGENTCORE_GATE):
        found.kind, found.decision = "gate", decision
        found.rule, found.decided_by = _joined(fields.get("agentcore_policies")), "AgentCore Policy"
    elif "tool" in fields:
        # The gate's own span is the denial: this one is neither a second one nor a call that ran.
        found.kind = "gate" if decision == "denied" else "tool"


def _mcp(span: SpanItem, fields: dict[str, Any], found: Verdict) -> None:
    """A server's span is the same call seen from the other side, unless nobody saw it from this one."""
    server = span.extra.get("span_kind") == _SERVER
    if server and span.parent_span_id is not None and fields["mcp_method"] == "tools/call":
        found.kind = "task"


def _claude_code(span: SpanItem, fields: dict[str, Any], found: Verdict) -> None:
    of_type = fields["span_type"]
    if not isinstance(of_type, str) or not of_type.startswith(CLAUDE_CODE.prefix):
        return
    attributes = span.attributes
    for field, key in CLAUDE_CODE_FIELDS.items():
        value = attributes.get(key)
        if field not in fields and value is not None and value != "":
            fields[field] = value
    fields[CACHE_APART] = True
    if of_type != CLAUDE_CODE_WAITS:
        return
    word, source = attributes.get("decision"), attributes.get("source")
    decision = CLAUDE_CODE.decisions.get(word.lower()) if isinstance(word, str) else None
    if decision == "rejected" and isinstance(source, str) and source.lower() in CLAUDE_CODE.policies:
        decision = "denied"
    found.decision, found.decided_by = decision, source


def _mlflow(span: SpanItem, fields: dict[str, Any], found: Verdict) -> None:
    attributes = span.attributes
    found.type = _unquoted(fields["mlflow"])
    for field, key in MLFLOW_FIELDS.items():
        if field not in fields and key in attributes:
            fields[field] = _unquoted(attributes[key])
    usage = _json(attributes.get("mlflow.chat.tokenUsage"))
    if isinstance(usage, dict):
        for field, key in MLFLOW_USAGE.items():
            if key in usage:
                fields.setdefault(field, usage[key])
    cost = _json(attributes.get("mlflow.llm.cost"))
    if isinstance(cost, dict) and "total_cost" in cost:
        fields.setdefault("cost_usd", cost["total_cost"])


def _adk_call(span: SpanItem, fields: dict[str, Any], found: Verdict) -> None:
    """ADK names no operation on the span of a model call; on others this attribute is an empty object."""
    if "gen_ai.operation.name" in span.attributes or fields["adk_request"] in ("{}", {}):
        return
    if "model" in fields:
        found.kind, found.type = "llm", WRAPS_A_CALL


def _adk_answer(span: SpanItem, fields: dict[str, Any], found: Verdict) -> None:
    if fields.get("tool") == MERGED_BY_ADK:
        found.kind = "task"
        return
    answer = _json(fields["adk_response"])
    if span.status_code != _ERROR and isinstance(answer, dict) and answer.keys() == {"error"}:
        error = answer["error"]
        found.decision = ADK_ANSWERS.get(error) if isinstance(error, str) else None
        if found.decision == "suspended":
            found.status = "suspended"


def _adk_reasoning(_span: SpanItem, fields: dict[str, Any], _found: Verdict) -> None:
    """Gemini counts thoughts beside the answer's tokens, and ADK passes both on as they are."""
    thoughts, made = tokens(fields["reasoning_beside"]), tokens(fields.get("output_tokens"))
    if thoughts is not None and "reasoning_tokens" not in fields:
        fields["reasoning_tokens"] = thoughts
        if made is not None:
            fields["output_tokens"] = made + thoughts


_READERS: Final = {
    "mcp_method": _mcp,
    "span_type": _claude_code,
    "mlflow": _mlflow,
    "adk_request": _adk_call,
    "adk_response": _adk_answer,
    "reasoning_beside": _adk_reasoning,
}


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _joined(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("["):
        value = _json(value)
    return ",".join(str(item) for item in value) if isinstance(value, list) else value


def _unquoted(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= _MAX_WORD and value.startswith('"'):
        return _json(value)
    return value


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
