"""Moments as people write them, to and from UTC nanoseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tracehold_collector.core.errors import QueryError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_US: Final = 1_000
_MAX_NS: Final = (1 << 63) - 1


def parse_moment_ns(text: str) -> int | None:
    """Return an ISO 8601 date or time, UTC where no zone is said, in nanoseconds; `None` when it is none."""
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        passed = aware - _EPOCH
    except (ValueError, OverflowError):
        return None
    found = ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * _NS_PER_US
    return found if abs(found) <= _MAX_NS else None


def moment_of(name: str, text: str) -> int:
    """Return the moment a parameter names, as `parse_moment_ns` reads it.

    Raises:
        QueryError: it is none; says what the parameter takes.
    """
    moment = parse_moment_ns(text)
    if moment is None:
        raise QueryError(f"{name} takes a time as 2026-11-29 or 2026-11-29T17:00:00, UTC")
    return moment


def iso_utc(ns: int | None) -> str | None:
    """Return a moment as ISO 8601 in UTC, to the microsecond, with a Z; `None` for `None`."""
    if ns is None:
        return None
    return (
        datetime.fromtimestamp(ns // 1_000_000_000, UTC)
        .replace(microsecond=ns // _NS_PER_US % 1_000_000)
        .isoformat()
        .replace("+00:00", "Z")
    )
