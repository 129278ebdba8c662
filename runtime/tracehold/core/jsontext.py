"""JSON as this library writes it: strict, UTF-8, and never failing on what a program chose to record."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson


def dumps(value: Any, *, option: int = 0) -> bytes:
    """Return `value` as strict JSON.

    Values JSON does not know are written as text (EXP-05); NaN and infinity become null; lone surrogates become "?";
    integers beyond 64 bits stay exact.

    Args:
        value: any nesting of dicts, lists and scalars.
        option: orjson options, such as `orjson.OPT_APPEND_NEWLINE`.
    """
    try:
        return orjson.dumps(value, default=_to_text, option=option | orjson.OPT_NON_STR_KEYS)
    except (TypeError, RecursionError):
        text = json.dumps(_plain(value, 0), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        newline = b"\n" if option & orjson.OPT_APPEND_NEWLINE else b""
        return text.encode("utf-8", "replace") + newline


def _to_text(value: Any) -> Any:
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


_MAX_DEPTH = 200


def _plain(value: Any, depth: int) -> Any:
    """A copy that the standard library can write: orjson refuses lone surrogates, large integers and deep nesting."""
    if depth > _MAX_DEPTH:
        return "[nested too deep]"
    if isinstance(value, dict):
        return {_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return _text(value if isinstance(value, str) else str(value))


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
