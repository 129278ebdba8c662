"""The documented behaviour of OTelExporter, seen through the official SDK's in-memory exporter."""

import json
import logging
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tracehold.core.errors import ConfigurationError
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.core.run_context import current_trace_carrier, enter_run, leave_run, make_run
from tracehold.observability.exporters.memory import MemoryExporter
from tracehold.observability.exporters.otel import OTelExporter
from tracehold.observability.tracer import Tracer

UPSTREAM = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
RUN = "0198c0de0000700080000000000000aa"


class Recorder:
    """An OTelExporter and the spans it made."""

    def __init__(self, *, limits=None, **options):
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider(span_limits=limits)
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.exporter = OTelExporter(tracer_provider=self.provider, **options)

    def spans(self, *events):
        for event in events:
            self.exporter.export(event)
        return self.memory.get_finished_spans()

    def span(self, event):
        return self.spans(event)[-1]


def test_opentelemetry_is_imported_only_when_the_exporter_is_constructed():  # EXP-09
    program = textwrap.dedent(
        """
        import sys
        import tracehold.observability.exporters.otel as module
        assert not any(name.startswith("opentelemetry") for name in sys.modules)
        module.OTelExporter()
        assert "opentelemetry.trace" in sys.modules
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_opentelemetry_construction_says_what_to_install_and_other_exporters_work():  # EXP-09
    program = textwrap.dedent(
        """
        import sys
        sys.modules["opentelemetry"] = None
        from tracehold.observability.exporters.memory import MemoryExporter
        from tracehold.observability.exporters.otel import OTelExporter
        try:
            OTelExporter()
        except ImportError as error:
            assert "pip install '.[otel]'" in str(error), error
        else:
            raise AssertionError("constructed without OpenTelemetry")
        memory = MemoryExporter()
        memory.export({"type": "llm_call"})
        assert len(memory.events) == 1
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_convention_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="conventions is 'openinference'"):
        OTelExporter(conventions="openinference")


def test_the_instrumentation_scope_is_tracehold_unless_named_otherwise():  # EXP-09, DEC-16
    assert Recorder().span({"type": "llm_call"}).instrumentation_scope.name == "tracehold"
    assert Recorder(tracer_name="mine").span({"type": "x"}).instrumentation_scope.name == "mine"


def test_each_event_is_one_span_named_after_its_type():  # EXP-10
    spans = Recorder().spans({"type": "llm_call"}, {"type": "tool_call"}, {"type": "my.own"})
    assert [span.name for span in spans] == ["llm_call", "tool_call", "my.own"]


def test_a_latency_is_the_width_of_a_span_that_ends_now():  # EXP-10
    before = time.time_ns()
    span = Recorder().span({"type": "llm_call", "latency_ms": 250})
    assert span.end_time - span.start_time == 250_000_000
    assert before <= span.end_time <= time.time_ns()


def test_a_measured_start_and_duration_win_over_the_latency():  # DEC-15
    event = {"type": "llm_call", "latency_ms": 250, "started_at_ns": 10**18, "duration_ns": 250_000_123}
    span = Recorder().span(event)
    assert (span.start_time, span.end_time) == (10**18, 10**18 + 250_000_123)


@pytest.mark.parametrize("latency", [None, 0, -5, float("nan"), float("inf"), "12", True, 10**30])
def test_no_latency_and_a_nonsense_latency_never_give_a_negative_span(latency):  # EXP-10, FR-23
    span = Recorder().span({"type": "llm_call", "latency_ms": latency})
    assert span.end_time >= span.start_time >= 0


def test_event_fields_become_attributes_and_none_is_skipped():  # EXP-11
    event = {"type": "llm_call", "model": "m", "streamed": True, "n": 3, "ratio": 0.5, "provider": None}
    attributes = Recorder().span(event).attributes
    assert {
        "type": "llm_call",
        "model": "m",
        "streamed": True,
        "n": 3,
        "ratio": 0.5,
    }.items() <= attributes.items()
    assert "provider" not in attributes


def test_values_that_are_not_primitive_are_json_text():  # EXP-11
    attributes = Recorder().span({"type": "tool_call", "params": {"city": "Köln", "days": [1, 2]}}).attributes
    assert json.loads(attributes["params"]) == {"city": "Köln", "days": [1, 2]}


