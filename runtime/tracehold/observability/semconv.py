"""Our words in OpenTelemetry's: one table of GenAI attributes, one of operations, one of our own attributes.

The GenAI conventions left the main OpenTelemetry registry; the installed package still names them, marked as
moved. `release` tells where the name as written here was last checked: "1.41" is the last release of the main
registry that described it, "genai-0.1.0" the first release of the conventions' own. All are at stability
"development".

Facts are our own names for what an event says, whatever carried it: a Tracer event here, a stored record in
the collector. Both sides go through `genai_shape`, so that a run reads alike whichever way it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from tracehold.core.jsontext import dumps
from tracehold.observability.event_types import DECISIONS, DENIALS

GENAI_VERSION: Final = "0.1.0"
"""Release of the OpenTelemetry GenAI semantic conventions that the names follow."""

SpanKind = Literal["client", "internal"]


class Attribute(NamedTuple):
    """One attribute on the wire.

    Attributes:
        name: what it is called there.
        fact: our word for the value.
        release: the release it comes from, see the module's text.
        kinds: event kinds that carry it; empty means all.
    """

    name: str
    fact: str
    release: str
    kinds: frozenset[str] = frozenset()


_LLM: Final = frozenset({"llm"})
_AGENT: Final = frozenset({"run", "agent"})
_TOOL: Final = frozenset({"tool"})
_SPENDING: Final = _LLM | _AGENT

GENAI_ATTRIBUTES: Final = (
    Attribute("gen_ai.provider.name", "provider", "1.41"),
    Attribute("gen_ai.conversation.id", "session", "1.41"),
    Attribute("gen_ai.agent.name", "agent", "1.41"),
    Attribute("gen_ai.request.model", "model", "1.41", _SPENDING),
    Attribute("gen_ai.response.model", "response_model", "1.41", _LLM),
    Attribute("gen_ai.response.id", "response_id", "1.41", _LLM),
    Attribute("gen_ai.request.stream", "streamed", "1.41", _LLM),
    Attribute("gen_ai.usage.input_tokens", "input_tokens", "1.41", _SPENDING),
    Attribute("gen_ai.usage.output_tokens", "output_tokens", "1.41", _SPENDING),
    Attribute("gen_ai.usage.cache_read.input_tokens", "cached_tokens", "1.41", _SPENDING),
    Attribute("gen_ai.usage.cache_write.input_tokens", "cache_write_tokens", "genai-0.1.0", _SPENDING),
    Attribute("gen_ai.usage.reasoning.output_tokens", "reasoning_tokens", "1.41", _SPENDING),
    Attribute("gen_ai.tool.name", "tool", "1.41", _TOOL),
    Attribute("gen_ai.tool.call.id", "call_id", "1.41", _TOOL),
    Attribute("gen_ai.tool.call.arguments", "arguments", "1.41", _TOOL),
    Attribute("gen_ai.tool.call.result", "result", "1.41", _TOOL),
)
"""Facts that travel as they are. `gen_ai.operation.name`, `gen_ai.response.finish_reasons` and `error.type`
are computed and stand in the code below."""


class Operation(NamedTuple):
    """What the conventions call an event of a kind.

    Attributes:
        name: `gen_ai.operation.name`, the first word of the span's name.
        subject: the fact that is the second word, when it is known.
        span_kind: "client" where the conventions expect another process to do the work.
    """

    name: str
    subject: str | None
    span_kind: SpanKind


OPERATIONS: Final[Mapping[str, Operation]] = {
    "llm": Operation("chat", "model", "client"),
    "tool": Operation("execute_tool", "tool", "internal"),
    "run": Operation("invoke_agent", "agent", "internal"),
    "agent": Operation("invoke_agent", "agent", "internal"),
    "retrieval": Operation("retrieval", None, "client"),
    "memory": Operation("search_memory", None, "internal"),
}
"""Kinds that are a GenAI operation. A gate is none: what it stopped was never executed (FR-61). Its tool is told
by an attribute of ours, since backends take any span with a `gen_ai.tool.name` for an execution."""

EVENT_ID: Final = "tracehold.event_id"
RUN_ID: Final = "tracehold.run_id"
"""Together they let a collector store an event once that reaches it natively and by OTLP (DEC-17)."""

OWN_ATTRIBUTES: Final = (
    ("tracehold.kind", "kind"),
    ("tracehold.type", "type"),
    ("tracehold.status", "status"),
    ("tracehold.decision", "decision"),
    ("tracehold.decided_by", "decided_by"),
    ("tracehold.rule", "rule"),
    ("tracehold.tool", "gated_tool"),
    ("tracehold.cost_usd", "cost_usd"),
    ("tracehold.seq", "seq"),
    (EVENT_ID, "event_id"),
    (RUN_ID, "run_id"),
)
"""What no convention has a word for, under our own prefix (DEC-16), with the fact it carries."""

KIND_OF_TYPE: Final[Mapping[str, str]] = {
    "llm_call": "llm",
    "tool_call": "tool",
    "run_start": "run",
    "run_end": "run",
    "run_error": "run",
    "run_suspend": "run",
    "context_block": "context",
    "context_reduce": "context",
    "context_compact": "context",
    "summarize_failed": "context",
    "memory_search": "memory",
    "rag_retrieve": "retrieval",
    "rag_query_transform_failed": "retrieval",
    "rag_contextualize_failed": "retrieval",
    "index_sync_pending": "session",
    "index_sync_reconcile": "session",
    "guardrail_trip": "guardrail",
    "approval_request": "approval",
    "approval_decision": "approval",
    "policy_changed": "gate",
}
"""The kind of each Tracer event type; any other is kind "other" unless the event says its kind itself."""

GATES: Final = frozenset({"gate", "approval"})
"""Kinds that decide about a tool without running it."""

_GATED: Final = frozenset({"llm_call", "tool_call", "approval_decision", "guardrail_trip"})
_DECISION_OF_TYPE: Final = {"guardrail_trip": "tripped", "approval_request": "suspended"}
_FAILED_TYPES: Final = frozenset(
    {"run_error", "summarize_failed", "rag_query_transform_failed", "rag_contextualize_failed"}
)
_FAILED_WORDS: Final = frozenset({"error", "failed", "failure", "timeout"})
_NO_OPERATION: Final = frozenset(
    {"run_start", "run_error", "run_suspend", "rag_query_transform_failed", "rag_contextualize_failed"}
)
_USAGE: Final = (
    ("input_tokens", ("input_tokens", "prompt_tokens")),
    ("output_tokens", ("output_tokens", "completion_tokens")),
    ("cached_tokens", ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens")),
    ("cache_write_tokens", ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")),
    ("reasoning_tokens", ("reasoning_tokens", "reasoning_output_tokens")),
)
_BY_KIND: Final = {
    kind: tuple((a.name, a.fact) for a in GENAI_ATTRIBUTES if not a.kinds or kind in a.kinds)
    for kind in ("llm", "tool", "run", "agent", "other")
}
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class SpanShape:
    """How an event looks as a span of the GenAI conventions."""

    name: str
    kind: SpanKind
    attributes: dict[str, Any]


def event_facts(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a Tracer event: its own fields, and under our words its usage, kind and decision.

    A decision that is only told by the status (HAR-44, HAR-47) becomes one; the status of a denial is
    "blocked". A token count or cost that is not a finite, non-negative number is unknown (DEC-13).
    """
    facts = dict(event)
    event_type, status = _word(event.get("type")), _word(event.get("status"))
    kind = _word(event.get("kind")) or KIND_OF_TYPE.get(event_type, "other")
    decision = _word(event.get("decision")) or _DECISION_OF_TYPE.get(event_type, "")
    if not decision and event_type in _GATED and status in DECISIONS and not cancelled_while_running(event):
        decision = status
    denied = decision in DENIALS
    if decision:
        facts["decision"] = decision
    if denied:
        facts["status"] = "blocked"
    elif status in _FAILED_WORDS or event_type in _FAILED_TYPES or (not status and _tells_error(event)):
        facts["status"] = "error"
    facts["kind"] = "gate" if denied and kind in {"tool", "llm"} else kind
    if facts["kind"] in GATES:
        facts["gated_tool"] = event.get("tool")
    if "cost_usd" in event and not _is_amount(event["cost_usd"]):
        facts["cost_usd"] = None
    if kind == "tool":
        facts.setdefault("tool", event.get("name"))
    facts["arguments"] = event.get("params")
    facts["seq"] = event.get("step_index")
    usage = event.get("usage")
    if isinstance(usage, Mapping):
        for fact, spellings in _USAGE:
            for spelling in spellings:
                count = usage.get(spelling)
                if type(count) is int and 0 <= count < _INT64:
                    facts[fact] = count
                    break
    return facts


