"""What an OTLP span of each dialect means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tracehold.core.ids import run_root_span_id
from tracehold.observability.semconv import event_facts, own_attributes
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem
from tracehold_collector.normalise.spans import span_record
from tracehold_collector.normalise.tracer_events import tracer_record

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
START = 1_780_000_000_000_000_000


def read(context: NormaliseContext, attributes: dict[str, Any], **fields: Any) -> Record:
    given: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_span_id": None,
        "name": "work",
        "start_ns": START,
        "end_ns": START + 5,
        "attributes": attributes,
        "status_code": 0,
        "exception_type": None,
        "extra": {},
        "shared": Shared(),
    }
    return span_record(SpanItem(**(given | fields)), context)


@pytest.mark.parametrize(
    ("attributes", "kind", "source_word"),
    [
        ({"gen_ai.operation.name": "chat"}, "llm", "chat"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool", "execute_tool"),
        ({"gen_ai.operation.name": "invoke_agent"}, "agent", "invoke_agent"),
        ({"gen_ai.operation.name": "embeddings"}, "other", "embeddings"),
        ({"gen_ai.operation.name": "something_new"}, "other", "something_new"),
        ({"openinference.span.kind": "LLM"}, "llm", "LLM"),
        ({"openinference.span.kind": "retriever"}, "retrieval", "retriever"),
        ({"openinference.span.kind": "GUARDRAIL"}, "guardrail", "GUARDRAIL"),
        ({"traceloop.span.kind": "workflow"}, "task", "workflow"),
        ({"langfuse.observation.type": "generation"}, "llm", "generation"),
        ({"langfuse.observation.type": "span", "openinference.span.kind": "TOOL"}, "tool", "TOOL"),
        ({"ai.operationId": "ai.streamText.doStream"}, "llm", "ai.streamText.doStream"),
        ({"ai.operationId": "ai.streamText"}, "task", "ai.streamText"),
        ({"ai.operationId": "ai.toolCall"}, "tool", "ai.toolCall"),
        ({"logfire.span_type": "log", "gen_ai.operation.name": "chat"}, "other", "log"),
        ({"tracehold.kind": "memory", "gen_ai.operation.name": "chat"}, "memory", "chat"),
        ({"tracehold.kind": "nonsense", "gen_ai.operation.name": "chat"}, "llm", "chat"),
        ({"tracehold.kind": ["llm"], "gen_ai.operation.name": 7}, "other", "span"),
        ({"http.method": "GET"}, "other", "span"),
    ],
)
def test_each_dialect_says_what_a_span_is(
    attributes: dict[str, Any], kind: str, source_word: str, context: NormaliseContext
) -> None:
    record = read(context, attributes)
    assert (record.kind, record.type) == (kind, source_word)


def test_current_names_win_over_older_ones(context: NormaliseContext) -> None:
    record = read(
        context,
        {
            "gen_ai.usage.prompt_tokens": 1,
            "gen_ai.usage.input_tokens": 2,
            "gen_ai.system": "old",
            "gen_ai.provider.name": "new",
            "gen_ai.request.model": "asked",
            "gen_ai.response.model": "answered",
        },
    )
    assert (record.input_tokens, record.provider, record.model) == (2, "new", "answered")


def test_cached_input_is_a_part_of_the_input(context: NormaliseContext) -> None:
    # FR-29
    cache = {"gen_ai.usage.cache_read.input_tokens": 128_955, "gen_ai.usage.cache_creation.input_tokens": 1_253}
    for given in (130_213, 5):
        record = read(context, cache | {"gen_ai.usage.input_tokens": given})
        assert (record.input_tokens, record.cached_tokens, record.cache_write_tokens) == (130_213, 128_955, 1_253)


def test_a_wrapper_that_repeats_its_calls_usage_tells_none(context: NormaliseContext) -> None:
    record = read(context, {"ai.operationId": "ai.generateText", "ai.usage.promptTokens": 14})
    assert record.input_tokens is None
    assert (record.content or {})["attributes"]["ai.usage.promptTokens"] == 14


@pytest.mark.parametrize("cost", [float("inf"), -1, "free", True, {}])
def test_a_cost_that_is_no_amount_is_unknown(cost: Any, context: NormaliseContext) -> None:
    # DEC-13
    record = read(context, {"operation.cost": cost, "gen_ai.usage.input_tokens": "-3"})
    assert (record.cost_usd, record.price_source, record.input_tokens) == (None, None, None)


def test_a_recorded_cost_says_so(context: NormaliseContext) -> None:
    record = read(context, {"llm.cost.total": 0.25})
    assert (record.cost_usd, record.price_source) == (0.25, "recorded")


def test_conversations_group_runs_and_are_never_one(context: NormaliseContext) -> None:
    record = read(context, {"gen_ai.conversation.id": "c-1", "user.id": "ann"})
    assert record.run_id == TRACE
    assert (record.session_id, record.user_ref) == (context.pseudonyms.session("c-1"), context.pseudonyms.user("ann"))


@pytest.mark.parametrize("key", ["tracehold.run_id", "tracehold.run.id"])
def test_a_run_id_may_be_named_by_span_or_resource(key: str, context: NormaliseContext) -> None:
    assert read(context, {key: "run-7"}).run_id == "run-7"
    assert read(context, {}, shared=Shared(run_id="run-8")).run_id == "run-8"


def test_a_run_id_that_could_be_text_gets_a_stand_in(context: NormaliseContext) -> None:
    first, again = (read(context, {"tracehold.run_id": "my run with words"}).run_id for _ in range(2))
    assert first == again
    assert first.startswith("x-")


@pytest.mark.parametrize(
    ("attributes", "decision", "rule"),
    [
        ({"tracehold.decision": "denied", "tracehold.rule": "net"}, "denied", "net"),
        ({"policy.decision": "deny", "policy.rule": "net.egress"}, "denied", "net.egress"),
        ({"policy.decision": "allow", "policy.rule": "net.egress"}, "allowed", "net.egress"),
        ({"policy.decision": "deny"}, None, None),
        ({"tracehold.decision": "forbidden"}, None, None),
        ({"decision": "denied"}, None, None),
        ({"error.type": "PermissionDenied"}, None, None),
    ],
)
def test_only_a_decision_makes_a_denial(
    attributes: dict[str, Any], decision: str | None, rule: str | None, context: NormaliseContext
) -> None:
    # DEC-01, FR-61
    record = read(context, attributes | {"openinference.span.kind": "TOOL", "tool.name": "pay"}, status_code=2)
    denied = decision == "denied"
    assert (record.decision, record.rule) == (decision, rule)
    assert (record.kind, record.status) == (("gate", "blocked") if denied else ("tool", "error"))
    assert record.name == "pay"
    assert ("status_code" in (record.content or {})) is denied


def test_an_odd_span_name_is_content(context: NormaliseContext) -> None:
    name = "please tell me how I can reach my late grandmother's bank account today"
    record = read(context, {}, name=name)
    assert record.name is None
    assert (record.content or {})["name"] == name


def test_a_tools_own_span_name_stays_readable(context: NormaliseContext) -> None:
    record = read(
        context, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}, name="execute_tool pay"
    )
    assert record.name == "pay"
    assert (record.content or {})["name"] == "execute_tool pay"


def test_a_handled_exception_is_no_error(context: NormaliseContext) -> None:
    record = read(context, {}, status_code=1, exception_type="ValueError")
    assert (record.status, record.error_type) == ("ok", None)
    assert read(context, {}, status_code=2, exception_type="ValueError").error_type == "ValueError"


def test_what_our_own_exporter_sends_reads_as_the_event_it_carries(context: NormaliseContext) -> None:
    event = {
        "type": "tool_call",
        "event_id": "0190a1b2c3d4e5f60718293a4b5c6d7e",
        "run_id": "run-7",
        "step_index": 3,
        "trace_id": TRACE,
        "span_id": "00f067aa0ba902b7",
        "parent_span_id": run_root_span_id("run-7"),
        "started_at_ns": START,
        "duration_ns": 0,
        "latency_ms": 0,
        "tool": "pay",
        "status": "denied",
        "rule": "net",
        "user": "ann",
        "agent": "planner",
    }
    exported = event | own_attributes(event_facts(event))
    native = tracer_record(event, context, raw=b"", position=0)
    by_otlp = read(context, exported, name="tool_call", shared=Shared(service=None))
    assert replace(by_otlp, source="tracer", content=native.content) == native
    assert by_otlp.source == "otlp"
