"""What a schema may cost: the estimate, its limits, and the hostile schemas that it is for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it ships no types
from tracehold.tools import FunctionTool, ToolRegistry
from tracehold.tools.schema import problem_with
from tracehold.tools.schema_cost import Estimate
from tracehold.tools.schema_graph import SchemaTooComplexError, read_graph
from tracehold.tools.schema_limits import LIMITS, SchemaLimits

Schema = dict[str, Any]
BOUNDLESS = replace(
    LIMITS, schema_containers=10**7, chain=10**6, visits_per_value=10**13, estimate_steps=10**7, schema_bytes=10**8
)


def estimate(schema: Schema, limits: SchemaLimits = LIMITS) -> Estimate:
    return Estimate(read_graph(json.dumps(schema).encode(), limits), limits)


def ref(number: int) -> Schema:
    return {"$ref": f"#/$defs/d{number}"}


def chain(count: int, link: Any, last: Schema) -> Schema:
    """`d0` applies `d1` in the way of `link`, that one `d2`, and so on to `last`."""
    links = {f"d{number}": link(ref(number + 1)) for number in range(count)}
    return {"$defs": links | {f"d{count}": last}, **ref(0)}


LINKS: dict[str, Any] = {
    "allOf": lambda to: {"allOf": [to, to]},
    "anyOf": lambda to: {"anyOf": [to, to]},
    "oneOf": lambda to: {"oneOf": [to, to]},
    "if": lambda to: {"if": to, "then": to, "else": to},
    "not": lambda to: {"not": {"not": to}, "allOf": [to]},
    "dependentSchemas": lambda to: {"dependentSchemas": {"n": to, "m": to}},
    "unevaluated": lambda to: {"allOf": [to], "unevaluatedProperties": False},
    "by key": lambda to: {"properties": {"n": to}, "additionalProperties": to, "patternProperties": {"": to}},
    "by index": lambda to: {"items": to, "contains": to},
}


# --- the estimate


@pytest.mark.parametrize(
    ("link", "last", "visits"),
    [
        (lambda to: {"allOf": [to, to]}, {}, 2**10),
        (lambda to: {"properties": {"n": {"anyOf": [to, to, to]}}}, {}, 3**10),
        (lambda to: {"properties": {"n": to, "m": to}}, {}, 1),
        (lambda to: {"prefixItems": [to, to]}, {}, 1),
        (lambda to: {"prefixItems": [to], "items": to}, {}, 2**10),
    ],
    ids=["same value", "three alternatives a level", "other keys", "other places", "places and all others"],
)
def test_visits_are_counted_for_the_value_that_gets_most(link: Any, last: Schema, visits: int) -> None:  # REG-11
    counted = estimate(chain(10, link, last), BOUNDLESS).visits(values=1, levels=20)
    assert visits <= counted <= 4 * visits + 30


def test_each_subschema_is_counted_once_however_often_it_is_applied() -> None:  # REG-11
    # 2^60 visits, counted in about a thousand additions.
    few_steps = replace(BOUNDLESS, estimate_steps=2_000)
    assert estimate(chain(60, LINKS["allOf"], {}), few_steps).visits(1, 1) >= 10**12


def test_a_count_that_takes_too_many_steps_is_given_up() -> None:  # REG-11
    wide: Schema = {"properties": {f"p{number}": {} for number in range(2_000)}}
    schema = chain(300, lambda to: {"allOf": [to]}, wide)
    with pytest.raises(SchemaTooComplexError, match="in too many ways"):
        estimate(schema, replace(LIMITS, chain=10**6))


def test_depth_costs_nothing_where_a_tree_has_one_way_down() -> None:  # REG-11
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    counted = estimate(tree)
    assert counted.visits(values=1, levels=64) <= 4
    assert counted.gathering_visits(values=1, levels=64) <= 4


def test_problems_are_gathered_by_every_way_down() -> None:  # REG-11
    tree = {"properties": {"n": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    counted = estimate(tree)
    assert counted.gathering_visits(values=1, levels=10) >= 2**10
    assert counted.visits(values=1, levels=10) < 100


# --- limits

TOO_COMPLEX: dict[str, tuple[Schema, str]] = {
    "bytes": ({"description": "x" * LIMITS.schema_bytes}, "longer than"),
    "containers": ({"enum": [[]] * (LIMITS.schema_containers + 1)}, "objects and arrays"),
    "a long chain": (chain(LIMITS.chain + 1, lambda to: to, {}), "one inside the other"),
    "a very long chain": (chain(20_000, lambda to: to, {}), "one inside the other"),
    "a chain of allOf": (chain(LIMITS.chain, lambda to: {"allOf": [to]}, {}), "one inside the other"),
    "itself": ({"$ref": "#"}, "again and again"),
    "itself in allOf": ({"allOf": [{"$ref": "#"}]}, "again and again"),
    "itself by way of another": (chain(3, lambda to: to, ref(1)), "again and again"),
    "itself by an anchor": ({"$defs": {"a": {"$anchor": "x", "not": {"$ref": "#x"}}}, "$ref": "#x"}, "again and again"),
    **{
        f"binary {name}": (chain(20, link, {"type": "object"}), "steps to check")
        for name, link in LINKS.items()
        if name != "dependentSchemas"
    },
    "binary dependentSchemas": (chain(20, LINKS["dependentSchemas"], {}), "steps to check"),
    "escaped": (
        {"$defs": {f"d/{n}": {"allOf": [{"$ref": f"#/%24defs/d~1{n + 1}"}] * 2} for n in range(20)} | {"d/20": {}}}
        | {"$ref": "#/$defs/d~10"},
        "steps to check",
    ),
    "by URI": (
        {
            "$id": "https://example.com/root.json",
            "$defs": {f"d{n}": {"$id": f"d{n}.json", "allOf": [{"$ref": f"d{n + 1}.json"}] * 2} for n in range(20)}
            | {"d20": {"$id": "d20.json"}},
            "$ref": "https://example.com/d0.json",
        },
        "steps to check",
    ),
    "outside the known places": (
        {"x": {f"d{n}": {"allOf": [{"$ref": f"#/x/d{n + 1}"}] * 2} for n in range(20)} | {"d20": {}}, "$ref": "#/x/d0"},
        "steps to check",
    ),
}


@pytest.mark.parametrize(("schema", "said"), TOO_COMPLEX.values(), ids=TOO_COMPLEX)
def test_a_call_of_a_tool_whose_schema_is_too_complex_is_an_error_response(schema: Schema, said: str) -> None:
    # REG-11
    registry = ToolRegistry()
    tool = FunctionTool(lambda _parameters: "ran", "foreign", "")
    tool.get_input_schema = lambda: schema  # type: ignore[method-assign]
    registry.register(tool)
    response, entered = registry.execute_tool_checked("foreign", {"n": {"n": 1}})
    assert (response.status, entered) == ("error", False)
    assert "it is too complex" in response.text
    assert said in response.text
    assert len(response.text) < 300


def test_nesting_beyond_the_parser_is_an_error() -> None:  # REG-11
    for levels in (LIMITS.schema_levels, 600, 100_000):
        text = b'{"not":' * levels + b"{}" + b"}" * levels
        assert "cannot be used" in str(problem_with(text, {}))


@pytest.mark.parametrize("reference", ["other.json", "#/nowhere", "#nowhere", "../x#/a", "#/$defs/list/7"])
def test_a_reference_that_leads_nowhere_is_an_error(reference: str) -> None:  # REG-11
    schema = {"$defs": {"list": [{}]}, "$ref": reference}
    assert "reference" in str(problem_with(json.dumps(schema).encode(), {}))


def test_parameters_too_many_for_a_costly_schema_are_refused_and_few_are_not() -> None:  # REG-11
    schema = {"properties": {"n": {"items": chain(12, LINKS["allOf"], {})["$defs"]["d0"]}}}
    schema["$defs"] = chain(12, LINKS["allOf"], {})["$defs"]
    text = json.dumps(schema).encode()
    assert problem_with(text, {"n": [1] * 100}) is None
    assert "too complex" in str(problem_with(text, {"n": [1] * 100_000}))


def test_parameters_too_deep_for_long_chains_are_refused() -> None:  # REG-11
    schema = chain(50, lambda to: to, {"properties": {"n": ref(0)}})
    text = json.dumps(schema).encode()
    assert problem_with(text, nested(5)) is None
    assert "too complex" in str(problem_with(text, nested(60)))


def nested(levels: int) -> Schema:
    value: Schema = {}
    for _ in range(levels):
        value = {"n": value}
    return value


def test_limits_cannot_be_changed_by_accident() -> None:
    with pytest.raises(AttributeError):
        LIMITS.visits = 1  # type: ignore[misc]


# --- hostile schemas really end

HOSTILE = """
import json, sys
from tracehold.tools.schema import problem_with
for schema, parameters in json.load(sys.stdin):
    problem_with(json.dumps(schema).encode(), parameters)
    print("ended", flush=True)
