"""Quoting and cutting of foreign text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tracehold.context.text import cut_to_tokens, longest_prefix, quote
from tracehold.core.tokens import count_tokens

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@given(any_text)
def test_every_line_of_a_quoted_text_begins_with_the_mark(text: str) -> None:
    assert all(line.startswith("> ") for line in quote(text).splitlines())


@given(any_text)
def test_a_quoted_text_can_be_sent(text: str) -> None:
    sent = quote(text).encode("utf-8")
    assert b"\0" not in sent
    assert b"\x1b" not in sent


def test_whatever_passes_for_a_line_end_starts_a_new_quoted_line() -> None:
    assert quote("a\r\nb\vc\fd\x85e\u2028f") == "> a\n> b\n> c\n> d\n> e\n> f"


@given(st.text(max_size=300), st.integers(-1, 100))
def test_a_cut_is_the_longest_beginning_that_fits(text: str, tokens: int) -> None:
    cut = longest_prefix(text, lambda part: count_tokens(part) <= tokens, guess=7)
    assert text.startswith(cut)
    if tokens >= 0:
        assert count_tokens(cut) <= tokens
        assert cut == text or count_tokens(text[: len(cut) + 1]) > tokens
    else:
        assert cut == ""


def test_cutting_a_huge_text_reads_little_more_than_is_kept() -> None:
    read = 0

    def counter(text: str) -> int:
        nonlocal read
        read += len(text)
        return count_tokens(text)

    assert cut_to_tokens("x" * 10_000_000, 100, counter) == "x" * 400
    assert read < 100_000
