"""What the requests of all signals have in common in OTLP/JSON: the way down to an item, attributes and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.decode.json_text import too_deep
from tracehold_collector.decode.otlp_signals import SIGNALS, Signal, wrong_signal
from tracehold_collector.decode.otlp_values import read_base64, read_double, read_int
from tracehold_collector.normalise.context import ItemError, NormaliseContext

_ABOVE_VALUES: Final = 10
"""Levels of JSON above an attribute's value: request, lists and objects down to `value`."""

_LEVELS_PER_VALUE: Final = 3
"""A nested value adds `arrayValue`, `values` and an entry."""


class Group(NamedTuple):
    """The items of one resource and scope.

    Attributes:
        place: of the list, such as `resourceSpans[0].scopeSpans[0].spans`.
        items: as parsed, not judged.
        resource, scope: as `read_resource` and `read_scope` give them.
    """

    place: str
    items: list[Any]
    resource: dict[str, Any]
    scope: dict[str, Any]


def groups(request: Any, signal: Signal, context: NormaliseContext) -> Iterator[Group]:
    """Yield the items of a parsed request by resource and scope, in order.

    Unknown fields are ignored, as protobuf's JSON mapping says; null is an absent field.

    Raises:
        BadBodyError: not a request of this signal.
    """
    for i, of_resource in enumerate(_resources(request, signal)):
        place = f"{signal.resources}[{i}]"
        expect_object(of_resource, place)
        resource = read_resource(of_resource, context)
        for j, of_scope in enumerate(expect_list(of_resource.get(signal.scopes), f"{place}.{signal.scopes}")):
            inner = f"{place}.{signal.scopes}[{j}]"
            expect_object(of_scope, inner)
            items = f"{inner}.{signal.items}"
            yield Group(items, expect_list(of_scope.get(signal.items), items), resource, read_scope(of_scope, context))


def _resources(request: Any, signal: Signal) -> list[Any]:
    wanted = signal.resources
    if not isinstance(request, dict):
        raise BadBodyError(f'the body is JSON but not an OTLP request: expected an object with "{wanted}"')
    if wanted in request:
        return expect_list(request[wanted], wanted)
    for other in SIGNALS:
        if other.resources in request:
            raise wrong_signal(other, signal)
    if signal.field in request:
        raise BadBodyError(f'OTLP/JSON names are in lowerCamelCase: "{wanted}", not "{signal.field}"')
    if request:
        raise BadBodyError(f'the body is a JSON object without "{wanted}": not an OTLP {signal.name} request')
    return []


def expect_list(value: Any, place: str) -> list[Any]:
    """Return a list, an empty one for null.

    Raises:
        BadBodyError: it is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadBodyError("expected a list", where=place)
    return value


def expect_object(value: Any, place: str) -> None:
    """Refuse what is no object.

    Raises:
        BadBodyError: it is none.
    """
    if not isinstance(value, dict):
        raise BadBodyError("expected an object", where=place)


def as_object(value: Any) -> dict[str, Any]:
    """Return an object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def read_resource(of_resource: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    """Return what a request says of one resource: `attributes`, and the rest when it is set."""
    resource = as_object(of_resource.get("resource"))
    found: dict[str, Any] = {"attributes": read_attributes(resource.get("attributes"), context)}
    copy_count(resource, "droppedAttributesCount", found, "dropped_attributes_count")
    copy_text(of_resource, "schemaUrl", found, "schema_url")
    return found


def read_scope(of_scope: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    """Return what a request says of one instrumentation scope; empty when it says nothing."""
    scope = as_object(of_scope.get("scope"))
    found: dict[str, Any] = {}
    copy_text(scope, "name", found, "name")
    copy_text(scope, "version", found, "version")
    attributes = read_attributes(scope.get("attributes"), context)
    if attributes:
        found["attributes"] = attributes
    copy_count(scope, "droppedAttributesCount", found, "dropped_attributes_count")
    copy_text(of_scope, "schemaUrl", found, "schema_url")
    return found


def read_time(value: Any, field: str) -> int:
    """Return nanoseconds, 0 when absent.

    Raises:
        ItemError: it is no integer.
    """
    if value is None:
        return 0
    number = read_int(value)
    if type(number) is not int:
        raise ItemError(f"{field} is not an integer; it must be nanoseconds since the epoch")
    return number


def read_enum(value: Any, names: dict[str, int]) -> int:
    """Return an enumeration's number; 0 when absent (FR-11) or unknown."""
    number = names.get(value) if isinstance(value, str) else None
    if number is None:
        number = read_int(value)
    return number if type(number) is int else 0


def read_attributes(pairs: Any, context: NormaliseContext) -> dict[str, Any]:
    """Return a list of KeyValue as a mapping; what is no KeyValue is left out.

    Raises:
        BadBodyError: a value is nested too deep.
    """
    if pairs.__class__ is not list:
        return {}
    room = context.limits.max_depth - _ABOVE_VALUES
    found: dict[str, Any] = {}
    for pair in pairs:
        if pair.__class__ is not dict:
            continue
        key, value = pair.get("key"), pair.get("value")
        if key.__class__ is not str:
            continue
        if value.__class__ is dict:
            text = value.get("stringValue")
            found[key] = text if text.__class__ is str else _read_value(value, context, room)
        else:
            found[key] = None
    return found


def read_body(value: Any, context: NormaliseContext) -> Any:
    """Return an AnyValue that stands by itself, as `read_attributes` returns those of attributes."""
    return _read_value(value, context, context.limits.max_depth - _ABOVE_VALUES)


def _read_value(value: Any, context: NormaliseContext, room: int) -> Any:
    """Return an AnyValue as the content holds it; one of a type nobody here knows is `None`."""
    if value.__class__ is not dict:
        return None
    if room <= 0:
        too_deep()
    for key, raw in value.items():
        if raw is None:
            continue
        if key in {"stringValue", "boolValue"}:
            return raw if isinstance(raw, str | bool | int | float) else None
        if key == "intValue":
            number = read_int(raw)
            return number if isinstance(number, str | int | float) else None
        if key == "doubleValue":
            number = read_double(raw)
            return number if isinstance(number, str | int | float) else None
        if key == "arrayValue":
            items = as_object(raw).get("values")
            items = items if isinstance(items, list) else []
            return [_read_value(item, context, room - _LEVELS_PER_VALUE) for item in items]
        if key == "kvlistValue":
            return _pairs(as_object(raw).get("values"), context, room - _LEVELS_PER_VALUE)
        if key == "bytesValue":
            return read_base64(raw, context.cleaner) if isinstance(raw, str) else None
    return None


def _pairs(pairs: Any, context: NormaliseContext, room: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            found[pair["key"]] = _read_value(pair.get("value"), context, room)
    return found


def copy_text(source: dict[str, Any], key: str, target: dict[str, Any], own: str) -> None:
    """Copy a text under the name it has in the content, unless it is absent or empty."""
    value = source.get(key)
    if isinstance(value, str) and value:
        target[own] = value


def copy_count(source: dict[str, Any], key: str, target: dict[str, Any], own: str) -> None:
    """Copy an integer under the name it has in the content, unless it is absent or 0."""
    value = read_int(source.get(key))
    if type(value) is int and value:
        target[own] = value
