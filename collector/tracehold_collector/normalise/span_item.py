"""A span as it came, whatever the encoding: what both OTLP decoders hand to the normaliser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Shared:
    """What the spans of one resource and scope have in common, masked once for all of them.

    Attributes:
        service: the resource's `service.name`, raw.
        run_id: a run id that the resource claims for all its spans, raw.
        tenant: the tenant that the resource claims, raw.
        content: the parts of a span's content that say this, masked already; every span refers to the same
            objects.
    """

    service: Any = None
    run_id: Any = None
    tenant: Any = None
    content: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SpanItem:
    """One OTLP span.

    Attributes:
        trace_id, span_id: lower-case hex, valid.
        parent_span_id: lower-case hex, valid, or `None`.
        name: as sent.
        start_ns, end_ns: as sent, not judged; `None` when not sent.
        attributes: JSON-like values; a bytes value is what `decode` made of it.
        status_code: 0 unset, 1 ok, 2 error.
        exception_type: of the first exception event, raw.
        extra: everything else that a faithful copy needs, under the names it has in the content: `events`,
            `links`, `status_message`, `span_kind`, `trace_state`, `flags`, dropped counts; absent when
            default.
        size_hint: bytes of its encoded form, when known.
        replaced: whether texts held invalid Unicode that was replaced (FR-15).
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int | None
    end_ns: int | None
    attributes: dict[str, Any]
    status_code: int
    exception_type: Any
    extra: dict[str, Any]
    shared: Shared
    size_hint: int | None = None
    replaced: bool = False
