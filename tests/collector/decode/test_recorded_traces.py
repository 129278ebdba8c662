"""Every recorded trace gives the counts a right reader finds; `expected.json` says why where a note decides."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.decoding import decode_file
from support.recorded import shipped
from tracehold.observability.event_types import DENIALS
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.record import Record
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.normalise.context import NormaliseContext

EXPECTED: dict[str, dict[str, Any]] = json.loads((Path(__file__).resolve().parent.parent / "expected.json").read_text())


def read(path: Path, context: NormaliseContext) -> tuple[list[Record], int]:
    """The records of a file, each id once, the first wins; and how many items were rejected."""
    found: dict[bytes, Record] = {}
    batch = decode_file(path, context)
    for record in batch.records:
        found.setdefault(record.event_id, record)
    return list(found.values()), len(batch.rejected)


def counts(records: list[Record], rejected: int) -> dict[str, Any]:
    ended = [record for record in records if record.status != "started"]
    calls = [record for record in ended if record.kind == "llm"]
    own = spending(ended)
    costs = [record.cost_usd for record in own if record.cost_usd is not None]
    return {
        "stored": len(records),
        "traces": len({record.trace_id for record in records}),
        "llm_calls": len(calls),
        "tool_calls": sum(record.kind == "tool" for record in ended),
        "input_tokens": sum(record.input_tokens or 0 for record in own),
        "output_tokens": sum(record.output_tokens or 0 for record in own),
        "reasoning_tokens": sum(record.reasoning_tokens or 0 for record in own),
        "cost_usd": pytest.approx(sum(costs)) if costs else None,
        "errors": sum(record.status == "error" for record in records),
        "denials": sum(record.decision in DENIALS for record in records),
        "rejected": rejected,
    }


def spending(records: list[Record]) -> list[Record]:
    """Every record that tells usage and has no descendant that does (FR-27); model calls in any case."""
    parent = {record.span_id: record.parent_span_id for record in records}
    told = [(record, (record.input_tokens, record.output_tokens, record.cost_usd or None)) for record in records]
    telling = [record for record, figures in told if any(figure is not None for figure in figures)]
    repeated = set()
    for record in telling:
        above = record.parent_span_id
        while above is not None and above not in repeated:
            repeated.add(above)
            above = parent.get(above)
    return [record for record in telling if record.kind == "llm" or record.span_id not in repeated]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_shipped_trace_gives_the_counts_a_right_reader_finds(name: str, context: NormaliseContext) -> None:
    expected = {key: value for key, value in EXPECTED[name].items() if key not in {"why", "stated"}}
    records, rejected = read(shipped(name), context)
    assert expected == counts(records, rejected)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_shipped_copy_is_the_recorded_file(name: str, traces: Path) -> None:
    assert (traces / name).read_bytes() == shipped(name).read_bytes()


@pytest.mark.parametrize(
    "name",
    ["smolagents_live_spans.otlp", "../ai-gateway-openinference/all.otlp", "../jaeger-fixtures/otel_traces_01.otlp"],
)
def test_protobuf_and_json_of_one_request_give_equal_records(name: str, context: NormaliseContext) -> None:
    folder = shipped("strands-evals")
    as_json = decode_otlp_traces((folder / f"{name}.json").read_bytes(), encoding="json", context=context)
    as_protobuf = decode_otlp_traces((folder / f"{name}.pb").read_bytes(), encoding="protobuf", context=context)
    assert as_json == as_protobuf


def test_a_logs_file_is_refused_by_name(context: NormaliseContext) -> None:
    with pytest.raises(BadBodyError, match="the body is an OTLP logs request"):
        decode_file(shipped("opentelemetry-proto/logs.otlp.json"), context)


@pytest.mark.parametrize(
    "name",
    [
        "interbolt-agentdojo/interbolt_events.jsonl",
        "interbolt-agentdojo/call_records.jsonl",
        "agent-governance-toolkit/trading_audit_trail.json",
        "tau-bench-airline/gpt-4o-airline.trial0.subset.json",
        "openai-agents-run-state/v1_0.json",
        "who-and-when/hand-crafted-24.json",
        "langwatch/codex-B.session_task_turn.json",
    ],
)
def test_another_programs_log_is_refused_and_not_misread(name: str, traces: Path, context: NormaliseContext) -> None:
    with pytest.raises(BadBodyError, match="is in no format known here; read are"):
        decode_file(traces / name, context)


def test_ids_of_any_case_are_stored_in_lower_case(context: NormaliseContext) -> None:
    records, _ = read(shipped("opentelemetry-proto/trace.otlp.json"), context)
    assert records[0].trace_id == "5b8efff798038103d269b633813fc60c"


def test_missing_usage_is_unknown_and_not_zero(context: NormaliseContext) -> None:
    records, _ = read(shipped("ai-gateway-openinference/all.otlp.json"), context)
    calls = [record for record in records if record.kind == "llm"]
    assert sum(record.input_tokens is None and record.output_tokens is None for record in calls) == 4
    beeai, _ = read(shipped("langfuse-framework-traces/beeai-2025-08-01.otlp.json"), context)
    assert {None} == {record.output_tokens for record in beeai if record.kind == "llm"}


def test_a_failed_request_keeps_the_type_of_its_exception(context: NormaliseContext) -> None:
    records, _ = read(shipped("ai-gateway-openinference/all.otlp.json"), context)
    failed = {record.error_type for record in records if record.status == "error"}
    assert failed == {"openai.BadRequestError", "openai.NotFoundError"}


def test_a_tool_that_failed_without_an_error_status_is_one_failed_tool(context: NormaliseContext) -> None:
    path = shipped("logfire-exported-spans/openai_agents.function_tool_exception.otlp.json")
    records, _ = read(path, context)
    failed = [(record.kind, record.name, record.error_type) for record in records if record.status == "error"]
    assert failed == [("tool", "tool", "RuntimeError")]


def test_tenant_claims_in_a_resource_change_nothing(context: NormaliseContext) -> None:
    body = (shipped("langwatch/forge-attempt-attribution.zero-ids.otlp.json")).read_text()
    body = body.replace("0" * 32, "1" * 32).replace('"' + "0" * 16 + '"', '"' + "2" * 16 + '"')
    batch = decode_otlp_traces(body.encode(), encoding="json", context=context)
    assert [record.tenant for record in batch.records] == ["acme"]


class TestEngineLog:
    """What `aaa-events-v0_2` says beyond its counts."""

    def read(self, name: str, context: NormaliseContext) -> list[Record]:
        return read(shipped(f"aaa-events-v0_2/{name}.jsonl"), context)[0]

    def test_an_approval_is_asked_for_granted_and_then_the_tool_runs(self, context: NormaliseContext) -> None:
        records = self.read("approval", context)
        approvals = [(r.decision, r.status, r.name) for r in records if r.kind == "approval"]
        assert approvals == [("suspended", "suspended", "wire"), ("allowed", "ok", "wire")]
        assert [r.status for r in records if r.kind == "tool" and r.status != "started"] == ["ok"]

    def test_both_verdicts_that_block_are_denials_by_their_guard(self, context: NormaliseContext) -> None:
        records = [r for r in self.read("guard", context) if r.decision == "tripped"]
        assert len(records) == 2
        assert {("guardrail", "blocked")} == {(r.kind, r.status) for r in records}
        assert len({r.run_id for r in records}) == 2

    def test_a_runs_last_event_says_how_it_ended(self, context: NormaliseContext) -> None:
        ends = {}
        for name in ("tools", "guard", "cancel", "budget"):
            for r in self.read(name, context):
                if r.type == "aaa.run.completed":
                    ends.setdefault(name, set()).add(r.status)
        assert {"tools": {"ok"}, "guard": {"ok", "blocked"}, "cancel": {"cancelled"}, "budget": {"error"}} == ends

    def test_a_completion_takes_its_start_from_the_half_that_opened_it(self, context: NormaliseContext) -> None:
        records = self.read("tools", context)
        ended = [r for r in records if r.kind in {"llm", "tool", "run"} and r.status != "started"]
        opened = {(r.span_id, r.started_at) for r in records if r.status == "started"}
        assert all(r.duration_ns is not None and r.duration_ns > 0 for r in ended)
        assert all((r.span_id, r.started_at) in opened for r in ended)

    def test_every_span_hangs_under_the_root_of_its_run(self, context: NormaliseContext) -> None:
        for name in ("plan", "session"):
            records = self.read(name, context)
            roots = {r.run_id: r.span_id for r in records if r.type == "aaa.run.started"}
            assert all(r.parent_span_id == roots[r.run_id] for r in records if r.kind != "run")

    def test_zero_usage_is_recorded_and_an_unknown_cost_stays_unknown(self, context: NormaliseContext) -> None:
        calls = [r for r in self.read("tools", context) if r.type == "aaa.llm.completed"]
        assert {(0, 0, None)} == {(r.input_tokens, r.output_tokens, r.cost_usd) for r in calls}

    def test_summaries_and_other_facts_are_no_model_calls(self, context: NormaliseContext) -> None:
        kinds = Counter(r.kind for r in self.read("context", context) if r.status != "started")
        assert dict(kinds) == {"llm": 20, "tool": 19, "context": 16, "run": 1}

    def test_the_user_of_an_event_is_a_pseudonym(self, context: NormaliseContext) -> None:
        users = {r.user_ref for r in self.read("memory", context) if r.kind == "memory"}
        assert {context.pseudonyms.user("ann")} == users
