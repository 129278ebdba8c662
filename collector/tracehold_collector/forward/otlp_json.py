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


class OtlpJson:
    """Writes the parts of a request."""

    def request(self, request: ExportTraceServiceRequest) -> bytes:
        """Return the request on one line of JSON."""
        return dumps({"resourceSpans": [self._resource_spans(group) for group in request.resource_spans]})

    def span(self, span: Span, links: Iterable[Span.Link]) -> dict[str, Any]:
        """Return a span, with `links` in place of its own."""
        written = set_fields(
            traceId=span.trace_id.hex(),
            spanId=span.span_id.hex(),
            traceState=span.trace_state,
            parentSpanId=span.parent_span_id.hex(),
            flags=span.flags,
            name=span.name,
            kind=int(span.kind),
            startTimeUnixNano=_digits(span.start_time_unix_nano),
            endTimeUnixNano=_digits(span.end_time_unix_nano),
            attributes=self.pairs(span.attributes),
            droppedAttributesCount=span.dropped_attributes_count,
            events=[self._event(event) for event in span.events],
            droppedEventsCount=span.dropped_events_count,
            links=[self._link(link) for link in links],
            droppedLinksCount=span.dropped_links_count,
        )
        return written | {"status": set_fields(message=span.status.message, code=int(span.status.code))}

    def pairs(self, pairs: Iterable[KeyValue]) -> list[dict[str, Any]]:
        """Return attributes."""
        return [{"key": pair.key, "value": self._value(pair.value)} for pair in pairs]

    def number(self, number: float) -> dict[str, Any]:
        """Return a double's value: protobuf's mapping writes what is not finite as text."""
        if math.isfinite(number):
            return {"doubleValue": number}
        return {"doubleValue": "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"}

    def nothing(self) -> dict[str, Any]:
        """Return a value that says nothing."""
        return {}

    def _resource_spans(self, group: ResourceSpans) -> dict[str, Any]:
        resource = set_fields(
            attributes=self.pairs(group.resource.attributes),
            droppedAttributesCount=group.resource.dropped_attributes_count,
        )
        return {
            "resource": resource,
            "scopeSpans": [self._scope_spans(scope) for scope in group.scope_spans],
            **set_fields(schemaUrl=group.schema_url),
        }

    def _scope_spans(self, group: ScopeSpans) -> dict[str, Any]:
        scope = set_fields(
            name=group.scope.name,
            version=group.scope.version,
            attributes=self.pairs(group.scope.attributes),
            droppedAttributesCount=group.scope.dropped_attributes_count,
        )
        spans = [self.span(span, span.links) for span in group.spans]
        return {"scope": scope, "spans": spans, **set_fields(schemaUrl=group.schema_url)}

    def _event(self, event: Span.Event) -> dict[str, Any]:
        return set_fields(
            timeUnixNano=_digits(event.time_unix_nano),
            name=event.name,
            attributes=self.pairs(event.attributes),
            droppedAttributesCount=event.dropped_attributes_count,
        )

    def _link(self, link: Span.Link) -> dict[str, Any]:
        return set_fields(
            traceId=link.trace_id.hex(),
            spanId=link.span_id.hex(),
            traceState=link.trace_state,
            attributes=self.pairs(link.attributes),
            droppedAttributesCount=link.dropped_attributes_count,
            flags=link.flags,
        )

    def _value(self, value: AnyValue) -> dict[str, Any]:
        kind = value.WhichOneof("value")
        if kind == "string_value":
            return {"stringValue": value.string_value}
        if kind == "bool_value":
            return {"boolValue": value.bool_value}
        if kind == "int_value":
            return {"intValue": str(value.int_value)}
        if kind == "double_value":
            return self.number(value.double_value)
        if kind == "bytes_value":
            return {"bytesValue": base64.b64encode(value.bytes_value).decode("ascii")}
        if kind == "array_value":
            return {"arrayValue": set_fields(values=[self._value(item) for item in value.array_value.values])}
        if kind == "kvlist_value":
            return {"kvlistValue": set_fields(values=self.pairs(value.kvlist_value.values))}
        return self.nothing()


def set_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not their default: protobuf's JSON leaves those out."""
    return {key: value for key, value in fields.items() if value}


def _digits(number: int) -> str:
    return str(number) if number else ""
