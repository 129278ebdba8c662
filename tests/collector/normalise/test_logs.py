"""Log records: what kind of event they are, whose run, and what is a denial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.otlp_logs import CLAUDE_SCOPE, PROMPT, SESSION, START, claude, codex, log, request
from tracehold_collector.core.record import Record
from tracehold_collector.decode.otlp import decode_otlp_logs
from tracehold_collector.normalise.context import NormaliseContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
DATA = Path(__file__).parents[2] / "data"


def records(context: NormaliseContext, *items: dict[str, Any], **resource: Any) -> list[Record]:
    batch = decode_otlp_logs(request(*items, **resource), encoding="json", context=context)
    assert batch.rejected == []
    return batch.records


def one(context: NormaliseContext, item: dict[str, Any], **resource: Any) -> Record:
    (record,) = records(context, item, **resource)
    return record


def test_the_specifications_own_example_is_kept_whole(context: NormaliseContext) -> None:
    body = (DATA / "opentelemetry-proto" / "logs.otlp.json").read_bytes()
    (record,) = decode_otlp_logs(body, encoding="json", context=context).records
    assert (record.kind, record.type, record.status, record.service) == ("other", "log", "unset", "my.service")
    assert record.trace_id == record.run_id == "5b8efff798038103d269b633813fc60c"
    assert (record.span_id, record.parent_span_id) == (None, "eee19b7ec3c1b174")
    assert record.started_at == 1_544_712_660_300_000_000
    content = record.content or {}
    assert content["body"] == "Example log record"
    assert (content["severity_number"], content["severity_text"]) == (10, "Information")
    assert content["attributes"]["map.attribute"] == {"some.map.key": "some value"}
    assert content["scope"]["attributes"] == {"my.scope.attribute": "some scope attribute"}


# Claude Code


def test_a_model_request_of_claude_code_carries_model_tokens_cost_and_the_time_it_began(
    context: NormaliseContext,
) -> None:
    record = one(
        context,
        claude(
            "api_request",
            model="claude-sonnet-4-6",
            cost_usd=0.05,
            input_tokens=1024,
            output_tokens=256,
            cache_read_tokens=512,
            cache_creation_tokens=100,
            duration_ms=1500,
            event__sequence=7,
        ),
        service__name="claude-code",
    )
    assert (record.kind, record.type, record.model) == ("llm", "claude_code.api_request", "claude-sonnet-4-6")
    assert (record.input_tokens, record.cached_tokens, record.cache_write_tokens) == (1636, 512, 100)
    assert (record.output_tokens, record.cost_usd, record.price_source) == (256, 0.05, "recorded")
    assert (record.started_at, record.duration_ns) == (START - 1_500_000_000, 1_500_000_000)
    assert (record.content or {})["time_unix_nano"] == START
    assert (record.seq, record.service) == (7, "claude-code")


def test_a_tool_that_a_person_rejected_is_a_denial_that_names_who(context: NormaliseContext) -> None:
    record = one(
        context,
        claude("tool_decision", tool_name="Bash", tool_use_id="toolu_1", decision="reject", source="user_reject"),
    )
    assert (record.kind, record.name, record.status) == ("gate", "Bash", "blocked")
    assert (record.decision, record.decided_by) == ("rejected", "user_reject")
    assert record.attributes == {"call_id": "toolu_1"}


@pytest.mark.parametrize("source", ["config", "hook"])
def test_a_tool_that_settings_or_a_hook_refused_is_denied_by_them(context: NormaliseContext, source: str) -> None:
    record = one(context, claude("tool_decision", tool_name="Bash", decision="reject", source=source))
    assert (record.status, record.decision, record.decided_by) == ("blocked", "denied", source)


def test_a_tool_that_was_accepted_is_allowed_and_no_denial(context: NormaliseContext) -> None:
    record = one(context, claude("tool_decision", tool_name="Bash", decision="accept", source="config"))
    assert (record.kind, record.status, record.decision, record.decided_by) == ("gate", "ok", "allowed", "config")


@pytest.mark.parametrize("word", ["deny", "no", "REJECTED BY POLICY", "", 0])
def test_a_word_nobody_listed_is_no_decision(context: NormaliseContext, word: Any) -> None:
    record = one(context, claude("tool_decision", tool_name="Bash", decision=word, source="user"))
    assert (record.kind, record.status, record.decision) == ("gate", "unset", None)


def test_a_result_that_repeats_a_refusal_is_neither_a_second_denial_nor_a_call(context: NormaliseContext) -> None:
    record = one(context, claude("tool_result", tool_name="Bash", success="false", decision_type="reject"))
    assert (record.kind, record.status, record.decision) == ("gate", "unset", None)


@pytest.mark.parametrize(("success", "status"), [("true", "ok"), (True, "ok"), ("false", "error"), ("maybe", "unset")])
def test_a_tool_result_says_how_it_ended(context: NormaliseContext, success: Any, status: str) -> None:
    record = one(context, claude("tool_result", tool_name="Read", success=success, duration_ms=150))
    assert (record.kind, record.name, record.status, record.duration_ns) == ("tool", "Read", status, 150_000_000)


def test_an_api_error_is_a_failed_model_call(context: NormaliseContext) -> None:
    record = one(context, claude("api_error", model="m", error="overloaded, try later", status_code="529"))
    assert (record.kind, record.status, record.cost_usd) == ("llm", "error", None)
    assert (record.content or {})["attributes"]["error"] == "overloaded, try later"


def test_an_event_of_claude_code_that_nobody_listed_is_kept_as_other(context: NormaliseContext) -> None:
    record = one(context, claude("plugin_loaded", plugin__name="p"))
    assert (record.kind, record.type, record.run_id) == ("other", "claude_code.plugin_loaded", PROMPT)


def test_the_scope_stands_in_for_the_prefix_and_the_body_for_the_name(context: NormaliseContext) -> None:
    short = log({"event.name": "tool_result", "tool_name": "Read", "success": "true"})
    assert one(context, short, scope=CLAUDE_SCOPE).type == "claude_code.tool_result"
    assert one(context, log({"tool_name": "Read"}, "claude_code.tool_result")).kind == "tool"
    assert one(context, log({"event.name": "brand_new"}), scope=CLAUDE_SCOPE).type == "claude_code.brand_new"
    assert one(context, short).kind == "other"


# Codex


def test_the_end_of_a_reply_of_codex_is_the_model_call_and_its_other_events_are_not(context: NormaliseContext) -> None:
    ended, created, asked = records(
        context,
        codex(
            "sse_event",
            event__kind="response.completed",
            input_token_count="900",
            output_token_count="40",
            cached_token_count=512,
            reasoning_token_count=10,
        ),
        codex("sse_event", event__kind="response.created", duration_ms="3"),
        codex("api_request", duration_ms="800"),
    )
    assert (ended.kind, ended.type, ended.model) == ("llm", "codex.sse_event", "gpt-5")
    assert (ended.input_tokens, ended.cached_tokens, ended.output_tokens) == (900, 512, 40)
    assert (created.kind, asked.kind, asked.type) == ("other", "other", "codex.api_request")
    assert ended.run_id == created.run_id == context.session("conv-1")


@pytest.mark.parametrize(
    ("word", "source", "decision"),
    [
        ("denied", "User", "rejected"),
        ("abort", "User", "rejected"),
        ("denied", "Config", "denied"),
        ("denied", "AutomatedReviewer", "denied"),
        ("timed_out", "AutomatedReviewer", "expired"),
        ("approved", "User", "allowed"),
        ("approved_for_session", "User", "allowed"),
        ("approvedforsession", "User", "allowed"),
        ("networkpolicyamendment", "User", None),
    ],
)
def test_decisions_of_codex_are_read_by_who_made_them(
    context: NormaliseContext, word: str, source: str, decision: str | None
) -> None:
    record = one(context, codex("tool_decision", tool_name="shell", call_id="c1", decision=word, source=source))
    assert (record.decision, record.decided_by, record.name) == (decision, source, "shell")
    assert (record.status == "blocked") == (decision not in {"allowed", None})


def test_an_error_message_of_codex_is_an_error(context: NormaliseContext) -> None:
    assert one(context, codex("sse_event", error__message="idle timeout")).status == "error"


# OpenTelemetry's GenAI events


def test_details_of_an_inference_do_not_repeat_the_spend_of_its_span(context: NormaliseContext) -> None:
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.input.messages": '[{"role":"user","parts":[]}]',
    }
    name = "gen_ai.client.inference.operation.details"
    within = one(context, log(said, eventName=name, traceId=TRACE, spanId=SPAN))
    alone = one(context, log(said, eventName=name))
    assert (within.kind, within.input_tokens, within.model) == ("context", None, "m1")
    assert (within.content or {})["attributes"]["gen_ai.usage.input_tokens"] == 10
    assert (alone.kind, alone.input_tokens, alone.output_tokens) == ("llm", 10, 5)


def test_an_evaluation_is_a_score_with_its_value(context: NormaliseContext) -> None:
    said = {
        "gen_ai.evaluation.name": "Relevance",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "it answers what was asked, and does so fully",
    }
    record = one(context, log(said, eventName="gen_ai.evaluation.result", traceId=TRACE, spanId=SPAN))
    assert (record.kind, record.name, record.parent_span_id) == ("score", "Relevance", SPAN)
    assert record.attributes == {"score": 0.75, "score_label": "pass"}


@pytest.mark.parametrize(
    "name", ["gen_ai.system.message", "gen_ai.user.message", "gen_ai.tool.message", "gen_ai.choice"]
)
def test_messages_are_context_and_never_calls(context: NormaliseContext, name: str) -> None:
    record = one(context, log({"event.name": name, "gen_ai.system": "openai"}, traceId=TRACE, spanId=SPAN))
    assert (record.kind, record.type, record.provider) == ("context", name, "openai")


# Any log record


def test_our_own_attributes_on_a_log_record_are_believed(context: NormaliseContext) -> None:
    said = {
        "tracehold.run_id": "r-1",
        "tracehold.kind": "tool",
        "tracehold.tool": "send",
        "tracehold.decision": "denied",
        "tracehold.rule": "no-mail",
        "tracehold.event_id": "0af7651916cd43dd8448eb211c80319c",
    }
    record = one(context, log(said, traceId=TRACE))
    assert (record.run_id, record.kind, record.name, record.status) == ("r-1", "gate", "send", "blocked")
    assert (record.decision, record.rule, record.event_id.hex()) == ("denied", "no-mail", TRACE)


@pytest.mark.parametrize(
    ("severity", "status"), [(0, "unset"), (9, "unset"), (16, "unset"), (17, "error"), (21, "error")]
)
def test_only_a_severity_of_error_and_more_is_an_error(context: NormaliseContext, severity: int, status: str) -> None:
    assert one(context, log(body="denied: permission rejected", severityNumber=severity)).status == status


def test_a_log_text_that_speaks_of_denial_is_none(context: NormaliseContext) -> None:
    record = one(context, log({"decision": "reject", "source": "user"}, "tool call denied by policy"))
    assert (record.kind, record.decision, record.status) == ("other", None, "unset")


def test_the_kind_of_a_call_beside_a_log_record_makes_it_no_call(context: NormaliseContext) -> None:
    record = one(context, log({"gen_ai.operation.name": "chat"}, "sent", traceId=TRACE, spanId=SPAN))
    assert record.kind == "other"


def test_an_exception_names_its_type(context: NormaliseContext) -> None:
    record = one(context, log({"exception.type": "ValueError"}, severityNumber=17))
    assert record.error_type == "ValueError"


def test_a_record_without_a_time_takes_the_observed_one(context: NormaliseContext) -> None:
    record = one(context, log(timeUnixNano="0", observedTimeUnixNano=str(START + 5)))
    assert record.started_at == START + 5
    assert one(context, log(timeUnixNano=None)).started_at is None


# Whose run (docs/decisions/0017)


def test_a_trace_is_the_run_of_the_log_records_in_it(context: NormaliseContext) -> None:
    assert one(context, claude("user_prompt") | {"traceId": TRACE.upper(), "spanId": SPAN}).run_id == TRACE


def test_without_a_trace_a_prompt_is_the_run(context: NormaliseContext) -> None:
    record = one(context, claude("user_prompt", prompt="hello"))
    assert (record.run_id, record.session_id) == (PROMPT, context.session(SESSION))


def test_without_a_prompt_the_sessions_pseudonym_names_the_run_and_never_its_id(context: NormaliseContext) -> None:
    record = one(context, claude("mcp_server_connection", prompt__id=None))
    assert record.run_id == record.session_id == context.session(SESSION)


def test_what_names_nothing_is_gathered_by_service_and_day(context: NormaliseContext) -> None:
    late = log(timeUnixNano=str(START + 86_400_000_000_000))
    first, second, third = records(context, log(body="a"), log(body="b"), late, service__name="shop")
    assert first.run_id == second.run_id == "logs:shop:2026-05-28"
    assert third.run_id == "logs:shop:2026-05-29"
    assert one(context, log()).run_id == "logs:unknown_service:2026-05-28"


@pytest.mark.parametrize("bad", ["0" * 32, "xyz", "", None, "AAAAAAAAAAAAAAAAAAAAAA=="])
def test_an_invalid_trace_id_is_no_trace_and_the_record_is_kept(context: NormaliseContext, bad: Any) -> None:
    record = one(context, log(traceId=bad, spanId=SPAN))
    assert (record.trace_id, record.parent_span_id) == (None, None)
    assert (record.content or {})["span_id"] == SPAN


# The id: digest of content and position


def test_a_resend_has_the_same_ids_and_equal_records_of_one_request_have_their_own(context: NormaliseContext) -> None:
    first = records(context, log(body="a"), log(body="a"), log(body="b"))
    again = records(context, log(body="a"), log(body="a"), log(body="b"))
    assert [item.event_id for item in first] == [item.event_id for item in again]
    assert len({item.event_id for item in first}) == 3


def test_a_resend_in_other_batches_is_recognised_too(context: NormaliseContext) -> None:
    together = records(context, log(body="a"), log(body="b"))
    assert [item.event_id for item in records(context, log(body="b"))] == [together[1].event_id]


def test_the_same_words_of_another_service_or_moment_are_another_record(context: NormaliseContext) -> None:
    ids = {
        one(context, log(body="a")).event_id,
        one(context, log(body="a"), service__name="x").event_id,
        one(context, log(body="a"), scope="y").event_id,
        one(context, log(body="a", timeUnixNano=str(START + 1))).event_id,
    }
    assert len(ids) == 4


def test_secrets_and_persons_in_a_log_record_are_masked(context: NormaliseContext) -> None:
    record = one(context, log({"note": "mail jane.doe@example.com"}, "mail jane.doe@example.com"))
    assert "jane.doe" not in str(record.content)
