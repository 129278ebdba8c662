"""Tracehold: the flight recorder for AI agents.

    from tracehold import CollectorExporter, Tracer

    tracer = Tracer(exporters=[CollectorExporter()])
    with tracer.run("answer a ticket", agent="support"):
        tracer.emit({"type": "llm_call", "model": "gpt-4o-mini", "latency_ms": 420})

This module is the public contract: it names every public object and imports each one on first use, so that
`import tracehold` costs milliseconds and no optional dependency.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from tracehold.core.version import __version__

if TYPE_CHECKING:
    from tracehold.core.errors import ConfigurationError as ConfigurationError
    from tracehold.core.errors import ExporterError as ExporterError
    from tracehold.core.errors import TraceholdError as TraceholdError
    from tracehold.core.run_context import current_run_id as current_run_id
    from tracehold.core.run_context import current_scope as current_scope
    from tracehold.core.run_context import current_step as current_step
    from tracehold.core.run_context import current_trace_carrier as current_trace_carrier
    from tracehold.core.run_context import new_run_id as new_run_id
    from tracehold.observability.event_types import DECISIONS as DECISIONS
    from tracehold.observability.event_types import DENIALS as DENIALS
    from tracehold.observability.event_types import EVENT_TYPES as EVENT_TYPES
    from tracehold.observability.exporters.base import TraceExporter as TraceExporter
    from tracehold.observability.exporters.collector import CollectorExporter as CollectorExporter
    from tracehold.observability.exporters.jsonl import JsonlExporter as JsonlExporter
    from tracehold.observability.exporters.memory import MemoryExporter as MemoryExporter
    from tracehold.observability.exporters.otel import OTelExporter as OTelExporter
    from tracehold.observability.exporters.sqlite import SqliteExporter as SqliteExporter
    from tracehold.observability.spans import Run as Run
    from tracehold.observability.spans import Span as Span
    from tracehold.observability.tracer import Tracer as Tracer

_HOME: Final = {
    "DECISIONS": "tracehold.observability.event_types",
    "DENIALS": "tracehold.observability.event_types",
    "EVENT_TYPES": "tracehold.observability.event_types",
    "CollectorExporter": "tracehold.observability.exporters.collector",
    "ConfigurationError": "tracehold.core.errors",
    "ExporterError": "tracehold.core.errors",
    "JsonlExporter": "tracehold.observability.exporters.jsonl",
    "MemoryExporter": "tracehold.observability.exporters.memory",
    "OTelExporter": "tracehold.observability.exporters.otel",
    "Run": "tracehold.observability.spans",
    "Span": "tracehold.observability.spans",
    "SqliteExporter": "tracehold.observability.exporters.sqlite",
    "TraceExporter": "tracehold.observability.exporters.base",
    "TraceholdError": "tracehold.core.errors",
    "Tracer": "tracehold.observability.tracer",
    "current_run_id": "tracehold.core.run_context",
    "current_scope": "tracehold.core.run_context",
    "current_step": "tracehold.core.run_context",
    "current_trace_carrier": "tracehold.core.run_context",
    "new_run_id": "tracehold.core.run_context",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'tracehold' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
