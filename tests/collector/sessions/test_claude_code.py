"""Claude Code's transcripts: what counts once, who decided, who spoke, and what a longer file adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.decoding import decode_file
from support.sessions import claude, lines, records, reply, tool_result, tool_use
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.sessions import reading

USAGE = {
    "input_tokens": 10,
    "output_tokens": 40,
    "cache_read_input_tokens": 500,
    "cache_creation_input_tokens": 90,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def read(path: Path, text: str, context: NormaliseContext) -> list[Record]:
    path.write_text(text)
    return list(records(path, context).values())


def only(found: list[Record], kind: str) -> Record:
    (record,) = [record for record in found if record.kind == kind]
    return record


def test_a_reply_of_several_lines_is_one_call_with_its_last_usage_and_all_it_said(
    path: Path, context: NormaliseContext
) -> None:
    early = {**USAGE, "output_tokens": 1}
    found = read(
        path,
        lines(
            [
                claude("user", "u1", "list the files"),
                reply("a1", "msg-1", [{"type": "thinking", "thinking": "hm"}], stop=None, usage=early, second=2),
                reply("a2", "msg-1", [{"type": "text", "text": "so"}], stop=None, usage=early, second=3),
                reply("a3", "msg-1", [tool_use("t1", command="ls")], stop="tool_use", usage=USAGE, second=5),
                claude("user", "u2", [tool_result("t1", "a.txt")], second=6),
            ]
        ),
        context,
    )  # fmt: skip
    call = only(found, "llm")
    assert (call.input_tokens, call.cached_tokens, call.cache_write_tokens, call.output_tokens) == (600, 500, 90, 40)
    assert (call.model, call.provider, call.cost_usd) == ("claude-x", "anthropic", None)
    assert call.attributes == {"finish_reason": "tool_use"}
    assert call.content is not None
    assert [block["type"] for block in call.content["output"]] == ["thinking", "text", "tool_use"]
    tool = only(found, "tool")
    assert (tool.name, tool.status, tool.duration_ns) == ("Bash", "ok", 1_000_000_000)
    assert tool.content is not None
    assert (tool.content["params"], tool.content["result"]) == ({"command": "ls"}, "a.txt")


def test_a_reply_begins_when_what_it_answers_was_written(path: Path, context: NormaliseContext) -> None:
    text = lines([claude("user", "u1", "hi"), reply("a1", "msg-1", "hello", second=7, parentUuid="u1")])
    assert only(read(path, text, context), "llm").duration_ns == 7_000_000_000


@pytest.mark.parametrize(
    ("marks", "decision", "by", "status"),
    [
        ({"toolDenialKind": "user-rejected"}, "rejected", "user", "blocked"),
        ({"toolUseResult": "User rejected tool use"}, "rejected", "user", "blocked"),
        ({"toolDenialKind": "permission-rule", "toolUseResult": "Error: no"}, "denied", "permission-rule", "blocked"),
        ({"toolDenialKind": "automode-blocked"}, "denied", "automode", "blocked"),
        ({"toolDenialKind": "interrupted"}, None, None, "cancelled"),
        ({"toolDenialKind": "a word of tomorrow"}, None, None, "error"),
        ({"toolUseResult": "Error: Permission to use Bash has been denied."}, None, None, "error"),
        ({}, None, None, "error"),
    ],
)
def test_a_call_is_a_denial_only_where_the_transcript_says_so(
    path: Path,
    context: NormaliseContext,
    marks: dict[str, Any],
    decision: str | None,
    by: str | None,
    status: str,
) -> None:
    answer = claude("user", "u2", [tool_result("t1", "no", is_error=True)], second=4, **marks)
    found = read(path, lines([reply("a1", "msg-1", [tool_use("t1", command="rm -rf /")]), answer]), context)
    record = only(found, "gate" if decision else "tool")
    assert (record.decision, record.decided_by, record.status, record.name) == (decision, by, status, "Bash")


def test_sub_agents_are_told_apart_and_hang_under_the_call_that_began_them(
    path: Path, context: NormaliseContext
) -> None:
    task = tool_use("t1", "Task", subagent_type="Explore", prompt="find the bug")
    inner: dict[str, Any] = {"isSidechain": True}
    found = read(
        path,
        lines(
            [
                reply("a1", "msg-1", [task], usage=USAGE),
                claude("user", "s1", "find the bug", second=1, parentUuid=None, **inner),
                reply("s2", "msg-2", "found", second=3, parentUuid="s1", usage=USAGE, **inner),
                claude("user", "u2", [tool_result("t1", "found")], second=4),
                claude("user", "x1", "again", parentUuid=None, agentId="a77", **inner),
            ]
        ),
        context,
    )
    agents = {record.content and record.content.get("message", {}).get("content"): record.agent for record in found}
    assert (agents["find the bug"], agents["again"]) == ("Explore", "a77")
    tool = only(found, "tool")
    (sub,) = [record for record in found if record.kind == "llm" and record.agent == "Explore"]
    assert sub.parent_span_id == tool.span_id
    assert len({record.run_id for record in found}) == 1


def test_what_went_wrong_at_the_provider_is_a_failed_call(path: Path, context: NormaliseContext) -> None:
    line = reply("a1", "msg-1", "API Error: 529", isApiErrorMessage=True, error="overloaded_error", usage=USAGE)
    line["message"]["model"] = "<synthetic>"
    call = only(read(path, lines([line]), context), "llm")
    assert (call.status, call.error_type, call.model, call.input_tokens) == ("error", "overloaded_error", None, None)


def test_a_session_is_one_run_with_a_pseudonym_and_never_its_own_id(path: Path, context: NormaliseContext) -> None:
    found = read(path, lines([claude("user", "u1", "hi"), reply("a1", "msg-1", "ho")]), context)
    assert {record.session_id for record in found} == {context.session("s-1")}
    assert {record.service for record in found} == {"claude-code"}
    assert not any("s-1" in record.run_id for record in found)


def test_reading_again_and_reading_a_longer_file_add_only_what_is_new(path: Path, context: NormaliseContext) -> None:
    whole = [
        claude("user", "u1", "go"),
        reply("a1", "msg-1", [tool_use("t1")], stop="tool_use", usage=USAGE, second=1),
        claude("user", "u2", [tool_result("t1")], second=2),
        reply("a2", "msg-2", [{"type": "text", "text": "half"}], stop=None, usage=USAGE, second=3),
        reply("a3", "msg-2", [{"type": "text", "text": " whole"}], usage=USAGE, second=4),
    ]
    stored: dict[bytes, Record] = {}
    for length in range(1, len(whole) + 1):
        path.write_text(lines(whole[:length]))
        stored = {**records(path, context), **stored}
    path.write_text(lines(whole))
    at_once = records(path, context)
    ended = {key: record for key, record in stored.items() if record.status != "started"}
    assert ended == at_once
    assert sum(record.kind == "llm" for record in ended.values()) == 2


def test_a_call_that_nothing_follows_is_open_and_one_that_was_passed_over_is_not(
    path: Path, context: NormaliseContext
) -> None:
    asked = reply("a1", "msg-1", [tool_use("t1")], usage=USAGE)
    assert only(read(path, lines([asked]), context), "tool").status == "started"
    after = claude("user", "u2", "never mind", second=9)
    assert only(read(path, lines([asked, after]), context), "tool").status == "unset"


def test_a_session_that_goes_on_in_a_copy_is_not_billed_twice(path: Path, context: NormaliseContext) -> None:
    message_id = "msg_01XFDUDYJgAACzvnptvVoYEL"
    line = reply("a1", message_id, "hello", usage=USAGE)
    first = read(path, lines([line]), context)
    second = read(path, lines([{**line, "sessionId": "s-2"}]), context)
    assert only(first, "llm").event_id == only(second, "llm").event_id
    # Short ids, of tests and of other writers, need not be unique.
    line["message"]["id"] = "msg-1"
    third = read(path, lines([line]), context)
    fourth = read(path, lines([{**line, "sessionId": "s-2"}]), context)
    assert only(third, "llm").event_id != only(fourth, "llm").event_id


def test_a_line_that_repeats_an_id_with_other_words_is_kept(path: Path, context: NormaliseContext) -> None:
    found = read(path, lines([claude("user", "u1", "one"), claude("user", "u1", "two")]), context)
    assert [record.content and record.content.get("message", {}).get("content") for record in found[1:]] == [
        "one",
        "two",
    ]


def test_odd_lines_are_named_and_their_neighbours_kept(
    path: Path, context: NormaliseContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 2_000)
    good = json.dumps(claude("user", "u1", "hi"))
    deep = '{"type":"x","deep":' + "[" * 300 + "]" * 300 + "}"
    surrogate = json.dumps(claude("user", "u2", "half an emoji")).replace("emoji", "\\ud83d")
    number = json.dumps(claude("user", "u3", "x")).replace('"isSidechain": false', '"n": NaN')
    text = "\n".join(
        [good, '"a word"', "42", "{}", "{broken", '{"type":"x","pad":"' + "p" * 3_000 + '"}', deep, surrogate, number]
    )
    path.write_bytes(text.encode() + b'\n{"type":"user","uu')
    batch = decode_file(path, context)
    assert [(item.where, item.reason.split(";")[0][:44]) for item in batch.rejected] == [
        ("line 2", "a line of a transcript must be an object"),
        ("line 3", "a line of a transcript must be an object"),
        ("line 4", 'the object has neither a "type" nor a messag'),
        ("line 5", "the body is not JSON: Expecting property nam"),
        ("line 6", "the line has 3022 bytes, 2000 are read"),
        ("line 7", "the JSON is nested deeper than max_depth all"),
        ("line 10", "the last line is cut short, or still being w"),
    ]
    assert [record.type for record in batch.records] == ["claude_code.session", *["claude_code.user"] * 3]
    marked = batch.records[2].content
    assert marked is not None
    assert marked["invalid_unicode"] is True


def test_bytes_that_are_no_utf8_are_replaced_and_said(path: Path, context: NormaliseContext) -> None:
    path.write_bytes(json.dumps(claude("user", "u1", "caf?")).encode().replace(b"caf?", b"caf\xe9") + b"\n")
    record = decode_file(path, context).records[-1]
    assert record.content is not None
    assert record.content["message"]["content"] == "caf\ufffd"


def test_secrets_and_personal_data_in_a_transcript_are_masked(path: Path, context: NormaliseContext) -> None:
    text = lines([claude("user", "u1", "mail dana@example.com, key sk-ant-api03-" + "a1B2" * 24)])
    found = read(path, text, context)
    assert "dana@example.com" not in str(found)
    assert "a1B2a1B2" not in str(found)


class TestRecorded:
    """What SOURCE.md says of the recorded transcripts beyond their counts."""

    def test_lines_that_are_no_events_are_reported_one_by_one(self, traces: Path, context: NormaliseContext) -> None:
        batch = decode_file(traces / "claude-code-transcripts/edge_cases.jsonl", context)
        assert [item.where for item in batch.rejected] == [f"line {n}" for n in (11, 13, 14, 15, 16)]

    def test_costs_over_two_days_and_cache_classes_are_kept(self, traces: Path, context: NormaliseContext) -> None:
        found = records(traces / "claude-code-transcripts/ccusage-session-alpha.jsonl", context).values()
        calls = [record for record in found if record.kind == "llm"]
        assert [record.cost_usd for record in calls] == [0.12, 0.34, 0.56]
        assert [sum(getattr(record, name) for record in calls) for name in ("cached_tokens", "cache_write_tokens")] == [
            70,
            75,
        ]
        assert len({(record.started_at or 0) // 86_400_000_000_000 for record in calls}) == 2
