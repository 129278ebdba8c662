"""Strict JSON: what goes in comes out, or is refused with its place."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core import strictjson

texts = st.text(st.characters() | st.sampled_from("\x00\ud800\udfff"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert strictjson.loads(strictjson.dumps(value, name="value")) == value


@given(values)
def test_ascii_holds_everything_but_two_halves_side_by_side(value: Any) -> None:
    text = strictjson.dumps(value, name="value", ascii_only=True)
    assert text.isascii()
    # The halves of one character, escaped side by side, are that character.
    assert strictjson.loads(text) == strictjson.loads(strictjson.dumps(strictjson.loads(text), name="value"))
    if "\ud800\udfff" not in strictjson.dumps(value, name="value"):
        assert strictjson.loads(text) == value


@given(st.recursive(st.none() | st.floats() | st.binary() | st.just(object()), st.lists))
def test_it_writes_or_refuses_and_raises_nothing_else(value: Any) -> None:
    try:
        text = strictjson.dumps(value, name="value")
    except strictjson.UnholdableError:
        return
    assert strictjson.loads(text) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [0, {"b": math.nan}]}, r"thing\.a\[1\]\.b is NaN or infinite"),
        ([math.inf], r"thing\[0\] is NaN or infinite"),
        ({"a": {1: b"x"}}, r"thing\.a\[\.\.\.\] is of type bytes"),
        ({"not an identifier": set()}, r"thing\[\.\.\.\] is of type set"),
        ({"k" * 65: set()}, r"thing\[\.\.\.\] is of type set"),
        ({(1,): 2}, "thing has a key of type tuple"),
        ({math.nan: 2}, "thing has a key of type float"),
        ({1: 2, "1": 3}, "thing has two keys that are one text"),
        (10**5000, "thing cannot be written as JSON"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_refusal_names_the_place(value: Any, words: str) -> None:
    with pytest.raises(strictjson.UnholdableError, match=f"^{words}"):
        strictjson.dumps(value, name="thing")


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_the_deepest_that_is_written_can_be_read_and_one_more_is_refused() -> None:
    deepest = nested(strictjson.MAX_DEPTH)
    assert strictjson.loads(strictjson.dumps(deepest, name="value")) == deepest
    with pytest.raises(strictjson.UnholdableError, match="more than 200 levels deep, or contains itself"):
        strictjson.dumps(nested(strictjson.MAX_DEPTH + 1), name="value")


def test_a_circle_is_refused_however_many_ways_lead_around_it() -> None:
    circle: list[Any] = []
    circle += [circle] * 50
    with pytest.raises(strictjson.UnholdableError, match="contains itself"):
        strictjson.dumps(circle, name="value")


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "-Infinity", "1e999", '{"a": 1} x', "[" * 100_000])
def test_what_is_no_json_or_not_finite_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|Extra|NaN|too deep"):
        strictjson.loads(text)


def test_a_nearly_full_call_stack_is_a_refusal_too() -> None:
    def descend() -> None:
        try:
            descend()
        except RecursionError:
            # The innermost frames: writing needs more of them than are left.
            with pytest.raises(strictjson.UnholdableError):
                strictjson.dumps(nested(150), name="value")
            raise AssertionError("refused as it should be") from None

    with pytest.raises(AssertionError, match="refused as it should be"):
        descend()
