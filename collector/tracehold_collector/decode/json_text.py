"""Strict JSON first, then what real senders get wrong: half an emoji, bare NaN (FR-15, FR-17)."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NamedTuple, NoReturn

import orjson

from tracehold_collector.core.errors import BadBodyError, TooLargeError
from tracehold_collector.core.limits import Limits

_INT64: Final = range(-(1 << 63), 1 << 63)
_MAX_DIGITS: Final = 20


class Parsed(NamedTuple):
    """A JSON text's value.

    Attributes:
        value: JSON-like: no NaN, no lone surrogates, integers within 64 bits.
        replaced: whether invalid Unicode in it was replaced by U+FFFD.
    """

    value: Any
    replaced: bool


def check_size(body: bytes, limits: Limits) -> None:
    """Check that parsing a JSON body will take bounded memory and time; parsing cannot be interrupted.

    Raises:
        TooLargeError: it has more bytes or more values than the limits allow.
    """
    if len(body) > limits.max_json_bytes:
        raise TooLargeError(
            f"the JSON body has {len(body)} bytes, max_json_bytes allows {limits.max_json_bytes}. Send smaller "
            "requests, or protobuf"
        )
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > limits.max_json_values:
        raise TooLargeError(
            f"the JSON body has about {values} values, max_json_values allows {limits.max_json_values}. Send "
            "smaller requests"
        )


def parse_json(body: bytes | memoryview, max_depth: int) -> Parsed:
    """Return the value of a JSON text.

    orjson reads what is valid. Only what it refuses is read again by the standard library, which accepts
    three faults we keep as data instead of losing a batch: a lone surrogate or an invalid byte becomes
    U+FFFD, the bare tokens NaN, Infinity and -Infinity become those words, a number too large for its type
    becomes its text.

    Args:
        body: UTF-8.
        max_depth: `Limits.max_depth`. The fast path is bounded by orjson's own limit; callers that walk its
            value check deeper parts themselves.

    Raises:
        BadBodyError: not JSON (line and column), or nested too deep.
    """
    try:
        return Parsed(orjson.loads(body), replaced=False)
    except orjson.JSONDecodeError:
        return _parse_leniently(bytes(body), max_depth)


def check_depth(value: Any, room: int) -> None:
    """Check that a parsed value is not nested deeper than `room` levels.

    Raises:
        BadBodyError: it is.
    """
    if value.__class__ is not dict and value.__class__ is not list:
        return
    if room <= 0:
        too_deep()
    for item in value.values() if value.__class__ is dict else value:
        if item.__class__ is dict or item.__class__ is list:
            check_depth(item, room - 1)


def has_replacement(value: Any) -> bool:
    """Whether any text in a value holds U+FFFD; asked only of bodies in which something was replaced."""
    if isinstance(value, str):
        return "\ufffd" in value
    if isinstance(value, dict):
        return any(has_replacement(key) or has_replacement(item) for key, item in value.items())
    return isinstance(value, list) and any(map(has_replacement, value))


def too_deep() -> NoReturn:
    """Refuse a body that is nested too deep.

    Raises:
        BadBodyError: always.
    """
    raise BadBodyError("the JSON is nested deeper than max_depth allows; flatten the deepest value")


def _parse_leniently(body: bytes, max_depth: int) -> Parsed:
    text = body.decode("utf-8-sig", "replace")
    try:
        value = json.loads(text, parse_constant=str, parse_float=_float, parse_int=_int)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadBodyError(
            f"the body is not JSON: {error.msg}", where=where
        ) from None  # the error holds the whole text
    except RecursionError:
        too_deep()
    value = _mended(value, max_depth)
    return Parsed(value, replaced="\ufffd" in text or has_replacement(value))


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _int(text: str) -> int | str:
    if len(text) > _MAX_DIGITS:
        return text
    number = int(text)
    return number if number in _INT64 else text


def _mended(value: Any, room: int) -> Any:
    """Return a copy without lone surrogates; a pair written as two escapes is one character already."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        if room <= 0:
            too_deep()
        return {_mended(key, room): _mended(item, room - 1) for key, item in value.items()}
    if isinstance(value, list):
        if room <= 0:
            too_deep()
        return [_mended(item, room - 1) for item in value]
    return value
