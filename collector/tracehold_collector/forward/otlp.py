"""Stored records as one OTLP trace request, grouped by resource and instrumentation scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from tracehold.core.jsontext import dumps
from tracehold.core.version import __version__

from tracehold_collector.core.record import OWN_SOURCE, Record
from tracehold_collector.forward.anyvalue import key_values
from tracehold_collector.forward.native import native_span
from tracehold_collector.forward.parts import count, mapping, text
from tracehold_collector.forward.received import is_received_span, received_span

_OWN_SCOPE: Final = {"name": "tracehold", "version": __version__}


class OutgoingSpan(NamedTuple):
    """A span, and the resource and instrumentation scope it belongs to, in the words of a record's content."""

    span: Span
    resource: Mapping[str, Any]
    scope: Mapping[str, Any]


def to_otlp(records: Iterable[Record]) -> ExportTraceServiceRequest:
    """Build the request that tells `records` to an OTLP receiver, as `outgoing_span` tells each.

    The opening half of a span (status "started") is left out: its ended half tells it whole.
    """
    return request_of(outgoing_span(record) for record in records if is_forwarded(record))


def request_of(spans: Iterable[OutgoingSpan]) -> ExportTraceServiceRequest:
    """Build the request that holds `spans`, those of one resource and scope together."""
    request = ExportTraceServiceRequest()
    resources: dict[bytes, ResourceSpans] = {}
    scopes: dict[tuple[bytes, bytes], ScopeSpans] = {}
    for span, resource, scope in spans:
        resource_key, scope_key = dumps(resource), dumps(scope)
        group = scopes.get((resource_key, scope_key))
        if group is None:
            spans_of = resources.get(resource_key)
            if spans_of is None:
                spans_of = resources[resource_key] = request.resource_spans.add()
                _fill_resource(spans_of, resource)
            group = scopes[resource_key, scope_key] = spans_of.scope_spans.add()
            _fill_scope(group, scope)
        group.spans.append(span)
    return request


def outgoing_span(record: Record) -> OutgoingSpan:
    """Return the span that tells `record`.

    A span that came in by OTLP goes out as it came, redacted: ids, times, kind, status, attributes with their
    types, events and links. A native record becomes a span of the GenAI conventions with the record's ids.
    """
    if is_received_span(record):
        return OutgoingSpan(received_span(record), *_received_origin(record))
    return OutgoingSpan(native_span(record), *_native_origin(record))


def is_forwarded(record: Record) -> bool:
    """Whether a record is a span of its own on the way out; what people did here is no agent's, and stays here."""
    return record.status != "started" and record.source != OWN_SOURCE


def _received_origin(record: Record) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    content = record.content or {}
    return mapping(content.get("resource")), mapping(content.get("scope"))


def _native_origin(record: Record) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Service and tenant of a record that never had a resource; an agent without a service is its own."""
    service = record.service or record.agent or "unknown_service"
    return {"attributes": {"service.name": service, "tracehold.tenant": record.tenant}}, _OWN_SCOPE


def _fill_resource(group: ResourceSpans, resource: Mapping[str, Any]) -> None:
    group.resource.CopyFrom(
        Resource(
            attributes=key_values(mapping(resource.get("attributes"))),
            dropped_attributes_count=count(resource.get("dropped_attributes_count")),
        )
    )
    group.schema_url = text(resource.get("schema_url"))


def _fill_scope(group: ScopeSpans, scope: Mapping[str, Any]) -> None:
    group.scope.CopyFrom(
        InstrumentationScope(
            name=text(scope.get("name")),
            version=text(scope.get("version")),
            attributes=key_values(mapping(scope.get("attributes"))),
            dropped_attributes_count=count(scope.get("dropped_attributes_count")),
        )
    )
    group.schema_url = text(scope.get("schema_url"))
