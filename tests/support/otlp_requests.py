"""Export requests and responses of each OTLP signal, with the official bindings."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from support.otlp import START, chat_spans

RESPONSES: dict[str, Any] = {
    "traces": ExportTraceServiceResponse,
    "logs": ExportLogsServiceResponse,
    "metrics": ExportMetricsServiceResponse,
}


def request_of(signal: str, count: int = 2) -> Any:
    """A request with `count` spans, log records or data points; with 0, empty envelopes."""
    if signal == "traces":
        return chat_spans(0, count)
    return _logs(count) if signal == "logs" else _metrics(count)


def response_of(signal: str, body: bytes) -> Any:
    """The response message in `body`."""
    return RESPONSES[signal].FromString(body)


def _logs(count: int) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number in range(count):
        record = scope.log_records.add()
        record.time_unix_nano = START + number
        record.severity_number = 9
        record.body.string_value = f"log {number}"
        record.trace_id = (1).to_bytes(16, "big")
        record.span_id = (number + 1).to_bytes(8, "big")
    return request


def _metrics(count: int) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    if count:
        metric = scope.metrics.add()
        metric.name = "gen_ai.client.token.usage"
        for number in range(count):
            point = metric.sum.data_points.add()
            point.time_unix_nano, point.as_int = START + number, number
    return request
