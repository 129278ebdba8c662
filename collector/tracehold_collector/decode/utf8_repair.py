"""Rewrites a protobuf message whose texts are not UTF-8, so that one bad text does not lose a batch (FR-15).

JavaScript encoders write half an emoji as three bytes that UTF-8 forbids; protobuf then refuses the whole
request, on every retry, for ever. Used only after the ordinary parser has failed for that reason.
"""

from __future__ import annotations

import re
from typing import Any, Final

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_MAX_DEPTH: Final = 100
_MAX_VARINT_BYTES: Final = 10
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_REPLACEMENT: Final = "\ufffd".encode()


def repair_utf8(message: bytes, descriptor: Any) -> bytes:
    """Return `message` with every text made valid UTF-8, invalid parts replaced by U+FFFD.

    Args:
        message: the wire form (https://protobuf.dev/programming-guides/encoding/).
        descriptor: the message type's protobuf descriptor.

    Raises:
        ValueError: the wire form is damaged or nested deeper than 100 messages.
    """
    return _repair(message, descriptor, _MAX_DEPTH)


def _repair(message: bytes, descriptor: Any, room: int) -> bytes:
    if room <= 0:
        raise ValueError("nested too deep")
    fields = descriptor.fields_by_number
    pieces: list[bytes] = []
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire != _LENGTH:
            at = _skip(message, at, wire)
            pieces.append(message[start:at])
            continue
        size, body_at = _varint(message, at)
        at = body_at + size
        if at > len(message):
            raise ValueError("cut short")
        body = message[body_at:at]
        field = fields.get(tag >> 3)
        if field is not None:
            body = _mend(body, field, room)
        pieces += (_write_varint(tag), _write_varint(len(body)), body)
    return b"".join(pieces)


def _mend(body: bytes, field: Any, room: int) -> bytes:
    if field.type == field.TYPE_MESSAGE:
        return _repair(body, field.message_type, room - 1)
    if field.type == field.TYPE_STRING:
        return _SURROGATE.sub(_REPLACEMENT, body).decode("utf-8", "replace").encode("utf-8")
    return body


def _skip(message: bytes, at: int, wire: int) -> int:
    if wire == _VARINT:
        return _varint(message, at)[1]
    width = {_FIXED64: 8, _FIXED32: 4}.get(wire)
    if width is None or at + width > len(message):
        raise ValueError("damaged")
    return at + width


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_MAX_VARINT_BYTES):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
        shift += 7
    raise ValueError("damaged")


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - the continuation bit
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
