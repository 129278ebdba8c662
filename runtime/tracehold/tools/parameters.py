"""What a tool takes, and the JSON Schema that says so (REG-03)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

Parameters: TypeAlias = dict[str, Any]
Schema: TypeAlias = dict[str, Any]


@dataclass
class ToolParameter:
    """One parameter of a tool (REG-03).

    Attributes:
        name: its key in the parameters.
        type: a JSON Schema type, such as "string" or "integer".
        description: for the model.
        required: whether a call without it is refused.
        default: shown to the model; not filled in.
        schema: a whole JSON Schema for the value, instead of `type`.
    """

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None
    schema: dict[str, Any] | None = None


def object_schema(parameters: Iterable[ToolParameter]) -> Schema:
    """Return the JSON Schema of an object with these parameters; extra keys are tolerated (REG-10)."""
    listed = list(parameters)
    return {
        "type": "object",
        "properties": {parameter.name: _value_schema(parameter) for parameter in listed},
        "required": [parameter.name for parameter in listed if parameter.required],
    }


def _value_schema(parameter: ToolParameter) -> Schema:
    schema: Schema = dict(parameter.schema) if parameter.schema is not None else {"type": parameter.type}
    if schema.get("type") == "array":
        schema.setdefault("items", {})  # providers refuse an array that does not say of what
    if parameter.description:
        schema.setdefault("description", parameter.description)
    if parameter.default is not None:
        schema.setdefault("default", parameter.default)
    return schema
