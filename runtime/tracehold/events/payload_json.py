"""A payload as JSON bytes that come back exactly: what JSON cannot hold is refused, nothing is rounded or dropped."""

from __future__ import annotations

import math
from typing import Any, Final

import orjson

from tracehold.core import strictjson
from tracehold.core.errors import SchemaError

# Without them orjson would quietly turn dataclasses, times and subclasses into something else.
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_PRECISE: Final = b" "
"""Begins what only the standard library's decoder reads exactly: lone surrogates, integers of any size."""


def encode_payload(value: Any, *, name: str = "data") -> bytes:
    """Return JSON of which `decode_payload` makes `value` again.

    Args:
        value: dicts with text keys, lists, texts, finite numbers, bools and `None`. A tuple comes back as a list.
        name: what messages call it.

    Raises:
        SchemaError: something that JSON cannot hold; the message says where, and never what.
    """
    try:
        raw = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, RecursionError):
        return _encode_precisely(value, name)
    # orjson writes NaN as null.
    if b"null" in raw and _has_not_finite(value):
        return _encode_precisely(value, name)  # which refuses, and says where
    return raw


def decode_payload(raw: bytes) -> Any:
    """Return what `encode_payload` was given.

    Raises:
        ValueError: bytes that it never wrote.
    """
    return strictjson.loads(raw.decode("ascii")) if raw.startswith(_PRECISE) else orjson.loads(raw)


def _encode_precisely(value: Any, name: str) -> bytes:
    try:
        return _PRECISE + strictjson.dumps(value, name=name, ascii_only=True).encode("ascii")
    except strictjson.UnholdableError as error:
        raise SchemaError(f"a payload cannot be stored: {error}. Nothing was stored") from error


def _has_not_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_not_finite, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_not_finite, value))
    return False
