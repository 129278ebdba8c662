"""Whatever arrives, only our own errors come out, and what comes out can be written down."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracehold.privacy import Cleaner
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.limits import DEFAULT_LIMITS
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Batch, Record
from tracehold_collector.decode.compression import decompress
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.dialects import FIELD_KEYS, KIND_KEYS

CONTEXT = NormaliseContext("acme", Pseudonyms(b"k" * 32, "acme"), Cleaner())
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SCALARS = (
    st.none() | st.booleans() | INT64 | st.floats() | st.text(max_size=20) | st.sampled_from(["NaN", "ok", "denied"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
EVENT_KEYS = st.sampled_from(
    [
        "type",
        "event_id",
        "run_id",
        "step_index",
        "trace_id",
        "span_id",
        "parent_span_id",
        "started_at_ns",
        "duration_ns",
        "latency_ms",
        "model",
        "provider",
        "usage",
        "cost_usd",
        "agent",
        "user",
        "session",
        "service",
        "tool",
        "status",
        "decision",
        "decided_by",
        "rule",
        "error_type",
        "kind",
        "name",
        "id",
        "time",
        "stream",
        "event",
        "specversion",
        "data",
        "causation_id",
        "seq",
        "meta",
        "approved",
        "call_id",
        "finish_reason",
        "has_tool_calls",
    ]
)
EVENTS = st.dictionaries(EVENT_KEYS, VALUES, max_size=10)
SPAN_KEYS = st.sampled_from(
    [
        "traceId",
        "spanId",
        "parentSpanId",
        "name",
        "kind",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "events",
        "links",
        "status",
        "flags",
        "traceState",
        "droppedAttributesCount",
    ]
)
ATTRIBUTE_KEYS = st.sampled_from(
    sorted({key for keys in FIELD_KEYS.values() for key in keys} | set(KIND_KEYS) | {"type", "usage"})
)
ANY_VALUES = st.recursive(
    st.one_of(
        st.builds(lambda v: {"stringValue": v}, st.text(max_size=20) | SCALARS),
        st.builds(lambda v: {"intValue": v}, SCALARS),
        st.builds(lambda v: {"doubleValue": v}, SCALARS),
        st.builds(lambda v: {"boolValue": v}, SCALARS),
        st.builds(lambda v: {"bytesValue": v}, SCALARS),
        VALUES,
    ),
    lambda inner: st.builds(lambda v: {"arrayValue": {"values": v}}, st.lists(inner, max_size=3)),
    max_leaves=6,
)
PAIRS = st.lists(
    st.builds(lambda k, v: {"key": k, "value": v}, ATTRIBUTE_KEYS | st.text(max_size=5), ANY_VALUES), max_size=8
)


def judge(batch: Batch) -> None:
    """Every record can be stored as it is."""
    for record in batch.records:
        assert isinstance(record, Record)
        assert len(record.event_id) == 16
        assert record.run_id
        assert record.duration_ns is None or record.duration_ns >= 0
        assert record.started_at is None or 0 < record.started_at < 1 << 63
        for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens", "seq"):
            number = getattr(record, name)
            assert number is None or 0 <= number < 1 << 63
        fields = {name: getattr(record, name) for name in Record.__dataclass_fields__ if name != "event_id"}
        assert orjson.loads(orjson.dumps(fields)) == fields
    for item in batch.rejected:
        assert item.where
        assert item.reason


def attempt(decode: Any, *args: Any, **options: Any) -> None:
    with suppress(CollectorError):
        judge(decode(*args, **options, context=CONTEXT))


def dump(value: Any) -> bytes:
    return orjson.dumps(value)


@given(st.binary(max_size=200))
@example(b"\x0a\x02\x12\x00")
@example(b"\x1f\x8b")
def test_any_bytes_raise_nothing_but_our_errors(body: bytes) -> None:
    for encoding in ("protobuf", "json"):
        attempt(decode_otlp_traces, body, encoding=encoding)
    for encoding in ("ndjson", "json"):
        attempt(decode_events, body, encoding=encoding)


@given(st.binary(max_size=200), st.sampled_from([None, "gzip", "deflate"]))
def test_any_body_under_any_coding_raises_nothing_but_our_errors(body: bytes, coding: str | None) -> None:
    with suppress(CollectorError):
        decompress(b"\x1f\x8b\x08\x00" + body, coding, DEFAULT_LIMITS)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
def test_a_damaged_request_raises_nothing_but_our_errors(data: st.DataObject) -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"\x01" * 16, b"\x02" * 8, "work"
    for key in ("gen_ai.operation.name", "type", "tracehold.event_id"):
        span.attributes.add(key=key).value.string_value = data.draw(st.text(max_size=10))
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    attempt(decode_otlp_traces, bytes(body), encoding="protobuf")


@given(VALUES | st.lists(EVENTS, max_size=4) | EVENTS)
def test_any_json_value_as_events_raises_nothing_but_our_errors(value: Any) -> None:
    attempt(decode_events, dump(value), encoding="json")
    attempt(decode_events, dump(value), encoding="ndjson")


@pytest.mark.parametrize("prefix", ["aaa.", "aaa.tool.", "aaa.run.", ""])
@given(
    event=EVENTS,
    data=st.dictionaries(
        st.sampled_from(["name", "usage", "cost", "error", "response", "call_id", "kind", "guard", "action"]), VALUES
    ),
)
def test_any_engine_event_raises_nothing_but_our_errors(prefix: str, event: Any, data: Any) -> None:
    for word in ("completed", "requested", "failed", "verdict"):
        whole = event | {"id": "x", "type": prefix + word, "data": data}
        attempt(decode_events, dump([whole, {"stream": "s", "event": whole}]), encoding="json")


@given(VALUES | st.builds(lambda v: {"resourceSpans": v}, VALUES))
def test_any_json_value_as_a_trace_request_raises_nothing_but_our_errors(value: Any) -> None:
    attempt(decode_otlp_traces, dump(value), encoding="json")


@given(st.dictionaries(SPAN_KEYS, VALUES, max_size=8), PAIRS, PAIRS)
def test_any_span_raises_nothing_but_our_errors(fields: Any, attributes: Any, more: Any) -> None:
    span = fields | {"traceId": "ab" * 16, "spanId": "cd" * 8, "attributes": attributes, "parentSpanId": None}
    span |= {"events": [{"name": "exception", "attributes": more}], "links": [{"attributes": more}]}
    span |= {"startTimeUnixNano": 5, "endTimeUnixNano": "9"}
    body = {"resourceSpans": [{"resource": {"attributes": more}, "scopeSpans": [{"spans": [span]}]}]}
    attempt(decode_otlp_traces, dump(body), encoding="json")
