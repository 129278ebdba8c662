"""An OTLP span of any dialect -> a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from tracehold.observability.event_types import DENIALS, EVENT_TYPES, Kind, Status

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.classify import Classified, classify, fields_of
from tracehold_collector.normalise.content import clean_content
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.dialects import LANGFUSE_PARTS, LOGFIRE_ERROR_LEVEL, NAMED_BY_LOGFIRE
from tracehold_collector.normalise.ids import read_event_id, span_event_id
from tracehold_collector.normalise.outcomes import gate, read_kind, read_status, stated_decision
from tracehold_collector.normalise.price_classes import PRICE_CLASSES, price_classes
from tracehold_collector.normalise.span_item import SpanItem
from tracehold_collector.normalise.times import EARLIEST_NS, LONGEST_NS, credible
from tracehold_collector.normalise.tracer_events import tracer_envelope
from tracehold_collector.normalise.usage import Usage, count, credible_cost, settled, tokens
from tracehold_collector.normalise.verdicts import CACHE_APART, MARKS, ends_plainly, look_again

ODD_TIME: Final = "odd_time"
"""The attribute of an event whose times as sent were not credible; they stand in its content (FR-23)."""

_STATUS_OF_CODE: Final[dict[int, Status]] = {1: "ok", 2: "error"}
_NAMED_BY_TOOL: Final = frozenset({"tool", "gate", "approval"})
_TOKEN_FIELDS: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


def span_record(span: SpanItem, context: NormaliseContext) -> Record:
    """Return the record of one span.

    A span that our own OTel exporter made is read as the event it carries, so that an agent which exports
    both ways tells one story.
    """
    attributes = span.attributes
    fields = fields_of(attributes)
    if carries_own_event(attributes, fields):
        record = _from_own_exporter(span, context)
        odd_time = _times(span)[2]
    else:
        record = _envelope(span, fields, classify(attributes), context)
        odd_time = record.attributes is not None and ODD_TIME in record.attributes
    if _STATUS_OF_CODE.get(span.status_code, "unset") != record.status:
        span.extra["status_code"] = span.status_code
    odd_name = bool(span.name) and record.name != span.name
    record.content = _content(span, context, odd_name=odd_name, odd_time=odd_time)
    if span.replaced:
        record.attributes = {**(record.attributes or {}), "invalid_unicode": True}
    return record


def carries_own_event(attributes: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Whether a span is an event that our own OTel exporter put into one.

    Args:
        attributes: of the span.
        fields: as `classify.fields_of` gives them.
    """
    own_type = attributes.get("type")
    return "event_id" in fields and isinstance(own_type, str) and own_type in EVENT_TYPES


def _envelope(span: SpanItem, fields: dict[str, Any], classified: Classified, context: NormaliseContext) -> Record:
    name = context.name
    get = fields.get
    decision, rule = stated_decision(fields)
    decided_by = get("decided_by")
    listed, waits, ran = "task" if classified.kind == "wrapper" else classified.kind, None, False
    if (
        not MARKS.isdisjoint(fields)
        or span.exception_type is not None
        or ("finish_reason" in fields and not ends_plainly(fields["finish_reason"]))
    ):
        verdict = look_again(span, fields, classified, decision)
        if verdict is not None:
            listed, waits, ran = verdict.kind or listed, verdict.status, verdict.ran
            if verdict.type:
                classified = classified._replace(type=verdict.type)
            if verdict.decision is not None:
                decision, rule, decided_by = verdict.decision, verdict.rule, verdict.decided_by
    kind = read_kind(get("kind")) or read_kind(listed) or "other"
    if not ran:
        kind = gate(kind, decision)
    status = waits or _status(span, fields, classified, decision)
    started_at, duration_ns, odd_time = _times(span)
    record = Record(
        event_id=read_event_id(get("event_id")) or span_event_id(context.tenant, span.trace_id, span.span_id),
        tenant=context.tenant,
        run_id=context.run_id(get("run_id")) or context.run_id(span.shared.run_id) or span.trace_id,
        kind=kind,
        type=name(get("type")) or name(classified.type) or "span",
        source="otlp",
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        seq=count(get("seq")),
        name=_name(span, fields, classified, kind, context),
        status=status,
        started_at=started_at,
        duration_ns=duration_ns,
        agent=name(_agent(fields, classified, kind)),
        user_ref=context.user(get("user")),
        session_id=context.session(get("session")),
        service=name(span.shared.service),
        model=name(get("model")),
        provider=name(get("provider")),
        decision=decision,
        decided_by=name(decided_by),
        rule=name(rule),
        error_type=name(get("error_type") or span.exception_type) if status in {"error", "blocked"} else None,
        attributes=_attributes(fields, context, odd_time=odd_time),
    )
    if classified.kind != "wrapper":
        _spend(record, fields)
        if not PRICE_CLASSES.isdisjoint(fields) or "langfuse_usage" in fields:
            record.attributes = {**(record.attributes or {}), **_price_classes(fields, context)} or None
    return record


