"""A record that came from a Tracer or an engine, as a span of the GenAI semantic conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tracehold.observability.semconv import GATES, attribute_value, genai_shape, is_error, own_attributes

from tracehold_collector.core.record import Record
from tracehold_collector.forward.anyvalue import key_values
from tracehold_collector.forward.messages import input_messages, output_messages
from tracehold_collector.forward.place import place_in_trace, span_times

USER_HASH: Final = "user.hash"
"""OpenTelemetry's name for a person's pseudonym, which is all the record knows of them."""

_KINDS: Final = {"client": Span.SPAN_KIND_CLIENT, "internal": Span.SPAN_KIND_INTERNAL}


def native_span(record: Record) -> Span:
    """Return the span of a native record: content fields, the conventions' attributes, then our own."""
    content = record.content or {}
    facts = _facts(record, content)
    shape = genai_shape(facts)
    started_at_ns, ended_at_ns, extra = span_times(record)
    attributes = {
        **_flat(record.attributes or {}),
        **_flat(content),
        **shape.attributes,
        **_messages(record, content),
        **extra,
        **({USER_HASH: record.user_ref} if record.user_ref else {}),
        **own_attributes(facts),
    }
    span = Span(
        name=shape.name,
        kind=_KINDS[shape.kind],
        start_time_unix_nano=started_at_ns,
        end_time_unix_nano=ended_at_ns,
        attributes=key_values(attributes),
        status=Status(code=Status.STATUS_CODE_ERROR if is_error(facts) else Status.STATUS_CODE_UNSET),
    )
    place_in_trace(span, record)
    return span


def _facts(record: Record, content: Mapping[str, Any]) -> dict[str, Any]:
    """The record under the words of `tracehold.observability.semconv`."""
    small = record.attributes or {}
    return {
        "event_id": record.event_id.hex(),
        "run_id": record.run_id,
        "seq": record.seq,
        "kind": record.kind,
        "type": record.type,
        "name": record.name or content.get("name"),
        "status": record.status,
        "agent": record.agent,
        "session": record.session_id,
        "provider": record.provider,
        "model": record.model,
        "finish_reason": small.get("finish_reason", content.get("finish_reason")),
        "streamed": small.get("streamed"),
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "cached_tokens": record.cached_tokens,
        "cache_write_tokens": record.cache_write_tokens,
        "reasoning_tokens": record.reasoning_tokens,
        "cost_usd": record.cost_usd,
        "tool": record.name if record.kind in {"tool", "gate"} else None,
        # An approval without a tool of its own is named by its type.
        "gated_tool": record.name if record.kind in GATES and record.name != record.type else None,
        "call_id": small.get("call_id", content.get("call_id")),
        "arguments": content.get("params"),
        "result": content.get("result"),
        "decision": record.decision,
        "decided_by": record.decided_by,
        "rule": record.rule,
        "error_type": record.error_type,
    }


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as attributes that every backend shows: primitives, all else as JSON text."""
    return {key: attribute_value(value) for key, value in fields.items() if value is not None}


def _messages(record: Record, content: Mapping[str, Any]) -> dict[str, str]:
    if record.kind not in {"llm", "agent", "run"}:
        return {}
    asked, answered = input_messages(content.get("input")), output_messages(content.get("output"))
    return {
        name: text
        for name, text in (("gen_ai.input.messages", asked), ("gen_ai.output.messages", answered))
        if text is not None
    }
