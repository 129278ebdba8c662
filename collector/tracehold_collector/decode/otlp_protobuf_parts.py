"""What the requests of all signals have in common in OTLP/protobuf: parsing, resources, attributes and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.decode.otlp_signals import LOGS, METRICS, TRACES, Signal, wrong_signal
from tracehold_collector.decode.otlp_values import read_bytes, read_double
from tracehold_collector.decode.utf8_repair import repair_utf8
from tracehold_collector.normalise.context import NormaliseContext

_TOO_DEEP: Final = "[nested too deep]"
_PLAIN: Final = frozenset({"string_value", "int_value", "bool_value"})
_BAD_UTF8: Final = "UTF-8"
_TRACE_ID_BYTES: Final = 16
_MESSAGES: Final[dict[Signal, Any]] = {
    TRACES: ExportTraceServiceRequest,
    LOGS: ExportLogsServiceRequest,
    METRICS: ExportMetricsServiceRequest,
}
_PARTS: Final = {
    TRACES: ("resource_spans", "scope_spans", "spans"),
    LOGS: ("resource_logs", "scope_logs", "log_records"),
    METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}


class Parsed(NamedTuple):
    """A request, and whether invalid Unicode was replaced somewhere in it (FR-15)."""

    request: Any
    replaced: bool


def parse_protobuf(body: bytes, signal: Signal) -> Parsed:
    """Return the export request in `body`.

    Raises:
        BadBodyError: not such a request, cut short, nested deeper than protobuf reads (100 messages), or a
            request of another signal.
    """
    message = _MESSAGES[signal]
    try:
        return Parsed(message.FromString(body), replaced=False)
    except DecodeError as error:
        problem = str(error).rsplit(": ", 1)[-1]
    refuse_other_signals(body, signal)
    if _BAD_UTF8 in problem:
        try:
            return Parsed(message.FromString(repair_utf8(body, message.DESCRIPTOR)), replaced=True)
        except (DecodeError, ValueError):
            pass
    raise BadBodyError(
        f"the body is not an OTLP {message.DESCRIPTOR.name} in protobuf ({problem.lower()}):"
        " damaged, cut short, nested too deep or in another encoding"
    )


def refuse_other_signals(body: bytes, wanted: Signal) -> None:
    """Say so when the body is of another signal: its protobuf form also parses as this one, full of nonsense.

    Raises:
        BadBodyError: it is.
    """
    for signal, message in _MESSAGES.items():
        if signal is wanted:
            continue
        try:
            request = message.FromString(body)
        except DecodeError:
            continue
        item = next(items_of(request, signal), None)
        if item is not None and _IS[signal](item):
            raise wrong_signal(signal, wanted)


def items_of(request: Any, signal: Signal) -> Iterator[Any]:
    """Yield the spans, log records or metrics of a request."""
    resources, scopes, items = _PARTS[signal]
    for resource in getattr(request, resources):
        for scope in getattr(resource, scopes):
            yield from getattr(scope, items)


def is_log(record: Any) -> bool:
    """Whether a message surely is a log record: no other signal has these numbers in their places."""
    return bool(record.time_unix_nano or record.observed_time_unix_nano or record.severity_number)


def _is_metric(metric: Any) -> bool:
    return bool(metric.name) and metric.WhichOneof("data") is not None


def _is_span(span: Any) -> bool:
    return len(span.trace_id) == _TRACE_ID_BYTES and bool(span.start_time_unix_nano)


_IS: Final = {TRACES: _is_span, LOGS: is_log, METRICS: _is_metric}


def read_resource(of_resource: Any, context: NormaliseContext) -> dict[str, Any]:
    """Return what a request says of one resource: `attributes`, and the rest when it is set."""
    resource = of_resource.resource
    found: dict[str, Any] = {"attributes": read_attributes(resource.attributes, context)}
    if resource.dropped_attributes_count:
        found["dropped_attributes_count"] = resource.dropped_attributes_count
    if of_resource.schema_url:
        found["schema_url"] = of_resource.schema_url
    return found


def read_scope(of_scope: Any, context: NormaliseContext) -> dict[str, Any]:
    """Return what a request says of one instrumentation scope; empty when it says nothing."""
    scope = of_scope.scope
    found: dict[str, Any] = {}
    if scope.name:
        found["name"] = scope.name
    if scope.version:
        found["version"] = scope.version
    if scope.attributes:
        found["attributes"] = read_attributes(scope.attributes, context)
    if scope.dropped_attributes_count:
        found["dropped_attributes_count"] = scope.dropped_attributes_count
    if of_scope.schema_url:
        found["schema_url"] = of_scope.schema_url
    return found


def read_attributes(pairs: Any, context: NormaliseContext) -> dict[str, Any]:
    """Return KeyValues as a mapping.

    Reading `string_value` first saves the costlier `WhichOneof` for most: only the field that is set is not empty.
    """
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


def read_body(value: Any, context: NormaliseContext) -> Any:
    """Return an AnyValue that stands by itself, as `read_attributes` returns those of attributes."""
    return value.string_value or _value(value, context, context.limits.max_depth)


def _value(value: Any, context: NormaliseContext, room: int) -> Any:
    which = value.WhichOneof("value")
    if which is None:
        return None
    raw = getattr(value, which)
    if which == "double_value":
        return read_double(raw)
    if which == "array_value":
        return _array(raw, context, room)
    if which == "kvlist_value":
        return _map(raw, context, room)
    return read_bytes(raw, context.cleaner) if which == "bytes_value" else raw


def read_array(array: Any, context: NormaliseContext) -> list[Any] | str:
    """Return the values of an ArrayValue that is an attribute's."""
    return _array(array, context, context.limits.max_depth)


def read_map(pairs: Any, context: NormaliseContext) -> dict[str, Any] | str:
    """Return the values of a KeyValueList that is an attribute's."""
    return _map(pairs, context, context.limits.max_depth)


def _array(array: Any, context: NormaliseContext, room: int) -> list[Any] | str:
    if room <= 0:
        return _TOO_DEEP
    return [item.string_value or _value(item, context, room - 1) for item in array.values]


def _map(pairs: Any, context: NormaliseContext, room: int) -> dict[str, Any] | str:
    if room <= 0:
        return _TOO_DEEP
    return {pair.key: pair.value.string_value or _value(pair.value, context, room - 1) for pair in pairs.values}


def holds_replacement(item: Any) -> bool:
    """Whether a message holds a character that stands for invalid Unicode."""
    serialised: bytes = item.SerializeToString()
    return b"\xef\xbf\xbd" in serialised
