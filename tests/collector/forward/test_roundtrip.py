"""What comes in by OTLP and goes out by OTLP is the same span, byte for byte, where nothing was redacted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.core.jsontext import dumps
from tracehold.observability.exporters.otel import OTelExporter
from tracehold.observability.tracer import Tracer
from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.forward import to_otlp
from tracehold_collector.normalise.context import NormaliseContext

START_NS = 1_700_000_000_000_000_000
CONTEXT = NormaliseContext("acme", Pseudonyms(b"k" * 32, "acme"), Cleaner(), now_ns=START_NS)


def through_the_collector(request):
    batch = decode_otlp_traces(request.SerializeToString(), encoding="protobuf", context=CONTEXT)
    assert batch.rejected == []
    return to_otlp(batch.records)


def request_of(*spans):
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add(schema_url="https://opentelemetry.io/schemas/1.44.0")
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    group.resource.dropped_attributes_count = 2
    scope = group.scope_spans.add(schema_url="https://opentelemetry.io/schemas/1.43.0")
    scope.scope.name, scope.scope.version = "app", "1.2"
    scope.scope.attributes.add(key="x").value.int_value = 1
    scope.spans.extend(spans)
    return request


def span(number=1, **fields):
    defaults = {
        "trace_id": bytes.fromhex("0af7651916cd43dd8448eb211c80319c"),
        "span_id": number.to_bytes(8, "big"),
        "parent_span_id": bytes.fromhex("b7ad6b7169203331"),
        "name": f"step {number}",
        "kind": Span.SPAN_KIND_CLIENT,
        "start_time_unix_nano": START_NS,
        "end_time_unix_nano": START_NS + 5,
        "status": Status(code=Status.STATUS_CODE_OK),
    }
    return Span(**{**defaults, **fields})


def pair(key, **value):
    return KeyValue(key=key, value=AnyValue(**value))


def test_a_full_span_comes_out_as_it_went_in():
    nested = KeyValueList(values=[pair("k", bool_value=False), pair("none")])
    full = span(
        trace_state="vendor=1",
        flags=257,
        attributes=[
            pair("text", string_value="Grüße"),
            pair("empty", string_value=""),
            pair("n", int_value=-(2**63)),
            pair("ratio", double_value=0.5),
            pair("raw", bytes_value=b"\x00\xff\xfe"),
            pair("raw.text", bytes_value="wörtlich".encode()),
            pair("list", array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue(string_value="a")])),
            pair("map", kvlist_value=nested),
        ],
        dropped_attributes_count=1,
        events=[Span.Event(time_unix_nano=START_NS + 1, name="retry", dropped_attributes_count=3)],
        dropped_events_count=2,
        links=[Span.Link(trace_id=b"\xab" * 16, span_id=b"\xcd" * 8, trace_state="a=b", flags=1)],
        dropped_links_count=4,
        status=Status(code=Status.STATUS_CODE_ERROR, message="no"),
    )
    sent = request_of(full)
    assert through_the_collector(sent) == sent


@pytest.mark.parametrize("code", [Status.STATUS_CODE_UNSET, Status.STATUS_CODE_OK, Status.STATUS_CODE_ERROR])
def test_a_status_code_survives_what_the_record_makes_of_it(code):
    """A policy's denial is "blocked" for us, whatever code its span carried."""
    denied = span(
        attributes=[pair("policy.decision", string_value="deny"), pair("policy.rule", string_value="no-shell")],
        status=Status(code=code),
    )
    sent = request_of(denied, span(2, status=Status(code=code)))
    assert through_the_collector(sent) == sent


def test_a_span_that_is_named_by_its_tool_here_keeps_its_own_name():
    tool = span(name="execute_tool get", attributes=[pair("gen_ai.tool.name", string_value="get")])
    sent = request_of(tool)
    assert through_the_collector(sent) == sent


def test_times_that_are_not_credible_do_not_run_backwards_and_stay_readable():  # FR-23
    got = through_the_collector(request_of(span(end_time_unix_nano=START_NS - 5)))
    (out,) = got.resource_spans[0].scope_spans[0].spans
    assert (out.start_time_unix_nano, out.end_time_unix_nano) == (START_NS, START_NS)
    raw = {item.key: item.value.int_value for item in out.attributes}
    assert raw == {"start_time_unix_nano": START_NS, "end_time_unix_nano": START_NS - 5}


