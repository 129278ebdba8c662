"""When may the next request leave? Exponential backoff with full jitter, and what `Retry-After` asks for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

BASE_S = 0.1
CAP_S = 30.0
MAX_ASKED_S = 3600.0
"""A longer `Retry-After` is taken for this: a broken header must not silence an exporter for a day."""

_MAX_DOUBLINGS = 16


class Backoff:
    """Delays of a random length up to `base * 2 ** n`, so that many clients do not come back together."""

    def __init__(self, random: Callable[[], float], *, base_s: float = BASE_S, cap_s: float = CAP_S) -> None:
        """Start from the shortest delay.

        Args:
            random: returns a float in [0, 1).
            base_s: upper bound of the first delay, seconds.
            cap_s: upper bound of every delay, seconds.
        """
        self._random = random
        self._base_s = base_s
        self._cap_s = cap_s
        self._failures = 0

    def next_delay_s(self) -> float:
        """Return the delay after one more failure."""
        ceiling = min(self._cap_s, self._base_s * 2.0 ** min(self._failures, _MAX_DOUBLINGS))
        self._failures += 1
        return self._random() * ceiling

    def reset(self) -> None:
        """Forget the failures: a request has succeeded."""
        self._failures = 0


def parse_retry_after(value: str | None, *, date: str | None, now: datetime) -> float | None:
    """Return the seconds a `Retry-After` header asks for, or `None` when it is absent or cannot be read.

    Args:
        value: the header (RFC 9110 section 10.2.3): whole seconds, or an HTTP date.
        date: the answer's `Date` header. An HTTP date is counted from it when it is there, so that a wrong
            clock on either side does not matter; it is cut to seconds, so the wait is never too short.
        now: the local time, aware; used when `date` is missing or cannot be read.
    """
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        # More digits than any sensible wait has: int() of a long header is not worth its time.
        return min(float(value[:9]), MAX_ASKED_S)
    until = _http_date(value)
    if until is None:
        return None
    since = _http_date(date) or now
    return min(max(0.0, (until - since).total_seconds()), MAX_ASKED_S)


def _http_date(value: str | None) -> datetime | None:
    """Return the moment an HTTP date names, or `None`."""
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
