"""Checking parameters: hostile ones, hostile schemas, and what the model is told."""

from __future__ import annotations

import json
import threading
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.tools.schema import problem_with
from tracehold.tools.schema_limits import LIMITS


def problem(schema: dict[str, Any], parameters: dict[Any, Any]) -> str | None:
    return problem_with(json.dumps(schema).encode(), parameters)


def of_n(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": schema}, "required": ["n"]}


MAX_LEVELS = LIMITS.value_levels

TREE: dict[str, Any] = {"type": "object", "properties": {"n": {"$ref": "#"}}}


def nested(depth: int) -> dict[str, Any]:
    outermost: dict[str, Any] = {}
    inner = outermost
    for _ in range(depth):
        inner["n"] = {}
        inner = inner["n"]
    return outermost


@pytest.mark.parametrize("depth", [MAX_LEVELS, 100_000])
def test_nesting_deeper_than_the_stack_bears_is_a_problem(depth: int) -> None:  # REG-10
    assert problem(TREE, nested(MAX_LEVELS - 1)) is None
    assert "nested deeper" in str(problem(TREE, nested(depth)))
    assert "nested deeper" in str(problem({"type": "object"}, nested(depth)))


def test_a_container_that_contains_itself_is_a_problem() -> None:  # REG-10
    itself: dict[str, Any] = {}
    itself["n"] = [itself]
    assert problem(TREE, itself)


def test_containers_shared_a_million_times_are_a_problem() -> None:  # REG-10
    shared: list[Any] = []
    for _ in range(50):
        shared = [shared, shared]
    assert "more than" in str(problem(of_n({"type": "array"}), {"n": shared}))


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), b"bytes", object(), {1, 2}, {1: 2}, {"\ud800": 1}, "text", 1j],
    ids=lambda value: type(value).__name__ + str(value)[:4],
)
def test_what_is_no_such_number_is_a_problem(value: Any) -> None:  # REG-10
    assert problem(of_n({"type": "number"}), {"n": value})


@pytest.mark.parametrize("key", [1, None, b"n", ("n",), "\ud800"], ids=str)
def test_odd_keys_do_not_break_the_check(key: Any) -> None:  # REG-10
    told = problem(of_n({"type": "integer"}), {key: 1})
    assert told
    told.encode()


@pytest.mark.parametrize("value", [10**400, -(2**64), 0, 3.0, "\0", "\ud800", ""], ids=lambda value: repr(value)[:9])
def test_odd_values_of_the_right_kind_are_taken(value: Any) -> None:  # REG-10
    assert problem(of_n({"type": ["integer", "string"]}), {"n": value}) is None


def test_a_value_is_never_repeated_to_the_model() -> None:  # REG-10
    secret = "hunter2" * 1_000
    for schema in (
        {"type": "integer"},
        {"enum": ["a"]},
        {"maxLength": 3},
        {"pattern": "^a"},
        {"anyOf": [{"const": 1}]},
    ):
        told = problem(of_n(schema), {"n": secret})
        assert told is not None
        assert "hunter2" not in told
        assert len(told) < 500


def test_the_place_and_the_expectation_are_told() -> None:  # REG-10
    schema = of_n({"type": "array", "items": {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}}})
    assert problem(schema, {"n": [{"unit": "C"}, {"unit": "K"}]}) == 'n.1.unit: the value is not one of "C" or "F"'


def test_a_long_path_is_cut() -> None:  # REG-10
    schema = of_n({"type": "object", "additionalProperties": {"type": "integer"}})
    told = problem(schema, {"n": {"k" * 10_000: "x"}})
    assert told is not None
    assert len(told) < 400


def test_several_problems_are_told_at_once_up_to_a_few() -> None:  # REG-10
    schema = {"type": "object", "required": ["a", "b"]}
    assert problem(schema, {}) == '"a" is a required property; "b" is a required property'
    many = problem({"type": "object", "required": [f"p{i}" for i in range(50)]}, {})
    assert many is not None
    assert many.count("required") == 5
    assert many.endswith("; and more")


def test_of_very_many_values_the_first_problem_is_told() -> None:  # REG-10
    schema = of_n({"type": "array", "items": {"type": "string"}})
    assert problem(schema, {"n": [1] * 100_000}) == 'n.0: the value is not of type "string"'


def test_of_many_alternatives_for_many_values_only_the_verdict_is_told() -> None:  # REG-10, REG-11
    # Each of the thousand values would have a thousand problems to tell.
    schema = of_n({"type": "array", "items": {"anyOf": [{"const": number} for number in range(1_000)]}})
    assert problem(schema, {"n": [1] * 1_000}) is None
    assert problem(schema, {"n": [-1] * 1_000}) == "they do not fit its schema"


def test_a_pattern_cannot_be_driven_into_backtracking() -> None:  # REG-11
    # A backtracking engine would need 2^60 steps for each of these.
    for pattern in ("^(a+)+$", r"^(?=a)(a+)+\1$"):
        assert problem(of_n({"type": "string", "pattern": pattern}), {"n": "a" * 60 + "!"})


def test_look_around_in_a_pattern_is_understood() -> None:  # REG-10
    schema = of_n({"type": "string", "pattern": "^(?!root$)"})
    assert problem(schema, {"n": "ada"}) is None
    assert problem(schema, {"n": "root"})


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_a_schema_may_name_its_draft(draft: str) -> None:  # REG-10
    schema = of_n({"$ref": "#/definitions/small"}) | {"$schema": draft, "definitions": {"small": {"maximum": 3}}}
    assert problem(schema, {"n": 2}) is None
    assert problem(schema, {"n": 4})


def test_a_schema_is_checked_from_many_threads() -> None:  # REG-10
    found: list[str | None] = []

    def check() -> None:
        found.extend(problem(of_n({"type": "integer"}), {"n": n}) for n in [1, "x"] * 50)

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [told is None for told in found].count(True) == 200
    assert len(found) == 400


kinds = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
schemas = st.recursive(
    st.fixed_dictionaries({"type": kinds}) | st.just({}) | st.fixed_dictionaries({"enum": st.just(["a", 1, None])}),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"properties": st.fixed_dictionaries({"a": inner}), "required": st.just(["a"])})
    ),
    max_leaves=5,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "b", 1.5, 2.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@given(schemas, json_values)
def test_the_verdict_is_that_of_another_implementation(schema: dict[str, Any], value: Any) -> None:  # REG-10
    other = jsonschema.Draft202012Validator(of_n(schema))
    assert (problem(of_n(schema), {"n": value}) is None) == other.is_valid({"n": value})