def cancelled_while_running(event: Mapping[str, Any]) -> bool:
    """Whether a call was under way before it was cancelled, which is no gate's doing: what a gate stops has no latency.

    A stream that its consumer closes early and a tool that is torn off have run and are accounted for (DEC-03); one
    that the run's policy stops before it begins was never executed (DEC-01, HAR-44).
    """
    return event.get("status") == "cancelled" and (
        event.get("latency_ms") is not None or event.get("duration_ns") is not None
    )


def own_attributes(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes under our own prefix; the ids come last, where an attribute limit cuts last."""
    attributes = {}
    for name, fact in OWN_ATTRIBUTES:
        value = facts.get(fact)
        if value is not None:
            attributes[name] = attribute_value(value)
    return attributes


def genai_shape(facts: Mapping[str, Any]) -> SpanShape:
    """Return name, kind and attributes of an event under the GenAI conventions.

    The start of a run, a suspension and the separate report of an error are points of an operation that
    another event tells as a whole: they keep their own names, so that nobody counts the operation twice.

    Args:
        facts: as `event_facts` returns them, or a stored record's under the same names.
    """
    kind, event_type = facts["kind"], facts.get("type")
    operation = None if event_type in _NO_OPERATION else OPERATIONS.get(kind)
    attributes: dict[str, Any] = {}
    if operation is not None:
        attributes["gen_ai.operation.name"] = operation.name
    for name, fact in _BY_KIND.get(kind) or _BY_KIND["other"]:
        value = facts.get(fact)
        if value is not None:
            attributes[name] = attribute_value(value)
    if kind == "llm" and isinstance(reason := facts.get("finish_reason"), str):
        attributes["gen_ai.response.finish_reasons"] = [attribute_value(reason)]
    if is_error(facts):
        attributes["error.type"] = attribute_value(facts.get("error_type") or "_OTHER")
    return SpanShape(_name(operation, facts), operation.span_kind if operation else "internal", attributes)


def is_error(facts: Mapping[str, Any]) -> bool:
    """Whether a span of this event has status ERROR: the work failed.

    A denial is none: the gate worked, nothing was executed, and error rates must not rise with each refusal.
    It is found by `tracehold.decision`.
    """
    return facts.get("status") == "error"


def attribute_value(value: Any) -> str | bool | int | float:
    """Return `value` as an attribute can carry it: primitives as they are, all else as JSON text (EXP-11).

    A whole number beyond 64 bits becomes text and a lone surrogate is replaced: either would make the encoder
    refuse the whole batch.
    """
    kind = type(value)
    if kind is str:
        text: str = value
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    if kind is bool or kind is float:
        return value  # type: ignore[no-any-return]  # narrowed by `kind`, which the checker does not follow
    if kind is int:
        number: int = value
        return number if -_INT64 <= number < _INT64 else str(number)
    return dumps(value).decode("utf-8")


def _word(value: object) -> str:
    return value if type(value) is str else ""


def _tells_error(event: Mapping[str, Any]) -> bool:
    return event.get("error") is not None or event.get("error_type") is not None


def _is_amount(value: object) -> bool:
    return type(value) in {int, float} and 0 <= value < math.inf  # type: ignore[operator]  # a number by now


def _name(operation: Operation | None, facts: Mapping[str, Any]) -> str:
    if operation is None:
        subject = facts.get("tool") or facts.get("model") if facts["kind"] == "gate" else None
        name = f"gate {subject}" if subject else facts.get("name") or facts.get("type") or "event"
    else:
        subject = operation.subject and facts.get(operation.subject)
        if subject is None and operation.subject == "agent":
            subject = facts.get("name")
        name = f"{operation.name} {subject}" if subject else operation.name
    return str(attribute_value(name))
