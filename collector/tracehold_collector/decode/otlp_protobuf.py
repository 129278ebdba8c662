"""Spans in OTLP/protobuf: one walk over the request, span by span.

The walk is the collector's hottest loop. Measured per span of 20 attributes: 2.5 µs to parse, about 12 µs to
walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.otlp_protobuf_parts import (
    holds_replacement,
    parse_protobuf,
    read_attributes,
    read_resource,
    read_scope,
    refuse_other_signals,
)
from tracehold_collector.decode.otlp_shared import share
from tracehold_collector.decode.otlp_signals import TRACES
from tracehold_collector.decode.otlp_span_parts import read_events, read_link
from tracehold_collector.decode.otlp_values import check_raw_id
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem


def read_protobuf(body: bytes, context: NormaliseContext) -> Iterator[SpanItem | Rejection]:
    """Yield the spans of an ExportTraceServiceRequest, and a rejection for each that cannot be stored.

    Raises:
        BadBodyError: not such a request, cut short, nested deeper than protobuf reads (100 messages), or a
            request of another signal.
    """
    request, replaced = parse_protobuf(body, TRACES)
    seen = 0
    trusted = False  # once a span has been read, or the body has been asked what else it could be
    for i, resource_spans in enumerate(request.resource_spans):
        resource = read_resource(resource_spans, context)
        for j, scope_spans in enumerate(resource_spans.scope_spans):
            shared = share(resource, read_scope(scope_spans, context), context)
            for k, span in enumerate(scope_spans.spans):
                seen += 1
                try:
                    item = _span(span, shared, context)
                except ItemError as error:
                    if not trusted:
                        refuse_other_signals(body, TRACES)
                        trusted = True
                    yield Rejection(f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]", str(error))
                    continue
                trusted = True
                if replaced:
                    item.replaced = holds_replacement(span)
                yield item
    if not seen and body:
        refuse_other_signals(body, TRACES)


def _span(span: Any, shared: Shared, context: NormaliseContext) -> SpanItem:
    trace_id = check_raw_id(span.trace_id, 16, "trace_id")
    span_id = check_raw_id(span.span_id, 8, "span_id")
    parent: bytes = span.parent_span_id
    extra: dict[str, Any] = {}
    exception_type = read_events(span.events, extra, context) if span.events else None
    if span.links:
        extra["links"] = [read_link(link, context) for link in span.links]
    if span.kind:
        extra["span_kind"] = span.kind
    if span.trace_state:
        extra["trace_state"] = span.trace_state
    if span.flags:
        extra["flags"] = span.flags
    status_code = 0
    if span.HasField("status"):
        status = span.status
        status_code = status.code
        if status.message:
            extra["status_message"] = status.message
    _dropped(span, extra)
    return SpanItem(
        trace_id,
        span_id,
        check_raw_id(parent, 8, "parent_span_id") if any(parent) else None,
        span.name,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        read_attributes(span.attributes, context),
        status_code,
        exception_type,
        extra,
        shared,
        span.ByteSize(),
    )


def _dropped(span: Any, extra: dict[str, Any]) -> None:
    for key in ("dropped_attributes_count", "dropped_events_count", "dropped_links_count"):
        dropped = getattr(span, key)
        if dropped:
            extra[key] = dropped
