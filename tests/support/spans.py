"""One OTLP span, read as the collector reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem
from tracehold_collector.normalise.spans import span_record

Read = Callable[..., Record]

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
START = 1_780_000_000_000_000_000

_CONTEXT = NormaliseContext(
    "acme",
    Pseudonyms(b"k" * 32, "acme"),
    Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]"),
)


def read_span(attributes: dict[str, Any], **fields: Any) -> Record:
    """The record of a span with these attributes; `fields` are those of `SpanItem`."""
    given: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_span_id": None,
        "name": "work",
        "start_ns": START,
        "end_ns": START + 5,
        "attributes": dict(attributes),
        "status_code": 0,
        "exception_type": None,
        "extra": {},
        "shared": Shared(),
    }
    return span_record(SpanItem(**(given | fields)), _CONTEXT)
