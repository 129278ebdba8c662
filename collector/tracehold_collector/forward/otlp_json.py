"""A trace request in OTLP's JSON encoding: ids in hex, 64-bit numbers as text, enums as numbers, lowerCamelCase.

OTLP specification, "JSON Protobuf Encoding"; for the rest, protobuf's own mapping to JSON, which leaves defaults out.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from tracehold.core.jsontext import dumps


def request_json(request: ExportTraceServiceRequest) -> bytes:
    """Return the request on one line of JSON."""
    return dumps({"resourceSpans": [_resource_spans(group) for group in request.resource_spans]})


def _resource_spans(group: ResourceSpans) -> dict[str, Any]:
    resource = _set(
        attributes=_pairs(group.resource.attributes),
        droppedAttributesCount=group.resource.dropped_attributes_count,
    )
    return {
        "resource": resource,
        "scopeSpans": [_scope_spans(scope) for scope in group.scope_spans],
        **_set(schemaUrl=group.schema_url),
    }


def _scope_spans(group: ScopeSpans) -> dict[str, Any]:
    scope = _set(
        name=group.scope.name,
        version=group.scope.version,
        attributes=_pairs(group.scope.attributes),
        droppedAttributesCount=group.scope.dropped_attributes_count,
    )
    return {"scope": scope, "spans": [_span(span) for span in group.spans], **_set(schemaUrl=group.schema_url)}


def _span(span: Span) -> dict[str, Any]:
    written = _set(
        traceId=span.trace_id.hex(),
        spanId=span.span_id.hex(),
        traceState=span.trace_state,
        parentSpanId=span.parent_span_id.hex(),
        flags=span.flags,
        name=span.name,
        kind=int(span.kind),
        startTimeUnixNano=_digits(span.start_time_unix_nano),
        endTimeUnixNano=_digits(span.end_time_unix_nano),
        attributes=_pairs(span.attributes),
        droppedAttributesCount=span.dropped_attributes_count,
        events=[_event(event) for event in span.events],
        droppedEventsCount=span.dropped_events_count,
        links=[_link(link) for link in span.links],
        droppedLinksCount=span.dropped_links_count,
    )
    return written | {"status": _set(message=span.status.message, code=int(span.status.code))}


def _event(event: Span.Event) -> dict[str, Any]:
    return _set(
        timeUnixNano=_digits(event.time_unix_nano),
        name=event.name,
        attributes=_pairs(event.attributes),
        droppedAttributesCount=event.dropped_attributes_count,
    )


def _link(link: Span.Link) -> dict[str, Any]:
    return _set(
        traceId=link.trace_id.hex(),
        spanId=link.span_id.hex(),
        traceState=link.trace_state,
        attributes=_pairs(link.attributes),
        droppedAttributesCount=link.dropped_attributes_count,
        flags=link.flags,
    )


def _pairs(pairs: Iterable[KeyValue]) -> list[dict[str, Any]]:
    return [{"key": pair.key, "value": _value(pair.value)} for pair in pairs]


def _value(value: AnyValue) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return {"stringValue": value.string_value}
    if kind == "bool_value":
        return {"boolValue": value.bool_value}
    if kind == "int_value":
        return {"intValue": str(value.int_value)}
    if kind == "double_value":
        return {"doubleValue": _number(value.double_value)}
    if kind == "bytes_value":
        return {"bytesValue": base64.b64encode(value.bytes_value).decode("ascii")}
    if kind == "array_value":
        return {"arrayValue": _set(values=[_value(item) for item in value.array_value.values])}
    if kind == "kvlist_value":
        return {"kvlistValue": _set(values=_pairs(value.kvlist_value.values))}
    return {}


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _digits(number: int) -> str:
    return str(number) if number else ""


def _set(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}
