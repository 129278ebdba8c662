"""The three signals of OTLP: what their requests are called, and how a body of the wrong one is refused.

Their protobuf forms are so alike that one often parses as another, full of nonsense.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tracehold_collector.core.errors import BadBodyError


class Signal(NamedTuple):
    """The names of one signal.

    Attributes:
        name: in plural, as the specification says it.
        path: where OTLP/HTTP takes it.
        resources, scopes, items: the lists of its request, outermost first, in OTLP/JSON.
        field: the outermost list, in protobuf.
    """

    name: Literal["traces", "logs", "metrics"]
    path: str
    resources: str
    scopes: str
    items: str
    field: str


TRACES: Final = Signal("traces", "/v1/traces", "resourceSpans", "scopeSpans", "spans", "resource_spans")
LOGS: Final = Signal("logs", "/v1/logs", "resourceLogs", "scopeLogs", "logRecords", "resource_logs")
METRICS: Final = Signal("metrics", "/v1/metrics", "resourceMetrics", "scopeMetrics", "metrics", "resource_metrics")
SIGNALS: Final = (TRACES, LOGS, METRICS)


def wrong_signal(found: Signal, wanted: Signal) -> BadBodyError:
    """Return the error for a body of another signal; it says where that one is taken."""
    return BadBodyError(
        f"the body is an OTLP {found.name} request; this address takes {wanted.name}, send it to {found.path}"
    )
