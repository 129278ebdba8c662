"""Events as CloudEvents 1.0 and back, with the SDK of the CloudEvents project as the judge."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given
from hypothesis import strategies as st
from tracehold.events.cloudevents import from_cloudevent, to_cloudevent
from tracehold.events.event import BlobRef, Event

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20)
optional = st.none() | names
values = st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
reserved = st.sampled_from(
    [
        *("id", "type", "data", "tenant", "runid", "seq", "meta", "metajson", "blobs", "dup", "specversion", "bareof"),
        *("datacontenttype", "dataschema", "traceparent", "sequence", "user", "session", "User-Id", "x" * 21, ""),
    ]
)
json_values = st.recursive(
    st.none() | values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
refs = st.builds(BlobRef, names, names, st.integers(0, 2**40), names)
events = st.builds(
    Event,
    type=names,
    id=names,
    source=names,
    subject=optional,
    time=st.datetimes(timezones=st.just(UTC)),
    stream=names,
    run_id=optional,
    tenant=optional,
    trace_id=optional,
    span_id=optional,
    causation_id=optional,
    correlation_id=optional,
    seq=st.integers(-1, 2**31 - 1),
    schema_ref=st.just("") | st.just("order/v2") | st.just("https://example.org/order.json") | names,
    data=st.dictionaries(st.sampled_from(["value", "data_base64", "a"]) | st.text(), json_values, max_size=3),
    blobs=st.lists(refs, max_size=2),
    meta=st.dictionaries(reserved | st.text(), values | st.sampled_from(["data", "data_base64"]), max_size=5),
)

FULL = Event(
    id="e-1",
    type="aaa.tool.completed",
    source="tool_loop",
    subject="order 7",
    time=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    stream="acme/r-1",
    run_id="acme/r-1",
    tenant="acme",
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    causation_id="e-0",
    correlation_id="c-0",
    seq=4,
    schema_ref="tool/v2",
    data={"name": "search", "result": [1, None]},
    blobs=[BlobRef("blob:plain/00", "00", 3, "text/plain")],
    meta={"user": "ann", "tries": 2, "live": True, "Rate-Limit": 0.5},
)


def through_the_sdk(ce: dict[str, Any]) -> bytes:
    """Read and write a CloudEvent with the SDK, which refuses what is none."""
    form = JSONFormat()
    return form.write(form.read(None, json.dumps(ce)))


def test_an_event_as_a_cloud_event() -> None:
    assert to_cloudevent(FULL) == {
        "specversion": "1.0",
        "id": "e-1",
        "source": "tool_loop",
        "type": "aaa.tool.completed",
        "time": "2026-01-02T03:04:05.678901Z",
        "subject": "order 7",
        "stream": "acme/r-1",
        "runid": "acme/r-1",
        "tenant": "acme",
        "traceid": "0af7651916cd43dd8448eb211c80319c",
        "spanid": "b7ad6b7169203331",
        "causationid": "e-0",
        "correlationid": "c-0",
        "seq": 4,
        "schemaref": "tool/v2",
        "blobs": '[["blob:plain/00","00",3,"text/plain"]]',
        "datacontenttype": "application/json",
        "data": {"name": "search", "result": [1, None]},
        "user": "ann",
        "tries": 2,
        "live": True,
        "metajson": '{"Rate-Limit":0.5}',
    }


def test_what_is_not_there_is_left_out() -> None:
    made = to_cloudevent(Event(type="x"))
    assert made.keys() == {"specversion", "id", "source", "type", "time", "stream", "datacontenttype", "data"}


@given(events)
def test_every_attribute_has_a_name_and_a_type_of_cloud_events(event: Event) -> None:
    made = to_cloudevent(event)
    for name, value in made.items():
        if name != "data":
            assert re.fullmatch("[a-z0-9_]{1,20}" if name == "data_base64" else "[a-z0-9]{1,20}", name)
            assert isinstance(value, str) or (type(value) is int and abs(value) <= 2**31) or type(value) is bool


@given(events)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    made = to_cloudevent(event)
    for form in (made, json.dumps(made), json.dumps(made).encode()):
        assert from_cloudevent(form) == event


@given(events)
def test_an_event_comes_back_through_the_sdk_of_the_cloud_events_project(event: Event) -> None:
    assert from_cloudevent(through_the_sdk(to_cloudevent(event))) == event


def test_a_repeat_is_not_marked_in_a_cloud_event() -> None:  # EVT-04
    assert to_cloudevent(FULL.with_(dup=True)) == to_cloudevent(FULL)
    assert from_cloudevent(to_cloudevent(FULL.with_(dup=True))) == FULL


def test_the_cloud_event_shares_nothing_with_the_event() -> None:
    to_cloudevent(FULL)["data"]["result"].append(2)
    assert FULL.data == {"name": "search", "result": [1, None]}
    ce = to_cloudevent(FULL)
    event = from_cloudevent(ce)
    ce["data"]["result"].clear()
    assert event == FULL


BASE = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "x", "time": "2026-01-01T00:00:00.000000Z"}


@pytest.mark.parametrize(
    "rest",
    [
        {"datacontenttype": "application/json", "data": {"n": 1}},
        {"datacontenttype": "application/json", "data": {"value": {"a": 1}}, "subject": "7", "comexample": 5},
        {"datacontenttype": "application/json", "data": {}, "dataschema": "https://example.org/order.json"},
        {"datacontenttype": "application/json", "data": [1]},
        {"datacontenttype": "text/xml", "data": "<order/>"},
        {"datacontenttype": "image/png", "data_base64": "AAEC"},
        {"data_base64": "AAEC"},
        *[{"data": data} for data in (5, "text", [1], False)],
    ],
)
def test_another_program_s_cloud_event_comes_back_as_it_was(rest: dict[str, Any]) -> None:
    assert to_cloudevent(from_cloudevent(BASE | rest)) == BASE | rest | {"stream": "default"}


def test_the_media_type_of_another_kind_of_json_is_kept() -> None:
    event = from_cloudevent(BASE | {"datacontenttype": "application/vnd.order+json", "data": {"n": 1}})
    assert event.meta == {"datacontenttype": "application/vnd.order+json"}
    assert from_cloudevent(to_cloudevent(event)) == event


def test_attributes_that_are_no_fields_of_ours_go_to_meta() -> None:
    event = from_cloudevent(
        {"specversion": "1.0", "id": "1", "source": "s", "type": "x", "user": "ann", "n": 5, "gone": None}
    )
    assert event.meta == {"user": "ann", "n": 5}


def test_meta_and_blobs_are_also_read_as_objects() -> None:
    event = from_cloudevent(
        {
            "specversion": "1.0",
            "id": "1",
            "source": "s",
            "type": "x",
            "meta": {"user": "ann"},
            "blobs": [{"uri": "u", "sha256": "0", "size": 1}],
        }
    )
    assert event.meta == {"user": "ann"}
    assert event.blobs == (BlobRef("u", "0", 1),)


def test_the_distributed_tracing_extension_names_the_trace() -> None:
    base = {"specversion": "1.0", "id": "1", "source": "s", "type": "x"}
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = from_cloudevent(base | {"traceparent": parent})
    assert (event.trace_id, event.span_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert from_cloudevent(base | {"traceparent": parent, "traceid": "own"}).trace_id == "own"
    assert from_cloudevent(base | {"traceparent": "nonsense"}).trace_id is None


def test_without_a_time_it_is_now() -> None:
    before = datetime.now(UTC)
    event = from_cloudevent({"specversion": "1.0", "id": "1", "source": "s", "type": "x"})
    assert before <= event.time <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01t00:00:00z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00.1Z", datetime(2026, 1, 1, 0, 0, 0, 100_000, tzinfo=UTC)),
        ("2026-01-01T00:00:00.123456789Z", datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_times_are_read_as_rfc_3339_has_them(text: str, moment: datetime) -> None:
    event = from_cloudevent({"specversion": "1.0", "id": "1", "source": "s", "type": "x", "time": text})
    assert event.time == moment
    assert event.time.tzinfo is UTC


def test_a_time_in_another_zone_is_written_in_utc() -> None:
    local = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert to_cloudevent(FULL.with_(time=local))["time"] == "2026-01-01T10:00:00.000000Z"


@pytest.mark.parametrize(
    ("ce", "says"),
    [
        ("", "JSON|value"),
        ("[]", "JSON object"),
        (b"\xff", "utf-8"),
        ("[" * 100_000, "nested"),
        ({}, "specversion"),
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": 1.0}, "specversion"),
        ({"id": None}, "needs id"),
        ({"type": ""}, "type"),
        ({"source": 5}, "source"),
        ({"time": "2026-01-01T00:00:00"}, "zone"),
        ({"time": "yesterday"}, "RFC 3339"),
        ({"time": "2026-13-01T00:00:00Z"}, "month"),
        ({"time": 5}, "RFC 3339"),
        ({"seq": "4"}, "seq"),
        ({"tenant": 5}, "tenant"),
        ({"tenant": "a\x00"}, "tenant"),
        ({"blobs": "x"}, ""),
        ({"blobs": "{}"}, "array"),
        ({"blobs": [["u"]]}, "uri"),
        ({"metajson": "[]"}, "metajson"),
        ({"metajson": 5}, "metajson"),
        ({"meta": {"a": {"b": 1}}}, "meta"),
        ({"extension": {"b": 1}}, "meta"),
    ],
)
def test_what_is_no_cloud_event_is_a_value_error_that_says_why(ce: Any, says: str) -> None:
    base = {"specversion": "1.0", "id": "1", "source": "s", "type": "x"}
    with pytest.raises(ValueError, match=says or None):
        from_cloudevent(base | ce if isinstance(ce, dict) and ce and "specversion" not in ce else ce)
