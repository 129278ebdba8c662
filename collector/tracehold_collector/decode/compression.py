"""Content codings of a request body: undone in steps, without trusting what the sender says of its size (FR-13)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import zstandard

from tracehold_collector.core.errors import BadBodyError, TooLargeError, UnsupportedCodingError
from tracehold_collector.core.limits import Limits

_GZIP: Final = frozenset({"gzip", "x-gzip"})
_IDENTITY: Final = frozenset({"", "identity"})
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_STEP: Final = 1 << 20
_ZSTD_STEP: Final = 512
"""Bytes of zstd taken at once: its shortest blocks, 4 bytes for 128 kB, make at most 16 MB of them."""
_ZSTD_WINDOW: Final = 8 * 1024 * 1024
"""RFC 9659: as a content coding, zstd needs no larger window."""
_ZLIB_METHOD: Final = 8


def decompress(body: bytes, coding: str | None, limits: Limits) -> bytes:
    """Return the body as it was before its content coding.

    Memory stays within `limits.max_decompressed_bytes` and a step of 16 MB, whatever the body claims: output is taken
    in steps, and what goes over the limit ends it.

    Args:
        body: as received.
        coding: the `Content-Encoding` header (RFC 9110 section 8.4), or `None`.
        limits: the sizes allowed.

    Raises:
        UnsupportedCodingError: another coding than identity, gzip (x-gzip), deflate and zstd.
        BadBodyError: a broken body, or the header and the body disagree on whether it is compressed.
        TooLargeError: larger than a limit, before or after.
    """
    if len(body) > limits.max_body_bytes:
        raise TooLargeError(
            f"the body has {len(body)} bytes; max_body_bytes allows {limits.max_body_bytes}. Send smaller batches"
        )
    name = (coding or "").strip().lower()
    if name in _IDENTITY:
        return _plain(body)
    if name in _GZIP:
        if body and not body.startswith(_GZIP_MAGIC):
            raise BadBodyError("Content-Encoding says gzip, but the body is not gzip; compress it or drop the header")
        steps = _inflate(body, 16 + zlib.MAX_WBITS, "gzip", limits.max_decompressed_bytes)
    elif name == "deflate":
        steps = _inflate(body, _deflate_form(body), "deflate", limits.max_decompressed_bytes)
    elif name == "zstd":
        steps = _unzstd(body)
    else:
        raise UnsupportedCodingError(
            f"Content-Encoding {name[:40]!r} is not read here; send identity (no header), gzip, deflate or zstd"
        )
    return _joined(steps, limits.max_decompressed_bytes)


def _plain(body: bytes) -> bytes:
    for magic, name in ((_GZIP_MAGIC, "gzip"), (_ZSTD_MAGIC, "zstd")):
        if body.startswith(magic):
            raise BadBodyError(f"the body is {name}, but the request has no Content-Encoding: {name} header; add it")
    return body


def _joined(steps: Iterator[bytes], limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in steps:
        size += len(piece)
        if size > limit:
            raise TooLargeError(
                f"the body decompresses to more than {limit} bytes, which max_decompressed_bytes allows."
                " Send smaller batches"
            )
        pieces.append(piece)
    return b"".join(pieces)


def _deflate_form(body: bytes) -> int:
    """Deflate is zlib's form by RFC 9110 section 8.4.1.2, and the bare stream by the habit of some senders."""
    zlibs = len(body) > 1 and body[0] & 0x0F == _ZLIB_METHOD and int.from_bytes(body[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if zlibs else -zlib.MAX_WBITS


def _inflate(body: bytes, form: int, name: str, limit: int) -> Iterator[bytes]:
    rest = body
    while rest:
        member = zlib.decompressobj(wbits=form)
        while not member.eof:
            try:
                piece = member.decompress(rest, min(_STEP, limit + 1))
            except zlib.error as error:
                raise BadBodyError(f"the {name} body is broken", where=f"byte {len(body) - len(rest)}") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
            yield piece
            if not member.eof and not rest and not piece:
                raise BadBodyError(f"the {name} body ends too early", where=f"byte {len(body)}")
        if rest and name == "deflate":
            raise BadBodyError("the deflate body ends before what was sent", where=f"byte {len(body) - len(rest)}")


def _unzstd(body: bytes) -> Iterator[bytes]:
    """Undo frame after frame; a frame goes to zstd in small pieces, because each gives all its output at once."""
    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    place = 0
    while place < len(body):
        frame = context.decompressobj()
        while not frame.eof:
            piece = body[place : place + _ZSTD_STEP]
            if not piece:
                raise BadBodyError("the zstd body ends too early", where=f"byte {len(body)}")
            try:
                yield frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise BadBodyError("the zstd body is broken", where=f"byte {place}") from error
            place += len(piece)
        place -= len(frame.unused_data)
