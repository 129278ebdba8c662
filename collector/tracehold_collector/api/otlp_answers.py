"""What an OTLP request is answered: full and partial success, for every signal, over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.otlp_signals import LOGS, METRICS, TRACES, Signal
from tracehold_collector.decoders.decoder import Job
from tracehold_collector.pipeline import Intake, Outcome

NOT_STORED: Final = (
    "metrics are taken and not stored: tokens and costs are read from spans and log events. Set"
    " OTEL_METRICS_EXPORTER=none to stop sending them"
)
_NAMED: Final = 10
"""Rejections named one by one; all are counted."""

_RESPONSES: Final[dict[Signal, tuple[type[Any], str]]] = {
    TRACES: (ExportTraceServiceResponse, "rejected_spans"),
    LOGS: (ExportLogsServiceResponse, "rejected_log_records"),
    METRICS: (ExportMetricsServiceResponse, "rejected_data_points"),
}


@dataclass(frozen=True, slots=True)
class Export:
    """What became of an export request.

    Attributes:
        signal: what was sent.
        rejected: items not stored.
        reason: why, empty when all were.
        outcome: what the store said; `None` for metrics.
    """

    signal: Signal
    rejected: int
    reason: str
    outcome: Outcome | None = None

    def message(self) -> Any:
        """Return the response message; an empty one is full success (specification, "Full Success")."""
        kind, field = _RESPONSES[self.signal]
        response = kind()
        if self.rejected:
            setattr(response.partial_success, field, self.rejected)
            response.partial_success.error_message = self.reason
        return response

    def json(self) -> dict[str, Any]:
        """Return the response in protobuf's JSON, where 64-bit integers are strings."""
        answer: dict[str, Any] = MessageToDict(self.message())
        return answer


async def take_export(intake: Intake, signal: Signal, job: Job, size: int) -> Export:
    """Take in one export request, whatever brought it.

    Args:
        intake: where it goes.
        signal: which request it is.
        job: its body.
        size: of the body in bytes once decompressed, about.

    Raises:
        QueueFullError: nothing was taken in.
        BadBodyError, UnsupportedCodingError, TooLargeError: as decoding says.
        StoreError: the commit failed, or the collector stopped first; send it again.
    """
    outcome = await intake.take(job, size)
    if signal is METRICS:
        return Export(signal, outcome.points, NOT_STORED)
    return Export(signal, len(outcome.rejected), _reasons(outcome.rejected), outcome)


def _reasons(rejected: Sequence[Rejection]) -> str:
    named = "; ".join(f"{item.where}: {item.reason}" for item in rejected[:_NAMED])
    more = len(rejected) - _NAMED
    return f"{named}; and {more} more" if more > 0 else named
