"""The register of erasures: every request, those that are overdue first, then those that are due next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.words import BASIS_TEXTS

_DAY_NS: Final = 86_400 * 1_000_000_000
_SHOWN: Final = (
    "id",
    "tenant",
    "status",
    "scope",
    "scope_value",
    "mode",
    "basis",
    "requester",
    "approver",
    "runs",
    "events",
    "failures",
)
_TIMES: Final = ("received_at", "due_at", "unreadable_since", "completed_at", "bytes_gone_since", "refused_at")


def in_order(records: Iterable[ErasureRecord], now_ns: int) -> list[ErasureRecord]:
    """Return them with the overdue ones first, then the open ones by when they are due, then the latest request."""

    def rank(record: ErasureRecord) -> tuple[bool, bool, int]:
        is_open = record.completed_at is None and record.refused_at is None
        return not record.overdue(now_ns), not is_open, record.due_at if is_open else -record.requested_at

    return sorted(records, key=rank)


def register(records: Iterable[ErasureRecord], now_ns: int) -> list[dict[str, Any]]:
    """Return the register as JSON objects: times in ISO 8601 (UTC), unknown as null.

    `days_left` is whole days until an open request is due, below zero when it is overdue, and null when it is done.
    """
    return [_entry(record, now_ns) for record in in_order(records, now_ns)]


def _entry(record: ErasureRecord, now_ns: int) -> dict[str, Any]:
    is_open = record.completed_at is None and record.refused_at is None
    return {
        **{name: getattr(record, name) for name in _SHOWN},
        "basis_text": BASIS_TEXTS[record.basis],
        **{name: iso_utc(getattr(record, name)) for name in _TIMES},
        "overdue": record.overdue(now_ns),
        "late": record.completed_at is not None and record.completed_at > record.due_at,
        "days_left": (record.due_at - now_ns) // _DAY_NS if is_open else None,
    }
