"""Traces: the Tracer, its exporters and the words they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracehold.core.lazy import lazy_getattr

if TYPE_CHECKING:
    from tracehold.observability.exporters.base import TraceExporter as TraceExporter
    from tracehold.observability.exporters.collector import CollectorExporter as CollectorExporter
    from tracehold.observability.exporters.jsonl import JsonlExporter as JsonlExporter
    from tracehold.observability.exporters.memory import MemoryExporter as MemoryExporter
    from tracehold.observability.exporters.otel import OTelExporter as OTelExporter
    from tracehold.observability.exporters.sqlite import SqliteExporter as SqliteExporter
    from tracehold.observability.tracer import Tracer as Tracer

_HOME: Final = {
    "CollectorExporter": "tracehold.observability.exporters.collector",
    "JsonlExporter": "tracehold.observability.exporters.jsonl",
    "MemoryExporter": "tracehold.observability.exporters.memory",
    "OTelExporter": "tracehold.observability.exporters.otel",
    "SqliteExporter": "tracehold.observability.exporters.sqlite",
    "TraceExporter": "tracehold.observability.exporters.base",
    "Tracer": "tracehold.observability.tracer",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above is the list
__getattr__ = lazy_getattr(__name__, _HOME)
