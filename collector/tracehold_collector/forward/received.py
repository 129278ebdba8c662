"""A record that came in as an OTLP span, as the span it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tracehold.observability.semconv import attribute_value

from tracehold_collector.core.record import Record
from tracehold_collector.forward.anyvalue import encodable, key_values
from tracehold_collector.forward.parts import count, mapping, mappings, nanoseconds, raw_id, text
from tracehold_collector.forward.place import place_in_trace, span_times

_STATUS: Final = {"ok": Status.STATUS_CODE_OK, "error": Status.STATUS_CODE_ERROR}
_PARTS: Final = frozenset(
    {
        "attributes",
        "name",
        "events",
        "links",
        "span_kind",
        "status_code",
        "status_message",
        "trace_state",
        "flags",
        "dropped_attributes_count",
        "dropped_events_count",
        "dropped_links_count",
        "resource",
        "scope",
    }
)
"""Parts of a span's content that have a place of their own in OTLP. Anything else, such as times that are not
credible or the body of a log record, goes out as an attribute rather than nowhere."""


def is_received_span(record: Record) -> bool:
    """Whether the record came by OTLP and still has its content; without it the envelope has to do."""
    content = record.content
    return content is not None and (record.source == "otlp" or "scope" in content or "resource" in content)


def received_span(record: Record) -> Span:
    """Return the span as it came in, redacted; what redaction took out is marked in its place."""
    content = record.content or {}
    started_at_ns, ended_at_ns, extra = span_times(record)
    other = {key: attribute_value(value) for key, value in content.items() if key not in _PARTS}
    attributes = {**mapping(content.get("attributes")), **other, **extra}
    span = Span(
        name=_name(record, content),
        kind=_kind(content.get("span_kind")),
        start_time_unix_nano=started_at_ns,
        end_time_unix_nano=ended_at_ns,
        attributes=key_values(attributes),
        events=_events(content),
        links=_links(content),
        status=Status(code=_status(record, content), message=text(content.get("status_message"))),
        trace_state=text(content.get("trace_state")),
        flags=count(content.get("flags")),
        dropped_attributes_count=count(content.get("dropped_attributes_count")),
        dropped_events_count=count(content.get("dropped_events_count")),
        dropped_links_count=count(content.get("dropped_links_count")),
    )
    place_in_trace(span, record)
    return span


def _status(record: Record, content: Mapping[str, Any]) -> Status.StatusCode.ValueType:
    """The code as sent, when the content kept it; else what the record's status says of it."""
    code = content.get("status_code")
    if type(code) is int and code in Status.StatusCode.values():
        return Status.StatusCode.ValueType(code)
    return _STATUS.get(record.status, Status.STATUS_CODE_UNSET)


def _name(record: Record, content: Mapping[str, Any]) -> str:
    """The source's own name: where the record's is another, such as a tool's, the content has it."""
    for name in (content.get("name"), record.name):
        if isinstance(name, str) and name:
            return encodable(name)
    return encodable(record.type)


def _kind(value: object) -> Span.SpanKind.ValueType:
    """A span kind given as OTLP's number or in words; anything else is unspecified."""
    if isinstance(value, str):
        word = value.upper().removeprefix("SPAN_KIND_")
        value = next((number for name, number in Span.SpanKind.items() if name == f"SPAN_KIND_{word}"), 0)
    return Span.SpanKind.ValueType(value if type(value) is int and value in Span.SpanKind.values() else 0)


def _events(content: Mapping[str, Any]) -> Iterator[Span.Event]:
    for event in mappings(content.get("events")):
        yield Span.Event(
            name=text(event.get("name")),
            time_unix_nano=nanoseconds(event.get("time_unix_nano")),
            attributes=key_values(mapping(event.get("attributes"))),
            dropped_attributes_count=count(event.get("dropped_attributes_count")),
        )


def _links(content: Mapping[str, Any]) -> Iterator[Span.Link]:
    for link in mappings(content.get("links")):
        yield Span.Link(
            trace_id=raw_id(link.get("trace_id")),
            span_id=raw_id(link.get("span_id")),
            trace_state=text(link.get("trace_state")),
            attributes=key_values(mapping(link.get("attributes"))),
            dropped_attributes_count=count(link.get("dropped_attributes_count")),
            flags=count(link.get("flags")),
        )
