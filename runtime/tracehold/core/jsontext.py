"""JSON as this library writes it: strict, UTF-8, and never failing on what a program chose to record."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
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
        # Nearly all keys are text already, and without the option for others orjson takes half the time.
        return orjson.dumps(value, _to_text, option)
    except (TypeError, RecursionError):
        pass
    try:
        return orjson.dumps(value, _to_text, option | orjson.OPT_NON_STR_KEYS)
    except (TypeError, RecursionError):
        text = json.dumps(_Copier().plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        newline = b"\n" if option & orjson.OPT_APPEND_NEWLINE else b""
        return text.encode("utf-8", "replace") + newline


def _to_text(value: Any) -> Any:
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


_MAX_DEPTH = 200
_MAX_VALUES = 1_000_000
"""A value that holds another one twice, again and again, would be written out without end."""


class _Copier:
    """Makes a copy that the standard library can write: orjson refuses surrogates, large integers and deep nesting."""

    def __init__(self) -> None:
        self._values = 0

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Return the copy of `value`, which stands `depth` levels down."""
        self._values += 1
        if depth > _MAX_DEPTH:
            return "[nested too deep]"
        if self._values > _MAX_VALUES:
            return "[too many values]"
        if isinstance(value, dict):
            return {_text(str(key)): self.plain(item, depth + 1) for key, item in self._within(value.items())}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.plain(item, depth + 1) for item in self._within(value)]
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if value is None or isinstance(value, bool | int):
            return value
        return _text(value if isinstance(value, str) else str(value))

    def _within(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self._values > _MAX_VALUES:
                return
            yield item


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
