"""What a Tracer event means, and that nothing it says is lost."""

from __future__ import annotations

from typing import Any

import pytest
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.observability.event_types import DECISIONS, DENIALS, EVENT_TYPES
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.tracer_events import tracer_record


def read(context: NormaliseContext, **event: Any) -> Record:
    return tracer_record(event, context, raw=b"raw", position=0)


@pytest.mark.parametrize("word", sorted(DENIALS - {"tripped", "suspended"}))
def test_a_stopped_tool_call_is_a_gate(word: str, context: NormaliseContext) -> None:
    # DEC-01, HAR-44, HAR-47, FR-61
    record = read(context, type="tool_call", tool="pay", status=word, params={"to": "acme"})
    assert (record.kind, record.status, record.decision, record.name) == ("gate", "blocked", word, "pay")
    assert record.content == {"params": {"to": "acme"}}


@pytest.mark.parametrize("word", ["limited", "cancelled"])
def test_a_stopped_model_call_is_a_gate(word: str, context: NormaliseContext) -> None:
    record = read(context, type="llm_call", model="m", status=word)
    assert (record.kind, record.status, record.decision) == ("gate", "blocked", word)


@pytest.mark.parametrize(
    ("event", "kind", "status", "decision"),
    [
        ({"type": "tool_call", "status": "success"}, "tool", "ok", None),
        ({"type": "tool_call", "status": "error"}, "tool", "error", None),
        ({"type": "tool_call", "status": "success", "decision": "allowed"}, "tool", "ok", "allowed"),
        ({"type": "tool_call", "status": "suspended"}, "tool", "suspended", "suspended"),
        ({"type": "llm_call"}, "llm", "ok", None),
        ({"type": "llm_call", "error_type": "TimeoutError"}, "llm", "error", None),
        ({"type": "guardrail_trip"}, "guardrail", "blocked", "tripped"),
        ({"type": "approval_request"}, "approval", "suspended", "suspended"),
        ({"type": "approval_decision", "status": "approved"}, "approval", "ok", "allowed"),
        ({"type": "approval_decision", "decision": "rejected"}, "approval", "ok", "rejected"),
        ({"type": "approval_decision", "approved": False}, "approval", "ok", "rejected"),
        ({"type": "run_start"}, "run", "started", None),
        ({"type": "run_end"}, "run", "ok", None),
        ({"type": "run_end", "status": "cancelled"}, "run", "cancelled", None),
        ({"type": "run_end", "status": "limited"}, "run", "error", None),
        ({"type": "run_error"}, "run", "error", None),
        ({"type": "run_suspend"}, "run", "suspended", None),
        ({"type": "context_compact"}, "context", "ok", None),
        ({"type": "summarize_failed"}, "context", "error", None),
        ({"type": "memory_search"}, "memory", "ok", None),
        ({"type": "rag_retrieve"}, "retrieval", "ok", None),
        ({"type": "span", "kind": "agent"}, "agent", "ok", None),
        ({"type": "span", "kind": "tool", "status": "cancelled"}, "tool", "cancelled", None),
        ({"type": "span", "kind": "tool", "decision": "denied"}, "gate", "blocked", "denied"),
        ({"type": "span", "kind": ["x"], "status": {"a": 1}}, "other", "ok", None),
        ({"type": "made_up", "status": "who knows"}, "other", "unset", None),
    ],
)
def test_type_status_and_decision_say_what_happened(
    event: dict[str, Any], kind: str, status: str, decision: str | None, context: NormaliseContext
) -> None:
    record = read(context, **event)
    assert (record.kind, record.status, record.decision) == (kind, status, decision)


@pytest.mark.parametrize("own_type", sorted(EVENT_TYPES))
def test_every_documented_type_is_stored_under_its_name(own_type: str, context: NormaliseContext) -> None:
    # TRC-22
    assert read(context, type=own_type).type == own_type


def test_every_denial_is_a_decision() -> None:  # DEC-01
    assert DENIALS < DECISIONS


def test_the_envelope_takes_what_it_has_a_field_for_and_the_content_the_rest(context: NormaliseContext) -> None:
    record = read(
        context,
        type="llm_call",
        event_id="0190a1b2c3d4e5f60718293a4b5c6d7e",
        run_id="run-7",
        step_index=4,
        model="m1",
        provider="openai",
        usage={"input_tokens": 10, "output_tokens": 2, "cached_tokens": 4, "total_tokens": 12},
        cost_usd=0.5,
        started_at_ns=1_780_000_000_000_000_000,
        duration_ns=7_000_000,
        latency_ms=7,
        has_tool_calls=True,
        streamed=True,
        finish_reason="stop",
        origin="planner",
        user="ann",
        input=["hi"],
        output="hello",
        temperature=0.2,
    )
    assert (record.event_id.hex(), record.run_id, record.seq) == ("0190a1b2c3d4e5f60718293a4b5c6d7e", "run-7", 4)
    assert (record.input_tokens, record.output_tokens, record.cached_tokens, record.cost_usd) == (10, 2, 4, 0.5)
    assert record.attributes == {"has_tool_calls": True, "streamed": True, "finish_reason": "stop", "origin": "planner"}
    assert record.content == {"input": ["hi"], "output": "hello", "temperature": 0.2}


def test_usage_that_cannot_be_read_is_unknown_and_kept_raw(context: NormaliseContext) -> None:
    # DEC-13
    record = read(context, type="llm_call", usage={"prompt_tokens": -5, "completion_tokens": "NaN"}, cost_usd=-1)
    assert (record.input_tokens, record.output_tokens, record.cost_usd) == (None, None, None)
    assert record.content == {"usage": {"prompt_tokens": -5, "completion_tokens": "NaN"}, "cost_usd": -1}


def test_free_text_never_stands_in_the_envelope(context: NormaliseContext) -> None:
    sentence = "dear assistant, would you kindly move all of my savings to the moon"
    names = dict.fromkeys(("name", "agent", "service", "model", "decided_by", "rule", "error_type"), sentence)
    record = read(context, type="span", **names)
    assert all(getattr(record, name) is None for name in names)
    assert record.content == names


def test_a_run_has_its_root_span_and_every_event_its_trace(context: NormaliseContext) -> None:
    record = read(context, type="run_end", run_id="run-7")
    assert (record.trace_id, record.span_id) == (run_trace_id("run-7"), run_root_span_id("run-7"))


def test_latency_is_the_duration_where_no_exact_one_is_given(context: NormaliseContext) -> None:
    assert read(context, type="llm_call", latency_ms=12).duration_ns == 12_000_000
    assert read(context, type="llm_call", latency_ms=-1).duration_ns is None
    assert read(context, type="llm_call", duration_ns=-1, started_at_ns=-1).started_at is None


@pytest.mark.parametrize("event", [{}, {"type": ""}, {"type": 7}, {"type": None}])
def test_an_event_without_a_type_is_refused(event: dict[str, Any], context: NormaliseContext) -> None:
    with pytest.raises(ItemError, match='needs a "type"'):
        read(context, **event)


def test_an_account_address_stays_as_who_decided_and_nowhere_else(context: NormaliseContext) -> None:  # DEC-02
    record = read(
        context,
        type="tool_call",
        tool="refund",
        status="rejected",
        decided_by="ada@example.com",
        agent="ada@example.com",
    )
    assert record.decided_by == "ada@example.com"
    assert "ada" not in str(record.agent)
