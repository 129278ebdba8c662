"""The least a Python receiver can do and still be durable: parse the protobuf, append the bytes, sync, answer."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def free_port() -> int:
    """A port nobody listens on now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def app(journal: str) -> Starlette:
    """The receiver."""
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def traces(request: Request) -> Response:
        body = await request.body()
        ExportTraceServiceRequest.FromString(body)
        os.write(descriptor, body)
        os.fdatasync(descriptor)
        return Response(b"", media_type="application/x-protobuf")

    async def ready(_request: Request) -> Response:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/v1/traces", traces, methods=["POST"]), Route("/readyz", ready)])


if __name__ == "__main__":
    uvicorn.run(app(sys.argv[2]), port=int(sys.argv[1]), log_level="warning", access_log=False)
