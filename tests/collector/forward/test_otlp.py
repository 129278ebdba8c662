"""Records as OTLP: what came by OTLP goes out as it came, everything else as GenAI spans."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold_collector.core.record import Record
from tracehold_collector.forward import to_otlp
from tracehold_collector.forward.otlp import is_forwarded
from tracehold_collector.forward.place import TIME_UNKNOWN

START_NS = 1_700_000_000_000_000_000

RECEIVED = {
    "name": "POST /v1/chat",
    "span_kind": 3,
    "status_message": "upstream said no",
    "trace_state": "vendor=1",
    "flags": 257,
    "attributes": {
        "text": "héllo",
        "n": 3,
        "big": -(2**63),
        "ratio": 0.5,
        "yes": True,
        "tags": ["a", 1],
        "map": {"k": None},
    },
    "events": [{"name": "exception", "time_unix_nano": START_NS + 5, "attributes": {"exception.type": "E"}}],
    "links": [{"trace_id": "ab" * 16, "span_id": "cd" * 8, "attributes": {"why": "retry"}}],
    "resource": {
        "attributes": {"service.name": "shop"},
        "schema_url": "https://opentelemetry.io/schemas/1.44.0",
    },
    "scope": {"name": "app", "version": "1.2", "attributes": {"x": 1}},
}


def one_span(*records):
    (group,) = to_otlp(records).resource_spans
    (scope,) = group.scope_spans
    (span,) = scope.spans
    return span


def plain(value):
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return plain_attributes(value.kvlist_value.values)
    return getattr(value, kind)


def plain_attributes(pairs):
    return {pair.key: plain(pair.value) for pair in pairs}


def test_a_received_span_goes_out_as_it_came(make_record):
    span = one_span(make_record(source="otlp", status="error", content=RECEIVED))
    assert (span.name, span.kind) == ("POST /v1/chat", Span.SPAN_KIND_CLIENT)
    assert (span.trace_id.hex(), span.span_id.hex()) == ("0af7651916cd43dd8448eb211c80319c", f"{1:016x}")
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (START_NS + 1, START_NS + 1_000_001)
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "upstream said no")
    assert (span.trace_state, span.flags) == ("vendor=1", 257)


def test_a_received_span_keeps_its_attributes_and_their_types(make_record):
    attributes = plain_attributes(one_span(make_record(source="otlp", content=RECEIVED)).attributes)
    assert attributes == RECEIVED["attributes"]
    assert {key: type(value) for key, value in attributes.items()} == {
        key: type(value) for key, value in RECEIVED["attributes"].items()
    }


def test_a_received_span_keeps_its_events_and_links(make_record):
    span = one_span(make_record(source="otlp", content=RECEIVED))
    (event,), (link,) = span.events, span.links
    assert (event.name, event.time_unix_nano) == ("exception", START_NS + 5)
    assert plain_attributes(event.attributes) == {"exception.type": "E"}
    assert (link.trace_id.hex(), link.span_id.hex()) == ("ab" * 16, "cd" * 8)
    assert plain_attributes(link.attributes) == {"why": "retry"}


def test_resource_and_scope_go_out_as_they_came(make_record):
    (group,) = to_otlp([make_record(source="otlp", content=RECEIVED)]).resource_spans
    assert plain_attributes(group.resource.attributes) == {"service.name": "shop"}
    assert group.schema_url == "https://opentelemetry.io/schemas/1.44.0"
    (scope,) = group.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("app", "1.2")
    assert plain_attributes(scope.scope.attributes) == {"x": 1}


@pytest.mark.parametrize(
    ("status", "code"),
    [("ok", Status.STATUS_CODE_OK), ("unset", Status.STATUS_CODE_UNSET), ("error", Status.STATUS_CODE_ERROR)],
)
def test_a_received_span_keeps_its_status_code(make_record, status, code):
    assert one_span(make_record(source="otlp", status=status, content={})).status.code == code


@pytest.mark.parametrize("kind", [3, "3x", "client", "CLIENT", "SPAN_KIND_CLIENT", 99, None, {}])
def test_a_span_kind_in_any_form_is_read_or_unspecified(make_record, kind):
    span = one_span(make_record(source="otlp", content={"span_kind": kind}))
    known = {3, "client", "CLIENT", "SPAN_KIND_CLIENT"}
    readable = not isinstance(kind, dict) and kind in known
    assert span.kind == (Span.SPAN_KIND_CLIENT if readable else Span.SPAN_KIND_UNSPECIFIED)


def test_content_without_a_place_in_otlp_becomes_attributes(make_record):  # FR-23
    content = {"attributes": {"a": 1}, "body": {"text": "said"}, "end_time_unix_nano": 0}
    attributes = plain_attributes(one_span(make_record(source="otlp", content=content)).attributes)
    assert attributes == {"a": 1, "body": '{"text":"said"}', "end_time_unix_nano": 0}


def test_spans_are_grouped_by_resource_and_scope(make_record):
    other = {**RECEIVED, "scope": {"name": "other"}}
    elsewhere = {**RECEIVED, "resource": {"attributes": {"service.name": "till"}}}
    records = [
        make_record(number, source="otlp", content=content)
        for number, content in enumerate([RECEIVED, other, elsewhere, RECEIVED], start=1)
    ]
    request = to_otlp(records)
    shape = [[len(scope.spans) for scope in group.scope_spans] for group in request.resource_spans]
    assert shape == [[2, 1], [1]]


def test_a_native_model_call_becomes_a_genai_chat_span(make_record):  # DEC-17
    record = make_record(
        kind="llm",
        type="llm_call",
        name="llm_call",
        model="small-1",
        provider="openai",
        input_tokens=12,
        output_tokens=5,
        cache_write_tokens=2,
        cost_usd=0.25,
        session_id="s" * 16,
        user_ref="u" * 16,
        attributes={"finish_reason": "stop", "streamed": True},
        content={"input": [{"role": "user", "content": "hi"}], "output": "hello"},
    )
    span = one_span(record)
    attributes = plain_attributes(span.attributes)
    assert (span.name, span.kind) == ("chat small-1", Span.SPAN_KIND_CLIENT)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-1",
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.conversation.id": "s" * 16,
        "user.hash": "u" * 16,
        "tracehold.cost_usd": 0.25,
        "tracehold.event_id": record.event_id.hex(),
        "tracehold.run_id": "run-1",
    }
    assert expected.items() <= attributes.items()
    asked = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    answered = [{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]
    assert json.loads(attributes["gen_ai.input.messages"]) == asked
    assert json.loads(attributes["gen_ai.output.messages"]) == answered


def test_tool_calls_and_their_results_are_message_parts(make_record):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bonn"}'}}
    asked = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    span = one_span(make_record(kind="llm", type="llm_call", content={"input": asked}))
    first, second = json.loads(plain_attributes(span.attributes)["gen_ai.input.messages"])
    assert first["parts"] == [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": '{"city":"Bonn"}'}]
    assert second["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "rain"}]


def test_a_prompt_of_another_shape_stays_under_its_own_name(make_record):
    span = one_span(make_record(kind="llm", type="llm_call", content={"input": [1, 2]}))
    attributes = plain_attributes(span.attributes)
    assert attributes["input"] == "[1,2]"
    assert "gen_ai.input.messages" not in attributes


def test_a_native_tool_call_becomes_an_execute_tool_span(make_record):  # DEC-17
    content = {"params": {"city": "Bonn"}, "result": "rain"}
    span = one_span(make_record(name="weather", attributes={"call_id": "c1"}, content=content))
    attributes = plain_attributes(span.attributes)
    assert span.name == "execute_tool weather"
    expected = {"gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1", "params": '{"city":"Bonn"}'}
    assert expected.items() <= attributes.items()
    assert attributes["gen_ai.tool.call.result"] == "rain"


def test_a_native_denial_does_not_look_executed(make_record):  # FR-61
    record = make_record(kind="gate", name="rm", status="blocked", decision="denied", rule="no-shell")
    span = one_span(record)
    attributes = plain_attributes(span.attributes)
    assert (span.name, span.status.code) == ("gate rm", Status.STATUS_CODE_UNSET)
    expected = {"tracehold.decision": "denied", "tracehold.rule": "no-shell", "tracehold.tool": "rm"}
    assert expected.items() <= attributes.items()
    assert not any(name.startswith("gen_ai.") for name in attributes)


def test_what_people_did_here_is_not_forwarded_with_their_notes(make_record):  # issue 6
    assert not is_forwarded(make_record(source="collector", kind="score", type="tracehold.review.verdict"))
    assert is_forwarded(make_record(kind="score", type="eval"))


def test_a_native_failure_has_status_error_and_error_type(make_record):
    span = one_span(make_record(status="error", error_type="TimeoutError"))
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert plain_attributes(span.attributes)["error.type"] == "TimeoutError"


def test_native_records_keep_their_own_ids_and_parents(make_record):  # DEC-17
    end = make_record(
        1, kind="run", type="run_end", agent="support", span_id=run_root_span_id("run-1"), parent_span_id=None
    )
    child = make_record(2, agent="support", parent_span_id=run_root_span_id("run-1"))
    (group,) = to_otlp([end, child]).resource_spans[0].scope_spans
    root, call = group.spans
    assert (root.name, root.parent_span_id) == ("invoke_agent support", b"")
    assert call.parent_span_id == root.span_id


def test_missing_ids_are_derived_and_stay_the_same(make_record):
    run = make_record(1, kind="run", type="run_end", trace_id=None, span_id=None, parent_span_id=None)
    call = make_record(2, trace_id=None, span_id=None, parent_span_id=None)
    root, child = to_otlp([run, call]).resource_spans[0].scope_spans[0].spans
    assert root.trace_id.hex() == child.trace_id.hex() == run_trace_id("run-1")
    assert root.span_id.hex() == child.parent_span_id.hex() == run_root_span_id("run-1")
    assert child.span_id == one_span(call).span_id != root.span_id


def test_opening_halves_are_not_sent(make_record):
    records = [make_record(1, kind="run", type="run_start", status="started"), make_record(2)]
    assert one_span(*records).name == "execute_tool tool2"


def test_a_native_record_s_resource_is_its_service_and_tenant(make_record):
    (group,) = to_otlp([make_record(service="shop", tenant="acme")]).resource_spans
    assert plain_attributes(group.resource.attributes) == {"service.name": "shop", "tracehold.tenant": "acme"}


def test_a_received_record_without_content_is_told_by_its_envelope(make_record):
    record = make_record(source="otlp", kind="llm", type="chat", name="chat", model="m", content=None)
    assert one_span(record).name == "chat m"


def test_an_unknown_time_is_said_and_not_1970(make_record):  # FR-23
    span = one_span(make_record(started_at=None, duration_ns=None))
    assert span.start_time_unix_nano == span.end_time_unix_nano > START_NS
    assert plain_attributes(span.attributes)[TIME_UNKNOWN] is True


def test_an_unknown_duration_is_a_point(make_record):
    span = one_span(make_record(duration_ns=None))
    assert span.start_time_unix_nano == span.end_time_unix_nano


TEXTS = st.text() | st.sampled_from(["\ud800", "a\udfffb"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    st.sampled_from([*RECEIVED, "input", "output", "params", "result", "finish_reason", "dropped_links_count"]) | TEXTS
)


@given(st.dictionaries(KEYS, JSON, max_size=6), st.sampled_from(["otlp", "tracer", "engine", "file"]))
def test_any_content_becomes_a_request_that_can_be_sent(content, source):
    record = Record(
        event_id=b"\1" * 16,
        tenant="t",
        run_id="r",
        kind="llm",
        type="x",
        source=source,
        status="ok",
        content=content,
    )
    body = to_otlp([record]).SerializeToString()
    assert len(ExportTraceServiceRequest.FromString(body).resource_spans) == 1


@given(JSON)
def test_an_attribute_value_comes_back_as_it_went(value):
    record = Record(
        event_id=b"\1" * 16,
        tenant="t",
        run_id="r",
        kind="llm",
        type="x",
        source="otlp",
        started_at=START_NS,
        content={"attributes": {"v": value}},
    )
    (pair,) = one_span(record).attributes
    assert same(plain(pair.value), value)


def same(got, sent):
    """Equal, but for what the wire cannot hold: whole numbers beyond 64 bits and lone surrogates."""
    if isinstance(sent, dict):
        keys = {key.encode("utf-8", "replace").decode(): value for key, value in sent.items()}
        return got.keys() == keys.keys() and (
            len(keys) != len(sent) or all(same(got[key], value) for key, value in keys.items())
        )
    if isinstance(sent, list):
        return len(got) == len(sent) and all(map(same, got, sent))
    if isinstance(sent, str):
        return got == sent.encode("utf-8", "replace").decode()
    if isinstance(sent, float) and math.isnan(sent):
        return math.isnan(got)
    if isinstance(sent, int) and not isinstance(sent, bool) and not -(2**63) <= sent < 2**63:
        return got == str(sent)
    return got == sent and type(got) is type(sent)
