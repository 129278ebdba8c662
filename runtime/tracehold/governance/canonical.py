"""Canonical JSON (RFC 8785): one text for one value, so that a digest of it can be compared (DEC-02).

One extension: RFC 8785 knows numbers as doubles only, in which two 64-bit ids may be the same number. An integer beyond
2**53 is written here in all its digits instead. Within the RFC's domain the result is the RFC's, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, Final

from tracehold.core.errors import CanonicalJsonError

MAX_DEPTH: Final = 200
"""How many arrays and objects may stand inside each other."""


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON of `value`, in UTF-8.

    Args:
        value: dicts with text keys, lists, tuples (written as arrays), texts, numbers, booleans, `None`.

    Raises:
        CanonicalJsonError: NaN or infinity, a key that is no text, a lone surrogate, a value JSON does not know, a
            value that contains itself, or one nested deeper than `MAX_DEPTH`. The message holds no content.
    """
    pieces: list[str] = []
    try:
        _write(value, pieces, [])
    except RecursionError as error:  # the caller's own stack was nearly full
        raise CanonicalJsonError("a value is nested too deep for what is left of the stack") from error
    try:
        return "".join(pieces).encode("utf-8")
    except UnicodeEncodeError:
        raise CanonicalJsonError("a text holds a lone surrogate, which UTF-8 cannot carry") from None


def digest(value: Any) -> str:
    """Return "sha256:" and the hexadecimal SHA-256 of the canonical JSON of `value`.

    Raises:
        CanonicalJsonError: `value` has no canonical JSON.
    """
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def action_digest(tool_name: str, arguments: Any) -> str:
    """Return the digest an approval is bound to: over `{"arguments": ..., "tool": ...}` (DEC-02).

    Raises:
        CanonicalJsonError: the arguments have no canonical JSON. Such a call cannot be approved; refuse it.
    """
    return digest({"tool": tool_name, "arguments": arguments})


def _write(value: Any, out: list[str], path: list[int]) -> None:
    """Append the text of `value`; `path` holds the ids of the containers it stands in."""
    if isinstance(value, str):
        out.append(_text(value))
    elif value is None:
        out.append("null")
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int):
        out.append(_integer(value))
    elif isinstance(value, float):
        out.append(_number(value))
    elif isinstance(value, dict | list | tuple):
        _enter(value, path)
        if isinstance(value, dict):
            _write_object(value, out, path)
        else:
            _write_array(value, out, path)
        path.pop()
    else:
        raise CanonicalJsonError(f"a value of type {type(value).__name__} is no JSON value; convert it first")


def _enter(value: Any, path: list[int]) -> None:
    if id(value) in path:
        raise CanonicalJsonError("a value that contains itself has no canonical JSON")
    if len(path) >= MAX_DEPTH:
        raise CanonicalJsonError(f"a value is nested deeper than {MAX_DEPTH} levels")
    path.append(id(value))


def _write_object(value: dict[Any, Any], out: list[str], path: list[int]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise CanonicalJsonError(f"a key of an object must be a text, not {type(key).__name__}")
    mark = "{"
    for key in sorted(value, key=_utf16):
        out.append(f"{mark}{_text(key)}:")
        _write(value[key], out, path)
        mark = ","
    out.append("{}" if mark == "{" else "}")


def _write_array(value: list[Any] | tuple[Any, ...], out: list[str], path: list[int]) -> None:
    out.append("[")
    for position, item in enumerate(value):
        if position:
            out.append(",")
        _write(item, out, path)
    out.append("]")


def _utf16(key: str) -> bytes:
    """Return what RFC 8785 section 3.2.3 sorts by: UTF-16 code units, which differ from code points past U+FFFF."""
    return key.encode("utf-16-be", "surrogatepass")


def _text(value: str) -> str:
    # The standard library escapes just what RFC 8785 section 3.2.2.2 wants escaped, in the same form.
    return json.dumps(value, ensure_ascii=False)


def _integer(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError as error:  # CPython refuses to write more than 4300 digits
        raise CanonicalJsonError("an integer has too many digits") from error


_PLAIN_FROM: Final = -7
_PLAIN_TO: Final = 21


def _number(value: float) -> str:
    """Write a double as ECMAScript does (RFC 8785 section 3.2.2.3): the shortest digits, in ECMAScript's layout."""
    if not math.isfinite(value):
        raise CanonicalJsonError("NaN and infinity have no JSON")
    if value == 0:
        return "0"  # also for -0.0
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    return sign + _layout(digits, point)


def _layout(digits: str, point: int) -> str:
    """Place the decimal point `point` digits from the left of `digits`."""
    if len(digits) <= point <= _PLAIN_TO:
        return digits + "0" * (point - len(digits))
    if 0 < point <= _PLAIN_TO:
        return f"{digits[:point]}.{digits[point:]}"
    if _PLAIN_FROM < point - 1 < 0:
        return "0." + "0" * -point + digits
    exponent = f"{point - 1:+d}"
    return f"{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e{exponent}"
