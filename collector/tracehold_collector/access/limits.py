"""What a key may use up: requests a second and events a day, counted in memory and kept once a minute."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Final

from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.core.errors import ThrottledError

DAY_S: Final = 86_400
_LONGEST_WAIT_S: Final = 3_600
"""No sender is told to stay away longer: the limit may be raised meanwhile."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a key may use up; `None` is as much as it likes.

    Attributes:
        requests_per_s: requests a second on average; up to a second's worth, and always one, at once.
        events_per_day: events taken in, a UTC day. The request that reaches it is taken whole.
    """

    requests_per_s: float | None = None
    events_per_day: int | None = None


NO_LIMIT: Final = Limit()


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Meters:
    """Counts what each key uses. Safe to use from several threads."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self._events: dict[tuple[str, int], int] = {}
        self._changed: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def request(self, key_id: str | None, limit: Limit) -> None:
        """Count a request.

        Raises:
            ThrottledError: it is one too many; it says when to come back.
        """
        rate = limit.requests_per_s
        if key_id is None or rate is None:
            return
        now = time.monotonic()
        most = max(1.0, rate)
        with self._lock:
            bucket = self._buckets.setdefault(key_id, _Bucket(most, now))
            bucket.left = min(most, bucket.left + (now - bucket.at) * rate)
            bucket.at = now
            if bucket.left >= 1:
                bucket.left -= 1
                return
            missing = 1 - bucket.left
        wait_s = min(_LONGEST_WAIT_S, math.ceil(missing / rate))
        raise ThrottledError(f"this key may make {rate:g} requests a second", wait_s)

    def room(self, key_id: str | None, limit: Limit) -> None:
        """Refuse a request with events, before it is read, when the day's are used up.

        Raises:
            ThrottledError: they are; it says when to come back.
        """
        if key_id is None or limit.events_per_day is None:
            return
        day, since_midnight = divmod(now_ns() // NS_PER_S, DAY_S)
        if self._events.get((key_id, day), 0) >= limit.events_per_day:
            wait_s = min(_LONGEST_WAIT_S, DAY_S - since_midnight)
            raise ThrottledError(f"this key may send {limit.events_per_day} events a UTC day, and has", wait_s)

    def took(self, key_id: str | None, events: int) -> None:
        """Count events that were taken in and were not there before."""
        if key_id is None or not events:
            return
        place = (key_id, now_ns() // NS_PER_S // DAY_S)
        with self._lock:
            self._events[place] = self._events.get(place, 0) + events
            self._changed.add(place)

    def load(self, counted: dict[tuple[str, int], int]) -> None:
        """Go on from what was kept: events by key and day (days since the epoch, UTC)."""
        with self._lock:
            self._events |= counted

    def changed(self) -> dict[tuple[str, int], int]:
        """Return what changed since the last time, to be kept; days that are over are forgotten."""
        today = now_ns() // NS_PER_S // DAY_S
        with self._lock:
            found = {place: self._events[place] for place in self._changed}
            self._changed.clear()
            self._events = {place: count for place, count in self._events.items() if place[1] >= today - 1}
        return found
