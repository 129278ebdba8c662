"""Where and when a record stands in its trace: ids and times that OTLP cannot do without."""

from __future__ import annotations

from typing import Any, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tracehold.core.clock import now_ns
from tracehold.core.ids import run_root_span_id, run_trace_id

from tracehold_collector.core.record import Record

TIME_UNKNOWN: Final = "tracehold.time_unknown"
"""True on a span whose source told no credible time. It stands at the moment of forwarding, so that a
waterfall does not start in 1970."""

_MAX_NS: Final = (1 << 63) - 1


def place_in_trace(span: Span, record: Record) -> None:
    """Give `span` its ids; what the record lacks is derived from its run and event id, always alike."""
    span.trace_id = bytes.fromhex(record.trace_id or run_trace_id(record.run_id))
    span.span_id = bytes.fromhex(own_span_id(record))
    parent = record.parent_span_id
    if not record.span_id and not parent and record.kind != "run":
        parent = run_root_span_id(record.run_id)
    # A run's end that came by OTLP hangs under its own root there, which is the span it ends.
    if parent and parent != span.span_id.hex():
        span.parent_span_id = bytes.fromhex(parent)


def own_span_id(record: Record) -> str:
    """Return the id of the span a record tells of, 16 hex digits: its own, its run's root, or made of its event id."""
    if record.span_id:
        return record.span_id
    return run_root_span_id(record.run_id) if record.kind == "run" else _span_id_of(record.event_id).hex()


def span_times(record: Record) -> tuple[int, int, dict[str, Any]]:
    """Return start, end (UTC nanoseconds) and attributes that tell what is not known about them."""
    started_at_ns = record.started_at
    if started_at_ns is None:
        now = now_ns()
        return now, now, {TIME_UNKNOWN: True}
    return started_at_ns, min(started_at_ns + (record.duration_ns or 0), _MAX_NS), {}


def _span_id_of(event_id: bytes) -> bytes:
    tail = event_id[-8:].rjust(8, b"\0")
    return tail if any(tail) else b"\0" * 7 + b"\1"