def test_a_secret_does_not_go_on():  # FR-35
    secret = "-".join(["sk", "made" + "up" + "0123456789abcdefghij"])
    got = through_the_collector(request_of(span(attributes=[pair("note", string_value=f"use {secret}")])))
    assert secret.encode() not in got.SerializeToString()


WORDS = st.text(alphabet="abcdefghij ", min_size=1, max_size=8)
VALUES = st.recursive(
    st.builds(lambda v: AnyValue(string_value=v), WORDS)
    | st.builds(lambda v: AnyValue(int_value=v), st.integers(-9999, 9999))
    | st.builds(lambda v: AnyValue(bool_value=v), st.booleans())
    | st.builds(lambda v: AnyValue(double_value=v), st.floats(-1e6, 1e6)),
    lambda inner: st.builds(lambda v: AnyValue(array_value=ArrayValue(values=v)), st.lists(inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(WORDS.map("attr.{}".format), VALUES, max_size=6))
def test_any_attributes_come_out_as_they_went_in(attributes):
    pairs = [KeyValue(key=key, value=value) for key, value in attributes.items()]
    sent = request_of(span(attributes=pairs))
    assert through_the_collector(sent) == sent


class Kept:
    """An exporter that keeps what a CollectorExporter would send."""

    accepts_content = True
    dropped = 0

    def __init__(self):
        self.events = []

    def export(self, event):
        self.events.append(dict(event))


def identity(record):
    return record.event_id, record.run_id, record.kind, record.status, record.decision, record.span_id, record.seq


def traced_run():
    """One run, seen by a native exporter and by OpenTelemetry."""
    native, memory, provider = Kept(), InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = Tracer(exporters=[native, OTelExporter(tracer_provider=provider, conventions="genai")], strict=True)
    with tracer.run("ticket", run_id="run-7", agent="support"), tracer.span("plan", kind="task"):
        tracer.emit({"type": "llm_call", "model": "m", "latency_ms": 5, "usage": {"prompt_tokens": 12}})
        tracer.emit({"type": "tool_call", "tool": "rm", "status": "denied", "reason": "no shell here"})
    return native.events, memory.get_finished_spans()


def test_a_native_run_is_forwarded_as_one_tree_with_one_root():  # DEC-17
    events, _ = traced_run()
    batch = decode_events(dumps(events), encoding="json", context=CONTEXT)
    spans = [s for g in to_otlp(batch.records).resource_spans for scope in g.scope_spans for s in scope.spans]
    by_id = {s.span_id: s for s in spans}
    assert {s.trace_id.hex() for s in spans} == {run_trace_id("run-7")}
    roots = [s.name for s in spans if s.parent_span_id not in by_id]
    assert roots == ["invoke_agent support"]
    assert by_id[bytes.fromhex(run_root_span_id("run-7"))].name == "invoke_agent support"
    parents = {s.name: by_id[s.parent_span_id].name for s in spans if s.parent_span_id in by_id}
    assert parents == {"chat m": "plan", "gate rm": "plan", "plan": "invoke_agent support"}


def test_an_event_that_comes_both_ways_has_one_id():  # DEC-17
    events, spans = traced_run()
    native = decode_events(dumps(events), encoding="json", context=CONTEXT).records
    body = encode_spans(spans).SerializeToString()
    exported = decode_otlp_traces(body, encoding="protobuf", context=CONTEXT).records
    told = [
        [(r.event_id, r.run_id, r.kind, r.status, r.decision, r.span_id, r.seq) for r in way]
        for way in (native, exported)
    ]
    assert told[0] == told[1]
    assert len({r.event_id for r in native}) == 5


def test_no_span_is_its_own_parent_whichever_way_a_run_came():  # DEC-17
    events, exported = traced_run()
    native = decode_events(dumps(events), encoding="json", context=CONTEXT).records
    body = encode_spans(exported).SerializeToString()
    by_otlp = decode_otlp_traces(body, encoding="protobuf", context=CONTEXT).records
    for records in (native, by_otlp):
        spans = [s for g in to_otlp(records).resource_spans for scope in g.scope_spans for s in scope.spans]
        assert all(s.span_id != s.parent_span_id for s in spans)
        assert [s.name for s in spans if not s.parent_span_id] == ["invoke_agent support"]
