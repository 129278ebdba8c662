"""Content codings of a request body: identity and gzip, decompressed without trusting the sender (FR-13)."""

from __future__ import annotations

import zlib
from typing import Final

from tracehold_collector.core.errors import BadBodyError, TooLargeError, UnsupportedCodingError
from tracehold_collector.core.limits import Limits

_GZIP: Final = frozenset({"gzip", "x-gzip"})
_IDENTITY: Final = frozenset({"", "identity"})
_MAGIC: Final = b"\x1f\x8b"
_STEP: Final = 1 << 20


def decompress(body: bytes, coding: str | None, limits: Limits) -> bytes:
    """Return the body as it was before its content coding.

    Memory stays within `limits.max_decompressed_bytes` whatever the body claims: output is taken in steps,
    and the first byte over the limit ends it.

    Args:
        body: as received.
        coding: the `Content-Encoding` header (RFC 9110 section 8.4), or `None`.
        limits: the sizes allowed.

    Raises:
        UnsupportedCodingError: another coding than identity, gzip and x-gzip.
        BadBodyError: broken gzip, or the header and the body disagree on whether it is gzip.
        TooLargeError: larger than a limit, before or after.
    """
    if len(body) > limits.max_body_bytes:
        raise TooLargeError(
            f"the body has {len(body)} bytes; max_body_bytes allows {limits.max_body_bytes}. Send smaller batches"
        )
    name = (coding or "").strip().lower()
    if name in _IDENTITY:
        if body.startswith(_MAGIC):
            raise BadBodyError("the body is gzip, but the request has no Content-Encoding: gzip header; add it")
        return body
    if name not in _GZIP:
        raise UnsupportedCodingError(
            f"Content-Encoding {name[:40]!r} is not read here; send identity (no header) or gzip"
        )
    if not body:
        return body
    if not body.startswith(_MAGIC):
        raise BadBodyError("Content-Encoding says gzip, but the body is not gzip; compress it or drop the header")
    return _gunzip(body, limits.max_decompressed_bytes)


def _gunzip(body: bytes, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    rest = body
    while rest:
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        while not member.eof:
            try:
                piece = member.decompress(rest, min(_STEP, limit - size + 1))
            except zlib.error as error:
                raise BadBodyError("the gzip body is broken", where=f"byte {len(body) - len(rest)}") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise TooLargeError(
                    f"the body decompresses to more than {limit} bytes, which max_decompressed_bytes allows."
                    " Send smaller batches"
                )
            pieces.append(piece)
            if not member.eof and not rest and not piece:
                raise BadBodyError("the gzip body ends too early", where=f"byte {len(body)}")
    return b"".join(pieces)
