"""`conventions="genai"`: names, kinds and attributes of the GenAI semantic conventions (DEC-17)."""

import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import SpanKind, StatusCode
from tracehold.observability import semconv
from tracehold.observability.event_types import EVENT_TYPES
from tracehold.observability.exporters.otel import OTelExporter
from tracehold.observability.tracer import Tracer

LLM_CALL = {
    "type": "llm_call",
    "model": "small-1",
    "provider": "openai",
    "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17, "cached_tokens": 4},
    "finish_reason": "stop",
    "cost_usd": 0.25,
}


def span_of(event, **options):
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    OTelExporter(tracer_provider=provider, conventions="genai", **options).export(event)
    (span,) = memory.get_finished_spans()
    return span


def test_a_model_call_is_a_chat_span_of_kind_client():  # DEC-17
    span = span_of(LLM_CALL)
    assert (span.name, span.kind) == ("chat small-1", SpanKind.CLIENT)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-1",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.response.finish_reasons": ("stop",),
        "tracehold.cost_usd": 0.25,
    }
    assert expected.items() <= span.attributes.items()


def test_the_documented_attributes_stay_beside_the_conventions_ones():  # DEC-17, EXP-11
    attributes = span_of(LLM_CALL).attributes
    assert (attributes["model"], attributes["type"]) == ("small-1", "llm_call")
    assert LLM_CALL["usage"] == json.loads(attributes["usage"])


def test_an_executed_tool_is_an_execute_tool_span_of_kind_internal():  # DEC-17
    event = {
        "type": "tool_call",
        "tool": "weather",
        "call_id": "c1",
        "params": {"city": "Bonn"},
        "status": "ok",
    }
    span = span_of(event | {"result": "rain"})
    assert (span.name, span.kind) == ("execute_tool weather", SpanKind.INTERNAL)
    expected = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"city":"Bonn"}',
        "gen_ai.tool.call.result": "rain",
    }
    assert expected.items() <= span.attributes.items()


def test_a_stopped_tool_does_not_look_executed():  # FR-61
    span = span_of({"type": "tool_call", "tool": "rm", "status": "denied", "params": {"path": "/"}})
    assert span.name == "gate rm"
    assert "gen_ai.operation.name" not in span.attributes
    assert not any(name.startswith("gen_ai.") for name in span.attributes)
    assert (span.attributes["tracehold.tool"], span.attributes["tracehold.decision"]) == ("rm", "denied")
    assert StatusCode.UNSET is span.status.status_code


def test_the_end_of_a_run_is_an_invoke_agent_span_and_its_start_is_none():  # DEC-17
    end = span_of({"type": "run_end", "agent": "support", "session": "s-1", "status": "ok"})
    assert (end.name, end.kind) == ("invoke_agent support", SpanKind.INTERNAL)
    assert (
        end.attributes["gen_ai.agent.name"],
        end.attributes["gen_ai.conversation.id"],
    ) == ("support", "s-1")
    start = span_of({"type": "run_start", "agent": "support"})
    assert "gen_ai.operation.name" not in start.attributes


def test_a_failure_carries_error_type_and_status():  # DEC-17
    span = span_of({"type": "llm_call", "model": "m", "status": "error", "error_type": "TimeoutError"})
    assert (span.attributes[ERROR_TYPE], span.status.status_code) == ("TimeoutError", StatusCode.ERROR)


def test_a_failure_of_unknown_type_is_other():  # OpenTelemetry: recording errors
    assert span_of({"type": "tool_call", "tool": "t", "status": "error"}).attributes[ERROR_TYPE] == "_OTHER"


@pytest.mark.parametrize(
    ("kind", "fields", "name"),
    [
        ("llm", {"model": "m"}, "chat m"),
        ("tool", {}, "execute_tool step"),
        ("agent", {"agent": "writer"}, "invoke_agent writer"),
        ("retrieval", {}, "retrieval"),
        ("other", {}, "step"),
    ],
)
def test_a_span_of_the_tracer_is_named_by_its_kind(kind, fields, name):  # DEC-18, DEC-17
    assert name == span_of({"type": "span", "name": "step", "kind": kind, **fields}).name


@pytest.mark.parametrize("count", [-1, 1.5, "12", True, float("nan"), 2**70, None])
def test_a_token_count_that_is_none_is_unknown(count):  # DEC-13
    attributes = span_of({"type": "llm_call", "usage": {"input_tokens": count}}).attributes
    assert "gen_ai.usage.input_tokens" not in attributes


@pytest.mark.parametrize("cost", [-0.1, float("inf"), float("nan"), "free", True])
def test_a_cost_that_is_none_is_unknown(cost):  # DEC-13
    assert "tracehold.cost_usd" not in span_of({"type": "llm_call", "cost_usd": cost}).attributes


@pytest.mark.parametrize("word", [["denied"], {"a": 1}, 7, b"denied"])
def test_fields_of_a_surprising_type_make_a_span_all_the_same(word):  # TRC-14
    span = span_of({"type": "tool_call", "status": word, "decision": word, "kind": word, "tool": "t"})
    assert span.name == "execute_tool t"


def test_every_name_of_the_table_is_one_the_registry_has_or_had():
    known = {value for key, value in vars(gen_ai_attributes).items() if key.startswith("GEN_AI_")}
    table = {attribute.name: attribute.release for attribute in semconv.GENAI_ATTRIBUTES}
    assert {name for name, release in table.items() if release == "1.41"} <= known
    assert {"gen_ai.usage.cache_write.input_tokens"} == {name for name, release in table.items() if release != "1.41"}


def test_every_documented_event_type_has_a_kind():  # TRC-22
    assert EVENT_TYPES - {"span"} == set(semconv.KIND_OF_TYPE)


def test_a_traced_run_is_one_trace_whatever_is_inside():  # DEC-17, DEC-18
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = Tracer(exporters=[OTelExporter(tracer_provider=provider, conventions="genai")], strict=True)
    with tracer.run("ticket", agent="support"), tracer.span("plan"):
        tracer.emit({"type": "llm_call", "model": "m", "latency_ms": 5})
        tracer.emit({"type": "tool_call", "tool": "rm", "status": "denied"})
    spans = memory.get_finished_spans()
    assert ["run_start" if span.attributes["type"] == "run_start" else span.name for span in spans] == [
        "run_start",
        "chat m",
        "gate rm",
        "plan",
        "invoke_agent support",
    ]
    assert len({span.context.trace_id for span in spans}) == 1
    assert len({span.attributes["run_id"] for span in spans}) == 1
    assert len({span.attributes["tracehold.event_id"] for span in spans}) == 5
