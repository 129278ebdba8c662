"""What agents send: `POST /v1/events` (ours), `/v1/traces`, `/v1/logs` and `/v1/metrics` (OTLP/HTTP)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.access.limits import Meters
from tracehold_collector.api.access import principal_of, writes_of
from tracehold_collector.api.body import media_type, read_body
from tracehold_collector.api.otlp_answers import take_export
from tracehold_collector.api.otlp_status import PROTOBUF
from tracehold_collector.core.errors import UnsupportedCodingError
from tracehold_collector.decode.otlp_signals import LOGS, METRICS, TRACES, Signal
from tracehold_collector.decoders.decoder import Job
from tracehold_collector.pipeline import Intake, Outcome

MAX_REASONS: Final = 100
"""Rejections named one by one in an answer; all are counted."""

_ASSUMED_RATIO: Final = 40
"""How many times larger a packed body is taken to be; traces pack 6 to 12 times, a bomb up to a thousand."""

ACCEPTED_HEADER: Final = "Tracehold-Accepted"
DUPLICATES_HEADER: Final = "Tracehold-Duplicates"

_EVENT_TYPES: Final[dict[str, Literal["ndjson", "json"]]] = {
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/json": "json",
    "application/cloudevents+json": "json",
    "application/cloudevents-batch+json": "json",
}

_OTLP_TYPES: Final[dict[str, Literal["protobuf", "json"]]] = {
    PROTOBUF: "protobuf",
    "application/json": "json",
}


async def post_events(request: Request) -> Response:
    """Take in Tracer events, CloudEvents or engine log lines, as NDJSON or as a JSON array."""
    encoding = _EVENT_TYPES.get(media_type(request))
    if encoding is None:
        raise UnsupportedCodingError(_wrong_type(request, _EVENT_TYPES))
    intake: Intake = request.app.state.intake
    async with _body(request) as (body, coding, size):
        outcome = await intake.take(Job("events", encoding, body, coding, writes_of(request)), size)
    _count(request, outcome)
    return JSONResponse(
        {
            "accepted": outcome.receipt.accepted,
            "duplicates": outcome.receipt.duplicates,
            "rejected_count": len(outcome.rejected),
            "rejected": [{"where": item.where, "reason": item.reason} for item in outcome.rejected[:MAX_REASONS]],
        }
    )


async def post_traces(request: Request) -> Response:
    """Take in an OTLP `ExportTraceServiceRequest`; spans that cannot be stored are a partial success."""
    return await _export(request, TRACES)


async def post_logs(request: Request) -> Response:
    """Take in an OTLP `ExportLogsServiceRequest`; each log record becomes an event."""
    return await _export(request, LOGS)


async def post_metrics(request: Request) -> Response:
    """Take an OTLP `ExportMetricsServiceRequest` and say that its data points are not stored.

    A partial success, because an SDK that sends everything to one endpoint would log any refusal as an error, again and
    again.
    """
    return await _export(request, METRICS)


async def _export(request: Request, signal: Signal) -> Response:
    encoding = _OTLP_TYPES.get(media_type(request))
    if encoding is None:
        raise UnsupportedCodingError(_wrong_type(request, _OTLP_TYPES))
    intake: Intake = request.app.state.intake
    async with _body(request) as (body, coding, size):
        job = Job(signal.name, encoding, body, coding, writes_of(request))
        export = await take_export(intake, signal, job, size)
    headers = {}
    if export.outcome is not None:
        # OTLP's own answer has no place for these; `tracehold ingest` shows them.
        _count(request, export.outcome)
        headers[ACCEPTED_HEADER] = str(export.outcome.receipt.accepted)
        headers[DUPLICATES_HEADER] = str(export.outcome.receipt.duplicates)
    if encoding == "json":
        return JSONResponse(export.json(), headers=headers)
    return Response(export.message().SerializeToString(), headers=headers, media_type=PROTOBUF)


def _count(request: Request, outcome: Outcome) -> None:
    meters: Meters = request.app.state.meters
    meters.took(principal_of(request).key_id, outcome.receipt.accepted)


@asynccontextmanager
async def _body(request: Request) -> AsyncIterator[tuple[bytes, str | None, int]]:
    """Read the body within the limits; give it, its coding, and about how large it is without.

    Memory stays reserved for it until the block ends.
    """
    intake: Intake = request.app.state.intake
    limits = intake.limits
    coding = request.headers.get("content-encoding")
    with intake.reservation() as reservation:
        body = await read_body(request, limits, reservation)
        packed = coding is not None and coding.strip().lower() not in {"", "identity"}
        if packed:
            # How large it will be is not known before it is undone: assume what limits allow, within reason.
            reservation.grow(min(len(body) * _ASSUMED_RATIO, limits.max_decompressed_bytes))
        yield body, coding, len(body) * (_ASSUMED_RATIO if packed else 1)


def _wrong_type(
    request: Request, read: dict[str, Literal["ndjson", "json"]] | dict[str, Literal["protobuf", "json"]]
) -> str:
    got = media_type(request) or "none"
    return f"{request.url.path} does not read content type {got[:100]!r}; it reads: {', '.join(read)}"
