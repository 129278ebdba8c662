"""A JSON Schema as the graph a validator walks: which subschema applies which, to the same value or to a part of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urljoin

import orjson

from tracehold.tools.schema_limits import LIMITS, SchemaLimits

Slot: TypeAlias = tuple[str, Any]
"""Which parts of a value a subschema applies to: `("key", name)`, `("index", i)`, or all of them: `ANY_KEY`, ..."""

ANY_KEY: Final[Slot] = ("keys", None)
ANY_INDEX: Final[Slot] = ("indexes", None)

_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_SAME_VALUE_BY_KEY: Final = ("dependentSchemas", "dependencies")
_EACH_KEY: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_EACH_INDEX: Final = ("contains", "additionalItems", "unevaluatedItems")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_META_SCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
_META_SCHEMA: Final[dict[str, Any]] = {"allOf": [{"allOf": [{}] * 10}] * 10}
"""Stands for a schema of schemas, which the validator brings along: what one of them costs a value, rounded up."""


class SchemaTooComplexError(ValueError):
    """Checking a call with this schema could take too long, or too much of the stack."""


@dataclass(slots=True)
class Node:
    """A subschema.

    Attributes:
        same: the subschemas it applies to the same value.
        parts: the subschemas it applies to parts of the value.
        collects: whether the validator goes over `same` again, to learn which parts they evaluated.
    """

    same: list[int] = field(default_factory=list)
    parts: list[tuple[Slot, int]] = field(default_factory=list)
    collects: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """All subschemas that the first one, the root, leads to.

    Attributes:
        nodes: the subschemas; edges are indexes.
        alternatives: whether there are some of which not all need to fit; each of those has its own problems to tell.
    """

    nodes: list[Node]
    alternatives: bool


def read_graph(text: bytes, limits: SchemaLimits = LIMITS) -> Graph:
    """Read a schema.

    Where a reference could mean several places, all are taken, so that an estimate made with the graph is never less
    than what the validator does.

    Raises:
        SchemaTooComplexError: it is too long, too deeply nested, or has too many parts.
        ValueError: it is no JSON, or a reference leads nowhere.
    """
    if len(text) > limits.schema_bytes:
        raise SchemaTooComplexError(f"it is longer than {limits.schema_bytes} bytes")
    document = _Document(orjson.loads(text), limits)
    return document.graph()


class _Document:
    def __init__(self, root: dict[str, Any], limits: SchemaLimits) -> None:
        self._root = root
        self._resource: dict[int, dict[str, Any]] = {}
        self._by_uri: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._by_anchor: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._recursive: list[dict[str, Any]] = []
        self._dynamic = False
        self._index(limits)
        self._nodes: list[Node] = []
        self._numbers: dict[int, int] = {}
        self._pending: list[tuple[Node, dict[str, Any]]] = []

    def _index(self, limits: SchemaLimits) -> None:
        """Note for each object what it can be referred to by, and the resource it lies in."""
        level: list[tuple[Any, dict[str, Any]]] = [(self._root, self._root)]
        seen = 0
        for _ in range(limits.schema_levels):
            deeper: list[tuple[Any, dict[str, Any]]] = []
            for container, outer in level:
                resource = self._note(container, outer) if isinstance(container, dict) else outer
                values = container.values() if isinstance(container, dict) else container
                deeper += [(value, resource) for value in values if isinstance(value, dict | list)]
            seen += len(level)
            if seen > limits.schema_containers:
                raise SchemaTooComplexError(f"it has more than {limits.schema_containers} objects and arrays")
            if not deeper:
                return
            level = deeper
        raise SchemaTooComplexError(f"it is nested deeper than {limits.schema_levels} levels")

    def _note(self, schema: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
        resource = outer
        for key in ("$id", "id"):
            uri = schema.get(key)
            if isinstance(uri, str) and uri.startswith("#"):
                self._by_anchor[uri[1:]].append(schema)  # how drafts up to 7 write an anchor
            elif isinstance(uri, str):
                self._by_uri[_last_part(uri)].append(schema)
                resource = schema
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(key), str):
                self._by_anchor[anchor].append(schema)
        if schema.get("$recursiveAnchor") is True:
            self._recursive.append(schema)
        self._dynamic = self._dynamic or "$dynamicAnchor" in schema or "$recursiveAnchor" in schema
        self._resource[id(schema)] = resource
        return resource

    def graph(self) -> Graph:
        self._number(self._root)
        alternatives = False
        while self._pending:
            node, schema = self._pending.pop()
            alternatives = alternatives or "anyOf" in schema or "oneOf" in schema
            node.collects = any(key in schema for key in _UNEVALUATED)
            node.same = [self._number(inner) for inner in self._same(schema)]
            node.parts = [(slot, self._number(inner)) for slot, inner in _parts(schema)]
        return Graph(self._nodes, alternatives)

    def _number(self, schema: dict[str, Any]) -> int:
        number = self._numbers.get(id(schema))
        if number is None:
            number = self._numbers[id(schema)] = len(self._nodes)
            self._nodes.append(Node())
            self._pending.append((self._nodes[number], schema))
        return number

    def _same(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for key in _SAME_VALUE:
            yield from _schemas(schema.get(key))
        for key in _SAME_VALUE_BY_KEY:
            yield from _values(schema.get(key))
        for key in _REFERENCES:
            if isinstance(reference := schema.get(key), str):
                yield from self._targets(key, schema, reference)

    def _targets(self, key: str, schema: dict[str, Any], reference: str) -> list[dict[str, Any]]:
        uri, _, fragment = reference.partition("#")
        fragment = unquote(fragment)
        starts = self._by_uri.get(_last_part(uri), []) if uri else [self._resource[id(schema)], self._root]
        if fragment and not fragment.startswith("/"):
            found: list[Any] = list(self._by_anchor.get(fragment, []))
        else:
            found = [target for start in starts if (target := _follow(start, fragment)) is not None]
        if key == "$recursiveRef":
            found += self._recursive
        if not found and self._is_meta_schema(schema, uri):
            found = [_META_SCHEMA]
        if not found:
            raise ValueError("a reference leads to nothing inside the schema, and others are not followed")
        return list({id(target): target for target in found if isinstance(target, dict)}.values())

    def _is_meta_schema(self, schema: dict[str, Any], uri: str) -> bool:
        # With an anchor of its own a schema could be what the schema of schemas goes on with: unknown costs.
        if not uri or self._dynamic:
            return False
        base = self._resource[id(schema)].get("$id")
        return urljoin(base if isinstance(base, str) else "", uri).startswith(_META_SCHEMAS)


def _parts(schema: dict[str, Any]) -> Iterator[tuple[Slot, dict[str, Any]]]:
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict):
            yield ("key", name), inner
    for inner in _values(schema.get("patternProperties")):
        yield ANY_KEY, inner
    for key in _EACH_KEY:
        for inner in _schemas(schema.get(key)):
            yield ANY_KEY, inner
    for key in ("items", "prefixItems"):
        listed = schema.get(key)
        for index, inner in enumerate(listed) if isinstance(listed, list) else ():
            if isinstance(inner, dict):
                yield ("index", index), inner
        if isinstance(listed, dict):
            yield ANY_INDEX, listed
    for key in _EACH_INDEX:
        for inner in _schemas(schema.get(key)):
            yield ANY_INDEX, inner


def _schemas(value: Any) -> list[dict[str, Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _values(value: Any) -> list[dict[str, Any]]:
    return [one for one in value.values() if isinstance(one, dict)] if isinstance(value, dict) else []


def _follow(start: Any, pointer: str) -> Any:
    """Return what a JSON pointer (RFC 6901) leads to, or `None`."""
    place = start
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - the step, unescaped
        if isinstance(place, dict):
            place = place.get(step)
        elif isinstance(place, list):
            try:
                place = place[int(step)]
            except (ValueError, IndexError):
                return None
        else:
            return None
    return place


def _last_part(uri: str) -> str:
    # Enough to tell the resources of one schema apart, whatever they are relative to.
    return unquote(uri.partition("#")[0]).rpartition("/")[2]
