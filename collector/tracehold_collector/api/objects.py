"""Reads a small JSON object that asks for an act: no page in somebody's browser can send one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import orjson
from starlette.requests import Request

from tracehold_collector.api.body import media_type
from tracehold_collector.core.errors import BadBodyError, TooLargeError, UnsupportedCodingError

MAX_BYTES: Final = 64 * 1024


async def read_object(request: Request, known: Collection[str], *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object that a request brings; a key that is `null` is left out. Otherwise as `read_as_sent`."""
    body = await read_as_sent(request, known, max_bytes=max_bytes)
    return {key: value for key, value in body.items() if value is not None}


async def read_as_sent(request: Request, known: Collection[str], *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object that a request brings.

    Args:
        request: with its body unread.
        known: the keys it may have.
        max_bytes: a larger one is refused.

    Raises:
        UnsupportedCodingError: another content type. A page cannot send this one without asking first, which is never
            granted (decision 7).
        TooLargeError: over the limit.
        BadBodyError: it is no such object.
    """
    if media_type(request) != "application/json":
        raise UnsupportedCodingError("send a JSON object with Content-Type: application/json")
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > max_bytes:
            raise TooLargeError(f"such a request has at most {max_bytes:,} bytes")
    try:
        body = orjson.loads(bytes(raw))
    except orjson.JSONDecodeError as error:
        raise BadBodyError(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict) or body.keys() - set(known):
        raise BadBodyError(f"the body is a JSON object with {', '.join(sorted(known))} and nothing else")
    return body


def text_of(body: dict[str, Any], key: str, *, required: bool = False) -> str | None:
    """Return a text of the object, `None` when it is left out.

    Raises:
        BadBodyError: it is no text, or is missing and required.
    """
    value = body.get(key)
    if value is None and not required:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise BadBodyError(f"{key!r} is a text" + (" and must be there" if required else ""))
    return value


def count_of(body: dict[str, Any], key: str) -> int:
    """Return a whole number of the object that is not negative.

    Raises:
        BadBodyError: it is none, or missing.
    """
    value = body.get(key)
    if type(value) is not int or value < 0 or value >= 1 << 63:
        raise BadBodyError(f"{key!r} is a whole number, 0 or more, and must be there")
    return value
