"""Reads a request body within limits of size and time, and undoes its content coding."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from tracehold_collector.core.errors import BadBodyError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.decode import decompress

READ_TIMEOUT_S = 60.0
"""A sender that stalls longer than this is let go, so that it cannot hold a place for ever."""


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body as sent, its content coding undone.

    Raises:
        TooLargeError: over a limit, before or after decompression.
        BadBodyError: the sender stalled or went away, or the coding is broken.
        UnsupportedCodingError: a content coding nobody here reads.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.max_body_bytes:
        raise _too_large(limits)
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            async for piece in request.stream():
                size += len(piece)
                if size > limits.max_body_bytes:
                    raise _too_large(limits)
                pieces.append(piece)
    except TimeoutError as error:
        raise BadBodyError(f"the body did not arrive within {READ_TIMEOUT_S:g} s; nothing was taken in") from error
    except ClientDisconnect as error:
        raise BadBodyError("the sender went away in the middle of the body; nothing was taken in") from error
    body = b"".join(pieces)
    coding = request.headers.get("content-encoding")
    if coding is None or coding.strip().lower() in {"", "identity"}:
        return decompress(body, coding, limits)
    return await anyio.to_thread.run_sync(partial(decompress, body, coding, limits))


def media_type(request: Request) -> str:
    """Return the content type without parameters, lower case; empty when there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _too_large(limits: Limits) -> TooLargeError:
    return TooLargeError(
        f"the body is larger than {limits.max_body_bytes} bytes (setting: max_body_bytes); send it in smaller requests"
    )
