"""OTLP attribute values as content holds them: JSON-like, with bytes readable for the redactor (FR-35)."""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Final

from tracehold_collector.core.names import Cleaner, try_clean
from tracehold_collector.normalise.context import ItemError

BYTES_TEXT: Final = "$bytes_text"
BYTES_BASE64: Final = "$bytes_base64"
"""How a bytes value stands in the content: a mapping with one of these two keys."""

_INTEGER: Final = re.compile(r"-?\d{1,20}")
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_BASE64_LENGTHS: Final = {32: 24, 16: 12}
_INT64_MIN: Final = -(1 << 63)
_UINT64_MAX: Final = (1 << 64) - 1


def read_double(value: Any) -> Any:
    """Return a double as JSON can hold it: NaN and the infinities as protobuf's JSON words (FR-17)."""
    if value.__class__ is not float:
        return _double_from_json(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _double_from_json(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return value
    if value in {"NaN", "Infinity", "-Infinity"}:
        return value
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return str(value)
    return number if math.isfinite(number) else str(value)


def read_int(value: Any) -> Any:
    """Return a 64-bit integer that came as a number or as text; anything else as it is (nothing is lost)."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        number = int(value)
        return number if _INT64_MIN <= number <= _UINT64_MAX else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def read_bytes(raw: bytes, cleaner: Cleaner) -> dict[str, str]:
    """Return a bytes value for the content.

    Base64 would hide a secret from every detector, so text stays text, and bytes that only look binary are
    masked as Latin-1 first.

    Args:
        raw: the value.
        cleaner: what will mask the content.
    """
    try:
        return {BYTES_TEXT: raw.decode("utf-8")}
    except UnicodeDecodeError:
        pass
    text = raw.decode("latin-1")
    masked = try_clean(cleaner, text)
    if masked != text:
        return {BYTES_TEXT: masked or "[uncleanable]"}
    return {BYTES_BASE64: base64.b64encode(raw).decode("ascii")}


def read_base64(value: str, cleaner: Cleaner) -> dict[str, str] | str:
    """Return a bytes value of OTLP's JSON, which writes them in base64; as it is when it is not that."""
    try:
        raw = base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return value
    return read_bytes(raw, cleaner)


def check_hex_id(value: Any, digits: int, field: str) -> str:
    """Return a trace or span id of OTLP's JSON in lower case.

    Args:
        value: as sent.
        digits: 32 for a trace id, 16 for a span id.
        field: its name in OTLP's JSON, for the message.

    Raises:
        ItemError: it is missing, no hex, of another length, base64, or all zeros (FR-11).
    """
    if not isinstance(value, str) or not value:
        raise ItemError(f"{field} is missing; it must be {digits} hex digits")
    if len(value) == digits and _HEX.fullmatch(value):
        if value == "0" * digits:
            raise ItemError(f"{field} is all zeros, which OTLP calls invalid")
        return value.lower()
    if len(value) == _BASE64_LENGTHS[digits] and value.endswith("="):
        raise ItemError(f"{field} is base64; in OTLP/JSON ids are written as {digits} hex digits")
    problem = f"{len(value)} characters" if len(value) != digits else "characters that are not hex"
    raise ItemError(f"{field} has {problem}; it must be {digits} hex digits")


def check_raw_id(value: bytes, size: int, field: str) -> str:
    """Return a trace or span id of OTLP's protobuf form as lower-case hex.

    Args:
        value: as sent.
        size: 16 bytes for a trace id, 8 for a span id.
        field: its name in protobuf, for the message.

    Raises:
        ItemError: it is missing, of another length, or all zeros (FR-11).
    """
    if len(value) != size:
        if not value:
            raise ItemError(f"{field} is missing; it must be {size} bytes")
        hint = "; it looks like hex text, send the bytes" if len(value) == size * 2 else ""
        raise ItemError(f"{field} has {len(value)} bytes; it must be {size}{hint}")
    if not any(value):
        raise ItemError(f"{field} is all zeros, which OTLP calls invalid")
    return value.hex()
