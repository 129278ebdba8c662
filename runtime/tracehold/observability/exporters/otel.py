"""Events as OpenTelemetry spans, through whatever TracerProvider the program has set up.

How a run looks in Jaeger: one trace. Without a carrier and outside any OpenTelemetry span its events are
siblings under the run's own root span id (DEC-17). The SDK chooses the ids of the spans it makes, so the
`run_end` event is the widest of those siblings and not their parent, and Jaeger notes that the parent is
missing. Where the true nesting matters, send to the collector natively and let it forward: it keeps the ids.
The event's own `span_id` and `parent_span_id` are attributes here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from tracehold.core.clock import NS_PER_MS, now_ns
from tracehold.core.errors import ConfigurationError
from tracehold.core.extras import install_hint
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.core.version import __version__
from tracehold.observability.exporters.base import Event, TraceExporter
from tracehold.observability.semconv import (
    attribute_value,
    event_facts,
    genai_shape,
    is_error,
    own_attributes,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, TracerProvider

_log = logging.getLogger(__name__)

_MAX_NS: Final = (1 << 63) - 1


class OTelExporter(TraceExporter):
    """One OpenTelemetry span per event (EXP-09 to EXP-12, DEC-17).

    The span is named after the event's type and carries its fields as attributes; `conventions="genai"` adds
    the attributes, names and span kinds of the GenAI semantic conventions. A failed event has status ERROR. A
    denial has not: it is a decision, found by `tracehold.decision`.

    The parent is the carrier's span, else the current OpenTelemetry span, else the root of the event's run.
    That last one counts as sampled, so a run is kept or lost as a whole; a ratio sampler decides only where
    there is a parent of its own or no run.

    `close` leaves the provider alone: it belongs to the program, which shuts it down.

    Args:
        tracer_name: the instrumentation scope's name (DEC-16).
        carrier_provider: called for each event in the emitting context; returns a W3C carrier
            (`{"traceparent": ...}`) or `None`. What it returns never enters the event (EXP-12).
        conventions: `None` for the documented behaviour, or "genai".
        tracer_provider: where spans go; default the global provider, also one that is set later.

    Raises:
        ImportError: OpenTelemetry is not installed.
        ConfigurationError: `conventions` is neither `None` nor "genai".
    """

    def __init__(
        self,
        tracer_name: str = "tracehold",
        *,
        carrier_provider: Callable[[], Mapping[str, str] | None] | None = None,
        conventions: Literal["genai"] | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        if conventions not in {None, "genai"}:
            raise ConfigurationError(f'conventions is {conventions!r}; it can be None or "genai"')
        try:
            from opentelemetry import context, trace  # noqa: PLC0415 - an optional extra (EXP-09)
            from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
                TraceContextTextMapPropagator,
            )
        except ImportError as error:
            raise ImportError(
                f"OTelExporter needs OpenTelemetry, which is not installed; {install_hint('otel')}"
            ) from error
        self._context = context
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._provider = tracer_provider
        self._otel_tracer = trace.get_tracer(tracer_name, __version__, tracer_provider=tracer_provider)
        self._carrier_provider = carrier_provider
        self._genai = conventions == "genai"
        self._root_of = lru_cache(maxsize=256)(self._make_root)
        self._kinds = {"client": trace.SpanKind.CLIENT, "internal": trace.SpanKind.INTERNAL}
        self._error = trace.Status(trace.StatusCode.ERROR)
        self._warned = False

    def export(self, event: Event) -> None:
        """Make and end the event's span."""
        facts = event_facts(event)
        # A provider's attribute limit drops what was set first: our ids stand last, so that they stay
        # (EXP-11).
        attributes = {
            str(attribute_value(key)): attribute_value(value)
            for key, value in event.items()
            if value is not None and key != "run_id"
        }
        name, kind = str(attribute_value(event.get("type", "event"))), self._kinds["internal"]
        if self._genai:
            shape = genai_shape(facts)
            name, kind = shape.name, self._kinds[shape.kind]
            attributes.update(shape.attributes)
        attributes.update(own_attributes(facts))
        run_id = event.get("run_id")
        if run_id is not None:
            attributes["run_id"] = attribute_value(run_id)
        started_at_ns, ended_at_ns = _times(event)
        span = self._otel_tracer.start_span(
            name,
            context=self._parent(event, run_id),
            kind=kind,
            attributes=attributes,
            start_time=started_at_ns,
        )
        if is_error(facts):
            span.set_status(self._error)
        span.end(end_time=ended_at_ns)
        if not self._warned and not span.is_recording() and not span.get_span_context().is_valid:
            self._warn_without_provider()

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Ask the provider to hand over its spans within `timeout_s` seconds; true if it cannot be asked."""
        provider = self._provider or self._trace.get_tracer_provider()
        flush = getattr(provider, "force_flush", None)
        return True if flush is None else bool(flush(int(timeout_s * 1000)))

    def _parent(self, event: Event, run_id: object) -> Context:
        context = self._context.get_current()
        if self._carrier_provider is not None:
            carrier = self._carrier_provider()
            if carrier:
                context = self._propagator.extract(carrier, context)
        if self._trace.get_current_span(context).get_span_context().is_valid or run_id is None:
            return context
        trace_id = event.get("trace_id")
        root = self._root_of(str(run_id), trace_id if type(trace_id) is str else None)
        return self._trace.set_span_in_context(root, context)

    def _make_root(self, run_id: str, trace_id: str | None) -> NonRecordingSpan:
        span_context = self._trace.SpanContext(
            trace_id=_trace_number(trace_id) or int(run_trace_id(run_id), 16),
            span_id=int(run_root_span_id(run_id), 16),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED),
        )
        return self._trace.NonRecordingSpan(span_context)

    def _warn_without_provider(self) -> None:
        self._warned = True
        if self._provider is None and isinstance(self._trace.get_tracer_provider(), self._trace.ProxyTracerProvider):
            _log.warning(
                "OTelExporter has no TracerProvider, its spans go nowhere: "
                "call opentelemetry.trace.set_tracer_provider or pass tracer_provider"
            )


def _trace_number(trace_id: str | None) -> int | None:
    """A W3C trace id as a number; `None` when the event carries something else."""
    if trace_id is None or len(trace_id) != 32:  # noqa: PLR2004 - hex digits of 16 bytes
        return None
    try:
        return int(trace_id, 16) or None
    except ValueError:
        return None


def _times(event: Event) -> tuple[int, int]:
    """Start and end in ns: as measured where the event says so, else ending now; never negative (EXP-10)."""
    width = _nanoseconds(event.get("duration_ns"))
    if width is None:
        width = _nanoseconds(event.get("latency_ms"), NS_PER_MS) or 0
    started_at_ns = event.get("started_at_ns")
    if type(started_at_ns) is not int or not 0 < started_at_ns <= _MAX_NS:
        ended_at_ns = now_ns()
        return max(0, ended_at_ns - width), ended_at_ns
    return started_at_ns, min(started_at_ns + width, _MAX_NS)


def _nanoseconds(value: object, unit: int = 1) -> int | None:
    if type(value) is int:
        return value * unit if value >= 0 else None
    if type(value) is float and math.isfinite(value) and value >= 0:
        return int(value * unit)
    return None
