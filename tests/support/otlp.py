"""OTLP requests as senders make them, built with the official bindings."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

START = 1_780_000_000_000_000_000


def chat_spans(first: int, count: int, *, per_trace: int = 20) -> ExportTraceServiceRequest:
    """A request of `count` model-call spans whose ids say their number, from `first` on."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    attribute = resource.resource.attributes.add()
    attribute.key, attribute.value.string_value = "service.name", "test"
    scope = resource.scope_spans.add()
    for number in range(first, first + count):
        span = scope.spans.add()
        span.trace_id = (number // per_trace + 1).to_bytes(16, "big")
        span.span_id = (number + 1).to_bytes(8, "big")
        span.name = "chat m1"
        span.start_time_unix_nano = START + number * 1_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 500_000
        for key, value in (("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "m1")):
            item = span.attributes.add()
            item.key, item.value.string_value = key, value
        item = span.attributes.add()
        item.key, item.value.int_value = "gen_ai.usage.input_tokens", 7
    return request
