"""Traces as the JSON that Jaeger's UI and Grafana read: times in microseconds, typed tags, processes by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tracehold.core.jsontext import dumps

from tracehold_collector.jaeger.tags import Tag, log_fields, process_tags, span_tags
from tracehold_collector.jaeger.view import SpanView, TraceView, usable_links

_NS_PER_US: Final = 1_000
_SHORT: Final = 16
_REF_TYPE: Final = "opentracing.ref_type"


def ui_trace(view: TraceView) -> Iterator[bytes]:
    """Yield one trace as JSON, a span at a time, so that a large one is never held whole."""
    processes = _Processes()
    yield b'{"traceID":%b,"spans":[' % dumps(shown_trace_id(view.trace_id))
    comma = b""
    for span in view.spans:
        yield comma + dumps(_span(span, processes))
        comma = b","
    yield b'],"processes":%b,"warnings":%b}' % (dumps(processes.listed), dumps(view.warnings or None))


def shown_trace_id(trace_id: str) -> str:
    """Return a trace id as Jaeger writes it: 16 digits when the upper half is zero, else all 32."""
    return trace_id[_SHORT:] if trace_id.startswith("0" * _SHORT) else trace_id


class _Processes:
    """Numbers the processes of a trace, alike ones once."""

    def __init__(self) -> None:
        self.listed: dict[str, Any] = {}
        self._keys: dict[bytes, str] = {}

    def key(self, service: str, tags: list[Tag]) -> str:
        process = {"serviceName": service, "tags": tags}
        written = dumps(process)
        if written not in self._keys:
            self._keys[written] = key = f"p{len(self._keys) + 1}"
            self.listed[key] = process
        return self._keys[written]


def _span(view: SpanView, processes: _Processes) -> dict[str, Any]:
    span = view.span
    return {
        "traceID": shown_trace_id(span.trace_id.hex()),
        "spanID": span.span_id.hex(),
        **({"flags": span.flags} if span.flags else {}),
        "operationName": span.name,
        "references": _references(span),
        "startTime": span.start_time_unix_nano // _NS_PER_US,
        "duration": (span.end_time_unix_nano - span.start_time_unix_nano) // _NS_PER_US,
        "tags": span_tags(view),
        "logs": [
            {"timestamp": event.time_unix_nano // _NS_PER_US, "fields": log_fields(event)}
            for event in sorted(span.events, key=lambda event: event.time_unix_nano)
        ],
        "processID": processes.key(view.service, process_tags(view)),
        "warnings": view.warnings or None,
    }


def _references(span: Span) -> list[dict[str, str]]:
    """The parent first, where readers look for it, then the links."""
    references = []
    if span.parent_span_id:
        references.append(("CHILD_OF", span.trace_id, span.parent_span_id))
    for link in usable_links(span):
        said = {pair.key: pair.value.string_value for pair in link.attributes}
        # Where OpenTracing's reference was another parent, the link still tells.
        kind = "CHILD_OF" if said.get(_REF_TYPE) == "child_of" else "FOLLOWS_FROM"
        references.append((kind, link.trace_id, link.span_id))
    return [
        {"refType": kind, "traceID": shown_trace_id(trace_id.hex()), "spanID": span_id.hex()}
        for kind, trace_id, span_id in references
    ]
