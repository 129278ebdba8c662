"""Errors on OTLP's addresses: a `google.rpc.Status` in the request's own encoding (OTLP specification, "Failures")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from tracehold_collector.decode.otlp_signals import SIGNALS

OTLP_PATHS: Final = frozenset(signal.path for signal in SIGNALS)
PROTOBUF: Final = "application/x-protobuf"
_BAD_REQUEST: Final = 400


def otlp_error(
    asked: Headers, status: int, code: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer for a request that failed.

    Args:
        asked: the request's headers; the answer has the content type of the request.
        status: of HTTP.
        code: of gRPC.
        message: for the sender; never content.
        headers: more headers of the answer.
    """
    bad = status == _BAD_REQUEST
    if "json" in asked.get("content-type", ""):
        body: dict[str, object] = {"code": code, "message": message}
        if bad:
            type_url = f"type.googleapis.com/{BadRequest.DESCRIPTOR.full_name}"
            body["details"] = [{"@type": type_url, "fieldViolations": [{"description": message}]}]
        return JSONResponse(body, status, headers)
    answer = Status(code=code, message=message)
    if bad:
        violation = BadRequest.FieldViolation(description=message)
        answer.details.add().Pack(BadRequest(field_violations=[violation]))
    return Response(answer.SerializeToString(), status, headers, media_type=PROTOBUF)
