"""Type hints as JSON Schema, and JSON values as what the hints promise."""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, TypeVar, Union

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import ToolRegistrationError
from tracehold.tools import Tool
from tracehold.tools.hints import Hints
from tracehold.tools.schema import problem_with, schema_text


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(enum.StrEnum):
    ADA = "ada"


@dataclass
class Point:
    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)


@dataclass
class Line:
    start: Point
    end: Point | None = None


@dataclass
class Node:
    children: list[Node]


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Inner(pydantic.BaseModel):
    x: int


class Outer(pydantic.BaseModel):
    inner: Inner


class Elsewhere:
    class Inner(pydantic.BaseModel):
        text: str

    class Outer(pydantic.BaseModel):
        inner: Elsewhere.Inner


UserId = NewType("UserId", str)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (Iterable[str], {"type": "array", "items": {"type": "string"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - the old spelling too
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007 - the old spelling too
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Color, {"enum": ["red", "blue"], "type": "string"}),
        (Level, {"enum": [1, 2], "type": "integer"}),
        (Name, {"enum": ["ada"], "type": "string"}),
        (UserId, {"type": "string"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.Path, {"type": "string"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, {"not": "hashable"}], {"type": "integer"}),
        (
            Annotated[int, pydantic.Field(ge=1, lt=9, description="how many")],
            {"type": "integer", "description": "how many", "minimum": 1, "exclusiveMaximum": 9},
        ),
        (
            Annotated[list[int], pydantic.Field(max_length=3)],
            {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        ),
        (
            Annotated[str, pydantic.Field(max_length=2, pattern="^a")],
            {"type": "string", "maxLength": 2, "pattern": "^a"},
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"type": "number"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["x"],
            },
        ),
        (
            Row,
            {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
                "required": ["id"],
            },
        ),
    ],
    ids=str,
)
def test_a_hint_has_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert Hints().kind(hint).schema == schema


T = TypeVar("T")


@pytest.mark.parametrize(
    "hint", [bytes, complex, type, T, dict[int, str], list[bytes], Literal[b"a"], object.__init__, range, Node], ids=str
)
def test_what_json_cannot_say_is_refused(hint: Any) -> None:
    with pytest.raises(ToolRegistrationError):
        Hints().kind(hint)


@pytest.mark.parametrize(
    ("hint", "value", "made"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Color, "red", Color.RED),
        (Level, 2, Level.HIGH),
        (list[Color], ["red", "blue"], [Color.RED, Color.BLUE]),
        (set[int], [1, 2], {1, 2}),
        (frozenset[int], [1, 2], frozenset({1, 2})),
        (tuple[Color, ...], ["red"], (Color.RED,)),
        (tuple[int, Color], [1, "red"], (1, Color.RED)),
        (dict[str, Color], {"a": "red"}, {"a": Color.RED}),
        (Optional[Color], None, None),  # noqa: UP045 - the old spelling too
        (Color | None, "red", Color.RED),
        (str | int, "1", "1"),
        (str | int, 1, 1),
        (Literal["a", 1, True], True, True),
        (Point | Row, {"id": 1}, {"id": 1}),
        (Point, {"x": 1.0, "extra": 1}, Point(1)),
        (Line, {"start": {"x": 1}, "end": {"x": 2, "y": 3}}, Line(Point(1), Point(2, 3.0))),
        (Row, {"id": 1, "note": "n"}, {"id": 1, "note": "n"}),
        (Outer, {"inner": {"x": 1}}, Outer(inner=Inner(x=1))),
        (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
        (dt.datetime, "2024-02-29T10:00:00Z", dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC)),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (uuid.UUID, "12345678123456781234567812345678", uuid.UUID(int=0x12345678123456781234567812345678)),
        (dt.date | str, "soon", "soon"),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
    ids=str,
)
def test_a_value_becomes_what_the_hint_promises(hint: Any, value: Any, made: Any) -> None:
    converted = Hints().kind(hint).convert(value)
    assert converted == made
    assert type(converted) is type(made)


def test_definitions_of_pydantic_models_stand_at_the_root_and_do_not_meet() -> None:
    def place(a: Outer, b: list[Elsewhere.Outer]) -> str:
        return f"{a.inner.x} {b[0].inner.text}"

    made = Tool.from_callable(place)
    text = schema_text(made, "made")
    assert problem_with(text, {"a": {"inner": {"x": 1}}, "b": [{"inner": {"text": "t"}}]}) is None
    assert problem_with(text, {"a": {"inner": {"text": "t"}}, "b": []})
    assert problem_with(text, {"a": {"inner": {"x": 1}}, "b": [{"inner": {"x": 1}}]})
    assert made.run({"a": {"inner": {"x": 1}}, "b": [{"inner": {"text": "t"}}]}) == "1 t"  # type: ignore[comparison-overlap]


CASES = {
    str: st.text(),
    int: st.integers(-(2**53), 2**53),
    bool: st.booleans(),
    list[int]: st.lists(st.integers(-9, 9)),
    dict[str, bool]: st.dictionaries(st.text(), st.booleans()),
    int | None: st.none() | st.integers(-9, 9),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
}


@given(st.data())
def test_a_value_of_the_hinted_type_fits_its_schema_and_is_not_changed(data: st.DataObject) -> None:
    hint, values = data.draw(st.sampled_from(list(CASES.items())))
    value = data.draw(values)

    def echo(value: Any) -> Any:
        return value

    echo.__annotations__["value"] = hint
    made = Tool.from_callable(echo)
    assert problem_with(schema_text(made, "made"), {"value": value}) is None
    assert made.run({"value": value}) == value
