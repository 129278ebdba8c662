"""JSON-like values as OTLP's AnyValue, with their types kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

_INT64: Final = 1 << 63


def any_value(value: Any) -> AnyValue:
    """Return `value` as an AnyValue; `None` is the empty one. A whole number beyond 64 bits becomes text."""
    if isinstance(value, str):
        return AnyValue(string_value=encodable(value))
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        if -_INT64 <= value < _INT64:
            return AnyValue(int_value=value)
        return AnyValue(string_value=str(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, Mapping):
        return AnyValue(kvlist_value=KeyValueList(values=key_values(value)))
    if isinstance(value, list | tuple):
        return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))
    if isinstance(value, bytes):
        return AnyValue(bytes_value=value)
    return AnyValue() if value is None else AnyValue(string_value=encodable(str(value)))


def key_values(attributes: Mapping[str, Any]) -> Iterable[KeyValue]:
    """Yield the attributes as KeyValues, in their order."""
    return [KeyValue(key=encodable(str(key)), value=any_value(value)) for key, value in attributes.items()]


def encodable(text: str) -> str:
    """Return `text` with lone surrogates replaced: protobuf refuses a whole request for one of them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
