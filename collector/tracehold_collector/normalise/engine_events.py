"""An event of the engine's log -> a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.observability.engine_types import (
    ENGINE_TYPES,
    RUN_OUTCOMES,
    STOPPED_BY_PERSON,
    UNLISTED,
    EngineType,
    short_type,
)
from tracehold.observability.event_types import DECISIONS, DENIALS

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.content import clean_content
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.engine_spans import OpenSpans, call_key, span_key
from tracehold_collector.normalise.ids import digest_id, read_span_id, read_trace_id, span_digest
from tracehold_collector.normalise.outcomes import gate
from tracehold_collector.normalise.times import read_rfc3339
from tracehold_collector.normalise.usage import count, credible_cost, read_usage

_NO_USAGE_KINDS: Final = frozenset({"llm.requested", "llm.delta"})
_GATED: Final = frozenset({"llm.completed", "llm.failed", "tool.completed", "tool.failed"})
_BLOCKING: Final = frozenset({"block", "blocked", "deny", "denied"})
_HELD: Final = frozenset({"type", "run_id", "seq", "tenant"})


def engine_record(event: Mapping[str, Any], stream: str | None, spans: OpenSpans, context: NormaliseContext) -> Record:
    """Return the record of one engine event.

    Args:
        event: the envelope of EVT-01 as the log or a CloudEvent holds it.
        stream: the stream it was read from, when that stood beside the event.
        spans: what this body has opened so far; this event is noted in it.
        context: whose event it is and by what rules it is read.

    Raises:
        ItemError: it has no id or no type.
    """
    event_id, own_type = event.get("id"), event.get("type")
    if not isinstance(event_id, str) or not event_id or not isinstance(own_type, str) or not own_type:
        raise ItemError('an engine event needs "id" and "type", both text')
    own_stream = _text(event.get("stream")) or stream or _text(event.get("run_id")) or _text(event.get("source")) or ""
    data = event.get("data")
    data = data if isinstance(data, dict) else {}
    short = short_type(own_type)
    known = ENGINE_TYPES.get(short, UNLISTED)
    run_id = context.run_id(event.get("run_id")) or context.run_id(own_stream) or context.run_id(event_id) or event_id
    at_ns = read_rfc3339(event.get("time"))
    record = Record(
        event_id=digest_id(context.tenant, own_stream, event_id),
        tenant=context.tenant,
        run_id=run_id,
        kind=known.kind,
        type=context.name(own_type) or "event",
        source="engine",
        trace_id=read_trace_id(event.get("trace_id")) or run_trace_id(run_id),
        seq=count(event.get("seq")),
        name=context.name(data.get("name")) or context.name(data.get("guard")),
        status=known.status,
        started_at=at_ns,
        decision=known.decision,
    )
    _who(record, event, data, short=short, stream=own_stream, context=context)
    _judge(record, data, short, context)
    _span(record, event, data, known=known, spans=spans, at_ns=at_ns)
    if short not in _NO_USAGE_KINDS:
        _spend(record, data, short, context)
    if record.name is None:
        # A run is called by its algorithm; its end has no name, so that the two halves do not disagree.
        record.name = (context.name(data.get("algo")) if record.kind == "run" else None) or (
            None if short == "run.completed" else context.name(short)
        )
    content = {key: value for key, value in event.items() if key not in _HELD and value not in (None, "", [], {})}
    if record.type != own_type:
        content["type"] = own_type
    if at_ns is not None:
        content.pop("time", None)
    record.content = clean_content(content, context)
    return record


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _who(
    record: Record,
    event: Mapping[str, Any],
    data: Mapping[str, Any],
    *,
    short: str,
    stream: str,
    context: NormaliseContext,
) -> None:
    meta = event.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    record.user_ref = context.user(meta.get("user"))
    record.session_id = context.session(meta.get("session"))
    if record.session_id is None and short.startswith("session."):
        record.session_id = context.session(stream)
    record.agent = context.name(data.get("algo") if short == "run.started" else None) or context.name(meta.get("agent"))
    call_id = context.call_id(data.get("call_id"))
    if call_id is not None:
        record.attributes = {"call_id": call_id}


def _judge(record: Record, data: Mapping[str, Any], short: str, context: NormaliseContext) -> None:
    """Set status, decision, rule and error type from what the payload says."""
    if short in {"run.completed", "child.completed"}:
        outcome = data.get("outcome") if short == "child.completed" else data
        word = outcome.get("kind") if isinstance(outcome, dict) else None
        record.status = RUN_OUTCOMES.get(word, "unset") if isinstance(word, str) else "unset"
    elif short == "guard.verdict":
        action = data.get("action")
        record.rule = context.name(data.get("guard"))
        if isinstance(action, str) and action.lower() in _BLOCKING:
            record.decision, record.status = "tripped", "blocked"
        elif isinstance(action, str) and action.lower() == "allow":
            record.decision = "allowed"
    elif short == "budget.exceeded":
        record.rule = "budget"
    elif short.startswith("approval."):
        record.decided_by = context.principal(data.get("by")) or context.principal(data.get("decided_by"))
    elif record.status == "error":
        error = data.get("error")
        record.error_type = context.name(error.get("type")) if isinstance(error, dict) else None
        if short == "tool.failed" and record.error_type in STOPPED_BY_PERSON:
            record.status, record.error_type = "blocked", None
    if short in _GATED:
        _read_gate(record, data, context)
    if record.decision in DENIALS:
        record.status = "blocked"


def _read_gate(record: Record, data: Mapping[str, Any], context: NormaliseContext) -> None:
    """Take what a gate said about a call: a stopped one never ran, and is no failed tool (DEC-01)."""
    decision = data.get("decision")
    if not isinstance(decision, str) or decision not in DECISIONS:
        return
    record.decision, record.kind = decision, gate(record.kind, decision)
    record.decided_by, record.rule = context.principal(data.get("decided_by")), context.name(data.get("rule"))
    if decision in DENIALS:
        record.error_type = None


def _span(
    record: Record,
    event: Mapping[str, Any],
    data: Mapping[str, Any],
    *,
    known: EngineType,
    spans: OpenSpans,
    at_ns: int | None,
) -> None:
    """Give the event its place in the run's tree, and a width when the body holds the half that opened it."""
    root = run_root_span_id(record.run_id)
    call = call_key(data)
    if record.kind == "run" and known.half != "point":
        key = "run"
        record.span_id = root
    else:
        key = span_key(event, data)
        record.span_id = read_span_id(event.get("span_id")) or span_digest(f"{record.run_id}\x00{key}")
        record.parent_span_id = root
    if known.half == "opens":
        spans.note(record.run_id, key, at_ns, record.name)
        if call is not None:
            spans.note(record.run_id, call, at_ns, record.name)
        return
    named = spans.find(record.run_id, call) if call is not None else None
    opening = spans.find(record.run_id, key) if known.half == "ends" else None
    record.name = record.name or (named.name if named else None) or (opening.name if opening else None)
    if opening is not None and at_ns is not None and at_ns >= opening.at_ns:
        record.started_at, record.duration_ns = opening.at_ns, at_ns - opening.at_ns


def _spend(record: Record, data: Mapping[str, Any], short: str, context: NormaliseContext) -> None:
    response = data.get("response")
    response = response if isinstance(response, dict) else {}
    usage = data.get("usage") or response.get("usage")
    if isinstance(usage, dict) and usage:
        read, _ = read_usage(usage)
        record.input_tokens, record.output_tokens = read.input_tokens, read.output_tokens
        record.cached_tokens, record.cache_write_tokens = read.cached_tokens, read.cache_write_tokens
        record.reasoning_tokens = read.reasoning_tokens
    # Text is no number here: the engine writes numbers, so text is a mistake and unknown (DEC-13).
    raw = data.get("cost", response.get("cost"))
    cost = None if isinstance(raw, str) else credible_cost(raw)
    if cost is not None:
        record.cost_usd, record.price_source = cost, "recorded"
    if short.startswith("llm."):
        record.model = context.name(response.get("model"))
        record.provider = context.name(response.get("provider"))
        reason = context.name(response.get("finish_reason"))
        if reason is not None:
            record.attributes = {**(record.attributes or {}), "finish_reason": reason}
