"""OTLP requests: what is refused, what is mended, what stays as it was."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracehold_collector.core.errors import BadBodyError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.record import Batch, Record
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.normalise.context import NormaliseContext

START = 1_780_000_000_000_000_000
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def span(**fields: Any) -> dict[str, Any]:
    given = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "work",
        "kind": 1,
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(START + 5_000_000),
    }
    return given | fields


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def request(*spans: Any, **resource: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": list(spans)}]}]}


def decode(body: Any, context: NormaliseContext) -> Batch:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_otlp_traces(raw, encoding="json", context=context)


def one(body: Any, context: NormaliseContext) -> Record:
    batch = decode(body, context)
    assert batch.rejected == []
    assert len(batch.records) == 1
    return batch.records[0]


def protobuf(**fields: Any) -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    item = message.resource_spans.add().scope_spans.add().spans.add()
    given = {
        "trace_id": bytes.fromhex(TRACE),
        "span_id": bytes.fromhex(SPAN),
        "name": "work",
        "start_time_unix_nano": START,
        "end_time_unix_nano": START + 5,
    }
    for key, value in (given | fields).items():
        setattr(item, key, value)
    return message


# FR-11


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_one_bad_id_does_not_take_its_neighbours_down(encoding: Any, context: NormaliseContext) -> None:
    if encoding == "json":
        without_kind = span(spanId="00f067aa0ba902b7")
        del without_kind["kind"]
        body = json.dumps(request(span(), without_kind, span(traceId="xyz"))).encode()
    else:
        message = protobuf()
        spans = message.resource_spans[0].scope_spans[0].spans
        spans.add().CopyFrom(spans[0])
        spans[1].span_id = bytes.fromhex("00f067aa0ba902b7")
        spans.add().CopyFrom(spans[0])
        spans[2].trace_id = b"xyz"
        body = message.SerializeToString()
    batch = decode_otlp_traces(body, encoding=encoding, context=context)
    assert len(batch.records) == 2
    assert [item.where for item in batch.rejected] == ["resourceSpans[0].scopeSpans[0].spans[2]"]
    assert "must be 32 hex digits" in batch.rejected[0].reason or "must be 16" in batch.rejected[0].reason
    assert "span_kind" not in (batch.records[1].content or {})


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("traceId", base64.b64encode(bytes.fromhex(TRACE)).decode(), "traceId is base64"),
        ("spanId", base64.b64encode(bytes.fromhex(SPAN)).decode(), "spanId is base64"),
        ("traceId", "0" * 32, "traceId is all zeros"),
        ("spanId", "0" * 16, "spanId is all zeros"),
        ("traceId", "g" * 32, "characters that are not hex"),
        ("traceId", None, "traceId is missing"),
        ("spanId", 7, "spanId is missing"),
        ("parentSpanId", "live-parent-1", "parentSpanId has 13 characters"),
        ("startTimeUnixNano", "yesterday", "startTimeUnixNano is not an integer"),
    ],
)
def test_a_span_that_cannot_be_stored_is_refused_with_its_reason(
    field: str, value: Any, reason: str, context: NormaliseContext
) -> None:
    batch = decode(request(span(**{field: value}), span(spanId="00f067aa0ba902b7")), context)
    assert len(batch.records) == 1
    assert reason in batch.rejected[0].reason


def test_a_parent_of_all_zeros_is_no_parent(context: NormaliseContext) -> None:
    assert one(request(span(parentSpanId="0" * 16)), context).parent_span_id is None


def test_unknown_fields_and_nulls_are_ignored(context: NormaliseContext) -> None:
    record = one(request(span(links=None, events=None, status=None, futureField={"a": [1]}), futureToo=1), context)
    assert (record.name, record.status) == ("work", "unset")


def test_numbers_may_be_text_and_enumerations_names(context: NormaliseContext) -> None:
    as_text = one(request(span(kind="SPAN_KIND_CLIENT", status={"code": "STATUS_CODE_ERROR"}, flags="1")), context)
    as_numbers = one(
        request(span(kind=3, status={"code": 2}, flags=1, startTimeUnixNano=START, endTimeUnixNano=START + 5_000_000)),
        context,
    )
    assert as_text == as_numbers
    assert as_text.status == "error"


@pytest.mark.parametrize("word", ["SPAN_KIND_NEW", "", "NaN", None, [], {}])
def test_an_enumeration_nobody_knows_is_the_default(word: Any, context: NormaliseContext) -> None:
    record = one(request(span(kind=word, status={"code": word})), context)
    assert record.status == "unset"
    assert "span_kind" not in (record.content or {})


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_an_empty_body_is_a_request_without_spans(encoding: Any, context: NormaliseContext) -> None:
    assert Batch() == decode_otlp_traces(b"", encoding=encoding, context=context)


def test_an_empty_object_is_a_request_without_spans(context: NormaliseContext) -> None:
    assert Batch() == decode({}, context)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "not an OTLP request"),
        (b'{"resource_spans": []}', "lowerCamelCase"),
        (b'{"spans": []}', 'without "resourceSpans"'),
        (b'{"resourceSpans": 1}', r"expected a list \(at resourceSpans\)"),
        (b'{"resourceSpans": [{"scopeSpans": [1]}]}', r"expected an object \(at resourceSpans\[0\]\.scopeSpans\[0\]\)"),
        (b'{"resourceLogs": []}', "OTLP logs request"),
        (b'{"resourceMetrics": []}', "OTLP metrics request"),
        (b'{"resourceSpans": [\n  ,', r"not JSON: .* \(at line 2, column 3\)"),
    ],
)
def test_a_body_that_is_no_trace_request_is_refused_whole(body: bytes, message: str, context: NormaliseContext) -> None:
    with pytest.raises(BadBodyError, match=message):
        decode(body, context)


def test_logs_and_metrics_in_protobuf_are_named(context: NormaliseContext) -> None:
    logs = ExportLogsServiceRequest()
    record = logs.resource_logs.add().scope_logs.add().log_records.add()
    record.time_unix_nano, record.body.string_value = START, "hello"
    metrics = ExportMetricsServiceRequest()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = "requests"
    metric.gauge.data_points.add().as_int = 3
    for message, name in ((logs, "logs"), (metrics, "metrics")):
        with pytest.raises(BadBodyError, match=f"OTLP {name} request"):
            decode_otlp_traces(message.SerializeToString(), encoding="protobuf", context=context)


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b'{"resourceSpans":[]}', protobuf().SerializeToString()[:-3]])
def test_damaged_protobuf_is_refused(body: bytes, context: NormaliseContext) -> None:
    with pytest.raises(BadBodyError, match="not an OTLP ExportTraceServiceRequest in protobuf"):
        decode_otlp_traces(body, encoding="protobuf", context=context)


def test_too_many_spans_are_refused_naming_the_limit(context: NormaliseContext) -> None:
    small = replace(context, limits=Limits(max_items=2))
    with pytest.raises(TooLargeError, match="more than 2 spans, which max_items allows"):
        decode(request(span(), span(), span()), small)


# FR-15


def test_half_an_emoji_is_replaced_and_flagged_and_its_neighbour_is_not(context: NormaliseContext) -> None:
    spans = (
        span(attributes=[attribute("a", {"stringValue": "\ud83e"}), attribute("b", {"stringValue": "\udd16 ok"})]),
        span(spanId="00f067aa0ba902b7", attributes=[attribute("c", {"stringValue": "🤖"})]),
    )
    batch = decode(request(*spans), context)
    bad, good = batch.records
    assert (bad.content or {})["attributes"] == {"a": "\ufffd", "b": "\ufffd ok"}
    assert bad.attributes == {"invalid_unicode": True}
    assert good.attributes is None
    orjson.dumps([bad.content, good.content])


def test_half_an_emoji_in_protobuf_does_not_lose_the_batch(context: NormaliseContext) -> None:
    message = protobuf(name="wor#")
    item = message.resource_spans[0].scope_spans[0].spans[0].attributes.add()
    item.key, item.value.string_value = "reply", "hi ###!"
    body = message.SerializeToString().replace(b"###", b"\xed\xa0\xbe")
    (record,) = decode_otlp_traces(body, encoding="protobuf", context=context).records
    assert (record.content or {})["attributes"] == {"reply": "hi \ufffd!"}
    assert record.attributes == {"invalid_unicode": True}


def test_a_nul_is_kept_in_the_content_and_kept_out_of_the_envelope(context: NormaliseContext) -> None:
    record = one(request(span(name="a\x00b")), context)
    assert record.name is None
    assert (record.content or {})["name"] == "a\x00b"


# FR-17


def test_words_for_not_a_number_stay_words(context: NormaliseContext) -> None:
    values = [attribute(str(i), {"doubleValue": v}) for i, v in enumerate(("NaN", "Infinity", "-Infinity", "1.5", 2))]
    record = one(request(span(attributes=values)), context)
    assert list((record.content or {})["attributes"].values()) == ["NaN", "Infinity", "-Infinity", 1.5, 2.0]


def test_bare_nan_tokens_are_read_as_those_words(context: NormaliseContext) -> None:
    body = json.dumps(request(span(attributes=[attribute("x", {"doubleValue": float("nan")})]))).encode()
    assert b"NaN}" in body
    record = one(body, context)
    assert (record.content or {})["attributes"] == {"x": "NaN"}


def test_protobuf_doubles_that_json_cannot_hold_become_words(context: NormaliseContext) -> None:
    message = protobuf()
    for key, value in (("a", float("nan")), ("b", float("inf")), ("c", float("-inf")), ("d", 0.5)):
        item = message.resource_spans[0].scope_spans[0].spans[0].attributes.add()
        item.key, item.value.double_value = key, value
    (record,) = decode_otlp_traces(message.SerializeToString(), encoding="protobuf", context=context).records
    assert (record.content or {})["attributes"] == {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 0.5}


# FR-19


def test_json_text_cut_by_its_sender_is_stored_as_text(context: NormaliseContext) -> None:
    cut = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "some words " * 30_000}]}])[:1028]
    record = one(request(span(attributes=[attribute("gen_ai.input.messages", {"stringValue": cut})])), context)
    assert cut == (record.content or {})["attributes"]["gen_ai.input.messages"]


def test_masking_runs_before_our_own_cut(context: NormaliseContext) -> None:
    small = replace(context, limits=Limits(max_value_bytes=1000))
    key = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4" * 2
    text = "x " * 485 + key + " y" * 400
    record = one(request(span(attributes=[attribute("t", {"stringValue": text})])), small)
    stored = (record.content or {})["attributes"]["t"]
    assert "sk-proj" not in stored
    assert "[truncated" in stored
    assert len(stored.encode()) < 1100


def test_content_over_its_limit_keeps_its_shape(context: NormaliseContext) -> None:
    small = replace(context, limits=Limits(max_content_bytes=4000))
    values = [attribute(f"k{i}", {"stringValue": "word " * 400}) for i in range(5)]
    content = one(request(span(attributes=values)), small).content or {}
    assert {f"k{i}" for i in range(5)} == set(content["attributes"])
    assert len(orjson.dumps(content)) < 4000 + 500


# FR-21


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


@pytest.mark.parametrize("levels", [1_200, 100_000])
def test_a_body_nested_too_deep_is_refused_and_the_process_lives(levels: int, context: NormaliseContext) -> None:
    inner = b'{"arrayValue":{"values":[' * levels + b'{"stringValue":"x"}' + b"]}}" * levels
    body = json.dumps(request(span(attributes=[attribute("deep", "HERE")]))).encode().replace(b'"HERE"', inner)
    with pytest.raises(BadBodyError, match="nested deeper"):
        decode(body, context)


def test_an_attribute_nested_deeper_than_the_limit_is_refused(context: NormaliseContext) -> None:
    with pytest.raises(BadBodyError, match="nested deeper"):
        decode(request(span(attributes=[attribute("deep", nested(60))])), context)
    assert one(request(span(attributes=[attribute("deep", nested(20))])), context).content


def test_a_deep_protobuf_value_is_refused_or_cut_and_never_crashes(context: NormaliseContext) -> None:
    message = protobuf()
    item = message.resource_spans[0].scope_spans[0].spans[0].attributes.add()
    item.key, value = "deep", item.value
    for _ in range(40):
        value = value.array_value.values.add()
    value.string_value = "x"
    small = replace(context, limits=Limits(max_depth=10))
    (record,) = decode_otlp_traces(message.SerializeToString(), encoding="protobuf", context=small).records
    assert b"[nested too deep]" in orjson.dumps(record.content)
    for _ in range(200):
        value = value.array_value.values.add()
    value.string_value = "x"
    with pytest.raises(BadBodyError, match="nested too deep"):
        decode_otlp_traces(message.SerializeToString(), encoding="protobuf", context=context)


# FR-23


@pytest.mark.parametrize(
    ("start", "end", "started_at", "duration"),
    [
        (START, START - 1_000_000, START, None),
        (START, 0, START, None),
        (0, START, None, None),
        (9_300_000_000_000_000_000, 9_300_000_000_000_001_000, None, None),
        (START, 9_300_000_000_000_000_000, START, None),
        (-5, START, None, None),
        (1_780_000_000, 1_780_000_003, 1_780_000_000, None),
        (START, START, START, 0),
    ],
)
def test_a_time_that_is_not_credible_is_unknown_and_kept_raw(
    start: int, end: int, started_at: int | None, duration: int | None, context: NormaliseContext
) -> None:
    record = one(request(span(startTimeUnixNano=str(start), endTimeUnixNano=str(end))), context)
    assert (started_at, duration) == (record.started_at, record.duration_ns)
    if duration is None:
        content = record.content or {}
        assert (start, end) == (content["start_time_unix_nano"], content["end_time_unix_nano"])
        assert record.attributes == {"odd_time": True}


# FR-25


def test_the_same_span_gets_the_same_id_and_another_tenant_another(context: NormaliseContext) -> None:
    first, again = one(request(span()), context), one(request(span(name="other")), context)
    assert len(first.event_id) == 16
    assert first.event_id == again.event_id
    assert first.event_id != one(request(span()), replace(context, tenant="globex")).event_id


@pytest.mark.parametrize("text", ["0190a1b2c3d4e5f60718293a4b5c6d7e", "0190A1B2-C3D4-E5F6-0718-293A4B5C6D7E"])
def test_our_own_event_id_wins(text: str, context: NormaliseContext) -> None:
    record = one(request(span(attributes=[attribute("tracehold.event_id", {"stringValue": text})])), context)
    assert record.event_id.hex() == "0190a1b2c3d4e5f60718293a4b5c6d7e"


def test_both_encodings_of_one_request_give_equal_records(context: NormaliseContext) -> None:
    message = protobuf(kind=3, trace_state="a=b", parent_span_id=bytes.fromhex("00f067aa0ba902b7"))
    item = message.resource_spans[0].scope_spans[0].spans[0]
    for key, kind, value in (
        ("s", "string_value", "text"),
        ("empty", "string_value", ""),
        ("i", "int_value", -7),
        ("z", "int_value", 0),
        ("d", "double_value", 2.0),
        ("b", "bool_value", False),
        ("raw", "bytes_value", b"\x00\xff"),
        ("text", "bytes_value", b"plain"),
    ):
        pair = item.attributes.add()
        pair.key = key
        setattr(pair.value, kind, value)
    item.attributes.add().key = "nothing"
    item.links.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), trace_state="c=d")
    event = item.events.add(name="exception", time_unix_nano=START)
    event.attributes.add(key="exception.type").value.string_value = "E"
    item.status.code, item.status.message = 2, "broke"
    as_json = MessageToDict(message)
    for entry in as_json["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for part in (entry, *entry["links"]):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in part:
                    part[key] = base64.b64decode(part[key]).hex()
    from_protobuf = decode_otlp_traces(message.SerializeToString(), encoding="protobuf", context=context)
    assert from_protobuf == decode(as_json, context)
    assert from_protobuf.records[0].error_type == "E"
