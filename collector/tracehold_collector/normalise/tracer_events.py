"""A Tracer event (our own format) -> a record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tracehold.core.clock import NS_PER_MS
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.observability.event_types import DENIALS, Kind, Status
from tracehold.observability.semconv import KIND_OF_TYPE, cancelled_while_running

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.content import clean_content
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.ids import digest_id, read_event_id, read_span_id, read_trace_id
from tracehold_collector.normalise.outcomes import gate, read_decision, read_kind, read_status
from tracehold_collector.normalise.price_classes import INPUT_AUDIO, OUTPUT_AUDIO, SERVICE_TIER
from tracehold_collector.normalise.times import LATEST_NS, credible
from tracehold_collector.normalise.usage import Usage, count, credible_cost, money, read_usage

_DECIDED_BY_STATUS: Final = frozenset({"llm_call", "tool_call", "approval_decision", "guardrail_trip"})
"""Types whose status may itself be a decision (HAR-44, HAR-47, DEC-01)."""

_FIXED: Final[dict[str, tuple[Status | None, str | None]]] = {
    "run_start": ("started", None),
    "run_error": ("error", None),
    "run_suspend": ("suspended", None),
    "guardrail_trip": (None, "tripped"),
    "approval_request": ("suspended", "suspended"),
    "summarize_failed": ("error", None),
    "rag_query_transform_failed": ("error", None),
    "rag_contextualize_failed": ("error", None),
}
"""Type -> the status and the decision it stands for, where the type alone says so."""

_FLAGS: Final = ("has_tool_calls", "streamed")
_WORDS: Final = ("finish_reason", "origin", SERVICE_TIER)
_DIGESTS: Final = ("policy_digest", "digest", "approved_digest")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_MS: Final = LATEST_NS / NS_PER_MS
_RUN_TYPES: Final = frozenset({"run_start", "run_end"})
_OF_DECISION: Final[dict[str, Status]] = {"suspended": "suspended", "allowed": "ok"}
_APPROVALS: Final = frozenset({"allowed", "approved", "granted"})


class Envelope(NamedTuple):
    """A record without its content, and the keys of the event that the record holds in full."""

    record: Record
    held: set[str]


def tracer_record(event: Mapping[str, Any], context: NormaliseContext, *, raw: bytes, position: int) -> Record:
    """Return the record of one Tracer event.

    Args:
        event: as the CollectorExporter or a JSONL file holds it; JSON-like.
        context: whose event it is and by what rules it is read.
        raw: the event's bytes, for the id of an event without one.
        position: its place in the body or file, for the same.

    Raises:
        ItemError: it has no type.
    """
    record, held = tracer_envelope(event, context, raw=raw, position=position)
    content = {key: value for key, value in event.items() if key not in held}
    if content:
        record.content = clean_content(content, context)
    return record


def tracer_envelope(event: Mapping[str, Any], context: NormaliseContext, *, raw: bytes, position: int) -> Envelope:
    """Return the envelope alone; parameters and errors as in `tracer_record`."""
    get, name = event.get, context.name
    own_type = get("type")
    if not isinstance(own_type, str) or not own_type:
        raise ItemError('an event needs a "type", a text such as "tool_call"')
    held: set[str] = set()
    event_id = _event_id(event, context, raw=raw, position=position)
    trace_id = read_trace_id(get("trace_id"))
    run_id = context.run_id(get("run_id")) or trace_id or event_id.hex()
    kind, decision, status = _judge(event, own_type)
    run_span = run_root_span_id(run_id) if own_type in _RUN_TYPES else None
    record = Record(
        event_id=event_id,
        tenant=context.tenant,
        run_id=run_id,
        kind=kind,
        type=name(own_type) or "event",
        source="tracer",
        trace_id=trace_id or run_trace_id(run_id),
        span_id=read_span_id(get("span_id")) or run_span,
        parent_span_id=read_span_id(get("parent_span_id")),
        seq=count(get("step_index")),
        status=status,
        user_ref=context.user(get("user")),
        session_id=context.session(get("session")),
        decision=decision,
    )
    if record.type == own_type:
        held.add("type")
    for key, field in _NAME_FIELDS:
        found = context.principal(get(key)) if key == "decided_by" else name(get(key))
        if found is not None:
            _hold_name(record, field, key, found, held)
            if found == get(key):
                held.add(key)
    if record.name is None and get("name") is None:
        record.name = name(own_type)
    _hold_exact(record, event, held)
    _time(record, event, held)
    _spend(record, event, held)
    _attributes(record, event, context, held)
    return Envelope(record, held)


_NAME_FIELDS: Final = (
    ("name", "name"),
    ("tool", "name"),
    ("agent", "agent"),
    ("service", "service"),
    ("model", "model"),
    ("provider", "provider"),
    ("decided_by", "decided_by"),
    ("rule", "rule"),
    ("error_type", "error_type"),
)


def _hold_name(record: Record, field: str, key: str, found: str, held: set[str]) -> None:
    if key == "tool" and record.name is not None:
        # A tool event is named by its tool; a name of its own beside it stays readable in the content.
        held.discard("name")
    setattr(record, field, found)


def _hold_exact(record: Record, event: Mapping[str, Any], held: set[str]) -> None:
    """Note the keys the envelope repeats exactly, so that the content does not say them twice."""
    for key, own in (
        ("event_id", record.event_id.hex()),
        ("run_id", record.run_id),
        ("trace_id", record.trace_id),
        ("span_id", record.span_id),
        ("parent_span_id", record.parent_span_id),
        ("step_index", record.seq),
        ("kind", record.kind),
        ("decision", record.decision),
    ):
        if event.get(key) == own:
            held.add(key)
    held.update(key for key in ("user", "session") if isinstance(event.get(key), str | int))
    if read_status(event.get("status")) == record.status or event.get("status") == record.decision:
        held.add("status")


def _event_id(event: Mapping[str, Any], context: NormaliseContext, *, raw: bytes, position: int) -> bytes:
    own = event.get("event_id")
    found = read_event_id(own)
    if found is not None:
        return found
    if isinstance(own, str) and own:
        return digest_id(context.tenant, "tracer", own)
    return context.pseudonyms.event_id(raw, position)


def _judge(event: Mapping[str, Any], own_type: str) -> tuple[Kind, str | None, Status]:
    """Return kind, decision and status: what the event is, what a gate said, how it ended."""
    kind = read_kind(event.get("kind")) or read_kind(KIND_OF_TYPE.get(own_type)) or "other"
    fixed_status, fixed_decision = _FIXED.get(own_type, (None, None))
    word = event.get("status")
    decision = read_decision(event.get("decision")) or fixed_decision
    if decision is None and own_type in _DECIDED_BY_STATUS and not cancelled_while_running(event):
        decision = read_decision(word)
        if own_type == "approval_decision" and isinstance(word, str) and word.lower() in _APPROVALS:
            decision = "allowed"
    if own_type == "approval_decision" and decision is None and isinstance(event.get("approved"), bool):
        decision = "allowed" if event["approved"] else "rejected"
    if own_type == "approval_decision":
        # The call that was not allowed is an event of its own: counted here too, one attempt would be two denials.
        return kind, decision, "ok"
    if decision in DENIALS:
        return gate(kind, decision), decision, "blocked"
    failed = event.get("error") is not None or event.get("error_type") is not None
    status = fixed_status or read_status(word) or _OF_DECISION.get(decision or "")
    if status is None and isinstance(word, str):
        # An end that is no gate's decision about a call, such as a run stopped at its limit.
        status = "error" if word == "limited" else "blocked" if word in DENIALS else "unset"
    return kind, decision, status or ("error" if failed else "ok")


def _time(record: Record, event: Mapping[str, Any], held: set[str]) -> None:
    start, duration, latency = event.get("started_at_ns"), event.get("duration_ns"), event.get("latency_ms")
    if type(start) is int and credible(start) is not None:
        record.started_at = start
        held.add("started_at_ns")
    width = duration if type(duration) is int else None
    if width is None and duration is None:
        milliseconds = money(latency)
        width = int(milliseconds * NS_PER_MS) if milliseconds is not None and milliseconds < _MAX_MS else None
    # Longer than the years that are credible as a time is not credible as a duration either (FR-23).
    if width is not None and (width == 0 or credible(width) is not None):
        record.duration_ns = width
        held.add("duration_ns")
        if type(latency) is int and latency == width // NS_PER_MS:
            held.add("latency_ms")


def _spend(record: Record, event: Mapping[str, Any], held: set[str]) -> None:
    raw = event.get("usage")
    if isinstance(raw, Mapping):
        usage, readable = read_usage(raw)
        _fill(record, usage)
        if readable:
            held.add("usage")
    given = event.get("cost_usd", event.get("cost"))
    cost = credible_cost(given) if not isinstance(given, str) else None
    if cost is not None:
        record.cost_usd, record.price_source = cost, "recorded"
        held.add("cost_usd")
        if "cost_usd" not in event:
            held.add("cost")


def _fill(record: Record, usage: Usage) -> None:
    record.input_tokens, record.output_tokens = usage.input_tokens, usage.output_tokens
    record.cached_tokens, record.cache_write_tokens = usage.cached_tokens, usage.cache_write_tokens
    record.reasoning_tokens = usage.reasoning_tokens
    audio = {INPUT_AUDIO: usage.input_audio_tokens, OUTPUT_AUDIO: usage.output_audio_tokens}
    found = {name: count for name, count in audio.items() if count}
    if found:
        record.attributes = {**(record.attributes or {}), **found}


def _attributes(record: Record, event: Mapping[str, Any], context: NormaliseContext, held: set[str]) -> None:
    found: dict[str, Any] = {}
    for key in _FLAGS:
        value = event.get(key)
        if isinstance(value, bool):
            found[key] = value
            held.add(key)
    for key in _WORDS:
        word = context.name(event.get(key))
        if word is not None:
            found[key] = word
            if word == event[key]:
                held.add(key)
    for key in _DIGESTS:
        digest = event.get(key)
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            found[key] = digest
            held.add(key)
    call_id = context.call_id(event.get("call_id"))
    if call_id is not None:
        found["call_id"] = call_id
        held.add("call_id")
    record.attributes = {**(record.attributes or {}), **found} or None
