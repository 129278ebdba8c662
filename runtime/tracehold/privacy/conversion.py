"""Turning objects into the plain data that can be cleaned and stored (TRC-12, DEC-09)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from numbers import Integral, Number, Real
from typing import Any


def is_record(value: object) -> bool:
    """Return whether `value` holds other values that are to be cleaned one by one."""
    return isinstance(value, (list, tuple, set, frozenset, Mapping))


def is_named_tuple(value: Any) -> bool:
    """Return whether `value` is an instance of a named tuple class: its fields have names, which are keys."""
    return isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_make")


def as_plain(value: Any) -> Any:
    """Return the plain form of an object: a str, int, float or dict, or the object itself if it is another number.

    Args:
        value: an object that is no container and no plain scalar. Text and numbers in a subclass lose it, an
            enumeration member becomes its value when that is text or a number, a dataclass instance a dict of its
            fields, and bytes the text they encode or a note on their size.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Enum) and not isinstance(value, int):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and hasattr(value, "__float__") and not hasattr(value, "numerator"):
        return float(value)
    if isinstance(value, Number):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return decode(bytes(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def decode(data: bytes) -> str:
    """Return the UTF-8 text that `data` holds, or a note on its size when it holds none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"<{len(data)} bytes>"


def is_hashable(value: Any) -> bool:
    """Return whether `value` can be a key or a member of a set."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def unused_name(name: Any, taken: set[Any], numbers: dict[Any, int]) -> Any:
    """Return `name` or the first of `name#2`, `name#3` ... that is not in `taken`: two masked keys never become one.

    Args:
        name: the name wanted.
        taken: names in use.
        numbers: the last number tried by name; kept between calls, so that many equal names cost no more each.
    """
    unique = name
    while unique in taken:
        numbers[name] = number = numbers.get(name, 1) + 1
        unique = f"{name}#{number}"
    return unique
