"""OTLP/JSON: protobuf's JSON mapping with hex ids (OTLP specification, "JSON Protobuf Encoding")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.json_text import has_replacement, too_deep
from tracehold_collector.decode.otlp_shared import share
from tracehold_collector.decode.otlp_values import check_hex_id, read_base64, read_double, read_int
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem

_ABOVE_VALUES: Final = 10
"""Levels of JSON above an attribute's value: request, lists and objects down to `value`."""

_LEVELS_PER_VALUE: Final = 3
"""A nested value adds `arrayValue`, `values` and an entry."""

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

    Unknown fields are ignored, as protobuf's JSON mapping says; null is an absent field.

    Args:
        request: the parsed body.
        context: cleaner and limits.
        replaced: whether invalid Unicode was replaced somewhere in the body.

    Raises:
        BadBodyError: not such a request, of another signal, or nested too deep.
    """
    for i, resource_spans in enumerate(_resource_spans(request)):
        place = f"resourceSpans[{i}]"
        _expect_object(resource_spans, place)
        resource = _resource(resource_spans, context)
        for j, scope_spans in enumerate(_list(resource_spans.get("scopeSpans"), f"{place}.scopeSpans")):
            inner = f"{place}.scopeSpans[{j}]"
            _expect_object(scope_spans, inner)
            shared = share(resource, _scope(scope_spans, context), context)
            for k, span in enumerate(_list(scope_spans.get("spans"), f"{inner}.spans")):
                try:
                    item = _span(span, shared, context)
                except ItemError as error:
                    yield Rejection(f"{inner}.spans[{k}]", str(error))
                    continue
                if replaced:
                    item.replaced = has_replacement(span)
                yield item


def _resource_spans(request: Any) -> list[Any]:
    if not isinstance(request, dict):
        raise BadBodyError('the body is JSON but not an OTLP request: expected an object with "resourceSpans"')
    if "resourceSpans" in request:
        return _list(request["resourceSpans"], "resourceSpans")
    for key, signal in (("resourceLogs", "logs"), ("resourceMetrics", "metrics")):
        if key in request:
            raise BadBodyError(
                f"the body is an OTLP {signal} request; this address takes traces, {signal} are not stored"
            )
    if "resource_spans" in request:
        raise BadBodyError('OTLP/JSON names are in lowerCamelCase: "resourceSpans", not "resource_spans"')
    if request:
        raise BadBodyError('the body is a JSON object without "resourceSpans": not an OTLP trace request')
    return []


def _list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadBodyError("expected a list", where=place)
    return value


def _expect_object(value: Any, place: str) -> None:
    if not isinstance(value, dict):
        raise BadBodyError("expected an object", where=place)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _resource(resource_spans: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    resource = _object(resource_spans.get("resource"))
    found: dict[str, Any] = {"attributes": _attributes(resource.get("attributes"), context)}
    _copy_count(resource, "droppedAttributesCount", found, "dropped_attributes_count")
    _copy_text(resource_spans, "schemaUrl", found, "schema_url")
    return found


def _scope(scope_spans: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    scope = _object(scope_spans.get("scope"))
    found: dict[str, Any] = {}
    _copy_text(scope, "name", found, "name")
    _copy_text(scope, "version", found, "version")
    attributes = _attributes(scope.get("attributes"), context)
    if attributes:
        found["attributes"] = attributes
    _copy_count(scope, "droppedAttributesCount", found, "dropped_attributes_count")
    _copy_text(scope_spans, "schemaUrl", found, "schema_url")
    return found


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
    kind = _enum(get("kind"), _KINDS)
    if kind:
        extra["span_kind"] = kind
    _copy_text(span, "traceState", extra, "trace_state")
    _copy_count(span, "flags", extra, "flags")
    status = _object(get("status"))
    _copy_text(status, "message", extra, "status_message")
    for key, own in _DROPPED:
        _copy_count(span, key, extra, own)
    name = get("name")
    return SpanItem(
        trace_id,
        span_id,
        check_hex_id(parent, 16, "parentSpanId") if parent and parent != _ZERO_PARENT else None,
        name if isinstance(name, str) else "",
        _time(get("startTimeUnixNano"), "startTimeUnixNano"),
        _time(get("endTimeUnixNano"), "endTimeUnixNano"),
        _attributes(get("attributes"), context),
        _enum(status.get("code"), _CODES),
        exception_type,
        extra,
        shared,
    )


def _time(value: Any, field: str) -> int:
    if value is None:
        return 0
    number = read_int(value)
    if type(number) is not int:
        raise ItemError(f"{field} is not an integer; it must be nanoseconds since the epoch")
    return number


def _enum(value: Any, names: dict[str, int]) -> int:
    """Return an enumeration's number; 0 when absent (FR-11) or unknown."""
    number = names.get(value) if isinstance(value, str) else None
    if number is None:
        number = read_int(value)
    return number if type(number) is int else 0


