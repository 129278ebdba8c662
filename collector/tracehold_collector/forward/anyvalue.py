"""JSON-like values as OTLP's AnyValue, with their types kept.

NaN and the infinities stand in the content as words, since JSON has no numbers for them, and go out as such.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from tracehold_collector.decode.otlp_values import BYTES_BASE64, BYTES_TEXT

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
        raw = _bytes_of(value) if len(value) == 1 else None
        if raw is not None:
            return AnyValue(bytes_value=raw)
        return AnyValue(kvlist_value=KeyValueList(values=key_values(value)))
    if isinstance(value, list | tuple):
        return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))
    return AnyValue() if value is None else AnyValue(string_value=encodable(str(value)))


def key_values(attributes: Mapping[str, Any]) -> Iterable[KeyValue]:
    """Return the attributes as KeyValues, in their order."""
    return [KeyValue(key=encodable(str(key)), value=any_value(value)) for key, value in attributes.items()]


def _bytes_of(value: Mapping[str, Any]) -> bytes | None:
    """The bytes that the content holds as a mapping with one key (decode.otlp_values); `None` for any other."""
    ((key, text),) = value.items()
    if not isinstance(text, str):
        return None
    if key == BYTES_TEXT:
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True) if key == BYTES_BASE64 else None
    except ValueError:
        return None


def encodable(text: str) -> str:
    """Return `text` with lone surrogates replaced: protobuf refuses a whole request for one of them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
