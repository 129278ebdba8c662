"""One event on its way into the store: the open envelope as typed fields, the content as one JSON-like mapping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tracehold.observability.event_types import Kind, Status

OWN_SOURCE: Final = "collector"
"""`Record.source` of what people did here, under their own login. No sender can claim it: decoders set their own."""


@dataclass(slots=True)
class Record:
    """An event, normalised, redacted, ready to be written. Unknown is `None`, never 0.

    Attributes:
        event_id: 16 bytes; the same event always gets the same id, so that a resend is recognised.
        tenant, run_id: whose and which run; never empty.
        trace_id, span_id, parent_span_id: W3C ids, lower-case hex (32, 16, 16 digits), or `None`.
        seq: the source's own number.
        kind, type: our word and the source's word.
        name: what a waterfall shows: a tool's name for tools and gates, else the span name; `None` when the source's
            name is not fit for the open envelope (then it is in the content as `name`).
        started_at: UTC nanoseconds since the epoch, `None` when unknown or not credible.
        duration_ns: nanoseconds, never negative, `None` when unknown, not credible, or the event is a point.
        user_ref, session_id: keyed pseudonyms, never the source's text.
        input_tokens: all input, cached and cache-write tokens included; cached_tokens and cache_write_tokens are parts
            of it; reasoning_tokens is a part of output_tokens.
        cost_usd, price_source: as recorded by the source, and who said so ("recorded").
        decision, decided_by, rule: what a gate said (DEC-01), who or what said it, and the rule's id.
        attributes: allow-listed keys only, small JSON scalars; anything else belongs in `content`.
        source: how it came in: "otlp", "tracer", "engine", "file"; `OWN_SOURCE` for what was done here.
        content: everything the event said, redacted: JSON-like (str, int, float, bool, None, list, dict with str keys;
            no NaN, no lone surrogates), or `None`.
    """

    event_id: bytes
    tenant: str
    run_id: str
    kind: Kind
    type: str
    source: str
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    seq: int | None = None
    name: str | None = None
    status: Status = "unset"
    started_at: int | None = None
    duration_ns: int | None = None
    agent: str | None = None
    user_ref: str | None = None
    session_id: str | None = None
    service: str | None = None
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    price_source: str | None = None
    decision: str | None = None
    decided_by: str | None = None
    rule: str | None = None
    error_type: str | None = None
    attributes: dict[str, Any] | None = None
    content: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Rejection:
    """An item of a request that was not taken in, while its neighbours were.

    Attributes:
        where: the item's place: "line 3", "resourceSpans[0].scopeSpans[0].spans[2]".
        reason: for the sender; never content.
    """

    where: str
    reason: str


@dataclass(slots=True)
class Batch:
    """What one request or one piece of a file decodes to."""

    records: list[Record] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
