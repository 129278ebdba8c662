"""OTLP/gRPC: what OTLP/HTTP takes, by the same rules, over the other transport.

The services are written for a stream of requests, of which a unary call sends one: only so does a handler run before
the message is received, and can refuse a sender without a key, or one too many, before its bytes fill memory.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import structlog
from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]  # ships no types
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

from tracehold_collector.access.gate import Gate, Refusal
from tracehold_collector.access.journal import AccessLog, Entry
from tracehold_collector.access.principal import Principal
from tracehold_collector.api.access import TENANT_HEADER, denial_of
from tracehold_collector.api.body import READ_TIMEOUT_S
from tracehold_collector.api.errors import codes_of, retry_after_s
from tracehold_collector.api.needs import GRPC
from tracehold_collector.api.otlp_answers import Export, take_export
from tracehold_collector.core.errors import BadBodyError, CollectorError, StalledError
from tracehold_collector.core.tls import Certificate
from tracehold_collector.decode.otlp_signals import LOGS, METRICS, TRACES, Signal
from tracehold_collector.decoders.decoder import Job
from tracehold_collector.lifecycle import Lifecycle
from tracehold_collector.pipeline import Intake

_log = structlog.get_logger(__name__)

SERVICES: Final = {
    "opentelemetry.proto.collector.trace.v1.TraceService": TRACES,
    "opentelemetry.proto.collector.logs.v1.LogsService": LOGS,
    "opentelemetry.proto.collector.metrics.v1.MetricsService": METRICS,
}
_MAX_STREAMS: Final = 100
"""Calls under way on one connection; a sender's next ones wait on its own side until one is answered."""

_STATUS_DETAILS: Final = "grpc-status-details-bin"
_RETRY_INFO: Final = "google.rpc.retryinfo-bin"
"""Where the Python SDK looks for it."""

_STATUSES: Final[dict[int, grpc.StatusCode]] = {status.value[0]: status for status in grpc.StatusCode}
_BAD: Final = grpc.StatusCode.INVALID_ARGUMENT

_Behaviour = Callable[[Any, Any], Awaitable[bytes]]


