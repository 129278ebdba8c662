"""Traces as OTLP's JSON, the way Jaeger's third API writes it: ids in hex, 64-bit numbers as text, enums as numbers."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tracehold.core.jsontext import dumps

from tracehold_collector.core.packed import PackedText
from tracehold_collector.forward.anyvalue import key_values
from tracehold_collector.forward.parts import count, mapping, text
from tracehold_collector.jaeger.view import SpanView, TraceView, usable_links

WARNINGS: Final = "jaeger.internal.warnings"
"""The attribute Jaeger keeps warnings in where its JSON has no other place for them."""


def traces_data(views: Iterable[TraceView], warnings: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield OTLP's TracesData as JSON.

    Args:
        views: the traces; spans of one resource and scope stand together within a trace, which is why a trace is gone
            through before it is told: compressed meanwhile.
        warnings: about the answer as a whole; they go to its first span.
    """
    pending = list(warnings)
    yield b'{"resourceSpans":['
    comma = b""
    for view in views:
        pending += view.warnings
        for resource in _grouped(view, pending):
            yield comma
            yield from resource.written()
            comma = b","
    yield b"]}"


def _grouped(view: TraceView, pending: list[str]) -> Iterable[_Resource]:
    resources: dict[bytes, _Resource] = {}
    scopes: dict[tuple[bytes, bytes], PackedText] = {}
    for span in view.spans:
        resource_key, scope_key = dumps(span.resource), dumps(span.scope)
        spans = scopes.get((resource_key, scope_key))
        if spans is None:
            resource = resources.get(resource_key)
            if resource is None:
                resource = resources[resource_key] = _Resource(span.resource)
            spans = scopes[resource_key, scope_key] = resource.add_scope(span.scope)
        elif spans.size:
            spans.add(b",")
        spans.add(dumps(_span(span, pending)))
        pending.clear()
    return resources.values()


class _Resource:
    """The spans of one resource of a trace, by their scopes."""

    def __init__(self, resource: Mapping[str, Any]) -> None:
        self._resource = dumps(
            _set(
                attributes=_pairs(key_values(mapping(resource.get("attributes")))),
                droppedAttributesCount=count(resource.get("dropped_attributes_count")),
            )
        )
        self._schema = text(resource.get("schema_url"))
        self._scopes: list[tuple[bytes, PackedText]] = []

    def add_scope(self, scope: Mapping[str, Any]) -> PackedText:
        """Begin the spans of a scope."""
        spans = PackedText()
        self._scopes.append((dumps(_scope(scope)), spans))
        return spans

    def written(self) -> Iterator[bytes]:
        """Yield it as JSON."""
        yield b'{"resource":%b,"scopeSpans":[' % self._resource
        for number, (scope, spans) in enumerate(self._scopes):
            yield b'%b{"scope":%b,"spans":[' % (b"," if number else b"", scope)
            yield from spans.blocks()
            yield b"]}"
        yield b'],"schemaUrl":%b}' % dumps(self._schema) if self._schema else b"]}"


def _scope(scope: Mapping[str, Any]) -> dict[str, Any]:
    return _set(
        name=text(scope.get("name")),
        version=text(scope.get("version")),
        attributes=_pairs(key_values(mapping(scope.get("attributes")))),
        droppedAttributesCount=count(scope.get("dropped_attributes_count")),
    )


def _span(view: SpanView, more_warnings: list[str]) -> dict[str, Any]:
    span = view.span
    attributes = _pairs(span.attributes)
    if warnings := [*view.warnings, *more_warnings]:
        attributes.append(
            {"key": WARNINGS, "value": {"arrayValue": {"values": [{"stringValue": w} for w in warnings]}}}
        )
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **_set(
            traceState=span.trace_state,
            parentSpanId=span.parent_span_id.hex(),
            flags=span.flags,
            name=span.name,
            kind=int(span.kind),
            startTimeUnixNano=_digits(span.start_time_unix_nano),
            endTimeUnixNano=_digits(span.end_time_unix_nano),
            attributes=attributes,
            droppedAttributesCount=span.dropped_attributes_count,
            events=[_event(event) for event in span.events],
            droppedEventsCount=span.dropped_events_count,
            links=[_link(link) for link in usable_links(span)],
            droppedLinksCount=span.dropped_links_count,
        ),
        "status": _set(message=span.status.message, code=int(span.status.code)),
    }


def _event(event: Span.Event) -> dict[str, Any]:
    return _set(
        timeUnixNano=_digits(event.time_unix_nano),
        name=event.name,
        attributes=_pairs(event.attributes),
        droppedAttributesCount=event.dropped_attributes_count,
    )


def _link(link: Span.Link) -> dict[str, Any]:
    return {
        "traceId": link.trace_id.hex(),
        "spanId": link.span_id.hex(),
        **_set(
            traceState=link.trace_state,
            attributes=_pairs(link.attributes),
            droppedAttributesCount=link.dropped_attributes_count,
            flags=link.flags,
        ),
    }


def _pairs(pairs: Iterable[KeyValue]) -> list[dict[str, Any]]:
    return [{"key": pair.key, "value": _value(pair.value)} for pair in pairs]


def _value(value: AnyValue) -> dict[str, Any]:
    """An AnyValue with exactly one field, which is what Jaeger's UI accepts: an empty one is an empty text."""
    kind = value.WhichOneof("value")
    if kind == "bool_value":
        return {"boolValue": value.bool_value}
    if kind == "int_value":
        return {"intValue": str(value.int_value)}
    if kind == "double_value":
        number = value.double_value
        return {"doubleValue": number} if math.isfinite(number) else {"stringValue": str(number)}
    if kind == "bytes_value":
        return {"bytesValue": base64.b64encode(value.bytes_value).decode("ascii")}
    if kind == "array_value":
        return {"arrayValue": _set(values=[_value(item) for item in value.array_value.values])}
    if kind == "kvlist_value":
        return {"kvlistValue": _set(values=_pairs(value.kvlist_value.values))}
    return {"stringValue": value.string_value}


def _digits(number: int) -> str:
    return str(number) if number else ""


def _set(**fields: Any) -> dict[str, Any]:
    """The fields that are not their default, as protobuf's JSON leaves those out."""
    return {key: value for key, value in fields.items() if value}
