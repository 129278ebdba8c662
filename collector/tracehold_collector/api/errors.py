"""Turns the collector's errors into answers: the status, the text, and for OTLP the form its specification asks for."""

from __future__ import annotations

from typing import Final

from google.rpc.status_pb2 import Status
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.core.errors import (
    BadBodyError,
    CollectorError,
    QueryError,
    QueueFullError,
    StoreError,
    TooLargeError,
    UnsupportedCodingError,
)

OTLP_PATHS: Final = frozenset({"/v1/traces"})

_ANSWERS: Final[tuple[tuple[type[CollectorError], int, int], ...]] = (
    # error, HTTP status, gRPC code of the OTLP Status message
    (TooLargeError, 413, 3),
    (UnsupportedCodingError, 415, 3),
    (BadBodyError, 400, 3),
    (QueryError, 400, 3),
    (QueueFullError, 429, 8),
    (StoreError, 503, 14),
)

_RETRY_AFTER_S = 2


async def on_collector_error(request: Request, error: Exception) -> Response:
    """Answer for an error of ours.

    429 and 503 carry `Retry-After`: a sender keeps the request and sends it again (OTLP specification, "OTLP/HTTP
    Throttling"). On an OTLP path the body is a `google.rpc.Status` in the request's own encoding ("Failures").
    """
    status, code = _answer_to(error)
    headers = {}
    if isinstance(error, QueueFullError):
        headers["Retry-After"] = str(error.retry_after_s)
    elif status == 503:  # noqa: PLR2004
        headers["Retry-After"] = str(_RETRY_AFTER_S)
    if request.url.path in OTLP_PATHS:
        if "json" in request.headers.get("content-type", ""):
            return JSONResponse({"code": code, "message": str(error)}, status, headers)
        body = Status(code=code, message=str(error)).SerializeToString()
        return Response(body, status, headers, media_type="application/x-protobuf")
    return JSONResponse({"error": str(error)}, status, headers)


def status_of(error: CollectorError) -> int:
    """Return the HTTP status an error of ours is answered with."""
    return _answer_to(error)[0]


def _answer_to(error: Exception) -> tuple[int, int]:
    return next(((status, code) for kind, status, code in _ANSWERS if isinstance(error, kind)), (500, 13))
