"""An OTLP log record of any dialect -> a record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tracehold.core.clock import NS_PER_MS
from tracehold.observability.event_types import DENIALS, Kind, Status

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.classify import fields_of
from tracehold_collector.normalise.content import clean_content
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.ids import read_event_id
from tracehold_collector.normalise.log_dialects import DIALECTS, PLAIN, LogDialect, LogEvent
from tracehold_collector.normalise.log_item import LogItem
from tracehold_collector.normalise.outcomes import gate, read_kind, read_status, stated_decision
from tracehold_collector.normalise.times import LATEST_NS, credible
from tracehold_collector.normalise.usage import Usage, count, credible_cost, money, settled, tokens

_ERROR: Final = 17
"""The least severity that is an error (OpenTelemetry's log data model, "Field: SeverityNumber")."""

_EVENTS: Final = {name: (dialect, event) for dialect in DIALECTS for name, event in dialect.events.items()}
_SCOPES: Final = {dialect.scope: dialect for dialect in DIALECTS if dialect.scope}
_PREFIXES: Final = tuple(dialect.prefix for dialect in DIALECTS)
_OTHER: Final = LogEvent("other")
_NAMED_BY_TOOL: Final = frozenset({"tool", "gate"})
_TOKENS: Final = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
_FLAGS: Final = {"true": True, "false": False}
_NS_PER_DAY: Final = 86_400_000_000_000
_NO_SERVICE: Final = "unknown_service"


def log_record(item: LogItem, context: NormaliseContext, *, digest: bytes, place: int) -> Record:
    """Return the record of one log record.

    Its span is its parent: the record is a point inside it, and no span of its own.

    Args:
        item: the log record.
        context: whose it is and by what rules it is read.
        digest: `item.digest()`.
        place: how many equal ones stand before it in the request.
    """
    type_, dialect, event = recognised(item)
    fields = fields_of(item.attributes)
    fields.update((field, item.attributes[key]) for field, key in overlaid(item.attributes, dialect).items())
    decision, rule = _decision(fields, dialect, event)
    kind = _kind(item, fields, event, decision)
    started_at, duration_ns = _times(item, fields, dialect)
    name, get = context.name, fields.get
    status = _status(item, fields, event, decision, kind)
    record = Record(
        event_id=read_event_id(get("event_id")) or context.pseudonyms.event_id(digest, place),
        tenant=context.tenant,
        run_id=_run(item, fields, context),
        kind=kind,
        type=name(get("type")) or name(type_) or "log",
        source="otlp",
        trace_id=item.trace_id,
        parent_span_id=item.span_id,
        seq=count(get("seq")),
        name=name((get("tool") if kind in _NAMED_BY_TOOL else get("label")) or type_),
        status=status,
        started_at=started_at,
        duration_ns=duration_ns,
        agent=name(get("agent")),
        user_ref=context.user(get("user")),
        session_id=context.session(get("session")),
        service=name(item.shared.service),
        model=name(get("model")),
        provider=name(get("provider")),
        decision=decision,
        decided_by=context.principal(get("decided_by") or (get("source") if event.decides else None)),
        rule=name(rule),
        error_type=name(get("error_type") or item.attributes.get("exception.type")) if status == "error" else None,
        attributes=_attributes(fields, event, context),
    )
    if not (event.detail and item.span_id is not None):
        _spend(record, fields, dialect)
    record.content = _content(item, record, context)
    if item.replaced:
        record.attributes = {**(record.attributes or {}), "invalid_unicode": True}
    return record


def recognised(item: LogItem) -> tuple[str, LogDialect, LogEvent]:
    """Return the event's name, whose it is and what it is: by the first of its names that is listed.

    Several, because some senders write the place in their code where the event's name should be.
    """
    given = (item.attributes.get("event.name"), item.event_name, item.body)
    names = [name for name in given if isinstance(name, str) and name]
    own = _SCOPES.get(item.scope_name) if isinstance(item.scope_name, str) else None
    prefix = own.prefix if own else ""
    for name in names:
        full = name if name in _EVENTS else prefix + name
        if full in _EVENTS:
            dialect, event = _EVENTS[full]
            fits = event.only_if is None or item.attributes.get(event.only_if[0]) == event.only_if[1]
            return full, dialect, event if fits else _OTHER
    # Nobody's event: what is written like one of a known program, else what was sent as a name. A body is a text.
    like = next((name for name in names if name.startswith(_PREFIXES)), "")
    full = like or next((name for name in names if name is not item.body), "")
    if full and not full.startswith(prefix):
        full = prefix + full
    dialect = own or next((dialect for dialect in DIALECTS if full.startswith(dialect.prefix)), PLAIN)
    return full or "log", dialect, _OTHER


def overlaid(attributes: Mapping[str, Any], dialect: LogDialect) -> dict[str, str]:
    """Return the fields that a dialect's own names fill, before those of the table of spans, each with its attribute.

    Our own attributes say what they say on purpose: no dialect overrules them.
    """
    return {
        field: key
        for field, keys in dialect.fields.items()
        if f"tracehold.{field}" not in attributes
        and (key := next((key for key in keys if attributes.get(key) not in (None, "")), None)) is not None
    }


def _decision(fields: dict[str, Any], dialect: LogDialect, event: LogEvent) -> tuple[str | None, Any]:
    stated, rule = stated_decision(fields)
    if stated is not None or not event.decides:
        return stated, rule
    decision = dialect.decisions.get(_plain(fields.get("word")))
    if decision == "rejected" and _plain(fields.get("source")) in dialect.policies:
        return "denied", rule
    return decision, rule


def _kind(item: LogItem, fields: dict[str, Any], event: LogEvent, decision: str | None) -> Kind:
    own = read_kind(fields.get("kind"))
    if own is not None:
        return gate(own, decision)
    if event.detail and item.span_id is not None:
        return "context"
    if event.kind == "tool" and _is_refused(fields):
        # Its own decision event is the denial: this one is neither a second denial nor a call that ran.
        return "gate"
    return gate(read_kind(event.kind) or "other", decision)


def _is_refused(fields: Mapping[str, Any]) -> bool:
    return fields.get("refused") == "reject"


def _status(item: LogItem, fields: dict[str, Any], event: LogEvent, decision: str | None, kind: Kind) -> Status:
    if decision in DENIALS:
        return "blocked"
    own = read_status(fields.get("status"))
    if own is not None:
        return own
    if event.kind == "tool" and kind == "gate":
        return "unset"
    success = fields.get("success")
    success = _FLAGS.get(success.lower()) if isinstance(success, str) else success
    if event.fails or success is False or item.severity >= _ERROR or "error" in fields or "error_type" in fields:
        return "error"
    return "ok" if success is True or decision == "allowed" else "unset"


def _times(item: LogItem, fields: dict[str, Any], dialect: LogDialect) -> tuple[int | None, int | None]:
    at = credible(item.time_ns) or credible(item.observed_ns)
    milliseconds = money(fields.get("duration_ms"))
    if milliseconds is None or milliseconds * NS_PER_MS >= LATEST_NS:
        return at, None
    duration_ns = int(milliseconds * NS_PER_MS)
    if at is None or not dialect.stamped_at_end:
        return at, duration_ns
    return credible(at - duration_ns), duration_ns


def _run(item: LogItem, fields: dict[str, Any], context: NormaliseContext) -> str:
    """Return the run of a record; docs/decisions says why it is looked for in this order."""
    get = fields.get
    run = (
        context.run_id(get("run_id"))
        or context.run_id(item.shared.run_id)
        or item.trace_id
        or context.run_id(get("turn"))
        or context.session(get("session"))
    )
    if run is not None:
        return run
    at = credible(item.time_ns) or credible(item.observed_ns) or context.now_ns
    day = datetime.fromtimestamp(at // _NS_PER_DAY * (_NS_PER_DAY // 10**9), UTC).date().isoformat()
    return context.run_id(f"logs:{context.name(item.shared.service) or _NO_SERVICE}:{day}") or _NO_SERVICE


def _spend(record: Record, fields: dict[str, Any], dialect: LogDialect) -> None:
    """Fill tokens and cost; they stay unknown where the event does not say (DEC-13)."""
    if fields.keys() & set(_TOKENS):
        usage = settled(
            Usage(*[tokens(fields[name]) if name in fields else None for name in _TOKENS]),
            total=tokens(fields.get("total_tokens")),
            cache_apart=dialect.cache_apart,
        )
        record.input_tokens, record.output_tokens = usage.input_tokens, usage.output_tokens
        record.cached_tokens, record.cache_write_tokens = usage.cached_tokens, usage.cache_write_tokens
        record.reasoning_tokens = usage.reasoning_tokens
    cost = credible_cost(fields.get("cost_usd"))
    if cost is not None:
        record.cost_usd, record.price_source = cost, "recorded"


def _attributes(fields: dict[str, Any], event: LogEvent, context: NormaliseContext) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    call_id = context.call_id(fields.get("call_id"))
    if call_id:
        found["call_id"] = call_id
    if event.kind == "score":
        score = fields.get("score")
        if isinstance(score, int | float) and not isinstance(score, bool):
            found["score"] = score
        label = context.name(fields.get("score_label"))
        if label:
            found["score_label"] = label
    return found or None


def _content(item: LogItem, record: Record, context: NormaliseContext) -> dict[str, Any]:
    said = item.extra
    if item.body is not None:
        said["body"] = item.body
    if item.attributes:
        said["attributes"] = item.attributes
    if item.event_name and item.event_name != record.type:
        said["event_name"] = item.event_name
    if item.severity:
        said["severity_number"] = item.severity
    if item.time_ns and item.time_ns != record.started_at:
        said["time_unix_nano"] = item.time_ns
    if item.observed_ns and item.observed_ns != record.started_at:
        said["observed_time_unix_nano"] = item.observed_ns
    content = clean_content(said, context, size_hint=item.size_hint)
    if item.shared.content:
        content.update(item.shared.content)
    return content


def _plain(word: object) -> str:
    return word.lower().replace("_", "") if isinstance(word, str) else ""
