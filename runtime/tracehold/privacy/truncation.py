"""Cutting long strings, with a marker that tells how much is gone (TRC-10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_MARKER: Final = re.compile(r"…\[\+[0-9]{1,19} chars\]\Z")
_MARKER_MAX: Final = 32


def cut(text: str, max_len: int, *, hidden: int = 0) -> str:
    """Return `text` cut to `max_len` characters plus a marker, or `text` itself when it is short enough.

    A text that was cut to this length before is left as it is, so that cutting twice changes nothing.

    Args:
        text: what may be too long.
        max_len: how many characters stay.
        hidden: characters that are known to follow `text` and are dropped with the rest.
    """
    length = len(text)
    if length + hidden <= max_len:
        return text
    if not hidden and length <= max_len + _MARKER_MAX and _MARKER.search(text, max_len) and text[max_len] == "…":
        return text
    return f"{text[:max_len]}…[+{length + hidden - min(max_len, length)} chars]"


def truncate(value: Any, max_len: int) -> Any:
    """Return `value` with each string in it cut to `max_len`; keys are never cut (TRC-09, TRC-10).

    Args:
        value: cleaned data: scalars, lists, tuples, sets and dicts.
        max_len: characters kept of each string.

    Returns:
        The same object when nothing is cut, else a copy; the input is never modified.
    """
    kind = type(value)
    if kind is str:
        return value if len(value) <= max_len else cut(value, max_len)
    if isinstance(value, Mapping):
        changed = {key: new for key, old in value.items() if (new := truncate(old, max_len)) is not old}
        return {**value, **changed} if changed else value
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [truncate(item, max_len) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return value._make(items) if hasattr(value, "_make") else kind(items)
    return value
