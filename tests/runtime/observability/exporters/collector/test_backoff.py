"""The times between attempts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.observability.exporters.collector.backoff import (
    BASE_S,
    CAP_S,
    MAX_ASKED_S,
    Backoff,
    parse_retry_after,
)

NOW = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)


def test_the_upper_bound_doubles_up_to_the_cap():
    backoff = Backoff(lambda: 1.0)
    bounds = [backoff.next_delay_s() for _ in range(12)]
    assert bounds[:4] == [BASE_S, 2 * BASE_S, 4 * BASE_S, 8 * BASE_S]
    assert bounds[-1] == CAP_S


def test_the_jitter_is_full():
    assert Backoff(lambda: 0.0).next_delay_s() == 0.0


def test_a_success_starts_from_the_shortest_delay():
    backoff = Backoff(lambda: 1.0)
    for _ in range(2_000):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() == BASE_S


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        (" 0 ", 0.0),
        ("9" * 5_000, MAX_ASKED_S),
        (None, None),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("1.5", None),
        ("\u0663", None),
        ("Wed, 99 Foo 2025 99:99:99 GMT", None),
    ],
)
def test_retry_after_in_seconds(value, seconds):  # FR-05
    assert parse_retry_after(value, date=None, now=NOW) == seconds


def test_an_http_date_is_counted_from_the_servers_clock():  # FR-05
    served = NOW - timedelta(hours=3)
    until = format_datetime(served + timedelta(seconds=7), usegmt=True)
    assert parse_retry_after(until, date=format_datetime(served, usegmt=True), now=NOW) == 7.0


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_an_http_date_without_a_server_clock_is_counted_from_ours(date):  # FR-05
    until = format_datetime(NOW + timedelta(seconds=7), usegmt=True)
    assert parse_retry_after(until, date=date, now=NOW) == 7.0


def test_an_http_date_in_the_past_asks_for_nothing():
    until = format_datetime(NOW - timedelta(days=1), usegmt=True)
    assert parse_retry_after(until, date=None, now=NOW) == 0.0


@given(st.text(), st.none() | st.text())
def test_no_header_breaks_the_parser(value, date):
    seconds = parse_retry_after(value, date=date, now=NOW)
    assert seconds is None or 0.0 <= seconds <= MAX_ASKED_S
