from __future__ import annotations

from typing import NamedTuple

import pytest
from tracehold.privacy import Cleaner, truncate


class Pair(NamedTuple):
    left: str
    right: int


def test_a_long_string_is_cut_and_the_marker_tells_how_much_is_gone():  # TRC-10
    assert truncate("abcdef", 4) == "abcd…[+2 chars]"


def test_a_string_of_exactly_the_limit_stays():  # TRC-10
    text = "abcd"
    assert truncate(text, 4) is text


@pytest.mark.parametrize(
    ("value", "cut"),
    [
        (["abcdef"], ["ab…[+4 chars]"]),
        (("abcdef",), ("ab…[+4 chars]",)),
        ({"abcdef"}, {"ab…[+4 chars]"}),
        (frozenset({"abcdef"}), frozenset({"ab…[+4 chars]"})),
        ({"abcdef": "abcdef"}, {"abcdef": "ab…[+4 chars]"}),
        (Pair("abcdef", 123456), Pair("ab…[+4 chars]", 123456)),
    ],
)
def test_strings_are_cut_at_any_depth_and_keys_never(value, cut):  # TRC-09, TRC-10
    assert truncate(value, 2) == cut


@pytest.mark.parametrize("value", [["ab"], {"a": ("b", 1)}, {"ab"}, 7, None])
def test_a_value_with_nothing_to_cut_is_the_same_object(value):
    assert truncate(value, 2) is value


def test_the_input_is_not_modified():  # TRC-23
    value = {"a": ["abcdef"]}
    truncate(value, 2)
    assert value == {"a": ["abcdef"]}


def test_cutting_twice_to_the_same_length_changes_nothing():
    once = truncate("abcdef" * 10, 4)
    assert truncate(once, 4) is once


def test_a_cut_that_is_shorter_than_the_marker_of_an_earlier_one_cuts_again():
    assert truncate(truncate("abcdef" * 10, 10), 4).startswith("abcd…[+")


def test_cleaning_and_truncating_write_the_same_marker():
    text = "word " * 50
    assert Cleaner().clean(text, max_len=10) == truncate(text, 10)
