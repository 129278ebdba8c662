"""What a key may use up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.keys import make_key
from tracehold.core.clock import NS_PER_S
from tracehold_collector.access import limits
from tracehold_collector.access.book import KeyBook
from tracehold_collector.access.limits import NO_LIMIT, Limit, Meters
from tracehold_collector.core.errors import ThrottledError


def refused(meters: Meters, limit: Limit) -> int:
    """Seconds to wait, 0 when the request may pass."""
    try:
        meters.request("k", limit)
    except ThrottledError as error:
        return error.retry_after_s
    return 0


@given(rate=st.floats(0.1, 50), steps=st.lists(st.floats(0, 2), min_size=1, max_size=60))
def test_no_more_pass_than_the_rate_allows_and_whoever_waits_as_told_passes(rate: float, steps: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        now = [1_000.0]
        patch.setattr(limits.time, "monotonic", lambda: now[0])
        meters, passed = Meters(), 0
        for step in steps:
            now[0] += step
            wait_s = refused(meters, Limit(requests_per_s=rate))
            passed += not wait_s
            assert passed <= max(1.0, rate) + (now[0] - 1_000.0) * rate + 1e-6
            if wait_s:
                now[0] += wait_s
                assert refused(meters, Limit(requests_per_s=rate)) == 0
                passed += 1


def test_without_a_limit_or_a_key_nothing_is_counted() -> None:
    meters = Meters()
    for _ in range(1_000):
        meters.request("k", NO_LIMIT)
        meters.request(None, Limit(requests_per_s=0.1))
        meters.room(None, Limit(events_per_day=1))


def test_a_days_events_are_used_up_until_midnight_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [(20_000 * 86_400 + 80_000) * NS_PER_S]
    monkeypatch.setattr(limits, "now_ns", lambda: now[0])
    meters, limit = Meters(), Limit(events_per_day=10)
    meters.room("k", limit)
    meters.took("k", 12)
    with pytest.raises(ThrottledError, match="10 events a UTC day") as caught:
        meters.room("k", limit)
    assert caught.value.retry_after_s == 3_600
    meters.room("other", limit)
    now[0] += 6_400 * NS_PER_S
    meters.room("k", limit)


def test_a_days_events_are_remembered_across_a_restart(tmp_path: Path) -> None:
    make_key(tmp_path, "ingest")
    with closing(KeyBook(tmp_path)) as book:
        book.meters.took("k", 7)
    with closing(KeyBook(tmp_path)) as book:
        book.meters.took("k", 3)
        with pytest.raises(ThrottledError):
            book.meters.room("k", Limit(events_per_day=10))
        book.meters.room("k", Limit(events_per_day=11))
