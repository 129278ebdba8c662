"""Token counts and costs, however a source counts them (FR-27, FR-29, DEC-13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.normalise.usage import Usage, count, money, read_usage, settled


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), ("7", 7), (7.0, 7), (0, 0), ("0", 0), (-1, None), (1.5, None), (True, None), (None, None)],
)
def test_a_count_is_a_whole_number_that_is_not_negative(value: Any, number: int | None) -> None:
    assert count(value) == number


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -0.01, "NaN", "many", "1" * 41, [], {}, True, None, 10**400]
)
def test_what_is_no_amount_is_unknown(value: Any) -> None:
    # DEC-13
    assert money(value) is None
    assert count(value) is None


def test_an_amount_may_be_text() -> None:
    assert money("0.00009435") == pytest.approx(0.00009435)


def test_both_ways_to_count_cached_input_give_the_same_usage() -> None:
    # FR-29
    inside = settled(Usage(130_213, 503, 128_955, 1_253))
    beside = settled(Usage(5, 503, 128_955, 1_253))
    assert inside == beside == Usage(130_213, 503, 128_955, 1_253)


def test_the_sources_own_total_decides_where_sizes_cannot() -> None:
    assert settled(Usage(100, 10, 40), total=150).input_tokens == 140
    assert settled(Usage(100, 10, 40), total=110).input_tokens == 100
    assert settled(Usage(100, 10, None, None, 5), total=115).output_tokens == 15


def test_reasoning_larger_than_the_output_lies_beside_it() -> None:
    assert settled(Usage(1, 10, reasoning_tokens=30)).output_tokens == 40


def test_anthropics_own_usage_object_counts_cache_beside_the_input() -> None:
    raw = {"input_tokens": 5000, "output_tokens": 1, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0}
    assert read_usage(raw) == (Usage(6000, 1, 1000, 0, None), True)


def test_openais_own_usage_object_has_its_details_read() -> None:
    raw = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    assert read_usage(raw)[0] == Usage(100, 30, 80, None, 20)


def test_a_usage_that_is_not_understood_in_full_says_so() -> None:
    assert read_usage({"prompt_tokens": -1, "completion_tokens": 2}) == (Usage(None, 2), False)
    assert not read_usage({"prompt_tokens": 1, "audio_tokens": 2})[1]


@given(*[st.none() | st.integers(0, 10**6)] * 5, st.none() | st.integers(0, 10**7), st.booleans())
def test_parts_never_exceed_their_whole(
    i: int | None, o: int | None, c: int | None, w: int | None, r: int | None, total: int | None, apart: bool
) -> None:
    usage = settled(Usage(i, o, c, w, r), total=total, cache_apart=apart)
    if usage.input_tokens is not None:
        assert usage.input_tokens >= (c or 0) + (w or 0)
    if usage.output_tokens is not None:
        assert usage.output_tokens >= (r or 0)
