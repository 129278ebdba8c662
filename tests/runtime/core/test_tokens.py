"""The estimate of tokens that needs no tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.tokens import count_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("漢字", 2),  # CJK ideographs
        ("ひらカタ", 4),  # kana
        ("한국어", 3),  # hangul
        ("漢abcd", 2),
        ("漢abcde", 3),
        ("é" * 8, 2),
        ("\ud800\0", 1),
    ],
)
def test_dense_scripts_count_one_each_and_the_rest_a_quarter_rounded_up(text: str, tokens: int) -> None:  # CTX-19
    assert count_tokens(text) == tokens


@pytest.mark.parametrize(
    "edge",
    [
        "\u3040",
        "\u30ff",
        "\u3400",
        "\u4dbf",
        "\u4e00",
        "\u9fff",
        "\uac00",
        "\ud7a3",
        "\uf900",
        "\ufaff",
        "\uff76",
        "\U00020bb7",
    ],
)
def test_the_edges_of_the_dense_scripts_are_dense(edge: str) -> None:  # CTX-19
    assert count_tokens(edge * 4) == 4


@pytest.mark.parametrize(
    "edge", ["\u303f", "\u3100", "\u33ff", "\u4dc0", "\ua000", "\uabff", "\ud7a4", "\ufb00", "\uff65"]
)
def test_their_neighbours_are_not(edge: str) -> None:  # CTX-19
    assert count_tokens(edge * 4) == 1


@given(st.text(), st.text())
def test_a_whole_never_takes_more_than_its_parts(one: str, other: str) -> None:  # CTX-19
    assert max(count_tokens(one), count_tokens(other)) <= count_tokens(one + other)
    assert count_tokens(one + other) <= count_tokens(one) + count_tokens(other)
