"""Copies of JSON-like values, so that what was judged, what is recorded and what is used stay apart."""

from __future__ import annotations

from typing import Any, Final

MAX_VALUES: Final = 1_000_000
"""A value that holds another one twice, again and again, would be copied without end."""


def copy_json(value: Any) -> Any:
    """Return a copy of `value` in which every dict, list, tuple and set is new: nobody holds on to a part of it.

    Subclasses of dict, list and set become plain ones, and no code of theirs runs. Anything else is taken as it
    is. Several times faster than `copy.deepcopy`.

    Raises:
        RecursionError: it is nested too deeply, or holds itself.
        ValueError: it holds more than `MAX_VALUES` values.
    """
    return _copy(value, [MAX_VALUES])


def _copy(value: Any, left: list[int]) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    if isinstance(value, dict):
        _spend(left, dict.__len__(value))
        return {key: _copy(item, left) for key, item in dict.items(value)}
    if isinstance(value, list):
        _spend(left, list.__len__(value))
        return [_copy(item, left) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        _spend(left, tuple.__len__(value))
        # A named tuple keeps its names: redaction goes by them.
        return tuple.__new__(type(value), [_copy(item, left) for item in tuple.__iter__(value)])
    if isinstance(value, set):
        return set(set.__iter__(value))
    return bytearray(value) if isinstance(value, bytearray) else value


def _spend(left: list[int], values: int) -> None:
    left[0] -= values
    if left[0] < 0:
        raise ValueError(f"more than {MAX_VALUES} values")
