"""Parts of a span's content, read for OTLP's fields: what a field cannot hold is as good as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold_collector.forward.anyvalue import encodable

_MAX_UINT32: Final = (1 << 32) - 1
_MAX_UINT64: Final = (1 << 64) - 1


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text that protobuf can encode, anything else as an empty one."""
    return encodable(value) if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return a 32-bit count or flags field."""
    return value if type(value) is int and 0 <= value <= _MAX_UINT32 else 0


def nanoseconds(value: object) -> int:
    """Return a time, given as a number or, as OTLP's JSON has it, as its digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    return value if type(value) is int and 0 <= value <= _MAX_UINT64 else 0


def raw_id(value: object) -> bytes:
    """Return the bytes of a hexadecimal id."""
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""
