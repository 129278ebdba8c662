"""Canonical JSON: the text of RFC 8785, judged by another implementation of it."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from enum import IntEnum, StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st
from tracehold.core.errors import CanonicalJsonError, TraceholdError
from tracehold.governance.canonical import MAX_DEPTH, action_digest, canonical_json, digest

SAFE = 2**53 - 1
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-SAFE, SAFE) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(values)
def test_it_is_what_another_implementation_of_the_rfc_writes(value: Any) -> None:  # DEC-02
    assert canonical_json(value) == rfc8785.dumps(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(1e21)
@example(1e20)
@example(1e-6)
@example(1e-7)
@example(5e-324)
@example(sys.float_info.max)
@example(333333333.33333329)
def test_a_double_is_written_as_ecmascript_writes_it(value: float) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)
    assert float(canonical_json(value)) == value


@given(values)
def test_reading_it_and_writing_it_again_changes_nothing(value: Any) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(texts, scalars, min_size=2), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(value)


def test_keys_are_sorted_by_utf16_code_units() -> None:
    assert canonical_json({"\ufb33": 1, "\U0001f600": 2}).startswith('{"\U0001f600":'.encode())


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63), 2**64, 10**40])
def test_an_integer_beyond_doubles_keeps_all_its_digits(value: int) -> None:
    assert canonical_json({"id": value}) == b'{"id":%d}' % value
    assert digest(value) != digest(value + 1)


def test_a_tuple_is_an_array_and_a_subclass_its_value() -> None:
    class Colour(StrEnum):
        RED = "red"

    class Level(IntEnum):
        HIGH = 3

    assert canonical_json((Colour.RED, Level.HIGH)) == b'["red",3]'


class Opaque:
    """A value JSON does not know, whose text must not show up in an error."""

    def __repr__(self) -> str:
        return "made-up-secret"


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        "\ud800",
        {"\udfff": 1},
        {1: "made-up-secret"},
        {None: 1},
        Opaque(),
        {1, 2},
        b"made-up-secret",
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_canonical_json_is_refused_without_telling_it(value: object) -> None:
    with pytest.raises(CanonicalJsonError) as caught:
        canonical_json({"outer": ["made-up-secret", value]})
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TraceholdError)
    assert "made-up-secret" not in str(caught.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {"list": []}
    value["list"].append(value)
    with pytest.raises(CanonicalJsonError, match="contains itself"):
        canonical_json(value)


def test_a_value_that_stands_twice_side_by_side_is_no_cycle() -> None:
    twice = [1]
    assert canonical_json([twice, twice]) == b"[[1],[1]]"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_has_a_limit() -> None:
    assert canonical_json(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    with pytest.raises(CanonicalJsonError, match="nested deeper"):
        canonical_json(nested(100_000 if sys.version_info < (3, 12) else 10_000))


def test_a_stack_that_is_nearly_full_is_no_crash() -> None:
    def at_depth(frames: int) -> bytes:
        return at_depth(frames - 1) if frames else canonical_json(nested(MAX_DEPTH))

    def first_failure() -> Exception:
        for frames in range(0, sys.getrecursionlimit(), 20):
            try:
                at_depth(frames)
            except (CanonicalJsonError, RecursionError) as error:
                return error
        raise AssertionError("the stack never filled up")

    assert isinstance(first_failure(), CanonicalJsonError)


def test_the_digest_of_an_action_is_sha256_over_tool_and_arguments() -> None:  # DEC-02
    text = b'{"arguments":{"amount":10,"to":"ada"},"tool":"pay"}'
    assert action_digest("pay", {"to": "ada", "amount": 10.0}) == "sha256:" + hashlib.sha256(text).hexdigest()


@given(texts, st.dictionaries(texts, scalars), texts, st.dictionaries(texts, scalars))
def test_another_tool_or_other_arguments_have_another_digest(tool, arguments, other_tool, other_arguments) -> None:
    same = canonical_json([tool, arguments]) == canonical_json([other_tool, other_arguments])
    assert (action_digest(tool, arguments) == action_digest(other_tool, other_arguments)) is same