def _from_own_exporter(span: SpanItem, context: NormaliseContext) -> Record:
    event = dict(span.attributes)
    usage = event.get("usage")
    if isinstance(usage, str):
        try:
            event["usage"] = orjson.loads(usage)
        except orjson.JSONDecodeError:
            del event["usage"]
    event.setdefault("event_id", event.get("tracehold.event_id"))
    event.setdefault("run_id", event.get("tracehold.run_id"))
    event.setdefault("trace_id", span.trace_id)
    event.setdefault("span_id", span.span_id)
    # A run's own event says its span id: the span the SDK gave it hangs under that very id.
    if event["span_id"] != span.parent_span_id:
        event.setdefault("parent_span_id", span.parent_span_id)
    record = tracer_envelope(event, context, raw=b"", position=0).record
    record.source = "otlp"
    record.service = record.service or context.name(span.shared.service)
    if record.started_at is None:
        record.started_at, record.duration_ns, _ = _times(span)
    return record


def _status(span: SpanItem, fields: dict[str, Any], classified: Classified, decision: str | None) -> Status:
    if decision in DENIALS:
        return "blocked"
    own = read_status(fields.get("status"))
    if own is not None:
        return own
    if span.status_code == 0 and "level" in fields and not classified.key.endswith("span_type"):
        level = count(fields["level"])
        if level is not None and level >= LOGFIRE_ERROR_LEVEL:
            return "error"
    return _STATUS_OF_CODE.get(span.status_code, "unset")


def _times(span: SpanItem) -> tuple[int | None, int | None, bool]:
    """Return start, duration and whether the raw times are odd and must be kept (FR-23)."""
    start, end = credible(span.start_ns), credible(span.end_ns)
    if start is None or end is None or start < EARLIEST_NS or not 0 <= end - start <= LONGEST_NS:
        return start, None, True
    return start, end - start, False


def _name(
    span: SpanItem, fields: dict[str, Any], classified: Classified, kind: Kind, context: NormaliseContext
) -> str | None:
    tool: Any = None
    if kind in _NAMED_BY_TOOL:
        tool = fields.get("tool") or (fields.get("logfire_name") if classified.type in NAMED_BY_LOGFIRE else None)
        tool = tool or (fields.get("entity") if classified.key == "traceloop.span.kind" else None)
    return (context.name(tool) if tool else None) or context.name(span.name)


def _agent(fields: dict[str, Any], classified: Classified, kind: Kind) -> Any:
    agent = fields.get("agent")
    if agent is None and kind == "agent":
        if classified.type in NAMED_BY_LOGFIRE:
            return fields.get("logfire_name")
        if classified.key == "traceloop.span.kind":
            return fields.get("entity")
    return agent


def _spend(record: Record, fields: dict[str, Any]) -> None:
    """Fill tokens and cost; they stay unknown where the span does not say (DEC-13)."""
    source = fields
    langfuse = _object(fields.get("langfuse_usage"))
    if langfuse:
        source = {
            name: next((langfuse[key] for key in keys if key in langfuse), None)
            for name, keys in LANGFUSE_PARTS.items()
            if name in _TOKEN_FIELDS
        }
        source["total_tokens"] = langfuse.get("total")
    if source.keys() & _TOKEN_FIELDS:
        usage = Usage(*[tokens(source[name]) if name in source else None for name in _TOKEN_FIELDS])
        settled(usage, total=tokens(source.get("total_tokens")), cache_apart=CACHE_APART in fields)
        record.input_tokens, record.output_tokens = usage.input_tokens, usage.output_tokens
        record.cached_tokens, record.cache_write_tokens = usage.cached_tokens, usage.cache_write_tokens
        record.reasoning_tokens = usage.reasoning_tokens
    cost = credible_cost(fields.get("cost_usd"))
    if cost is None and "langfuse_cost" in fields:
        cost = _langfuse_cost(_object(fields["langfuse_cost"]))
    if cost is not None:
        record.cost_usd, record.price_source = cost, "recorded"


def _price_classes(fields: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    said = _object(fields.get("langfuse_usage"))
    parts = {
        name: next((said[key] for key in keys if key in said), None)
        for name, keys in LANGFUSE_PARTS.items()
        if said and name in PRICE_CLASSES
    }
    return price_classes(fields | parts, context)


def _langfuse_cost(details: dict[str, Any]) -> float | None:
    if "total" in details:
        return credible_cost(details["total"])
    parts = [credible_cost(value) for value in details.values()]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _object(value: Any) -> dict[str, Any]:
    """Return a mapping that came as one or as JSON text; empty for anything else."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return {}
    return value if isinstance(value, dict) else {}


def _attributes(fields: dict[str, Any], context: NormaliseContext, *, odd_time: bool) -> dict[str, Any] | None:
    """The allow-listed attributes: identifiers, enumerations and flags, never texts."""
    found: dict[str, Any] = {}
    reason = fields.get("finish_reason")
    if reason is not None:
        word = context.name(",".join(map(str, reason)) if isinstance(reason, list) else reason)
        if word:
            found["finish_reason"] = word
    call_id = context.call_id(fields.get("call_id"))
    if call_id:
        found["call_id"] = call_id
    if "rpc_request_id" in fields and (request_id := context.call_id(str(fields["rpc_request_id"]))):
        found["rpc_request_id"] = request_id
    if odd_time:
        found[ODD_TIME] = True
    return found or None


def _content(span: SpanItem, context: NormaliseContext, *, odd_name: bool, odd_time: bool) -> dict[str, Any]:
    own = span.extra
    if span.attributes:
        own["attributes"] = span.attributes
    if odd_name:
        own["name"] = span.name
    if odd_time:
        own["start_time_unix_nano"] = span.start_ns
        own["end_time_unix_nano"] = span.end_ns
    content = clean_content(own, context, size_hint=span.size_hint)
    if span.shared.content:
        content.update(span.shared.content)
    return content
