"""Which JSON Schemas a provider can hold a model to.

Providers enforce a subset of JSON Schema. A schema outside it is still worth sending as a hint, but a claim of
strictness would be refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_ENFORCED: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum"}
    | {"exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern"}
    | {"properties", "required", "title", "type"}
)
"""The keywords of https://platform.openai.com/docs/guides/structured-outputs (supported schemas). `default` is not."""

_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_MAX_DEPTH: Final = 10
_MAX_NODES: Final = 5000
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_CHARS: Final = 64


def is_object(schema: dict[str, Any]) -> bool:
    """Whether the schema's root is an object; providers take no other root."""
    return schema.get("type") == "object"


def strict_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the form that strict mode takes, or `None` when it has none.

    Objects that do not speak of further keys are closed: what the model writes then still fits the schema as it was. A
    property that may be left out has no strict form, for making it required would make the model invent a value.
    """
    closed: dict[str, Any] = _close(schema, 0)
    return closed if _allows_strict(closed) else None


def _close(schema: Any, depth: int) -> Any:
    if isinstance(schema, list) and depth <= _MAX_DEPTH * 2:
        return [_close(item, depth + 1) for item in schema]
    if not isinstance(schema, dict) or depth > _MAX_DEPTH * 2:
        return schema
    inner = {key: _close(value, depth + 1) for key, value in schema.items()}
    is_record = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    return {"additionalProperties": False} | inner if is_record else inner


def _allows_strict(schema: dict[str, Any]) -> bool:
    for number, (node, depth) in enumerate(_nodes(schema, 0)):
        if number >= _MAX_NODES or depth > _MAX_DEPTH or not node.keys() <= _ENFORCED:
            return False
        if ("$ref" in node and len(node) > 1 and depth) or node.get("format") not in {None, *_FORMATS}:
            return False
        if _describes_object(node) and not (_is_closed(node) and _requires_all(node)):
            return False
    return is_object(schema)


def has_open_objects(schema: dict[str, Any]) -> bool:
    """Whether some object takes keys that the schema does not list: a dictionary rather than a record."""
    for number, (node, depth) in enumerate(_nodes(schema, 0)):
        if depth > _MAX_DEPTH or number > _MAX_NODES:
            return True
        extra = node.get("additionalProperties")
        if _describes_object(node) and (isinstance(extra, dict) or extra is True or not node.get("properties")):
            return True
    return False


def schema_name(schema: dict[str, Any]) -> str:
    """Return the schema's title as a name that providers accept, else "output"."""
    title = schema.get("title")
    name = _NAME.sub("_", title).strip("_")[:_NAME_CHARS] if isinstance(title, str) else ""
    return name or "output"


def _describes_object(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node


def _is_closed(node: dict[str, Any]) -> bool:
    return node.get("additionalProperties") is False


def _requires_all(node: dict[str, Any]) -> bool:
    required = node.get("required", [])
    return isinstance(required, list) and set(node.get("properties", {})) <= {str(name) for name in required}


def _nodes(schema: object, depth: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each schema inside `schema` with its depth; stops below the depth at which every caller gives up."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH + 1:
        return
    yield schema, depth
    for keyword in ("properties", "$defs", "definitions"):
        named = schema.get(keyword)
        for inner in named.values() if isinstance(named, dict) else ():
            yield from _nodes(inner, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        listed = schema.get(keyword)
        for inner in listed if isinstance(listed, list) else ():
            yield from _nodes(inner, depth + 1)
    for keyword in ("items", "additionalProperties"):
        yield from _nodes(schema.get(keyword), depth + 1)
