"""Numbers as people read them: no raw nanoseconds, and unknown is never 0."""

from __future__ import annotations

from datetime import datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_dashboard import format as fmt


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (None, fmt.NOTHING),
        (pd.NA, fmt.NOTHING),
        (float("nan"), fmt.NOTHING),
        (0, "0 s"),
        (850, "850 ns"),
        (12_000, "12 µs"),
        (2_500_000, "2.5 ms"),
        (340_000_000, "340 ms"),
        (999_600_000, "1.00 s"),
        (1_240_000_000, "1.24 s"),
        (59_999_000_000, "1 min 00 s"),
        (125_000_000_000, "2 min 05 s"),
        (3 * 3_600_000_000_000 + 12 * 60_000_000_000, "3 h 12 min"),
        (51 * 3_600_000_000_000, "2 d 3 h"),
    ],
)
def test_a_duration_has_the_unit_that_fits(ns, expected):
    assert fmt.duration(ns) == expected


@given(st.integers(0, 2**63 - 1))
def test_every_duration_can_be_written_and_none_reads_1000_ms_or_60_s(ns):
    text = fmt.duration(ns)
    assert not text.startswith(("1000 ms", "60.00 s"))
    assert " 60 " not in text


@pytest.mark.parametrize(
    ("usd", "unpriced", "expected"),
    [
        (None, 0, "unknown"),
        (pd.NA, 3, "unknown"),
        (0.0, 0, "$0.00"),
        (0.0042, 0, "$0.0042"),
        (0.00001, 0, "< $0.0001"),
        (1234.5, 0, "$1,234.50"),
        (12.34, 2, "≥ $12.34"),
    ],
)
def test_an_unknown_cost_is_said_and_a_partial_one_is_a_lower_bound(usd, unpriced, expected):
    # FR-31
    assert fmt.money(usd, unpriced_calls=unpriced) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(None, fmt.NOTHING), (999, "999"), (12_345, "12.3 k"), (4_560_000, "4.56 M")],
)
def test_a_big_number_is_short(number, expected):
    assert fmt.short_count(number) == expected


def test_a_time_names_its_zone():
    at = datetime.fromisoformat("2026-01-02 03:04:05")
    assert fmt.moment(at) == "2026-01-02 03:04:05 UTC"
    assert fmt.moment(pd.NaT) == "unknown"


def test_text_for_a_chart_is_escaped_cut_and_on_one_line():
    assert fmt.plot_text('<b onclick="x">\nbold & more</b>', 20) == '&lt;b onclick="x"&gt; bol…'
    assert "<" not in fmt.plot_text("<" * 50, 10)


def test_one_is_singular():
    assert fmt.plural(1, "run") == "1 run"
    assert fmt.plural(2_000, "run") == "2,000 runs"