def test_values_the_wire_cannot_carry_are_carried_as_text():  # EXP-11, FR-15
    memory = Recorder()
    memory.span({"type": "x", "big": 2**64, "text": "a\ud800b", "nested": {"k\ud800": object()}})
    encoded = encode_spans(memory.memory.get_finished_spans()).SerializeToString()
    assert b"18446744073709551616" in encoded


def test_run_id_is_always_an_attribute_when_present():  # EXP-11
    attributes = Recorder().span({"type": "llm_call", "run_id": RUN}).attributes
    assert attributes["run_id"] == RUN
    assert "run_id" not in Recorder().span({"type": "llm_call"}).attributes


def test_an_attribute_limit_never_costs_the_run_id_or_the_event_id():  # EXP-11, DEC-17
    event = {"type": "llm_call", "run_id": RUN, "event_id": "e" * 32} | {f"field{n}": n for n in range(300)}
    attributes = Recorder(limits=SpanLimits(max_span_attributes=16)).span(event).attributes
    assert RUN == attributes["run_id"] == attributes["tracehold.run_id"]
    assert attributes["tracehold.event_id"] == "e" * 32


def test_the_event_is_not_changed():  # EXP-01
    event = {"type": "tool_call", "status": "denied", "params": {"a": 1}, "run_id": RUN}
    copy = json.loads(json.dumps(event))
    Recorder(conventions="genai").span(event)
    assert copy == event


def test_without_a_carrier_the_span_follows_the_current_context():  # EXP-12
    memory = Recorder()
    with memory.provider.get_tracer("app").start_as_current_span("request") as request:
        span = memory.span({"type": "llm_call", "run_id": RUN})
    assert request.get_span_context().span_id == span.parent.span_id
    assert request.get_span_context().trace_id == span.context.trace_id


def test_a_carrier_with_a_traceparent_decides_the_trace():  # EXP-12
    memory = Recorder(carrier_provider=lambda: UPSTREAM)
    with memory.provider.get_tracer("app").start_as_current_span("request"):
        span = memory.span({"type": "llm_call", "run_id": RUN})
    assert UPSTREAM["traceparent"][3:35] == f"{span.context.trace_id:032x}"
    assert UPSTREAM["traceparent"][36:52] == f"{span.parent.span_id:016x}"


