"""OTLP/protobuf: one walk over the request, span by span.

The walk is the collector's hottest loop. Measured per span of 20 attributes: 2.5 µs to parse, about 12 µs to
walk. Reading `string_value` first saves the costlier `WhichOneof` for most attributes: only the field that is
set is not empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.otlp_shared import share
from tracehold_collector.decode.otlp_values import check_raw_id, read_bytes, read_double
from tracehold_collector.decode.utf8_repair import repair_utf8
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem

_TOO_DEEP: Final = "[nested too deep]"
_PLAIN: Final = frozenset({"string_value", "int_value", "bool_value"})
_BAD_UTF8: Final = "UTF-8"


def read_protobuf(body: bytes, context: NormaliseContext) -> Iterator[SpanItem | Rejection]:
    """Yield the spans of an ExportTraceServiceRequest, and a rejection for each that cannot be stored.

    Raises:
        BadBodyError: not such a request, cut short, nested deeper than protobuf reads (100 messages), or a
            request of another signal.
    """
    request, replaced = _parse(body)
    seen = 0
    trusted = False  # once a span has been read, or the body has been asked what else it could be
    for i, resource_spans in enumerate(request.resource_spans):
        resource = _resource(resource_spans, context)
        for j, scope_spans in enumerate(resource_spans.scope_spans):
            shared = share(resource, _scope(scope_spans, context), context)
            for k, span in enumerate(scope_spans.spans):
                seen += 1
                try:
                    item = _span(span, shared, context)
                except ItemError as error:
                    if not trusted:
                        _refuse_other_signals(body)
                        trusted = True
                    yield Rejection(f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]", str(error))
                    continue
                trusted = True
                if replaced:
                    item.replaced = _holds_replacement(span)
                yield item
    if not seen and body:
        _refuse_other_signals(body)


def _parse(body: bytes) -> tuple[ExportTraceServiceRequest, bool]:
    try:
        return ExportTraceServiceRequest.FromString(body), False
    except DecodeError as error:
        problem = str(error).rsplit(": ", 1)[-1]
    _refuse_other_signals(body)
    if _BAD_UTF8 in problem:
        try:
            return ExportTraceServiceRequest.FromString(repair_utf8(body, ExportTraceServiceRequest.DESCRIPTOR)), True
        except (DecodeError, ValueError):
            pass
    raise BadBodyError(
        f"the body is not an OTLP ExportTraceServiceRequest in protobuf ({problem.lower()}):"
        " damaged, cut short, nested too deep or in another encoding"
    )


def _refuse_other_signals(body: bytes) -> None:
    """Say so when the body is logs or metrics: their protobuf form also parses as spans, full of nonsense."""
    for name, message, parts in (
        ("logs", ExportLogsServiceRequest, ("resource_logs", "scope_logs", "log_records")),
        ("metrics", ExportMetricsServiceRequest, ("resource_metrics", "scope_metrics", "metrics")),
    ):
        try:
            request = message.FromString(body)
        except DecodeError:
            continue
        for item in _items(request, parts):
            if _is_log(item) if name == "logs" else _is_metric(item):
                raise BadBodyError(
                    f"the body is an OTLP {name} request; this address takes traces, {name} are not stored"
                )
            break


def _items(request: Any, parts: tuple[str, str, str]) -> Iterator[Any]:
    for resource in getattr(request, parts[0]):
        for scope in getattr(resource, parts[1]):
            yield from getattr(scope, parts[2])


def _is_log(record: Any) -> bool:
    return bool(record.time_unix_nano or record.observed_time_unix_nano or record.severity_number)


def _is_metric(metric: Any) -> bool:
    return bool(metric.name) and metric.WhichOneof("data") is not None


def _resource(resource_spans: Any, context: NormaliseContext) -> dict[str, Any]:
    resource = resource_spans.resource
    found: dict[str, Any] = {"attributes": _attributes(resource.attributes, context)}
    if resource.dropped_attributes_count:
        found["dropped_attributes_count"] = resource.dropped_attributes_count
    if resource_spans.schema_url:
        found["schema_url"] = resource_spans.schema_url
    return found


def _scope(scope_spans: Any, context: NormaliseContext) -> dict[str, Any]:
    scope = scope_spans.scope
    found: dict[str, Any] = {}
    if scope.name:
        found["name"] = scope.name
    if scope.version:
        found["version"] = scope.version
    if scope.attributes:
        found["attributes"] = _attributes(scope.attributes, context)
    if scope.dropped_attributes_count:
        found["dropped_attributes_count"] = scope.dropped_attributes_count
    if scope_spans.schema_url:
        found["schema_url"] = scope_spans.schema_url
    return found


def _span(span: Any, shared: Shared, context: NormaliseContext) -> SpanItem:
    trace_id = check_raw_id(span.trace_id, 16, "trace_id")
    span_id = check_raw_id(span.span_id, 8, "span_id")
    parent: bytes = span.parent_span_id
    extra: dict[str, Any] = {}
    exception_type = _events(span.events, extra, context) if span.events else None
    if span.links:
        extra["links"] = [_link(link, context) for link in span.links]
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
        _attributes(span.attributes, context),
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


def _attributes(pairs: Any, context: NormaliseContext) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        text = value.string_value
        if text:
            found[pair.key] = text
            continue
        which = value.WhichOneof("value")
        plain = which in _PLAIN
        found[pair.key] = getattr(value, which) if plain else _value(value, context, context.limits.max_depth)
    return found


def _value(value: Any, context: NormaliseContext, room: int) -> Any:
    which = value.WhichOneof("value")
    if which is None:
        return None
    raw = getattr(value, which)
    if which == "double_value":
        return read_double(raw)
    if which == "array_value":
        if room <= 0:
            return _TOO_DEEP
        return [item.string_value or _value(item, context, room - 1) for item in raw.values]
    if which == "kvlist_value":
        if room <= 0:
            return _TOO_DEEP
        return {p.key: p.value.string_value or _value(p.value, context, room - 1) for p in raw.values}
    return read_bytes(raw, context.cleaner) if which == "bytes_value" else raw


def _events(events: Any, extra: dict[str, Any], context: NormaliseContext) -> Any:
    """Put the events into `extra` and return the type of the first exception among them."""
    exception_type = None
    found = []
    for event in events:
        entry: dict[str, Any] = {"time_unix_nano": event.time_unix_nano, "name": event.name}
        if event.attributes:
            entry["attributes"] = _attributes(event.attributes, context)
            if exception_type is None and event.name == "exception":
                exception_type = entry["attributes"].get("exception.type")
        if event.dropped_attributes_count:
            entry["dropped_attributes_count"] = event.dropped_attributes_count
        found.append(entry)
    extra["events"] = found
    return exception_type


def _link(link: Any, context: NormaliseContext) -> dict[str, Any]:
    entry: dict[str, Any] = {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex()}
    if link.trace_state:
        entry["trace_state"] = link.trace_state
    if link.attributes:
        entry["attributes"] = _attributes(link.attributes, context)
    if link.dropped_attributes_count:
        entry["dropped_attributes_count"] = link.dropped_attributes_count
    if link.flags:
        entry["flags"] = link.flags
    return entry


def _holds_replacement(span: Any) -> bool:
    serialised: bytes = span.SerializeToString()
    return b"\xef\xbf\xbd" in serialised
