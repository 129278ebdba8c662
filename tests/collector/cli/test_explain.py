"""`tracehold explain` and `tracehold ingest --from`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.otlp import chat_spans
from support.recorded import shipped
from support.sessions import claude, lines, reply
from tracehold_collector.cli.app import app
from tracehold_collector.core.errors import BadBodyError, CollectorError
from typer.testing import CliRunner

RECORDED = shipped("langfuse-framework-traces/pydantic-ai-tools-2025-12-04.otlp.json")


def explain(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in explain(*arguments, "--json").splitlines()]


def test_each_span_of_a_file_says_what_was_read_and_what_was_not() -> None:
    found = {row["where"]: row for row in rows(RECORDED)}
    call = found["00d2804abb764b1b"]
    assert {name: reading["attribute"] for reading in call["readings"] for name in reading["columns"]} == {
        "provider": "gen_ai.system",
        "model": "gen_ai.response.model",
        "attributes.finish_reason": "gen_ai.response.finish_reasons",
        "input_tokens": "langfuse.observation.usage_details",
        "output_tokens": "langfuse.observation.usage_details",
        "cost_usd": "operation.cost",
        "kind": "langfuse.observation.type",
        "type": "langfuse.observation.type",
    }
    assert "langfuse.observation.input" in call["kept_as_content"]
    assert found["49ae06cbfa06611f"]["idle"]["agent_name"] == "gen_ai.agent.name is trusted more"


def test_one_span_can_be_asked_for_and_its_text_can_be_read() -> None:
    text = explain(RECORDED, "--span", "00d2804abb764b1b")
    assert text.startswith("span 00d2804abb764b1b chat gpt-4o-mini\n")
    assert text.count("\nspan ") == 0
    assert "gen_ai.response.model" in text
    assert "decision: none stated" in text


def test_a_span_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(CollectorError, match=r"holds no ffff$"):
        explain(RECORDED, "--span", "ffff")


def test_protobuf_logs_events_and_sessions_are_explained_too(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(chat_spans(0, 2).SerializeToString())
    assert [row["what"] for row in rows(tmp_path / "a.pb")] == ["span", "span"]
    assert [row["what"] for row in rows(shipped("opentelemetry-proto/logs.otlp.json"))] == ["log record"]
    assert {row["what"] for row in rows(shipped("aaa-events-v0_2/guard.jsonl"))} == {"event"}
    (tmp_path / "s.jsonl").write_text(lines([claude("user", "u1", "hi"), reply("a1", "m", "ho"), 7]))
    found = rows(tmp_path / "s.jsonl")
    assert [row.get("kind") for row in found if "kind" in row] == [
        "type claude_code.session",
        "type claude_code.user",
        "type llm_call",
    ]
    assert [row["refused"] for row in found if "refused" in row] == ["a line of a transcript must be an object"]


def test_pseudonyms_are_not_shown_since_no_store_made_them(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(lines([claude("user", "u1", "hi")]))
    readings = [reading["columns"] for row in rows(tmp_path / "s.jsonl") for reading in row["readings"]]
    assert {"session_id": "a pseudonym"} in readings


def test_a_file_that_is_not_what_it_is_said_to_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBodyError, match="is not a Claude Code transcript; it looks like an OTLP request"):
        explain(RECORDED, "--from", "claude-code")
    (tmp_path / "a.json").write_text('{"a": 1}')
    with pytest.raises(BadBodyError, match="is in no format known here"):
        explain(tmp_path / "a.json")