def _attributes(pairs: Any, context: NormaliseContext) -> dict[str, Any]:
    if pairs.__class__ is not list:
        return {}
    room = context.limits.max_depth - _ABOVE_VALUES
    found: dict[str, Any] = {}
    for pair in pairs:
        if pair.__class__ is not dict:
            continue
        key, value = pair.get("key"), pair.get("value")
        if key.__class__ is not str:
            continue
        if value.__class__ is dict:
            text = value.get("stringValue")
            found[key] = text if text.__class__ is str else _value(value, context, room)
        else:
            found[key] = None
    return found


def _value(value: Any, context: NormaliseContext, room: int) -> Any:
    """Return an AnyValue as the content holds it; one of a type nobody here knows is `None`."""
    if value.__class__ is not dict:
        return None
    if room <= 0:
        too_deep()
    for key, raw in value.items():
        if raw is None:
            continue
        if key in {"stringValue", "boolValue"}:
            return raw if isinstance(raw, str | bool | int | float) else None
        if key == "intValue":
            number = read_int(raw)
            return number if isinstance(number, str | int | float) else None
        if key == "doubleValue":
            number = read_double(raw)
            return number if isinstance(number, str | int | float) else None
        if key == "arrayValue":
            items = _object(raw).get("values")
            items = items if isinstance(items, list) else []
            return [_value(item, context, room - _LEVELS_PER_VALUE) for item in items]
        if key == "kvlistValue":
            return _pairs(_object(raw).get("values"), context, room - _LEVELS_PER_VALUE)
        if key == "bytesValue":
            return read_base64(raw, context.cleaner) if isinstance(raw, str) else None
    return None


def _pairs(pairs: Any, context: NormaliseContext, room: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            found[pair["key"]] = _value(pair.get("value"), context, room)
    return found


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
        attributes = _attributes(event.get("attributes"), context)
        if attributes:
            entry["attributes"] = attributes
            if exception_type is None and name == "exception":
                exception_type = attributes.get("exception.type")
        _copy_count(event, "droppedAttributesCount", entry, "dropped_attributes_count")
        found.append(entry)
    extra["events"] = found
    return exception_type


def _link(link: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    trace_id, span_id = link.get("traceId"), link.get("spanId")
    entry: dict[str, Any] = {
        "trace_id": trace_id.lower() if isinstance(trace_id, str) else "",
        "span_id": span_id.lower() if isinstance(span_id, str) else "",
    }
    _copy_text(link, "traceState", entry, "trace_state")
    attributes = _attributes(link.get("attributes"), context)
    if attributes:
        entry["attributes"] = attributes
    _copy_count(link, "droppedAttributesCount", entry, "dropped_attributes_count")
    _copy_count(link, "flags", entry, "flags")
    return entry


def _copy_text(source: dict[str, Any], key: str, target: dict[str, Any], own: str) -> None:
    value = source.get(key)
    if isinstance(value, str) and value:
        target[own] = value


def _copy_count(source: dict[str, Any], key: str, target: dict[str, Any], own: str) -> None:
    value = read_int(source.get(key))
    if type(value) is int and value:
        target[own] = value
