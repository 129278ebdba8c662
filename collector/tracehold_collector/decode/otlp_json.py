"""Spans in OTLP/JSON: protobuf's JSON mapping with hex ids (OTLP specification, "JSON Protobuf Encoding")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.json_text import has_replacement
from tracehold_collector.decode.otlp_json_parts import (
    as_object,
    copy_count,
    copy_text,
    groups,
    read_attributes,
    read_enum,
    read_time,
)
from tracehold_collector.decode.otlp_shared import share
from tracehold_collector.decode.otlp_signals import TRACES
from tracehold_collector.decode.otlp_values import check_hex_id, read_int
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem

_NAMES_OF_KIND: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_NAMES_OF_CODE: Final = ("UNSET", "OK", "ERROR")
_KINDS: Final = {f"SPAN_KIND_{name}": number for number, name in enumerate(_NAMES_OF_KIND)}
_CODES: Final = {f"STATUS_CODE_{name}": number for number, name in enumerate(_NAMES_OF_CODE)}
_DROPPED: Final = (
    ("droppedAttributesCount", "dropped_attributes_count"),
    ("droppedEventsCount", "dropped_events_count"),
    ("droppedLinksCount", "dropped_links_count"),
)
_ZERO_PARENT: Final = "0" * 16


def read_json(request: Any, context: NormaliseContext, *, replaced: bool) -> Iterator[SpanItem | Rejection]:
    """Yield the spans of a parsed request, in order, and a rejection for each that cannot be stored.

    Args:
        request: the parsed body.
        context: cleaner and limits.
        replaced: whether invalid Unicode was replaced somewhere in the body.

    Raises:
        BadBodyError: not such a request, of another signal, or nested too deep.
    """
    for group in groups(request, TRACES, context):
        shared = share(group.resource, group.scope, context)
        for k, span in enumerate(group.items):
            try:
                item = _span(span, shared, context)
            except ItemError as error:
                yield Rejection(f"{group.place}[{k}]", str(error))
                continue
            if replaced:
                item.replaced = has_replacement(span)
            yield item


def _span(span: Any, shared: Shared, context: NormaliseContext) -> SpanItem:
    if not isinstance(span, dict):
        raise ItemError("a span must be an object")
    get = span.get
    trace_id = check_hex_id(get("traceId"), 32, "traceId")
    span_id = check_hex_id(get("spanId"), 16, "spanId")
    parent = get("parentSpanId")
    extra: dict[str, Any] = {}
    exception_type = _events(get("events"), extra, context)
    links = get("links")
    if isinstance(links, list) and links:
        extra["links"] = [_link(link, context) for link in links if isinstance(link, dict)]
    kind = read_enum(get("kind"), _KINDS)
    if kind:
        extra["span_kind"] = kind
    copy_text(span, "traceState", extra, "trace_state")
    copy_count(span, "flags", extra, "flags")
    status = as_object(get("status"))
    copy_text(status, "message", extra, "status_message")
    for key, own in _DROPPED:
        copy_count(span, key, extra, own)
    name = get("name")
    return SpanItem(
        trace_id,
        span_id,
        check_hex_id(parent, 16, "parentSpanId") if parent and parent != _ZERO_PARENT else None,
        name if isinstance(name, str) else "",
        read_time(get("startTimeUnixNano"), "startTimeUnixNano"),
        read_time(get("endTimeUnixNano"), "endTimeUnixNano"),
        read_attributes(get("attributes"), context),
        read_enum(status.get("code"), _CODES),
        exception_type,
        extra,
        shared,
    )


def _events(events: Any, extra: dict[str, Any], context: NormaliseContext) -> Any:
    """Put the events into `extra` and return the type of the first exception among them."""
    if not isinstance(events, list) or not events:
        return None
    exception_type = None
    found = []
    for event in events:
        if not isinstance(event, dict):
            continue
        name = event.get("name")
        time_ns = read_int(event.get("timeUnixNano"))
        entry: dict[str, Any] = {
            "time_unix_nano": time_ns if type(time_ns) is int else 0,
            "name": name if isinstance(name, str) else "",
        }
        attributes = read_attributes(event.get("attributes"), context)
        if attributes:
            entry["attributes"] = attributes
            if exception_type is None and name == "exception":
                exception_type = attributes.get("exception.type")
        copy_count(event, "droppedAttributesCount", entry, "dropped_attributes_count")
        found.append(entry)
    extra["events"] = found
    return exception_type


def _link(link: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    trace_id, span_id = link.get("traceId"), link.get("spanId")
    entry: dict[str, Any] = {
        "trace_id": trace_id.lower() if isinstance(trace_id, str) else "",
        "span_id": span_id.lower() if isinstance(span_id, str) else "",
    }
    copy_text(link, "traceState", entry, "trace_state")
    attributes = read_attributes(link.get("attributes"), context)
    if attributes:
        entry["attributes"] = attributes
    copy_count(link, "droppedAttributesCount", entry, "dropped_attributes_count")
    copy_count(link, "flags", entry, "flags")
    return entry
