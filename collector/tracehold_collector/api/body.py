"""Reads a request body within limits of size, time and memory."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from tracehold_collector.core.errors import BadBodyError, StalledError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.pipeline import Reservation

READ_TIMEOUT_S = 60.0
"""A sender that stalls longer than this is let go, so that it cannot hold a place for ever."""


async def read_body(request: Request, limits: Limits, reservation: Reservation) -> bytes:
    """Return the body as sent, its content coding not undone.

    Raises:
        TooLargeError: over a limit.
        QueueFullError: the bodies under way fill the memory set aside for them.
        StalledError: the sender stalled.
        BadBodyError: it went away.
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
                reservation.grow(len(piece))
                pieces.append(piece)
    except TimeoutError as error:
        raise StalledError(
            f"the body did not arrive within {READ_TIMEOUT_S:g} s; nothing was taken in. Send the same request again"
        ) from error
    except ClientDisconnect as error:
        raise BadBodyError("the sender went away in the middle of the body; nothing was taken in") from error
    return b"".join(pieces)


def media_type(request: Request) -> str:
    """Return the content type without parameters, lower case; empty when there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _too_large(limits: Limits) -> TooLargeError:
    return TooLargeError(
        f"the body is larger than {limits.max_body_bytes} bytes (setting: max_body_bytes); send it in smaller requests"
    )
