"""Bytes to records: content codings, encodings, files. What an item means is `normalise`'s business."""

from __future__ import annotations

from tracehold_collector.decode.compression import decompress
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import decode_otlp_traces

__all__ = [
    "decode_events",
    "decode_otlp_traces",
    "decompress",
]
