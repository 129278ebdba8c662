"""What explain says is what the record holds: for any attributes, one by one and all together."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.explain import Explanation, explain_log, explain_span
from tracehold_collector.explain.items import columns, dialect_of
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.dialects import FIELD_KEYS, KIND_KEYS
from tracehold_collector.normalise.log_dialects import DIALECTS
from tracehold_collector.normalise.log_item import LogItem
from tracehold_collector.normalise.logs import log_record
from tracehold_collector.normalise.span_item import Shared, SpanItem
from tracehold_collector.normalise.spans import span_record

NO_DECISION = "is no decision (its words are listed, and a policy's word needs its rule)"
CONTEXT = NormaliseContext("acme", Pseudonyms(b"k" * 32, "acme"), Cleaner())
START = 1_780_000_000_000_000_000

KEYS = sorted(
    {
        *chain.from_iterable(FIELD_KEYS.values()),
        *KIND_KEYS,
        *chain.from_iterable(chain.from_iterable(dialect.fields.values()) for dialect in DIALECTS),
        "type",
        "event.name",
        "event.kind",
        "exception.type",
        "unknown.one",
        "unknown.two",
    }
)
WORDS = sorted(
    {
        *chain.from_iterable(KIND_KEYS.values()),
        *chain.from_iterable(dialect.events for dialect in DIALECTS),
        *("denied", "deny", "allowed", "accept", "reject", "rejected", "config", "llm", "tool", "error", "ok", "true"),
        *("llm_call", "tool_call", "gpt-4o-mini", "response.completed", "a rule/1", "12", "0" * 32, ""),
        *("content_filter", "safety", "DENY", "NONE", "block", "ask", "tools/call", "claude_code.tool.blocked_on_user"),
        *('{"error": "This tool call is rejected."}', '["content_filter"]', '"CHAT_MODEL"', '{"total_cost": 0.5}'),
        *('{"input": 3, "output": 4, "total": 7}', '{"total": 0.5}', "a sentence of many words that is no name at all"),
    }
)
VALUES = st.one_of(
    st.sampled_from(WORDS), st.integers(-1, 10**6), st.floats(0, 100), st.booleans(), st.just(["stop"]), st.none()
)
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=14)


def a_span(attributes: dict[str, Any], code: int = 0) -> SpanItem:
    return SpanItem("a" * 32, "b" * 16, None, "chat m", START, START + 5, attributes, code, None, {}, Shared())


def a_log(attributes: dict[str, Any], name: str = "", body: Any = None) -> LogItem:
    return LogItem(None, None, START, 0, 0, name, body, attributes, {}, Shared(), None, b"o" * 16)


def check(found: Explanation, attributes: dict[str, Any], record: Any, without: Any) -> None:
    """What must hold of any explanation.

    Args:
        found: the explanation.
        attributes: what was explained.
        record: what the collector makes of it.
        without: what the collector makes of other attributes.
    """
    assert found.record == record
    held = {name: value for name, value in columns(record).items() if value is not None}
    said = {name: value for reading in found.readings for name, value in reading.columns.items() if value is not None}
    assert said | found.given == held
    assert not said.keys() & found.given.keys()
    read = {reading.attribute for reading in found.readings}
    assert read | found.idle.keys() | set(found.unread) == attributes.keys()
    assert not set(found.unread) & (read | found.idle.keys())
    assert not found.idle.keys() & read
    assert columns(without({key: value for key, value in attributes.items() if key in read})) == columns(record)
    assert set(found.unread) <= (record.content or {}).get("attributes", {}).keys() | set()


@given(ATTRIBUTES, st.integers(0, 2))
def test_what_is_said_of_a_span_is_what_its_record_holds(attributes: dict[str, Any], code: int) -> None:
    found = explain_span(a_span(attributes, code), CONTEXT)
    check(
        found,
        attributes,
        span_record(a_span(dict(attributes), code), CONTEXT),
        lambda others: span_record(a_span(others, code), CONTEXT),
    )


@given(ATTRIBUTES, st.sampled_from(["", *chain.from_iterable(dialect.events for dialect in DIALECTS)]))
def test_what_is_said_of_a_log_record_is_what_its_record_holds(attributes: dict[str, Any], name: str) -> None:
    item = a_log(attributes, name)
    digest = item.digest()
    check(
        explain_log(item, CONTEXT),
        attributes,
        log_record(a_log(dict(attributes), name), CONTEXT, digest=digest, place=0),
        lambda others: log_record(a_log(others, name), CONTEXT, digest=digest, place=0),
    )


def test_of_two_that_say_the_same_the_one_that_was_read_is_named() -> None:
    found = explain_span(
        a_span(
            {
                "langfuse.observation.type": "generation",
                "gen_ai.operation.name": "chat",
                "langfuse.observation.usage_details": '{"input": 7, "output": 2}',
                "gen_ai.usage.input_tokens": 7,
                "gen_ai.response.model": "m",
                "gen_ai.request.model": "m",
            }
        ),
        CONTEXT,
    )
    by_column = {name: reading.attribute for reading in found.readings for name in reading.columns}
    assert by_column == {
        "kind": "langfuse.observation.type",
        "type": "langfuse.observation.type",
        "input_tokens": "langfuse.observation.usage_details",
        "output_tokens": "langfuse.observation.usage_details",
        "model": "gen_ai.response.model",
    }
    assert found.idle["gen_ai.request.model"] == "gen_ai.response.model is trusted more"
    assert found.idle["gen_ai.operation.name"] == "langfuse.observation.type says the kind first"


@pytest.mark.parametrize(
    ("attributes", "kind", "decision"),
    [
        (
            {"gen_ai.operation.name": "execute_tool", "policy.decision": "deny", "policy.rule": "r/1"},
            "gen_ai.operation.name = execute_tool: tool; a denied call is a gate, it never ran",
            "denied, said by policy.decision and policy.rule: counted as a denial",
        ),
        (
            {"gen_ai.operation.name": "execute_tool", "policy.decision": "deny"},
            "gen_ai.operation.name = execute_tool: tool",
            f"none: policy.decision = deny {NO_DECISION}",
        ),
        (
            {"openinference.span.kind": "GUARDRAIL"},
            "openinference.span.kind = GUARDRAIL: guardrail",
            "none stated; a span is no denial for being of kind guardrail",
        ),
        (
            {"gen_ai.guardrail.action": "flagged"},
            "no attribute names a kind in a listed word: other",
            f"none: gen_ai.guardrail.action = flagged {NO_DECISION}",
        ),
        (
            {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": "content_filter"},
            "gen_ai.operation.name = chat: llm",
            "tripped, said by gen_ai.response.finish_reasons and gen_ai.operation.name: counted as a denial",
        ),
        ({"tracehold.kind": "llm"}, "tracehold.kind = llm", "none stated"),
        ({"x": 1}, "no attribute names a kind in a listed word: other", "none stated"),
    ],
)
def test_why_a_decision_was_recognised_or_not_is_said(attributes: dict[str, Any], kind: str, decision: str) -> None:
    found = explain_span(a_span(attributes), CONTEXT)
    assert (found.kind, found.decision) == (kind, decision)


def test_a_log_event_names_its_program_and_who_refused() -> None:
    attributes = {"tool_name": "Bash", "decision": "reject", "source": "user_reject", "odd": 1}
    found = explain_log(a_log(attributes, "claude_code.tool_decision"), CONTEXT)
    assert {reading.attribute: reading.dialect for reading in found.readings} == {
        "tool_name": "claude_code",
        "decision": "claude_code",
        "source": "claude_code",
    }
    assert found.decision == "rejected, said by decision: counted as a denial"
    assert found.unread == ["odd"]


def test_what_is_explained_is_not_changed() -> None:
    span = a_span({"gen_ai.operation.name": "chat"}, code=2)
    before = replace(span, attributes=dict(span.attributes), extra=dict(span.extra))
    explain_span(span, CONTEXT)
    assert span == before


def test_every_attribute_of_the_tables_has_somebody_whose_it_is() -> None:
    assert [key for key in [*chain.from_iterable(FIELD_KEYS.values()), *KIND_KEYS] if not dialect_of(key)] == []
