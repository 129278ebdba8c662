"""What the envelope of an event is called as a tag, and which of these tags the store can search by column.

Every span shows its envelope under our own prefix, so that cost, decisions and runs are there whatever the dialect
that told them, and are found at any size of the store: other tags are content, which a search has to open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tracehold.observability.semconv import EVENT_ID, OWN_ATTRIBUTES, RUN_ID

from tracehold_collector.core.record import Record

PREFIX: Final = "tracehold."

SPAN_NAME: Final = "tracehold.span_name"
"""The name as the source wrote it, where the operation is another, such as the tool's."""

_SHOWN: Final = (
    "kind",
    "type",
    "status",
    "seq",
    "agent",
    "model",
    "provider",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
    "price_source",
    "decision",
    "decided_by",
    "rule",
    "error_type",
    "user_ref",
    "session_id",
    "source",
)

_COLUMNS: Final = frozenset(
    {
        "kind",
        "type",
        "agent",
        "model",
        "provider",
        "decision",
        "decided_by",
        "rule",
        "error_type",
        "user_ref",
        "session_id",
        "source",
        "run_id",
        "event_id",
    }
)
"""Fields that the query `trace_search` has a parameter for, under the same name."""

_OTHER: Final = frozenset(name for name, _ in OWN_ATTRIBUTES) | {SPAN_NAME, PREFIX + "tenant", PREFIX + "time_unknown"}
_KEY: Final = re.compile(r"[a-z][a-z0-9_]*")

_MAY_BE_ERROR: Final = ("error", "blocked", "suspended", "cancelled")
"""Statuses a span with OTLP's code ERROR can have: a gate's decision takes precedence over the code."""


def envelope_tags(record: Record) -> dict[str, Any]:
    """Return the envelope as tags: columns that are known, then the allow-listed attributes."""
    tags = {PREFIX + name: value for name in _SHOWN if (value := getattr(record, name)) is not None}
    tags[RUN_ID] = record.run_id
    tags[EVENT_ID] = record.event_id.hex()
    for key, value in (record.attributes or {}).items():
        tags.setdefault(PREFIX + key, value)
    return tags


def column_filters(tags: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return parameters for the query `trace_search`, and the tags that remain to be held against the spans.

    A remaining tag may have a parameter too, one that only narrows down where to look.
    """
    filters: dict[str, Any] = {}
    remaining: dict[str, str] = {}
    paths: dict[str, str] = {}
    for tag, text in tags.items():
        field = tag.removeprefix(PREFIX)
        if tag == "error" and text == "true":
            filters.setdefault("statuses", list(_MAY_BE_ERROR))
            remaining[tag] = text
        elif field == tag:
            remaining[tag] = text
        elif field == "status":
            filters["statuses"] = [text]
        elif field in _COLUMNS:
            filters[field] = text
        elif field in _SHOWN or tag in _OTHER or not _KEY.fullmatch(field):
            remaining[tag] = text
        else:
            paths["$." + field] = text
    if paths:
        filters["attribute_paths"], filters["attribute_values"] = list(paths), list(paths.values())
    return filters, remaining
