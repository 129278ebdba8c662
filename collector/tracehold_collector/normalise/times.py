"""Times as UTC nanoseconds, and which of them are credible (FR-23)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

LATEST_NS: Final = 4_102_444_800_000_000_000
"""2100-01-01T00:00:00Z. A later time is a unit mistake or an overflow, and would ruin every average.

A start and a duration below it add up within 64 bits, and a start leaves room for the rank of a run's name."""

LONGEST_NS: Final = 366 * 86_400 * 1_000_000_000
"""A year. A wider span mixes units up: its start in seconds, its end in nanoseconds."""

EARLIEST_NS: Final = 946_684_800_000_000_000
"""2000-01-01T00:00:00Z. A span that began before is most likely counted in seconds, milliseconds or microseconds, and
its width with it: where it stands among its neighbours is still true, how long it took is not known."""

_FRACTION: Final = re.compile(r"\.(\d+)")


def credible(time_ns: int | None) -> int | None:
    """Return `time_ns` when it lies after the epoch and before the year 2100, else `None`."""
    return time_ns if time_ns is not None and 0 < time_ns < LATEST_NS else None


def read_rfc3339(value: object) -> int | None:
    """Return UTC nanoseconds of an RFC 3339 time; `None` when it is none, has no zone or is not credible."""
    if not isinstance(value, str):
        return None
    fraction = _FRACTION.search(value)
    try:
        moment = datetime.fromisoformat(_FRACTION.sub("", value, count=1))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    # Whole seconds and fraction apart: datetime holds microseconds, and a float would lose nanoseconds.
    try:
        seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except OverflowError:
        return None
    return credible(seconds * 1_000_000_000 + int(fraction.group(1)[:9].ljust(9, "0") if fraction else 0))
