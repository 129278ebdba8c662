"""What one type hint means: its JSON Schema, and how a JSON value becomes what the hint promises."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import math
import pathlib
import types
import uuid
from collections import abc
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tracehold.core.errors import ToolRegistrationError
from tracehold.tools.parameters import Schema

Convert: TypeAlias = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One hint, understood.

    Attributes:
        schema: what the model is shown.
        convert: makes what the function expects of a value that fits the schema.
        fits: whether a JSON value may be meant as this kind, by its outermost type; what a union chooses by.
    """

    schema: Schema
    convert: Convert = lambda value: value
    fits: Callable[[Any], bool] = lambda _value: True


def _is_integer(value: Any) -> bool:
    whole = isinstance(value, float) and value.is_integer()
    return whole or (isinstance(value, int) and not isinstance(value, bool))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """Whether a JSON value is a text."""
    return isinstance(value, str)


def is_array(value: Any) -> bool:
    """Whether a JSON value is an array."""
    return isinstance(value, list | tuple)


def is_object(value: Any) -> bool:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


PLAIN: Final[dict[Any, Kind]] = {
    Any: Kind({}),
    object: Kind({}),
    inspect.Parameter.empty: Kind({}),
    str: Kind({"type": "string"}, fits=is_text),
    # JSON Schema takes 3.0 for an integer; Python code that was promised an int may not.
    int: Kind({"type": "integer"}, int, _is_integer),
    float: Kind({"type": "number"}, float, _is_number),
    bool: Kind({"type": "boolean"}, fits=lambda value: isinstance(value, bool)),
    None: Kind({"type": "null"}, fits=lambda value: value is None),
    types.NoneType: Kind({"type": "null"}, fits=lambda value: value is None),
    dt.datetime: Kind({"type": "string", "format": "date-time"}, dt.datetime.fromisoformat, is_text),
    dt.date: Kind({"type": "string", "format": "date"}, dt.date.fromisoformat, is_text),
    uuid.UUID: Kind({"type": "string", "format": "uuid"}, uuid.UUID, is_text),
    pathlib.Path: Kind({"type": "string"}, pathlib.Path, is_text),
    dict: Kind({"type": "object"}, fits=is_object),
    list: Kind({"type": "array", "items": {}}, list, is_array),
    tuple: Kind({"type": "array", "items": {}}, tuple, is_array),
    set: Kind({"type": "array", "items": {}, "uniqueItems": True}, set, is_array),
    frozenset: Kind({"type": "array", "items": {}, "uniqueItems": True}, frozenset, is_array),
}
"""The hints that stand for themselves."""

ARRAYS: Final[dict[Any, Callable[[Any], Any]]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    abc.Set: set,
}
"""The generic hints that are arrays in JSON, and what the function gets."""
OBJECTS: Final = {dict, abc.Mapping, abc.MutableMapping}
"""The generic hints that are objects in JSON, with texts for keys."""

_CONSTRAINTS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
"""Attributes of annotated-types and of pydantic's `Field` with a JSON Schema keyword of their own."""


def choice(members: list[tuple[Any, Any]]) -> Kind:
    """Return the kind of one of several values; `members` pairs what JSON says with what the function gets.

    Raises:
        ToolRegistrationError: a value that JSON cannot say.
    """
    values = [value for value, _ in members]
    if any(not isinstance(value, str | int | float | None) or _is_odd(value) for value in values):
        raise ToolRegistrationError(f"JSON cannot say the choices {values!r}: use texts, numbers, booleans or None")
    schema: Schema = {"enum": [_plain(value) for value in values]}
    types_ = {_json_type(value) for value in values}
    if len(types_) == 1:
        schema["type"] = types_.pop()

    def members_like(value: Any) -> list[Any]:
        # True == 1 in Python and not in JSON.
        return [member for key, member in members if key == value and _is_bool(key) == _is_bool(value)]

    def convert(value: Any) -> Any:
        return members_like(value)[0]

    return Kind(schema, convert, lambda value: bool(members_like(value)))


def _is_odd(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _plain(value: Any) -> Any:
    # The members of a StrEnum or IntEnum are texts and numbers of a class that JSON libraries do not know.
    if value is None or isinstance(value, bool):
        return value
    return str(value) if isinstance(value, str) else (int(value) if isinstance(value, int) else float(value))


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "integer" if isinstance(value, int) else "number"


def array(item: Kind, build: Callable[[Any], Any]) -> Kind:
    """Return the kind of a list of `item`, which `build` makes a set or tuple of."""
    schema: Schema = {"type": "array", "items": item.schema}
    if build in {set, frozenset}:
        schema["uniqueItems"] = True
    return Kind(schema, lambda value: build(item.convert(one) for one in value), is_array)


def mapping(item: Kind) -> Kind:
    """Return the kind of an object whose values are all of one kind."""
    schema = {"type": "object", "additionalProperties": item.schema}
    return Kind(schema, lambda value: {key: item.convert(one) for key, one in value.items()}, is_object)


def union(kinds: list[Kind]) -> Kind:
    """Return the kind of a value that may be of several; the first that fits and converts is taken."""

    def convert(value: Any) -> Any:
        for kind in kinds:
            if kind.fits(value):
                try:
                    return kind.convert(value)
                except (TypeError, ValueError, LookupError):
                    continue  # the schema let it through as another member of the union
        return value

    return Kind(
        {"anyOf": [kind.schema for kind in kinds]},
        convert,
        lambda value: any(kind.fits(value) for kind in kinds),
    )


def annotated(kind: Kind, notes: tuple[Any, ...]) -> Kind:
    """Return `kind` with what `Annotated` says beside it: a description, limits."""
    schema = dict(kind.schema)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
            continue
        if isinstance(getattr(note, "description", None), str):
            schema["description"] = note.description
        for constraint in (note, *(getattr(note, "metadata", None) or ())):
            schema |= _constraints(constraint, schema.get("type"))
    return dataclasses.replace(kind, schema=schema)


def _constraints(note: Any, json_type: Any) -> Schema:
    size = {"array": "Items", "object": "Properties"}.get(json_type, "Length")
    words = _CONSTRAINTS | {"min_length": f"min{size}", "max_length": f"max{size}"}
    found = {word: getattr(note, name, None) for name, word in words.items()}
    return {word: limit for word, limit in found.items() if isinstance(limit, str | int | float)}
