"""OTLP log requests: what is mended, what is refused, and that both encodings say the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from support.otlp_logs import START, log, request
from tracehold.privacy import Cleaner
from tracehold_collector.core.errors import BadBodyError, CollectorError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record
from tracehold_collector.decode.otlp import count_otlp_points, decode_otlp_logs
from tracehold_collector.forward import to_otlp
from tracehold_collector.normalise.context import NormaliseContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = NormaliseContext("acme", Pseudonyms(b"k" * 32, "acme"), Cleaner())


def protobuf(*records: LogRecord) -> bytes:
    message = ExportLogsServiceRequest()
    message.resource_logs.add().scope_logs.add().log_records.extend(records)
    return message.SerializeToString()


def one(body: bytes, encoding: Any, context: NormaliseContext) -> Record:
    batch = decode_otlp_logs(body, encoding=encoding, context=context)
    assert batch.rejected == []
    (record,) = batch.records
    return record


def test_both_encodings_of_a_record_are_one_event(context: NormaliseContext) -> None:
    binary = LogRecord(
        time_unix_nano=START,
        observed_time_unix_nano=START + 1,
        severity_number=13,
        severity_text="WARN",
        event_name="cache.miss",
        flags=1,
        dropped_attributes_count=2,
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
    )
    pair = binary.body.kvlist_value.values.add(key="k")
    pair.value.array_value.values.add().double_value = 0.5
    binary.attributes.add(key="n").value.int_value = 2**62
    values = [{"key": "k", "value": {"arrayValue": {"values": [{"doubleValue": 0.5}]}}}]
    text = {
        "timeUnixNano": str(START),
        "observedTimeUnixNano": str(START + 1),
        "severityNumber": 13,
        "severityText": "WARN",
        "eventName": "cache.miss",
        "flags": 1,
        "droppedAttributesCount": 2,
        "traceId": TRACE,
        "spanId": SPAN,
        "body": {"kvlistValue": {"values": values}},
        "attributes": [{"key": "n", "value": {"intValue": str(2**62)}}],
    }
    document = {"resourceLogs": [{"scopeLogs": [{"logRecords": [text]}]}]}
    from_binary = one(protobuf(binary), "protobuf", context)
    assert from_binary == one(json.dumps(document).encode(), "json", context)
    assert (from_binary.type, (from_binary.content or {})["body"]) == ("cache.miss", {"k": [0.5]})


def test_names_of_severities_are_read_as_their_numbers(context: NormaliseContext) -> None:
    assert one(request(log(severityNumber="SEVERITY_NUMBER_ERROR")), "json", context).status == "error"
    assert one(request(log(severityNumber="SEVERITY_NUMBER_INFO4")), "json", context).status == "unset"


def test_half_an_emoji_does_not_lose_the_batch(context: NormaliseContext) -> None:  # FR-15
    record = LogRecord(time_unix_nano=START)
    record.body.string_value = "hi ###!"
    stored = one(protobuf(record).replace(b"###", b"\xed\xa0\xbe"), "protobuf", context)
    assert (stored.content or {})["body"] == "hi \ufffd!"
    assert stored.attributes == {"invalid_unicode": True}


def test_a_body_of_bytes_that_are_text_is_masked_as_text(context: NormaliseContext) -> None:
    record = LogRecord(time_unix_nano=START)
    record.body.bytes_value = b"mail jane.doe@example.com"
    assert "jane.doe" not in str(one(protobuf(record), "protobuf", context).content)


def test_words_for_not_a_number_stay_words(context: NormaliseContext) -> None:  # FR-17
    record = LogRecord(time_unix_nano=START)
    record.body.double_value = float("nan")
    assert (one(protobuf(record), "protobuf", context).content or {})["body"] == "NaN"


def test_a_body_nested_too_deep_is_refused_or_cut(context: NormaliseContext) -> None:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(200):
        value = {"arrayValue": {"values": [value]}}
    with pytest.raises(BadBodyError, match="nested"):
        decode_otlp_logs(request(log(body=None) | {"body": value}), encoding="json", context=context)


def test_too_many_records_are_refused_naming_the_limit(context: NormaliseContext) -> None:
    small = replace(context, limits=Limits(max_items=2))
    with pytest.raises(TooLargeError, match="more than 2 log records, which max_items allows"):
        decode_otlp_logs(request(log(), log(), log()), encoding="json", context=small)


@pytest.mark.parametrize("odd", [7, None, "text", []])
def test_what_is_no_record_is_refused_alone(context: NormaliseContext, odd: Any) -> None:
    batch = decode_otlp_logs(request(log(), odd, log()), encoding="json", context=context)
    assert len(batch.records) == 2
    assert [(item.where, item.reason) for item in batch.rejected] == [
        ("resourceLogs[0].scopeLogs[0].logRecords[1]", "a log record must be an object")
    ]


def test_a_log_record_is_forwarded_as_a_point_inside_its_span(context: NormaliseContext) -> None:
    record = one(request(log({"n": 1}, "hello", traceId=TRACE, spanId=SPAN, eventName="greeting")), "json", context)
    (span,) = to_otlp([record]).resource_spans[0].scope_spans[0].spans
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, SPAN, "greeting")
    assert span.start_time_unix_nano == span.end_time_unix_nano == START
    assert {item.key: item.value.string_value or item.value.int_value for item in span.attributes} == {
        "n": 1,
        "body": "hello",
    }


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    for encoding in ("protobuf", "json"):
        try:
            records = decode_otlp_logs(body, encoding=encoding, context=CONTEXT).records
            orjson.dumps([record.content for record in records])
            count_otlp_points(body, encoding=encoding, context=CONTEXT)
        except CollectorError:
            pass


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("timeUnixNano", "severityNumber", "eventName", "body", "attributes", "traceId", "spanId", "flags")


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_values_in_the_places_of_a_record_harm_no_neighbour(fields: dict[str, Any]) -> None:
    try:
        batch = decode_otlp_logs(request(fields, log(body="kept")), encoding="json", context=CONTEXT)
    except BadBodyError:
        return
    assert (batch.records[-1].content or {})["body"] == "kept"
    assert len(batch.records) + len(batch.rejected) == 2
