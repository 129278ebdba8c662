"""JSON for what must come back as it went in: nothing is turned into text, rounded or dropped on the way.

`jsontext` writes whatever a program chose to record; this module refuses what JSON cannot hold, and says where it is.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn, TypeAlias

MAX_DEPTH: Final = 200
"""Levels of nesting. What is written here must be readable from any depth of the call stack, however hostile."""

_NAME_CHARS: Final = 64

_Place: TypeAlias = "tuple[_Place | None, str | int]"


class UnholdableError(ValueError):
    """Something that JSON cannot hold."""


def dumps(value: Any, *, name: str, ascii_only: bool = False) -> str:
    """Return `value` as JSON.

    As usual in JSON, a tuple comes back as a list and a number used as a key as a text.

    Args:
        value: dicts, lists, tuples, texts, finite numbers, bools and `None`.
        name: what `value` is called in messages, such as "metadata".
        ascii_only: escape everything else, so that lone surrogates survive any store. Without it they stand in the
            result as they are. (Two escaped halves of one character side by side are read as that character.)

    Raises:
        UnholdableError: something that JSON cannot hold (NaN, an object, bytes, a circular reference, two keys with one
            text), or nesting beyond `MAX_DEPTH`. The message names the place and never the value.
    """
    try:
        _check(value, (None, name), 0)
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    except UnholdableError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        # An integer of thousands of digits, another thread's change meanwhile, a call stack that is nearly full.
        raise UnholdableError(f"{name} cannot be written as JSON") from error


def loads(text: str) -> Any:
    """Return what `text` says.

    Raises:
        ValueError: no JSON, a number that is not finite, or nesting that the interpreter cannot follow.
    """
    try:
        return _decoder.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _check(value: Any, place: _Place, depth: int) -> None:
    if value is None or isinstance(value, str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnholdableError(f"{_text(place)} is NaN or infinite, which JSON has no form for")
    elif depth >= MAX_DEPTH:
        raise UnholdableError(f"{_text(place)} is nested more than {MAX_DEPTH} levels deep, or contains itself")
    elif isinstance(value, dict):
        _check_keys(value, place)
        for key, item in value.items():
            _check(item, (place, str(key)), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, (place, index), depth + 1)
    else:
        raise UnholdableError(f"{_text(place)} is of type {type(value).__name__}, which JSON has no form for")


def _check_keys(value: dict[Any, Any], place: _Place) -> None:
    others = [key for key in value if not isinstance(key, str)]
    for key in others:
        if not (key is None or isinstance(key, int) or (isinstance(key, float) and math.isfinite(key))):
            raise UnholdableError(f"{_text(place)} has a key of type {type(key).__name__}; JSON's keys are texts")
    if others and len({key if isinstance(key, str) else json.dumps(key) for key in value}) < len(value):
        raise UnholdableError(f"{_text(place)} has two keys that are one text in JSON")


def _text(place: _Place) -> str:
    parent, step = place
    if parent is None:
        return str(step)
    if isinstance(step, str) and step.isidentifier() and len(step) <= _NAME_CHARS:
        return f"{_text(parent)}.{step}"
    # Any other key may be content, and content does not belong in a message.
    return f"{_text(parent)}[{step if isinstance(step, int) else '...'}]"


def _not_finite(_text: str) -> NoReturn:
    raise ValueError("a number is NaN or infinite")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text)


_decoder: Final = json.JSONDecoder(parse_constant=_not_finite, parse_float=_finite)
