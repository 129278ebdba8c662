"""An OTLP logs request, in either encoding, to log items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tracehold_collector.core.record import Rejection
from tracehold_collector.decode import otlp_json_parts as from_json
from tracehold_collector.decode import otlp_protobuf_parts as from_protobuf
from tracehold_collector.decode.json_text import has_replacement
from tracehold_collector.decode.otlp_shared import share
from tracehold_collector.decode.otlp_signals import LOGS
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.ids import read_span_id, read_trace_id
from tracehold_collector.normalise.log_item import LogItem, origin_digest
from tracehold_collector.normalise.span_item import Shared

_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SEVERITIES: Final = {
    f"SEVERITY_NUMBER_{level}{step if step > 1 else ''}": 4 * rank + step
    for rank, level in enumerate(_LEVELS)
    for step in range(1, 5)
}


def read_logs_json(request: Any, context: NormaliseContext, *, replaced: bool) -> Iterator[LogItem | Rejection]:
    """Yield the log records of a parsed request, in order, and a rejection for each that cannot be stored.

    Args:
        request: the parsed body.
        context: cleaner and limits.
        replaced: whether invalid Unicode was replaced somewhere in the body.

    Raises:
        BadBodyError: not such a request, of another signal, or nested too deep.
    """
    for group in from_json.groups(request, LOGS, context):
        shared = share(group.resource, group.scope, context)
        origin = origin_digest(group.resource, group.scope)
        for k, record in enumerate(group.items):
            try:
                item = _from_json(record, shared, group.scope.get("name"), origin, context)
            except ItemError as error:
                yield Rejection(f"{group.place}[{k}]", str(error))
                continue
            if replaced:
                item.replaced = has_replacement(record)
            yield item


def read_logs_protobuf(body: bytes, context: NormaliseContext) -> Iterator[LogItem | Rejection]:
    """Yield the log records of an ExportLogsServiceRequest.

    Raises:
        BadBodyError: not such a request, cut short, nested deeper than protobuf reads (100 messages), or a
            request of another signal.
    """
    request, replaced = from_protobuf.parse_protobuf(body, LOGS)
    trusted = False  # once a record has a time, or the body has been asked what else it could be
    for of_resource in request.resource_logs:
        resource = from_protobuf.read_resource(of_resource, context)
        for of_scope in of_resource.scope_logs:
            scope = from_protobuf.read_scope(of_scope, context)
            shared = share(resource, scope, context)
            origin = origin_digest(resource, scope)
            for record in of_scope.log_records:
                if not trusted:
                    if not from_protobuf.is_log(record):
                        from_protobuf.refuse_other_signals(body, LOGS)
                    trusted = True
                item = _from_protobuf(record, shared, scope.get("name"), origin, context)
                if replaced:
                    item.replaced = from_protobuf.holds_replacement(record)
                yield item
    if not trusted and body:
        from_protobuf.refuse_other_signals(body, LOGS)


def _from_json(record: Any, shared: Shared, scope_name: Any, origin: bytes, context: NormaliseContext) -> LogItem:
    if not isinstance(record, dict):
        raise ItemError("a log record must be an object")
    get = record.get
    extra: dict[str, Any] = {}
    from_json.copy_text(record, "severityText", extra, "severity_text")
    from_json.copy_count(record, "flags", extra, "flags")
    from_json.copy_count(record, "droppedAttributesCount", extra, "dropped_attributes_count")
    name = get("eventName")
    return LogItem(
        *_ids(get("traceId"), get("spanId"), extra),
        from_json.read_time(get("timeUnixNano"), "timeUnixNano"),
        from_json.read_time(get("observedTimeUnixNano"), "observedTimeUnixNano"),
        from_json.read_enum(get("severityNumber"), _SEVERITIES),
        name if isinstance(name, str) else "",
        from_json.read_body(get("body"), context),
        from_json.read_attributes(get("attributes"), context),
        extra,
        shared,
        scope_name,
        origin,
    )


def _from_protobuf(record: Any, shared: Shared, scope_name: Any, origin: bytes, context: NormaliseContext) -> LogItem:
    extra: dict[str, Any] = {}
    if record.severity_text:
        extra["severity_text"] = record.severity_text
    if record.flags:
        extra["flags"] = record.flags
    if record.dropped_attributes_count:
        extra["dropped_attributes_count"] = record.dropped_attributes_count
    return LogItem(
        *_ids(record.trace_id.hex(), record.span_id.hex(), extra),
        record.time_unix_nano,
        record.observed_time_unix_nano,
        record.severity_number,
        record.event_name,
        from_protobuf.read_body(record.body, context) if record.HasField("body") else None,
        from_protobuf.read_attributes(record.attributes, context),
        extra,
        shared,
        scope_name,
        origin,
        record.ByteSize(),
    )


def _ids(trace_id: object, span_id: object, extra: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the ids that are valid; others are no ids, and kept (logs.proto, `trace_id`: assume no trace then)."""
    trace, span = read_trace_id(trace_id), read_span_id(span_id)
    if trace is None:
        span = None
    _keep_odd(extra, "trace_id", trace_id, trace)
    _keep_odd(extra, "span_id", span_id, span)
    return trace, span


def _keep_odd(extra: dict[str, Any], field: str, given: object, read: str | None) -> None:
    if read is None and isinstance(given, str) and given.strip("0"):
        extra[field] = given
