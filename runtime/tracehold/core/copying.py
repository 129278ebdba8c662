"""Copies of JSON-like values, so that what was judged, what is recorded and what is used stay apart."""

from __future__ import annotations

from typing import Any


def copy_json(value: Any) -> Any:
    """Return a copy of `value` in which every dict and list is new; anything else is taken as it is.

    Several times faster than `copy.deepcopy`, and it never runs code of an object that stands in the value.

    Raises:
        RecursionError: it is nested too deeply, or holds itself.
    """
    kind = type(value)
    if kind is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if kind is list:
        return [copy_json(item) for item in value]
    return value
