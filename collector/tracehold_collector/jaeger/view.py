"""A stored trace as spans with their services and warnings: what both forms of Jaeger's JSON are written from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tracehold.core.clock import NS_PER_MS

from tracehold_collector.core.record import Record
from tracehold_collector.forward import outgoing_span
from tracehold_collector.forward.anyvalue import encodable, key_values
from tracehold_collector.forward.parts import mapping
from tracehold_collector.forward.place import TIME_UNKNOWN, place_in_trace, span_times
from tracehold_collector.jaeger.envelope import SPAN_NAME, envelope_tags
from tracehold_collector.jaeger.fold import Folded, fold, grouped
from tracehold_collector.store.traces import StoredTrace

NO_SERVICE: Final = "tracehold"
"""The service of spans that name neither a service nor an agent: whose they are is not known, but that they were
recorded here is. Jaeger has no word for an absent service and drops such spans."""

_READ_AT_ONCE: Final = 500
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


@dataclass(slots=True)
class SpanView:
    """One span as Jaeger shows it.

    Attributes:
        span: in OTLP's words; its attributes include the envelope.
        service: its service, else its agent, else `NO_SERVICE`. An agent comes second because it is what people
            look for when nobody named a service.
        resource, scope: as in a record's content, the resource with the service as its `service.name`.
        warnings: what an engineer should know before believing the span.
    """

    span: Span
    service: str
    resource: Mapping[str, Any]
    scope: Mapping[str, Any]
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TraceView:
    """One trace: its id (32 lower-case hex digits), its spans by start, and what is missing from it."""

    trace_id: str
    spans: Iterable[SpanView]
    warnings: list[str]


def trace_view(stored: StoredTrace) -> TraceView:
    """Return the view of a stored trace; its spans are made while they are gone through, a few at a time."""
    return TraceView(stored.trace_id, _Spans(stored), list(_missing(stored)))


@dataclass(slots=True)
class _Placed:
    """A span before it is read whole: its events by their places in the outline, its ids and times, what is odd."""

    events: tuple[int, ...]
    span_id: bytes
    parent_id: bytes
    start_ns: int
    end_ns: int
    warning: str | None = None


class _Spans:
    """The spans of a trace by start. May be gone through again, and reads them again then."""

    def __init__(self, stored: StoredTrace) -> None:
        self._stored = stored
        outline = stored.take_outline()
        starts = (record.started_at for record in outline if record.started_at is not None)
        self._earliest_ns = min(starts, default=stored.received_at)
        placed = [self._place(outline, events) for events in grouped(outline)]
        placed.sort(key=lambda one: one.start_ns)
        _warn_of_tree(placed)
        self._spans = [(one.events, one.warning) for one in placed]

    def __iter__(self) -> Iterator[SpanView]:
        for first in range(0, len(self._spans), _READ_AT_ONCE):
            part = self._spans[first : first + _READ_AT_ONCE]
            records = iter(self._stored.records([place for events, _ in part for place in events]))
            for events, warning in part:
                view = _span_view(fold([next(records) for _ in events]), self._earliest_ns)
                if warning:
                    view.warnings.append(warning)
                yield view

    def _place(self, outline: Sequence[Record], events: tuple[int, ...]) -> _Placed:
        record = fold([outline[place] for place in events]).record
        timed = record if record.started_at is not None else replace(record, started_at=self._earliest_ns)
        start_ns, end_ns, _ = span_times(timed)
        span = Span()
        place_in_trace(span, timed)
        return _Placed(events, span.span_id, span.parent_span_id, start_ns, end_ns)


def record_view(record: Record) -> SpanView:
    """Return the view of one event on its own, to hold tags against."""
    return _span_view(Folded(record), record.started_at or 0)


def service_of(record: Record) -> str:
    """Return the service a record is shown under; the queries about traces have the same rule."""
    return record.service or record.agent or NO_SERVICE


def usable_links(span: Span) -> list[Span.Link]:
    """Return the links that lead somewhere: both ids are whole and not zero."""
    return [
        link
        for link in span.links
        if len(link.trace_id) == _TRACE_BYTES and any(link.trace_id)
        if len(link.span_id) == _SPAN_BYTES and any(link.span_id)
    ]


def _span_view(folded: Folded, earliest_ns: int) -> SpanView:
    record, warnings = folded.record, []
    tags = envelope_tags(record)
    if record.started_at is None:
        tags[TIME_UNKNOWN] = True
        warnings.append("no credible start was recorded; the span stands at the start of its trace")
    elif (record.attributes or {}).get("odd_time"):
        warnings.append("the times as sent are not credible; they are in start_time_unix_nano and end_time_unix_nano")
    if record.status == "started":
        warnings.append("only the start was recorded: the span is still running, or its end never arrived")
    timed = record if record.started_at is not None else replace(record, started_at=earliest_ns)
    span, resource, scope = outgoing_span(timed)
    operation = encodable(record.name or record.type)
    source_name = mapping(record.content).get("name")
    if isinstance(source_name, str) and source_name and source_name != operation:
        tags[SPAN_NAME] = source_name
    span.name = operation
    if record.status == "error":
        # Some dialects tell a failure by an attribute and leave OTLP's code unset, which is all that Jaeger looks at.
        span.status.code = Status.STATUS_CODE_ERROR
    _set_attributes(span, tags)
    span.events.extend(_as_event(other) for other in folded.others)
    service = encodable(service_of(record))
    named = {**resource, "attributes": {**mapping(resource.get("attributes")), "service.name": service}}
    return SpanView(span, service, named, scope, warnings)


def _set_attributes(span: Span, tags: Mapping[str, Any]) -> None:
    """Give the span these attributes; one it has under the same key is replaced where it stands."""
    fresh = {pair.key: pair for pair in key_values(tags)}
    for pair in span.attributes:
        replacing = fresh.pop(pair.key, None)
        if replacing is not None:
            pair.CopyFrom(replacing)
    span.attributes.extend(fresh.values())


def _as_event(record: Record) -> Span.Event:
    attributes: Iterable[KeyValue] = key_values(envelope_tags(record))
    return Span.Event(name=record.type, time_unix_nano=record.started_at or 0, attributes=attributes)


def _warn_of_tree(spans: Iterable[_Placed]) -> None:
    """Warn of parents that are not there, and of children that their parents' times do not hold."""
    known = {placed.span_id: placed for placed in spans}
    for placed in known.values():
        if not placed.parent_id:
            continue
        parent = known.get(placed.parent_id)
        if parent is None:
            placed.warning = f"the parent span {placed.parent_id.hex()} is not in this trace"
        elif skew := _outside(placed, parent):
            placed.warning = f"{skew}; times are shown as recorded, clocks are not adjusted"


def _outside(span: _Placed, parent: _Placed) -> str:
    """How a span lies outside its parent's time; a child that outlasts a shorter parent may well be asynchronous."""
    early = parent.start_ns - span.start_ns
    late = span.end_ns - parent.end_ns
    if early > 0:
        return f"the span starts {early / NS_PER_MS:g} ms before its parent"
    width = parent.end_ns - parent.start_ns
    # A parent without width is a point or still running: it holds nothing in time.
    fits = width > 0 and span.end_ns - span.start_ns <= width
    return f"the span ends {late / NS_PER_MS:g} ms after its parent" if late > 0 and fits else ""


def _missing(stored: StoredTrace) -> Iterable[str]:
    left_out = stored.events - stored.shown
    if left_out > 0:
        yield (
            f"{left_out} of {stored.events} events are left out, the latest ones: one answer holds no more. The query "
            f"waterfall has all of a run, page by page"
        )
    if stored.unread:
        yield (
            f"{stored.unread} of {stored.shown} events are shown without what they said, which is too much for "
            f"one answer; ask for it at /api/v1/events/EVENT_ID"
        )
