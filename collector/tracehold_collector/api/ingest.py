"""What agents send: `POST /v1/events` (ours) and `POST /v1/traces` (OTLP/HTTP)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.api.body import media_type, read_body
from tracehold_collector.core.errors import UnsupportedCodingError
from tracehold_collector.core.record import Batch
from tracehold_collector.decode import decode_events, decode_otlp_traces, decompress
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
    "application/x-protobuf": "protobuf",
    "application/json": "json",
}


async def post_events(request: Request) -> Response:
    """Take in Tracer events, CloudEvents or engine log lines, as NDJSON or as a JSON array."""
    encoding = _EVENT_TYPES.get(media_type(request))
    if encoding is None:
        raise UnsupportedCodingError(_wrong_type(request, _EVENT_TYPES))
    outcome = await _take(request, partial(decode_events, encoding=encoding))
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
    encoding = _OTLP_TYPES.get(media_type(request))
    if encoding is None:
        raise UnsupportedCodingError(_wrong_type(request, _OTLP_TYPES))
    outcome = await _take(request, partial(decode_otlp_traces, encoding=encoding))
    # OTLP's own answer has no place for these; `tracehold ingest` shows them.
    counts = {
        ACCEPTED_HEADER: str(outcome.receipt.accepted),
        DUPLICATES_HEADER: str(outcome.receipt.duplicates),
    }
    if encoding == "json":
        return JSONResponse(_partial_success_json(outcome), headers=counts)
    body = _partial_success(outcome).SerializeToString()
    return Response(body, headers=counts, media_type="application/x-protobuf")


async def _take(request: Request, decode: Callable[..., Batch]) -> Outcome:
    intake: Intake = request.app.state.intake
    limits = intake.limits
    context = intake.context(request.app.state.tenant)
    coding = request.headers.get("content-encoding")
    with intake.reservation() as reservation:
        body = await read_body(request, limits, reservation)
        packed = coding is not None and coding.strip().lower() not in {"", "identity"}
        if packed:
            # How large it will be is not known before it is undone: assume what limits allow, within reason.
            reservation.grow(min(len(body) * _ASSUMED_RATIO, limits.max_decompressed_bytes))
        size = len(body) * (_ASSUMED_RATIO if packed else 1)
        return await intake.take(lambda: decode(decompress(body, coding, limits), context=context), size)


def _partial_success(outcome: Outcome) -> ExportTraceServiceResponse:
    """An empty message is full success (OTLP specification, "Full Success", "Partial Success")."""
    response = ExportTraceServiceResponse()
    if outcome.rejected:
        response.partial_success.rejected_spans = len(outcome.rejected)
        response.partial_success.error_message = _reasons(outcome)
    return response


def _partial_success_json(outcome: Outcome) -> dict[str, object]:
    if not outcome.rejected:
        return {}
    # ProtoJSON writes 64-bit integers as strings.
    return {"partialSuccess": {"rejectedSpans": str(len(outcome.rejected)), "errorMessage": _reasons(outcome)}}


def _reasons(outcome: Outcome) -> str:
    named = "; ".join(f"{item.where}: {item.reason}" for item in outcome.rejected[:10])
    more = len(outcome.rejected) - 10
    return f"{named}; and {more} more" if more > 0 else named


def _wrong_type(
    request: Request, read: dict[str, Literal["ndjson", "json"]] | dict[str, Literal["protobuf", "json"]]
) -> str:
    got = media_type(request) or "none"
    return f"{request.url.path} does not read content type {got[:100]!r}; it reads: {', '.join(read)}"
