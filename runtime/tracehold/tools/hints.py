"""Type hints as JSON Schema, and JSON values as what the hints promise.

A function that asks for a `Color` gets a `Color`, not the text the model sent. Only what JSON can say is taken; any
other hint is refused when the tool is made, not when a model first calls it.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

from tracehold.core.errors import ToolRegistrationError
from tracehold.tools.kinds import (
    ARRAYS,
    OBJECTS,
    PLAIN,
    Convert,
    Kind,
    annotated,
    array,
    choice,
    is_array,
    is_object,
    mapping,
    union,
)
from tracehold.tools.parameters import Schema


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
        plain = _plain(hint)
        if plain is not None:
            return plain
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
            return annotated(self.kind(args[0]), args[1:])
        if origin in {typing.Required, typing.NotRequired}:
            return self.kind(args[0])
        if origin is typing.Literal:
            return choice([(arg, arg) for arg in args])
        if origin in {typing.Union, types.UnionType}:
            return union([self.kind(arg) for arg in args])
        if origin is tuple:
            return self._tuple(args)
        if origin in ARRAYS:
            return array(self.kind(args[0]), ARRAYS[origin])
        if origin in OBJECTS and args[0] is str:
            return mapping(self.kind(args[1]))
        raise _unsupported(hint)

    def _tuple(self, args: tuple[Any, ...]) -> Kind:
        if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - the shape of `tuple[X, ...]`
            return array(self.kind(args[0]), tuple)
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
            is_array,
        )

    def _class(self, hint: type) -> Kind:
        if issubclass(hint, enum.Enum):
            return choice([(member.value, member) for member in hint])
        if callable(getattr(hint, "model_json_schema", None)):
            return self._pydantic(hint)
        if dataclasses.is_dataclass(hint):
            required = {field.name for field in dataclasses.fields(hint) if field.init and _has_no_default(field)}
            names = [field.name for field in dataclasses.fields(hint) if field.init]
            return self._record(hint, names, required, lambda values: hint(**values))
        if typing.is_typeddict(hint):
            hints = type_hints(hint)
            return self._record(hint, list(hints), _required_keys(hint, hints), dict)
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
            is_object,
        )

    def _pydantic(self, model: Any) -> Kind:
        # Two models may call different things by one name; the number tells them apart.
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        if any(self.definitions.get(name, body) != body for name, body in schema.get("$defs", {}).items()):
            prefix = f"{model.__name__}{len(self.definitions)}_"
            schema = model.model_json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
            schema["$defs"] = {f"{prefix}{name}": body for name, body in schema["$defs"].items()}
        self.definitions.update(schema.pop("$defs", {}))
        return Kind(schema, model.model_validate, is_object)


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


def _plain(hint: Any) -> Kind | None:
    try:
        return PLAIN.get(hint)
    except TypeError:  # `Annotated` with a note that cannot be hashed
        return None


def _unsupported(hint: Any) -> ToolRegistrationError:
    name = getattr(hint, "__qualname__", None) or str(hint)
    return ToolRegistrationError(
        f"JSON cannot say {name}. Use str, int, float, bool, list, dict, Literal, an Enum, a union of these, "
        "a dataclass, a TypedDict or a pydantic model"
    )


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _required_keys(record: Any, hints: dict[str, Any]) -> set[str]:
    # Where annotations are texts, `__required_keys__` cannot see what they say.
    said = {name: typing.get_origin(hint) for name, hint in hints.items()}
    required = {name for name, word in said.items() if word is typing.Required} | set(record.__required_keys__)
    return required - {name for name, word in said.items() if word is typing.NotRequired}