"""


def hostile() -> Iterator[tuple[Schema, Schema]]:
    for link in LINKS.values():
        for count in (5, 10, 12, 14, 18, 30, 60):
            for last in ({"type": "string"}, {"type": "object"}, {"properties": {"n": ref(0)}, "required": ["z"]}):
                for levels in (1, 20, 63):
                    yield chain(count, link, last), nested(levels)
    for count in (60, 1_000, 20_000):
        yield chain(count, lambda to: to, {"properties": {"n": ref(0)}}), nested(63)
    for times in (2, 4, 30):
        yield {"properties": {"n": {"anyOf": [{"$ref": "#"}] * times}}, "required": ["z"]}, nested(63)


def test_hostile_schemas_neither_hang_nor_kill_the_process(tmp_path: Path) -> None:  # REG-11
    cases = list(hostile())
    ended = subprocess.run(
        [sys.executable, "-c", HOSTILE],
        input=json.dumps(cases).encode(),
        capture_output=True,
        check=False,
        timeout=300,  # to end at all: unbounded, a single case would take longer than anybody lives
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(b"ended") == len(cases)


numbers = st.integers(0, 4)
links = st.tuples(st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(numbers, min_size=1, max_size=6))


@given(st.lists(st.tuples(links, st.sampled_from(["same", "n", "m"])), min_size=5, max_size=5), st.data())
def test_what_is_accepted_is_checked_in_bounded_visits(definitions: list[Any], data: st.DataObject) -> None:  # REG-11
    schemas: Schema = {}
    for number, ((kind, targets), where) in enumerate(definitions):
        applied = {kind: [ref(target) for target in targets]}
        schemas[f"d{number}"] = applied if where == "same" else {"properties": {where: applied}}
    parameters = data.draw(st.recursive(st.just({}), lambda inner: st.dictionaries(st.sampled_from("nmz"), inner)))
    # That it returns is the point; whatever it says is short.
    told = problem_with(json.dumps({"$defs": schemas, **ref(0)}).encode(), parameters)
    assert len(told or "") < 2_000


# --- schemas of the real world still work


def test_a_recursive_tree_works_to_the_last_level() -> None:  # REG-10
    tree = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}, "name": {}},
                "required": ["name"],
                "additionalProperties": False,
            }
        },
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
    }
    text = json.dumps(tree).encode()
    node: Schema = {"name": "leaf"}
    for _ in range(LIMITS.value_levels // 2 - 2):
        node = {"name": "n", "children": [node]}
    assert problem_with(text, {"root": node}) is None
    broken = json.loads(json.dumps({"root": node}).replace('"name": "leaf"', '"nam": 1'))
    assert "required" in str(problem_with(text, broken))


@pytest.mark.parametrize("kind", ["anyOf", "oneOf"])
def test_a_deep_tree_of_many_alternatives_works(kind: str) -> None:  # REG-10
    variants = {
        f"v{number}": {
            "type": "object",
            "properties": {
                "children": {"type": "array", "items": {"$ref": "#/$defs/block"}},
                "kind": {"const": f"k{number}"},
            },
            "required": ["kind"],
        }
        for number in range(40)
    }
    block = {kind: [{"$ref": f"#/$defs/{name}"} for name in variants]}
    text = json.dumps(
        {"properties": {"page": {"$ref": "#/$defs/block"}}, "$defs": variants | {"block": block}}
    ).encode()

    def page(leaf: str) -> Schema:
        node: Schema = {"kind": leaf}
        for level in range(10):
            node = {"kind": f"k{level * 3}", "children": [node, {"kind": "k39"}]}
        return {"page": node}

    assert problem_with(text, page("k7")) is None
    assert problem_with(text, page("unknown"))


def test_an_interface_of_hundreds_of_references_works() -> None:  # REG-10
    # As servers derive them from OpenAPI: every model refers to many others, with descriptions, enums and nullables.
    models: Schema = {}
    for number in range(300):
        fields: Schema = {
            f"field_{field}": {"description": "What it is for. " * 5, "anyOf": [ref((number * 7 + field * 13) % 300)]}
            if field % 3 == 0
            else {"type": ["string", "null"], "enum": [f"value_{one}" for one in range(8)] + [None]}
            for field in range(12)
        }
        models[f"d{number}"] = {"type": "object", "properties": fields, "additionalProperties": False}
    schema = {"type": "object", "properties": {"body": ref(0), "also": ref(1)}, "$defs": models}
    text = json.dumps(schema).encode()
    assert 100_000 < len(text) < LIMITS.schema_bytes
    body: Schema = {"field_1": "value_3"}
    for _ in range(20):
        body = {"field_0": body, "field_3": {"field_2": None}, "field_1": "value_1"}
    assert problem_with(text, {"body": body, "also": {}}) is None
    assert "body.field_1: " in str(problem_with(text, {"body": {"field_1": "value_9"}}))


def test_a_schema_of_a_hundred_kilobytes_without_references_works() -> None:  # REG-10
    properties = {
        f"p{number}": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"const": "x" * 40}]},
            "title": "t" * 60,
        }
        for number in range(700)
    }
    text = json.dumps({"type": "object", "properties": properties, "required": ["p0"]}).encode()
    assert len(text) > 100_000
    assert problem_with(text, {name: [1, 2, 3] for name in properties}) is None
    assert "p5.1" in str(problem_with(text, {"p0": [], "p5": [1, "y"]}))


@pytest.mark.parametrize("draft", ["04", "06", "07"])
def test_a_schema_of_schemas_works(draft: str) -> None:  # REG-10
    meta = REGISTRY.contents(f"http://json-schema.org/draft-{draft}/schema")
    text = json.dumps(meta).encode()
    assert problem_with(text, {"properties": {"n": {"allOf": [{"minLength": 3}]}}}) is None
    assert problem_with(text, {"properties": {"n": {"allOf": [{"minLength": "three"}]}}})


def test_a_parameter_may_be_a_schema() -> None:  # REG-10
    known = "https://json-schema.org/draft/2020-12/schema"
    text = json.dumps({"type": "object", "properties": {"schema": {"$ref": known}}}).encode()
    assert problem_with(text, {"schema": {"type": "object"}}) is None
    assert problem_with(text, {"schema": {"type": 3}})


def test_references_by_anchor_and_by_uri_work() -> None:  # REG-10
    schema = {
        "$id": "https://example.com/tool.json",
        "$defs": {
            "a": {"$anchor": "small", "maximum": 3},
            "b": {"$id": "text.json", "$ref": "#/$defs/inner", "$defs": {"inner": {"type": "string"}}},
        },
        "properties": {"n": {"$ref": "#small"}, "t": {"$ref": "text.json"}, "u": {"$ref": "text.json#/$defs/inner"}},
    }
    text = json.dumps(schema).encode()
    assert problem_with(text, {"n": 1, "t": "x", "u": "y"}) is None
    for wrong in ({"n": 4}, {"t": 1}, {"u": 1}):
        assert problem_with(text, wrong)


def test_names_that_look_like_keywords_are_only_names() -> None:  # REG-10
    schema = {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "id": {}}, "default": {"id": "x"}}
    text = json.dumps(schema).encode()
    assert problem_with(text, {"$ref": "#/nowhere", "$id": "x"}) is None
    assert problem_with(text, {"$ref": 3})
