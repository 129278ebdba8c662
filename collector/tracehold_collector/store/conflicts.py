"""Tells a resend from another event under the same id. The first is kept either way; the second kind is counted."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from tracehold_collector.core.record import Record

COMPARED: Final = (
    "source", "kind", "type", "name", "status", "started_at", "duration_ns", "span_id", "parent_span_id", "agent",
    "model", "input_tokens", "output_tokens", "decision", "rule", "error_type",
)  # fmt: skip
"""What the source said of the event in the open envelope. Not what depends on the moment it came in: its price, and a
pseudonym whose key may have been changed. Content is not looked at: it would have to be unpacked for every resend."""

_OF_RECORD: Final = attrgetter(*COMPARED)


def conflicts(record: Record, first: Record | tuple[Any, ...]) -> bool:
    """Say whether `record` is another event than `first`, which has its id: a record, or a row of `COMPARED`.

    Told by two sources, one event may look different: an agent that exports both ways sends each twice on purpose.
    """
    one = _OF_RECORD(record)
    other = _OF_RECORD(first) if isinstance(first, Record) else first
    return bool(one[0] == other[0] and one != other)
