"""Ids that depend on nothing but what they stand for, so that a repeated reaction gives the same event (EVT-03)."""

from __future__ import annotations

import hashlib
import json
import os
from decimal import Decimal
from typing import Any, Final

import orjson

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def derived_id(*parts: object) -> str:
    """Return an id that depends on nothing but `parts`, in any process: 32 hex digits.

    Args:
        parts: JSON values; sets, bytes, decimals, paths and pydantic models have a fixed form too.

    Raises:
        TypeError: anything else: its text form may name an address in memory, and so differ each time.
        ValueError: it holds itself, or is nested too deep.
    """
    try:
        text = orjson.dumps(parts, _plain, _OPTIONS)
    except TypeError:
        # Lone surrogates and integers beyond 64 bits, which models do write.
        text = _dumps(parts)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _dumps(parts: object) -> bytes:
    try:
        return json.dumps(_keys_as_text(parts), sort_keys=True, separators=(",", ":"), default=_plain).encode("ascii")
    except RecursionError as error:
        raise ValueError("an id cannot be derived from a value that is nested too deep") from error


def _keys_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _keys_as_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_keys_as_text(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(derived_id(item) for item in value)  # a set's own order differs between processes
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"an event's id is derived from its data, which holds a {type(value).__name__}: JSON has none")