class OtlpGrpcServer:
    """Serves the three export services on one port.

    Args:
        intake: where requests go; shared with HTTP.
        gate: says who sends.
        log: where refusals are noted.
        lifecycle: is told which senders were sent away.
        certificate: with which it speaks TLS; `None` is plain text.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        gate: Gate,
        log: AccessLog,
        lifecycle: Lifecycle,
        certificate: Certificate | None = None,
    ) -> None:
        self._lifecycle = lifecycle
        self._certificate = certificate
        self._intake = intake
        self._gate = gate
        self._log = log
        self._server: Any = None

    async def start(self, host: str, port: int) -> None:
        """Listen and serve, on the running event loop.

        Raises:
            CollectorError: the address cannot be used.
        """
        server: Any = grpc.aio.server(
            options=(
                # Two collectors on one port would each get half of what is sent.
                ("grpc.so_reuseport", 0),
                # Holds before and after decompression; over it, gRPC itself answers RESOURCE_EXHAUSTED.
                ("grpc.max_receive_message_length", self._intake.limits.max_body_bytes),
                ("grpc.max_concurrent_streams", _MAX_STREAMS),
            )
        )
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(
                    service, {"Export": grpc.stream_unary_rpc_method_handler(self._behaviour(service, signal))}
                )
                for service, signal in SERVICES.items()
            )
        )
        try:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            if self._certificate is None:
                server.add_insecure_port(address)
            else:
                pair = (self._certificate.key, self._certificate.chain)
                server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        except RuntimeError as error:
            raise CollectorError(
                f"cannot listen on {host}:{port} for OTLP/gRPC: another program took it just now; choose another"
                " --grpc-port, or --no-grpc"
            ) from error
        await server.start()
        self._server = server

    async def stop(self, grace_s: float) -> None:
        """Take nothing more, let what is under way be answered within `grace_s` seconds, and end. Idempotent."""
        if self._server is not None:
            await self._server.stop(grace_s)

    def _behaviour(self, service: str, signal: Signal) -> _Behaviour:
        return partial(self._export, service, signal)

    async def _export(self, service: str, signal: Signal, _requests: Any, call: Any) -> bytes:
        refusal: Exception
        try:
            answer: bytes = (await self._take(service, signal, call)).message().SerializeToString()
        except CollectorError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - a fault of ours is the sender's to know, and no text of it
            # No traceback: the log's form of it shows variables, and with them what was sent.
            _log.error("grpc_request_failed", signal=signal.name, error=type(error).__name__, where=_where(error))
            refusal = CollectorError(f"the collector failed on this request ({type(error).__name__}); report it")
        else:
            return answer
        self._lifecycle.refused(refusal)
        await _refuse(call, refusal)
        return b""

    async def _take(self, service: str, signal: Signal, call: Any) -> Export:
        metadata = [(key, value) for key, value in call.invocation_metadata() or () if isinstance(value, str)]
        who = self._admit(service, dict(metadata))
        claims = ", ".join(value for key, value in metadata if key == TENANT_HEADER)
        with self._intake.reservation() as reservation:
            body = await _read(call)
            reservation.grow(len(body))
            job = Job(signal.name, "protobuf", body, None, who.writes(claims or None))
            export = await take_export(self._intake, signal, job, len(body))
        if export.outcome is not None:
            self._gate.meters.took(who.key_id, export.outcome.receipt.accepted)
        return export

    def _admit(self, service: str, metadata: Mapping[str, str]) -> Principal:
        who = self._gate.admit(metadata.get("authorization", ""), metadata.get("x-api-key", ""))
        if isinstance(who, Refusal):
            entry = Entry("denied", service, who.key_id, who.name or "a stranger", status=401)
            self._log.refused(entry, who.key_id or "strangers")
            raise _DeniedError(grpc.StatusCode.UNAUTHENTICATED, f"{who.error}: {who.hint}")
        denial = denial_of(who, GRPC.get(service))
        if denial is not None:
            entry = Entry("denied", service, who.key_id, who.name, tenants=who.tenants, status=denial.status)
            self._log.refused(entry, who.key_id or who.name)
            raise _DeniedError(grpc.StatusCode.PERMISSION_DENIED, f"{denial.error}: {denial.hint}")
        self._gate.meters.request(who.key_id, who.limit)
        self._gate.meters.room(who.key_id, who.limit)
        return who


class _DeniedError(CollectorError):
    """A sender without a key, or with one that may not send."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


async def _read(call: Any) -> bytes:
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            body = await call.read()
    except TimeoutError as error:
        raise StalledError(
            f"the message did not arrive within {READ_TIMEOUT_S:g} s; nothing was taken in. Send the same again"
        ) from error
    # So it also ends when gRPC refused the message, and told the sender.
    if not isinstance(body, bytes):
        raise BadBodyError("the call ended without a message; nothing was taken in")
    return body


async def _refuse(call: Any, error: Exception) -> None:
    """End the call, with `RetryInfo` when the same request may be sent again (specification, "OTLP/gRPC Throttling").

    `RESOURCE_EXHAUSTED` is an error to retry only if it comes with one ("Failures").
    """
    code = error.code if isinstance(error, _DeniedError) else _STATUSES[codes_of(error)[1]]
    status = Status(code=code.value[0], message=str(error))
    wait_s = retry_after_s(error)
    trailing: list[tuple[str, bytes]] = []
    if wait_s is not None:
        wait = RetryInfo(retry_delay=Duration(seconds=wait_s))
        status.details.add().Pack(wait)
        trailing.append((_RETRY_INFO, wait.SerializeToString()))
    elif code is _BAD:
        violation = BadRequest.FieldViolation(description=str(error))
        status.details.add().Pack(BadRequest(field_violations=[violation]))
    trailing.append((_STATUS_DETAILS, status.SerializeToString()))
    await call.abort(code, str(error), tuple(trailing))


def _where(error: BaseException) -> str:
    """The line that failed; without values, which could be somebody's words."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
