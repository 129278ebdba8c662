"""The parts of a span that few have, in OTLP/protobuf: its events and links."""

from __future__ import annotations

from typing import Any

from tracehold_collector.decode.otlp_protobuf_parts import read_attributes
from tracehold_collector.normalise.context import NormaliseContext


def read_events(events: Any, extra: dict[str, Any], context: NormaliseContext) -> Any:
    """Put the span events into `extra` and return the type of the first exception among them."""
    exception_type = None
    found = []
    for event in events:
        entry: dict[str, Any] = {"time_unix_nano": event.time_unix_nano, "name": event.name}
        if event.attributes:
            entry["attributes"] = read_attributes(event.attributes, context)
            if exception_type is None and event.name == "exception":
                exception_type = entry["attributes"].get("exception.type")
        if event.dropped_attributes_count:
            entry["dropped_attributes_count"] = event.dropped_attributes_count
        found.append(entry)
    extra["events"] = found
    return exception_type


def read_link(link: Any, context: NormaliseContext) -> dict[str, Any]:
    """Return a span link as the content holds it."""
    entry: dict[str, Any] = {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex()}
    if link.trace_state:
        entry["trace_state"] = link.trace_state
    if link.attributes:
        entry["attributes"] = read_attributes(link.attributes, context)
    if link.dropped_attributes_count:
        entry["dropped_attributes_count"] = link.dropped_attributes_count
    if link.flags:
        entry["flags"] = link.flags
    return entry
