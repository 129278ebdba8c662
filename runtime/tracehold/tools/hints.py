"""Type hints as JSON Schema, and JSON values as what the hints promise.

A function that asks for a `Color` gets a `Color`, not the text the model sent. Only what JSON can say is taken; any
other hint is refused when the tool is made, not when a model first calls it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import math
import pathlib
import types
import typing
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_PLAIN: Final[dict[Any, Kind]] = {
    Any: Kind({}),
    object: Kind({}),
    inspect.Parameter.empty: Kind({}),
    str: Kind({"type": "string"}, fits=_is_text),
    # JSON Schema takes 3.0 for an integer; Python code that was promised an int may not.
    int: Kind({"type": "integer"}, int, _is_integer),
    float: Kind({"type": "number"}, float, _is_number),
    bool: Kind({"type": "boolean"}, fits=lambda value: isinstance(value, bool)),
    None: Kind({"type": "null"}, fits=lambda value: value is None),
    types.NoneType: Kind({"type": "null"}, fits=lambda value: value is None),
    dt.datetime: Kind({"type": "string", "format": "date-time"}, dt.datetime.fromisoformat, _is_text),
    dt.date: Kind({"type": "string", "format": "date"}, dt.date.fromisoformat, _is_text),
    uuid.UUID: Kind({"type": "string", "format": "uuid"}, uuid.UUID, _is_text),
    pathlib.Path: Kind({"type": "string"}, pathlib.Path, _is_text),
    dict: Kind({"type": "object"}, fits=_is_object),
    list: Kind({"type": "array", "items": {}}, list, _is_array),
    tuple: Kind({"type": "array", "items": {}}, tuple, _is_array),
    set: Kind({"type": "array", "items": {}, "uniqueItems": True}, set, _is_array),
    frozenset: Kind({"type": "array", "items": {}, "uniqueItems": True}, frozenset, _is_array),
}

_ARRAYS: Final[dict[Any, Callable[[Any], Any]]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    abc.Set: set,
}
_OBJECTS: Final = {dict, abc.Mapping, abc.MutableMapping}

_CONSTRAINTS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
"""Attributes of annotated-types and of pydantic's `Field` with a JSON Schema keyword of their own."""