@pytest.mark.parametrize(
    "carrier", [None, {}, {"traceparent": "nonsense"}, {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"}]
)
def test_a_provider_that_yields_nothing_behaves_like_no_provider(carrier):  # EXP-12
    memory = Recorder(carrier_provider=lambda: carrier)
    with memory.provider.get_tracer("app").start_as_current_span("request") as request:
        span = memory.span({"type": "llm_call"})
    assert request.get_span_context().trace_id == span.context.trace_id


def test_the_carrier_never_enters_the_span():  # EXP-12
    carrier = UPSTREAM | {"baggage": "user=someone"}
    span = Recorder(carrier_provider=lambda: carrier).span({"type": "llm_call"})
    assert "someone" not in str(dict(span.attributes))
    assert "traceparent" not in span.attributes


def test_the_provider_is_asked_in_the_emitting_context_of_each_event():  # EXP-12
    memory = Recorder(carrier_provider=current_trace_carrier)
    token = enter_run(make_run(RUN, trace_carrier=UPSTREAM))
    memory.exporter.export({"type": "inside"})
    leave_run(token)
    memory.exporter.export({"type": "outside"})
    inside, outside = memory.memory.get_finished_spans()
    assert UPSTREAM["traceparent"][3:35] == f"{inside.context.trace_id:032x}"
    assert inside.context.trace_id != outside.context.trace_id


def test_all_events_of_a_run_are_one_trace_under_the_run_s_own_root():  # DEC-17
    spans = Recorder().spans(*({"type": kind, "run_id": RUN} for kind in ("run_start", "llm_call", "run_end")))
    assert {int(run_trace_id(RUN), 16)} == {span.context.trace_id for span in spans}
    assert {int(run_root_span_id(RUN), 16)} == {span.parent.span_id for span in spans}
    assert all(span.parent.is_remote for span in spans)


def test_two_runs_are_two_traces():  # DEC-17
    one, other = Recorder().spans({"type": "a", "run_id": "one"}, {"type": "a", "run_id": "other"})
    assert one.context.trace_id != other.context.trace_id


def test_a_run_that_joined_an_upstream_trace_stays_in_it():  # DEC-17
    trace_id = UPSTREAM["traceparent"][3:35]
    span = Recorder().span({"type": "llm_call", "run_id": RUN, "trace_id": trace_id})
    assert trace_id == f"{span.context.trace_id:032x}"


@pytest.mark.parametrize("trace_id", ["", "xyz", "0" * 32, "g" * 32, 7, None])
def test_a_trace_id_that_is_none_leaves_the_run_s_own(trace_id):  # DEC-17
    span = Recorder().span({"type": "llm_call", "run_id": RUN, "trace_id": trace_id})
    assert run_trace_id(RUN) == f"{span.context.trace_id:032x}"


def test_event_and_run_id_are_written_for_a_collector_to_recognise():  # DEC-17
    event = {"type": "llm_call", "run_id": RUN, "event_id": "e" * 32, "step_index": 4}
    attributes = Recorder().span(event).attributes
    assert tuple(attributes[f"tracehold.{key}"] for key in ("event_id", "run_id", "seq")) == (
        "e" * 32,
        RUN,
        4,
    )


def test_a_failed_call_has_status_error_and_a_successful_one_is_unset():
    failed, fine = Recorder().spans({"type": "tool_call", "status": "error"}, {"type": "tool_call", "status": "ok"})
    assert trace.StatusCode.ERROR is failed.status.status_code
    assert trace.StatusCode.UNSET is fine.status.status_code


@pytest.mark.parametrize("decision", ["denied", "rejected", "unconfirmed", "limited", "invalid_args"])
def test_a_denial_is_a_decision_and_not_an_error(decision):  # DEC-01, HAR-44, HAR-47
    span = Recorder().span({"type": "tool_call", "tool": "rm", "status": decision, "rule": "no-shell"})
    assert trace.StatusCode.UNSET is span.status.status_code
    expected = {"kind": "gate", "decision": decision, "status": "blocked", "rule": "no-shell"}
    assert {f"tracehold.{key}": value for key, value in expected.items()}.items() <= span.attributes.items()


def test_content_is_not_for_this_exporter():  # DEC-15
    assert OTelExporter.accepts_content is False


def test_without_a_provider_it_says_once_that_spans_go_nowhere():
    program = textwrap.dedent(
        """
        import logging
        logging.basicConfig(format="%(message)s")
        from tracehold.observability.exporters.otel import OTelExporter
        exporter = OTelExporter()
        for _ in range(3):
            exporter.export({"type": "llm_call"})
        """
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stderr.count("no TracerProvider") == 1


def test_flushing_asks_the_provider():
    assert Recorder().exporter.force_flush(1.0) is True


def test_closing_twice_leaves_the_program_s_provider_running(caplog):
    memory = Recorder()
    memory.exporter.close()
    memory.exporter.close()
    with caplog.at_level(logging.WARNING):
        assert memory.span({"type": "after"}).name == "after"
    assert not caplog.records


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), JSON, max_size=8), st.sampled_from([None, "genai"]))
def test_whatever_an_event_holds_becomes_a_span_that_can_be_sent(fields, conventions):  # EXP-11, TRC-14
    memory = Recorder(conventions=conventions)
    span = memory.span({"type": "llm_call"} | fields)
    encode_spans([span]).SerializeToString()


def test_a_carrier_provider_that_fails_costs_neither_the_caller_nor_the_other_exporters():  # TRC-14
    def broken():
        raise RuntimeError("no carrier today")

    exporter, memory = Recorder(carrier_provider=broken).exporter, MemoryExporter()
    tracer = Tracer(exporters=[exporter, memory])
    tracer.emit({"type": "llm_call"})
    assert len(memory.events) == 1
    assert tracer.summary()["dropped"] == {"OTelExporter": 1}
    with pytest.raises(RuntimeError, match="no carrier today"):
        Tracer(exporters=[exporter], strict=True).emit({"type": "llm_call"})
