"""Turns errors into answers: the status, the text, and for OTLP the form its specification asks for."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.api.otlp_status import OTLP_PATHS, otlp_error
from tracehold_collector.core.errors import (
    BadBodyError,
    CollectorError,
    ConflictError,
    NotAllowedError,
    NotFoundError,
    QueryError,
    QueueFullError,
    StalledError,
    StoreError,
    ThrottledError,
    TileError,
    TooLargeError,
    UnsupportedCodingError,
)
from tracehold_collector.lifecycle import Lifecycle

_ANSWERS: Final[tuple[tuple[type[CollectorError], int, int], ...]] = (
    # error, HTTP status, gRPC code
    (TooLargeError, 413, 3),
    (UnsupportedCodingError, 415, 3),
    (BadBodyError, 400, 3),
    (QueryError, 400, 3),
    (NotAllowedError, 403, 7),
    (NotFoundError, 404, 5),
    (ConflictError, 409, 10),
    (TileError, 404, 5),
    (QueueFullError, 429, 8),
    (ThrottledError, 429, 8),
    # Not 408 or 400: a sender would have to drop what a slow network held up ("Retryable Response Codes").
    (StalledError, 503, 14),
    (StoreError, 503, 14),
)

RETRY_AFTER_S: Final = 2
"""Seconds after which a sender should try again: the collector could not store, or stops, or the bytes did not come."""

_SENT_TO: Final = OTLP_PATHS | {"/v1/events"}

_UNIMPLEMENTED: Final = 12
_INTERNAL: Final = 13


def codes_of(error: Exception) -> tuple[int, int]:
    """Return the HTTP status and the gRPC code for an error."""
    return next(((status, code) for kind, status, code in _ANSWERS if isinstance(error, kind)), (500, _INTERNAL))


def retry_after_s(error: Exception) -> int | None:
    """Return the seconds after which to send the same request again; `None` when that would not help."""
    if isinstance(error, QueueFullError | ThrottledError):
        return error.retry_after_s
    return RETRY_AFTER_S if isinstance(error, StoreError | StalledError) else None


async def on_collector_error(request: Request, error: Exception) -> Response:
    """Answer for an error of ours.

    429 and 503 carry `Retry-After`: a sender keeps the request and sends it again (OTLP specification, "OTLP/HTTP
    Throttling").
    """
    status, code = codes_of(error)
    wait_s = retry_after_s(error)
    if request.url.path in _SENT_TO:
        lifecycle: Lifecycle = request.app.state.lifecycle
        lifecycle.refused(error)
    headers = {} if wait_s is None else {"Retry-After": str(wait_s)}
    if isinstance(error, StalledError):
        headers["Connection"] = "close"  # the rest of its body is not waited for
    if request.url.path in OTLP_PATHS:
        return otlp_error(request.headers, status, code, str(error), headers)
    return JSONResponse({"error": str(error)}, status, headers)


async def on_method_not_allowed(request: Request, error: Exception) -> Response:
    """Answer for a method that an address does not take."""
    headers = error.headers if isinstance(error, HTTPException) else None
    text = f"{request.url.path} does not take {request.method}; it takes {(headers or {}).get('Allow', 'another')}"
    if request.url.path in OTLP_PATHS:
        return otlp_error(request.headers, 405, _UNIMPLEMENTED, text, headers)
    return JSONResponse({"error": text}, 405, headers)


async def on_unforeseen(request: Request, error: Exception) -> Response:
    """Answer for a fault of ours: the log says where, the sender learns that it is none of its own."""
    text = f"the collector failed on this request ({type(error).__name__}); its log says where, report it"
    if request.url.path in OTLP_PATHS:
        return otlp_error(request.headers, 500, _INTERNAL, text)
    return JSONResponse({"error": text}, 500)


def status_of(error: CollectorError) -> int:
    """Return the HTTP status an error of ours is answered with."""
    return codes_of(error)[0]
