"""Which schemas a provider can enforce."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.llm.schemas import has_open_objects, schema_name, strict_form

TEXT = {"type": "string"}


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_records_are_closed_at_every_depth() -> None:
    schema = record(
        people={"type": "array", "items": record(name=TEXT)}, where={"anyOf": [record(x=TEXT), {"type": "null"}]}
    )
    before = copy.deepcopy(schema)
    strict = strict_form(schema)
    assert strict is not None
    assert strict["additionalProperties"] is False
    assert strict["properties"]["people"]["items"]["additionalProperties"] is False
    assert strict["properties"]["where"]["anyOf"][0]["additionalProperties"] is False
    assert schema == before


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": TEXT}},
        {"type": "object", "additionalProperties": TEXT},
        record(a={"type": "object"}),
        record(a={"type": "string", "default": "x"}),
        record(a={"type": "string", "format": "uri"}),
        record(a={"allOf": [TEXT]}),
        record(a={"$ref": "#/$defs/A", "description": "a"}),
        {"type": "array", "items": TEXT},
        {"$ref": "#/$defs/A"},
        {},
    ],
)
def test_what_strict_mode_refuses_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert strict_form(schema) is None


def test_a_schema_nested_too_deep_has_no_strict_form() -> None:
    schema: dict[str, Any] = record(a=TEXT)
    for _ in range(5_000):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    assert strict_form(schema) is None
    assert has_open_objects(schema)


LEAF = st.sampled_from([TEXT, {"type": "integer"}, {"type": "boolean"}])
RECORDS = st.recursive(
    LEAF, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(lambda p: record(**p))
)
VALUES = st.recursive(
    st.text(max_size=2) | st.integers() | st.booleans(), lambda inner: st.dictionaries(st.sampled_from("abcd"), inner)
)


@given(RECORDS, VALUES)
def test_what_fits_the_strict_form_fits_the_schema(schema: dict[str, Any], value: Any) -> None:
    strict = strict_form(schema)
    if strict is not None and jsonschema.Draft202012Validator(strict).is_valid(value):
        assert jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "is_open"),
    [
        (record(a=TEXT), False),
        (record(a={"type": "object", "additionalProperties": TEXT}), True),
        (record(a={"type": "object"}), True),
        ({**record(a=TEXT), "additionalProperties": True}, True),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object"}}}, True),
    ],
)
def test_a_dictionary_is_told_from_a_record(schema: dict[str, Any], is_open: bool) -> None:
    assert has_open_objects(schema) is is_open


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Calendar Event", "Calendar_Event"),
        ("Größe", "Gr_e"),
        ("日本", "output"),
        (None, "output"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_title_becomes_a_name_that_providers_accept(title: Any, name: str) -> None:
    assert schema_name({"title": title}) == name
