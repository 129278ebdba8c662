"""Patterns mean what Python's `re` means, and cost what they should."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.governance.patterns import MAX_PATTERN_CHARS, MAX_TEXT_CHARS, LinearPattern, PatternError

ATOMS = ["a", "b", "A", ".", "[ab]", "[^a]", r"\d", r"\W", r"\.", r"[\w-]", "[]a]", r"\n", r"\x61", "ä"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}"]


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.lists(inner, max_size=3).map("".join)
        | st.builds("(?:{}|{})".format, inner, inner)
        | st.builds("({}){}".format, inner, st.sampled_from(QUANTIFIERS))
        | st.builds("{}{}".format, st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS))
    )


patterns = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "^", "(?i)", "(?i)^"]),
    st.recursive(st.sampled_from(ATOMS), grown, max_leaves=8),
    st.sampled_from(["", "$"]),
)
texts = st.text("abAä.1-\n]", max_size=8)


@given(patterns, st.lists(texts, max_size=10))
def test_a_pattern_matches_what_re_matches(pattern: str, candidates: list[str]) -> None:
    ours, theirs = LinearPattern(pattern), re.compile(pattern, re.DOTALL)
    for text in candidates:
        assert ours.matches(text) is (theirs.fullmatch(text) is not None)


@pytest.mark.parametrize("text", ["abc", "abc\n", "xabc", ""])
def test_the_whole_text_must_match(text: str) -> None:
    assert LinearPattern("^abc$").matches(text) is (text == "abc")


def test_a_dot_also_matches_a_line_break() -> None:
    assert LinearPattern(".*secret.*").matches("x\nsecret\ny") is True


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*a){25}b", "((a?){20})*b"])
def test_patterns_that_make_re_hang_are_answered(pattern: str) -> None:
    # `re` needs far longer than any timeout for the first ones; here each character is read once.
    assert LinearPattern(pattern).matches("a" * MAX_TEXT_CHARS) is False


def test_a_text_beyond_the_limit_cannot_be_judged() -> None:
    assert LinearPattern(".*").matches("a" * MAX_TEXT_CHARS) is True
    assert LinearPattern(".*").matches("a" * (MAX_TEXT_CHARS + 1)) is None


def test_more_steps_than_the_cache_holds_give_the_same_answer() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(3_000))
    pattern = LinearPattern("[\u4e00-\u9fff]+")
    assert [pattern.matches(text), pattern.matches(text + "a"), pattern.matches(text)] == [True, False, True]


@pytest.mark.parametrize(
    "pattern",
    [
        "a**", "a+?", "a*+", "a{2}{3}", "*a", "(?=a)", "(?!a)", "(?P<n>a)", "(?i:a)", r"(a)\1", r"\b", "[[:alpha:]]",
        "a{3,2}", "(a", "a)", "[z-a]", "[a", "x{a}", "^^a", "a$b", "(a$)", "\\", "(?i", r"\N{BULLET}", "(" * 60,
        "(a{99}){99}", "a" * (MAX_PATTERN_CHARS + 1),
    ],
)  # fmt: skip
def test_a_pattern_outside_the_subset_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        LinearPattern(pattern)


def test_a_refusal_says_where() -> None:
    with pytest.raises(PatternError, match="at character 4: only"):
        LinearPattern("abc(?=d)")
