"""Bytes to records: content codings, encodings, files. What an item means is `normalise`'s business."""

from __future__ import annotations

from tracehold_collector.decode.compression import decompress
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import count_otlp_points, decode_otlp_logs, decode_otlp_traces
from tracehold_collector.decode.otlp_signals import LOGS, METRICS, SIGNALS, TRACES, Signal

__all__ = [
    "LOGS",
    "METRICS",
    "SIGNALS",
    "TRACES",
    "Signal",
    "count_otlp_points",
    "decode_events",
    "decode_otlp_logs",
    "decode_otlp_traces",
    "decompress",
]