class Hints:
    """Understands the hints of one function.

    Attributes:
        definitions: schemas that others point to by `#/$defs/<name>`; they belong at the root.
    """

    def __init__(self) -> None:
        self.definitions: Schema = {}
        self._open: list[type] = []

    def kind(self, hint: Any) -> Kind:
        """Return what `hint` means.

        Raises:
            ToolRegistrationError: JSON has no word for it.
        """
        if isinstance(hint, abc.Hashable) and hint in _PLAIN:
            return _PLAIN[hint]
        if isinstance(hint, typing.NewType):
            return self.kind(hint.__supertype__)
        if hasattr(hint, "__value__"):  # `type X = ...` of Python 3.12
            return self.kind(hint.__value__)
        origin = typing.get_origin(hint)
        if origin is not None:
            return self._generic(hint, origin, typing.get_args(hint))
        if isinstance(hint, type):
            return self._class(hint)
        raise _unsupported(hint)

    def _generic(self, hint: Any, origin: Any, args: tuple[Any, ...]) -> Kind:
        if origin is typing.Annotated:
            return _annotated(self.kind(args[0]), args[1:])
        if origin in {typing.Required, typing.NotRequired}:
            return self.kind(args[0])
        if origin is typing.Literal:
            return _choice([(arg, arg) for arg in args])
        if origin in {typing.Union, types.UnionType}:
            return _union([self.kind(arg) for arg in args])
        if origin is tuple:
            return self._tuple(args)
        if origin in _ARRAYS:
            return _array(self.kind(args[0]), _ARRAYS[origin])
        if origin in _OBJECTS and args[0] is str:
            return _mapping(self.kind(args[1]))
        raise _unsupported(hint)

    def _tuple(self, args: tuple[Any, ...]) -> Kind:
        if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - the shape of `tuple[X, ...]`
            return _array(self.kind(args[0]), tuple)
        kinds = [self.kind(arg) for arg in args]
        schema = {
            "type": "array",
            "prefixItems": [kind.schema for kind in kinds],
            "minItems": len(kinds),
            "maxItems": len(kinds),
        }
        return Kind(
            schema,
            lambda value: tuple(kind.convert(item) for kind, item in zip(kinds, value, strict=True)),
            _is_array,
        )

    def _class(self, hint: type) -> Kind:
        if issubclass(hint, enum.Enum):
            return _choice([(member.value, member) for member in hint])
        if callable(getattr(hint, "model_json_schema", None)):
            return self._pydantic(hint)
        if dataclasses.is_dataclass(hint):
            required = {field.name for field in dataclasses.fields(hint) if field.init and _has_no_default(field)}
            names = [field.name for field in dataclasses.fields(hint) if field.init]
            return self._record(hint, names, required, lambda values: hint(**values))
        if typing.is_typeddict(hint):
            record: Any = hint
            return self._record(hint, list(record.__annotations__), set(record.__required_keys__), dict)
        raise _unsupported(hint)

    def _record(self, hint: type, names: list[str], required: set[str], build: Convert) -> Kind:
        if hint in self._open:
            raise ToolRegistrationError(
                f"{hint.__name__} contains itself, which only a pydantic model can describe here: make it one"
            )
        self._open.append(hint)
        try:
            annotations = type_hints(hint)
            kinds = {name: self.kind(annotations[name]) for name in names}
        finally:
            self._open.pop()
        schema = {
            "type": "object",
            "properties": {name: kind.schema for name, kind in kinds.items()},
            "required": [name for name in names if name in required],
        }
        return Kind(
            schema,
            lambda value: build({name: kinds[name].convert(item) for name, item in value.items() if name in kinds}),
            _is_object,
        )

    def _pydantic(self, model: Any) -> Kind:
        # Two models may call different things by one name; the number tells them apart.
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        if any(self.definitions.get(name, body) != body for name, body in schema.get("$defs", {}).items()):
            prefix = f"{model.__name__}{len(self.definitions)}_"
            schema = model.model_json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
            schema["$defs"] = {f"{prefix}{name}": body for name, body in schema["$defs"].items()}
        self.definitions.update(schema.pop("$defs", {}))
        return Kind(schema, model.model_validate, _is_object)


def type_hints(annotated: Any) -> dict[str, Any]:
    """Return the hints of a function or class, names resolved.

    Raises:
        ToolRegistrationError: a name in a hint cannot be resolved.
    """
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        name = getattr(annotated, "__qualname__", repr(annotated))
        raise ToolRegistrationError(
            f"the type hints of {name} cannot be read ({error}): they must name things that its module can see"
        ) from error


def _unsupported(hint: Any) -> ToolRegistrationError:
    name = getattr(hint, "__qualname__", None) or str(hint)
    return ToolRegistrationError(
        f"JSON cannot say {name}. Use str, int, float, bool, list, dict, Literal, an Enum, a union of these, "
        "a dataclass, a TypedDict or a pydantic model"
    )


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _choice(members: list[tuple[Any, Any]]) -> Kind:
    values = [value for value, _ in members]
    if any(not isinstance(value, str | int | float | None) or _is_odd(value) for value in values):
        raise ToolRegistrationError(
            f"JSON cannot say the choices {values!r}: use texts, numbers, booleans or None"
        )
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


def _array(item: Kind, build: Callable[[Any], Any]) -> Kind:
    schema: Schema = {"type": "array", "items": item.schema}
    if build in {set, frozenset}:
        schema["uniqueItems"] = True
    return Kind(schema, lambda value: build(item.convert(one) for one in value), _is_array)


def _mapping(item: Kind) -> Kind:
    schema = {"type": "object", "additionalProperties": item.schema}
    return Kind(schema, lambda value: {key: item.convert(one) for key, one in value.items()}, _is_object)


def _union(kinds: list[Kind]) -> Kind:
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


def _annotated(kind: Kind, notes: tuple[Any, ...]) -> Kind:
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
