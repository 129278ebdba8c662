"""Calls to OTLP/gRPC with raw bytes, and what a refusal says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}


class Caller:
    """Calls one collector.

    Args:
        address: host and port.
    """

    def __init__(self, address: str) -> None:
        self.channel: Any = grpc.insecure_channel(
            address, options=(("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1))
        )

    def export(self, signal: str, body: bytes, *, timeout: float = 30, **options: Any) -> bytes:
        """Send the bytes of a request; return those of the response, or raise `grpc.RpcError`."""
        answer: bytes = self.channel.unary_unary(METHODS[signal])(body, timeout=timeout, **options)
        return answer

    def refusal(self, signal: str, body: bytes, **options: Any) -> Refusal:
        """Send the bytes of a request that is refused; return how."""
        try:
            self.export(signal, body, **options)
        except grpc.RpcError as error:
            return Refusal(error)
        raise AssertionError("the request was taken")


class Refusal:
    """How a call was refused: its code, its text, and the details of its status, if it has any."""

    def __init__(self, error: Any) -> None:
        self.code = error.code()
        self.text = error.details()
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        self.status = Status.FromString(packed) if packed else None
        self.retry_after_s: int | None = None
        self.violation: str | None = None
        for detail in self.status.details if self.status else ():
            wait, bad = RetryInfo(), BadRequest()
            if detail.Unpack(wait):
                self.retry_after_s = wait.retry_delay.seconds
            elif detail.Unpack(bad):
                self.violation = bad.field_violations[0].description


@contextmanager
def calling(address: str | None) -> Iterator[Caller]:
    """Calls to a collector, with a connection that ends with the block."""
    assert address is not None
    caller = Caller(address)
    try:
        yield caller
    finally:
        caller.channel.close()
