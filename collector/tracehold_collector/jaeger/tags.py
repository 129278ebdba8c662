"""The typed tags of a span, its process and its logs, as Jaeger's own JSON has them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracehold_collector.forward.anyvalue import key_values
from tracehold_collector.forward.parts import mapping, text
from tracehold_collector.jaeger.view import SpanView

Tag = dict[str, Any]
"""`key`, `type` (string, bool, int64, float64 or binary) and `value`."""

SERVICE_NAME: Final = "service.name"

SPAN_KINDS: Final = {
    Span.SPAN_KIND_INTERNAL: "internal",
    Span.SPAN_KIND_SERVER: "server",
    Span.SPAN_KIND_CLIENT: "client",
    Span.SPAN_KIND_PRODUCER: "producer",
    Span.SPAN_KIND_CONSUMER: "consumer",
}
"""OTLP's kinds in Jaeger's words; a kind that was not given has none."""

_SAFE: Final = (1 << 53) - 1
"""Beyond it a browser rounds a number, so that Jaeger writes the digits as text."""


def span_tags(view: SpanView) -> list[Tag]:
    """Return a span's tags: its scope, its attributes with the envelope among them, its kind and status."""
    span, scope = view.span, view.scope
    tags = [_text_tag(f"otel.scope.{part}", said) for part in ("name", "version") if (said := text(scope.get(part)))]
    tags += tags_of(key_values(mapping(scope.get("attributes"))))
    tags += tags_of(span.attributes)
    if span.kind in SPAN_KINDS:
        tags.append(_text_tag("span.kind", SPAN_KINDS[span.kind]))
    if span.status.code == Status.STATUS_CODE_ERROR:
        tags += [_text_tag("otel.status_code", "ERROR"), {"key": "error", "type": "bool", "value": True}]
    elif span.status.code == Status.STATUS_CODE_OK:
        tags.append(_text_tag("otel.status_code", "OK"))
    if span.status.message:
        tags.append(_text_tag("otel.status_description", span.status.message))
    if span.trace_state:
        tags.append(_text_tag("w3c.tracestate", span.trace_state))
    return tags


def process_tags(view: SpanView) -> list[Tag]:
    """Return the tags of the process a span comes from: its resource, without the service's name."""
    attributes = mapping(view.resource.get("attributes"))
    return tags_of(key_values({key: value for key, value in attributes.items() if key != SERVICE_NAME}))


def log_fields(event: Span.Event) -> list[Tag]:
    """Return the fields of a log: the name as `event`, unless an attribute is called so, and the attributes."""
    named = event.name and all(pair.key != "event" for pair in event.attributes)
    return [*([_text_tag("event", event.name)] if named else []), *tags_of(event.attributes)]


def tags_of(pairs: Iterable[KeyValue]) -> list[Tag]:
    """Return attributes as tags, their types kept; lists and mappings become JSON text."""
    return [{"key": pair.key, **_typed(pair.value)} for pair in pairs]


def matches(view: SpanView, wanted: Mapping[str, str]) -> bool:
    """Whether a span, its process or one of its logs says all that is wanted; values are compared as text."""
    left = dict(wanted)
    for tag in _all_tags(view):
        asked = left.get(tag["key"])
        if asked is not None and _says(tag, asked):
            del left[tag["key"]]
            if not left:
                return True
    return not left


def _all_tags(view: SpanView) -> Iterator[Tag]:
    yield from span_tags(view)
    yield from process_tags(view)
    for event in view.span.events:
        yield from log_fields(event)


def _says(tag: Tag, asked: str) -> bool:
    value = tag["value"]
    if tag["type"] == "bool":
        return asked == ("true" if value else "false")
    if tag["type"] == "float64":
        try:
            return float(asked) == float(value)
        except ValueError:
            return False
    return asked == str(value)


def _typed(value: AnyValue) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    if kind == "bool_value":
        return {"type": "bool", "value": value.bool_value}
    if kind == "int_value":
        whole = value.int_value
        return {"type": "int64", "value": whole if -_SAFE <= whole <= _SAFE else str(whole)}
    if kind == "double_value":
        number = value.double_value
        # JSON has no NaN; a null where a number belongs would make the whole trace unreadable (FR-17).
        return (
            {"type": "float64", "value": number} if math.isfinite(number) else {"type": "string", "value": str(number)}
        )
    if kind == "bytes_value":
        return {"type": "binary", "value": base64.b64encode(value.bytes_value).decode("ascii")}
    if kind in {"array_value", "kvlist_value"}:
        return {"type": "string", "value": json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))}
    return {"type": "string", "value": value.string_value}


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _plain(pair.value) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode("ascii")
    return getattr(value, kind) if kind else None


def _text_tag(key: str, value: str) -> Tag:
    return {"key": key, "type": "string", "value": value}
