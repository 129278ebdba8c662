"""Codex's rollouts, by the form that its source documents: tokens once, calls with their outputs, what was declined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.decoding import decode_file
from support.recorded import shipped
from support.sessions import lines, records
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.context import NormaliseContext

SESSION = "019cb655-7826-7080-b375-f4bd0ec83d54"


def line(kind: str, second: int = 0, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-03-04T00:53:{second:02d}.500Z", "type": kind, "payload": payload}


def item(second: int, **payload: Any) -> dict[str, Any]:
    return line("response_item", second, **payload)


def tokens(second: int, total: int, **last: Any) -> dict[str, Any]:
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last}
    return line("event_msg", second, type="token_count", info=info, rate_limits=None)


META = line("session_meta", id=SESSION, model_provider="openai", cli_version="0.46.0")
TURN = line("turn_context", model="gpt-5-codex", approval_policy="on-request")
ASKED = item(1, type="message", role="user", content=[{"type": "input_text", "text": "go"}])
CALL = item(3, type="function_call", name="shell", call_id="c1", arguments='{"command":["ls"]}')
LAST = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9, "reasoning_output_tokens": 4}
COUNT = tokens(4, 109, **LAST, total_tokens=109)
OUTPUT = item(6, type="function_call_output", call_id="c1", output="a.txt")


def read(tmp_path: Path, values: list[Any], context: NormaliseContext) -> list[Record]:
    path = tmp_path / "rollout.jsonl"
    path.write_text(lines(values))
    return list(records(path, context).values())


def by_kind(found: list[Record], kind: str) -> list[Record]:
    return [record for record in found if record.kind == kind]


def test_a_reply_has_the_tokens_of_its_own_line_once(tmp_path: Path, context: NormaliseContext) -> None:
    found = read(tmp_path, [META, TURN, ASKED, CALL, COUNT, OUTPUT, COUNT], context)
    (call,) = by_kind(found, "llm")
    assert (call.input_tokens, call.cached_tokens, call.output_tokens, call.reasoning_tokens) == (100, 60, 9, 4)
    assert (call.model, call.provider, call.duration_ns) == ("gpt-5-codex", "openai", 3_000_000_000)
    (tool,) = by_kind(found, "tool")
    assert (tool.name, tool.duration_ns, tool.content and tool.content["params"]) == (
        "shell",
        3_000_000_000,
        {"command": ["ls"]},
    )
    assert {record.session_id for record in found} == {context.session(SESSION)}
    assert not any(SESSION in record.run_id for record in found)


@pytest.mark.parametrize(
    ("end", "output", "status", "decision"),
    [
        ({"type": "exec_command_end", "status": "declined", "exit_code": -1}, "no", "blocked", "denied"),
        ({"type": "exec_command_end", "status": "failed", "exit_code": 1}, "x", "error", None),
        ({"type": "patch_apply_end", "status": "completed"}, "x", "ok", None),
        (None, json.dumps({"output": "x", "metadata": {"exit_code": 2}}), "error", None),
        (None, {"content": "x", "success": True}, "ok", None),
        (None, "exec command rejected by user", "unset", None),
    ],
)
def test_how_a_call_ended_is_read_from_fields_and_never_from_a_text(
    tmp_path: Path,
    context: NormaliseContext,
    end: dict[str, Any] | None,
    output: Any,
    status: str,
    decision: str | None,
) -> None:
    told = [line("event_msg", 5, call_id="c1", **end)] if end else []
    answer = item(6, type="function_call_output", call_id="c1", output=output)
    found = read(tmp_path, [META, CALL, *told, answer], context)
    (record,) = by_kind(found, "gate" if decision else "tool")
    assert (record.status, record.decision, record.decided_by) == (status, decision, None)


def test_a_rollout_that_grows_adds_only_what_is_new(tmp_path: Path, context: NormaliseContext) -> None:
    whole = [META, TURN, ASKED, CALL, COUNT, OUTPUT]
    stored: dict[bytes, Record] = {}
    for length in range(1, len(whole) + 1):
        for record in read(tmp_path, whole[:length], context):
            stored.setdefault(record.event_id, record)
    ended = {key: record for key, record in stored.items() if record.status != "started"}
    assert ended == {record.event_id: record for record in read(tmp_path, whole, context)}
    assert len(stored) - len(ended) == 2


def test_what_a_sub_agents_rollout_copied_from_its_parent_is_not_counted_again(
    tmp_path: Path, context: NormaliseContext
) -> None:
    meta = line("session_meta", id="child", subagent_history_start_ordinal=3)
    numbered = [{**value, "ordinal": n} for n, value in enumerate([meta, TURN, COUNT, tokens(9, 7, input_tokens=5)])]
    calls = by_kind(read(tmp_path, numbered, context), "llm")
    assert [record.input_tokens for record in calls] == [5]


def test_odd_lines_and_a_missing_beginning_are_reported(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_text(lines([TURN, {"a": 1}, META, ASKED]))
    batch = decode_file(path, context)
    assert [(rejected.where, rejected.reason[:20]) for rejected in batch.rejected] == [
        ("line 1", "a rollout begins wit"),
        ("line 2", "a line of a rollout "),
    ]
    assert len(batch.records) == 2


def test_what_no_rule_reads_is_kept(tmp_path: Path, context: NormaliseContext) -> None:
    odd = line("event_msg", type="word_of_tomorrow", said="hello")
    aborted = line("event_msg", type="turn_aborted", reason="interrupted")
    found = read(tmp_path, [META, odd, aborted, line("compacted", message="short")], context)
    assert [(record.kind, record.type, record.status) for record in found[1:]] == [
        ("other", "codex.word_of_tomorrow", "unset"),
        ("session", "codex.turn_aborted", "cancelled"),
        ("context", "codex.compacted", "unset"),
    ]
    assert found[1].content is not None
    assert found[1].content["said"] == odd["payload"]


def test_items_that_codex_wrote_are_read(tmp_path: Path, context: NormaliseContext) -> None:
    recorded = json.loads(shipped("strands-evals/codex_session_rollout.json").read_text())["items"]
    found = read(tmp_path, [META, TURN, *(item(n, **payload) for n, payload in enumerate(recorded))], context)
    calls = by_kind(found, "tool")
    assert [(call.name, call.status) for call in calls] == [("exec_command", "unset"), ("exec_command", "started")]
    assert calls[0].content is not None
    assert calls[0].content["params"]["yield_time_ms"] == 10_000
