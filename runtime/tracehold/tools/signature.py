"""What an ordinary function takes, as a JSON Schema, and how a model's parameters become its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from tracehold.core.errors import ToolRegistrationError
from tracehold.tools.docstring import parameters_of, summary_of
from tracehold.tools.hints import Hints, type_hints
from tracehold.tools.kinds import Convert
from tracehold.tools.parameters import Parameters, Schema, ToolParameter


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a tool sees it.

    Attributes:
        name: the function's own.
        description: its docstring up to the first section.
        schema: JSON Schema of an object with a property for each parameter.
        converters: for each parameter, in order, what makes its argument of a JSON value.
        positional: the parameters that cannot be given by name, with their defaults.
    """

    name: str
    description: str
    schema: Schema
    converters: dict[str, Convert]
    positional: dict[str, Any]

    def parameters(self) -> list[ToolParameter]:
        """Return a `ToolParameter` for each property of the schema."""
        required = self.schema["required"]
        return [
            ToolParameter(
                name=name,
                type=schema.get("type", "any"),
                description=schema.get("description", ""),
                required=name in required,
                default=schema.get("default"),
                schema=schema,
            )
            for name, schema in self.schema["properties"].items()
        ]

    def bind(self, parameters: Parameters) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments for a call. Keys the function does not know are left out (REG-10)."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, convert in self.converters.items():
            if name in self.positional:
                # One left out is filled in: the next would take its place.
                args.append(convert(parameters[name]) if name in parameters else self.positional[name])
            elif name in parameters:
                kwargs[name] = convert(parameters[name])
        return args, kwargs


def derive(func: Callable[..., Any]) -> Signature:
    """Read a function's signature, type hints and docstring.

    Raises:
        ToolRegistrationError: `func` takes `*args` or `**kwargs`, or a hint says what JSON cannot.
    """
    if not callable(func):
        raise ToolRegistrationError(f"a tool is made of a function, not of {type(func).__name__}")
    name = _name_of(func)
    try:
        parameters = inspect.signature(func).parameters
    except (TypeError, ValueError) as error:
        raise ToolRegistrationError(f"{name} does not tell its parameters: wrap it in a function that does") from error
    hinted, hints = Hints(), _hints_of(func)
    described = parameters_of(_documented(func))
    properties: Schema = {}
    converters: dict[str, Convert] = {}
    for parameter in parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise ToolRegistrationError(
                f"{name} takes {parameter}, which tells a model nothing: name its parameters, or use register_function "
                "for a function of one dict"
            )
        try:
            kind = hinted.kind(hints.get(parameter.name, inspect.Parameter.empty))
        except ToolRegistrationError as error:
            raise ToolRegistrationError(f"parameter {parameter.name} of {name}: {error}") from error
        properties[parameter.name] = _described(kind.schema, described.get(parameter.name), parameter.default)
        converters[parameter.name] = kind.convert
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [one.name for one in parameters.values() if one.default is one.empty],
    }
    if hinted.definitions:
        schema["$defs"] = hinted.definitions
    positional = {one.name: one.default for one in parameters.values() if one.kind is one.POSITIONAL_ONLY}
    return Signature(name, summary_of(_documented(func)), schema, converters, positional)


def _described(schema: Schema, description: str | None, default: Any) -> Schema:
    described = dict(schema)
    if description:
        described.setdefault("description", description)
    if default is not inspect.Parameter.empty:
        try:
            # Shown only when JSON can say it; NaN would be shown as null, which is another value.
            shown = orjson.loads(orjson.dumps(default))
        except (TypeError, ValueError):
            return described
        if shown is not None or default is None:
            described.setdefault("default", shown)
    return described


def _unwrapped(func: Any) -> Any:
    while isinstance(func, functools.partial):
        func = func.func
    return func


def _documented(func: Any) -> Any:
    """The object that carries name, hints and docstring: for an instance with `__call__`, that method."""
    func = _unwrapped(func)
    return func if inspect.isroutine(func) or isinstance(func, type) else type(func).__call__


def _name_of(func: Any) -> str:
    func = _unwrapped(func)
    return getattr(func, "__name__", None) or type(func).__name__


def _hints_of(func: Any) -> dict[str, Any]:
    documented = _documented(func)
    return type_hints(getattr(documented, "__init__") if isinstance(documented, type) else documented)  # noqa: B009 - mypy
