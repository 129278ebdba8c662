"""Inspect logs, SWE-agent and OpenHands trajectories, ATIF: what a right reader finds in each."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.decoding import decode_file
from support.sessions import records
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.record import Record
from tracehold_collector.load import read_pieces
from tracehold_collector.normalise.context import NormaliseContext

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]


def read(tmp_path: Path, document: Any, context: NormaliseContext, name: str = "file.json") -> list[Record]:
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return list(records(path, context).values())


def by_kind(found: list[Record], kind: str) -> list[Record]:
    return [record for record in found if record.kind == kind and record.status != "started"]


def said(record: Record) -> dict[str, Any]:
    assert record.content is not None
    return record.content


class TestInspect:
    """Samples, approvals, spans, archives."""

    def log(self, *events: Any, **sample: Any) -> dict[str, Any]:
        about = {"eval_id": "e-1", "task": "guard", "model": "openai/gpt-4o", "created": "2026-05-12T20:28:26-04:00"}
        return {
            "status": "success",
            "eval": about,
            "samples": [{"id": 1, "epoch": 1, "events": list(events), **sample}],
        }

    def at(self, second: int, **event: Any) -> dict[str, Any]:
        return {"timestamp": f"2026-05-12T20:28:{second:02d}-04:00", **event}

    def test_a_refused_approval_is_one_denial_by_its_approver(self, tmp_path: Path, context: NormaliseContext) -> None:
        call = {"id": "c1", "function": "bash", "arguments": {"cmd": "rm"}}
        refused = self.at(1, event="approval", call=call, approver="human", decision="reject", explanation="no")
        tool = self.at(2, event="tool", **call, result="", error={"type": "approval", "message": "no"})
        found = read(tmp_path, self.log(refused, tool), context)
        (gate,) = by_kind(found, "gate")
        assert (gate.decision, gate.decided_by, gate.status, gate.name) == ("rejected", "human", "blocked", "bash")
        (approval,) = by_kind(found, "approval")
        assert (approval.decision, approval.status) == ("rejected", "ok")
        assert sum(record.status == "blocked" for record in found) == 1

    def test_a_call_that_ended_the_sample_is_a_denial_without_a_tool_event(
        self, tmp_path: Path, context: NormaliseContext
    ) -> None:
        call = {"id": "c1", "function": "bash", "arguments": {}}
        event = self.at(1, event="approval", call=call, approver="policy", decision="terminate")
        (gate,) = by_kind(read(tmp_path, self.log(event), context), "gate")
        assert (gate.decision, gate.decided_by) == ("denied", "policy")

    def test_spans_give_the_tree_and_an_agents_span_its_name(self, tmp_path: Path, context: NormaliseContext) -> None:
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 115, "input_tokens_cache_read": 100}
        found = read(
            tmp_path,
            self.log(
                self.at(1, event="span_begin", id="s1", parent_id=None, type="solver", name="plan"),
                self.at(2, event="span_begin", id="s2", parent_id="s1", type="agent", name="researcher", span_id="s1"),
                self.at(3, event="model", span_id="s2", model="openai/gpt-4o", output={"usage": usage, "time": 1.5}),
                self.at(4, event="model", span_id="s2", model="openai/gpt-4o", cache="read", output={"usage": usage}),
                self.at(5, event="span_end", id="s2"),
            ),
            context,
        )
        (call,) = by_kind(found, "llm")
        assert (call.agent, call.provider, call.duration_ns) == ("researcher", "openai", 1_500_000_000)
        assert (call.input_tokens, call.cached_tokens, call.output_tokens) == (110, 100, 5)
        (agent,) = by_kind(found, "agent")
        (solver,) = [record for record in found if record.name == "plan"]
        assert (call.parent_span_id, agent.parent_span_id) == (agent.span_id, solver.span_id)
        assert (agent.duration_ns, solver.duration_ns) == (3_000_000_000, None)
        assert [record.type for record in found if record.kind == "context"] == ["inspect.cached_reply"]

    def test_a_failed_or_limited_sample_is_a_failed_run(self, tmp_path: Path, context: NormaliseContext) -> None:
        limited = read(tmp_path, self.log(limit={"type": "token", "limit": 5}), context)[0]
        failed = read(tmp_path, self.log(error={"message": "boom"}), context)[0]
        assert [(record.status, record.error_type) for record in (limited, failed)] == [
            ("error", "limit"),
            ("error", None),
        ]

    def test_an_archive_says_what_the_document_says(self, tmp_path: Path, context: NormaliseContext) -> None:
        log = self.log(self.at(1, event="model", model="m", output={}), input="hello")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps({key: log[key] for key in ("status", "eval")}))
            archive.writestr("samples/1_epoch_1.json", json.dumps(log["samples"][0]))
        (tmp_path / "log.eval").write_bytes(packed.getvalue())
        assert list(records(tmp_path / "log.eval", context).values()) == read(tmp_path, log, context)

    @pytest.mark.parametrize(("body", "says"), [(b"PK\x03\x04cut", "damaged"), (b"no archive", "damaged")])
    def test_a_damaged_archive_is_named(self, tmp_path: Path, body: bytes, says: str) -> None:
        (tmp_path / "log.eval").write_bytes(body)
        with pytest.raises(BadBodyError, match=rf"log\.eval cannot be read: the archive is {says}"):
            list(read_pieces(tmp_path / "log.eval"))

    def test_an_archive_of_something_else_is_refused(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
            archive.writestr("notes.txt", "hello")
        with pytest.raises(BadBodyError, match=r"no header\.json: it is no log of Inspect"):
            list(read_pieces(tmp_path / "log.eval"))

    def test_approval_and_permission_are_told_from_plain_failures(
        self, traces: Path, context: NormaliseContext
    ) -> None:
        found = list(records(traces / "inspect-ai-logs/log_tool_call_error.json", context).values())
        failures = Counter(record.error_type for record in by_kind(found, "tool"))
        assert failures["permission"] == failures["timeout"] == failures["limit"] == 1
        assert len(by_kind(found, "tool")) == 10
        assert [(gate.decision, gate.status) for gate in by_kind(found, "gate")] == [("denied", "blocked")]

    def test_each_sample_is_a_run_at_its_utc_time_and_attachments_stand_in_their_places(
        self, traces: Path, context: NormaliseContext
    ) -> None:
        path = traces / "inspect-ai-logs/2025-05-12T20-28-26-04-00_security-guide.json"
        found = list(records(path, context).values())
        assert len({record.run_id for record in found}) == 3
        assert {(record.started_at or 0) // 86_400_000_000_000 for record in found} == {20_221}  # 2025-05-13
        assert "attachment://" not in str([record.content for record in by_kind(found, "llm")])


class TestSweAgent:
    """Steps, and statistics of the run only."""

    def test_a_run_of_no_counted_call_costs_an_unknown_amount(self, traces: Path, context: NormaliseContext) -> None:
        found = list(records(traces / "swe-agent-trajectories/katy.traj.json", context).values())
        assert {record.cost_usd for record in found} == {record.input_tokens for record in found} == {None}
        assert len(by_kind(found, "llm")) == len(by_kind(found, "tool")) == 18

    def test_what_is_known_of_the_run_only_is_not_given_to_a_call(
        self, traces: Path, context: NormaliseContext
    ) -> None:
        found = list(records(traces / "swe-agent-trajectories/pydicom__pydicom-1458.traj.json", context).values())
        run = found[0]
        assert (run.kind, run.input_tokens, run.output_tokens, run.cost_usd) == ("run", 122_612, 1_369, 1.26719)
        assert {record.input_tokens for record in by_kind(found, "llm")} == {None}
        assert [record.name for record in by_kind(found, "tool")][:3] == ["create", "edit", "python"]

    def trajectory(self, count: int, **info: Any) -> dict[str, Any]:
        steps = [
            {"action": f"ls {n}", "observation": "x", "response": "r", "thought": "r", "execution_time": 0.25 + n}
            for n in range(count)
        ]
        return {"environment": "e", "trajectory": steps, "history": [], "info": info}

    def test_a_trajectory_that_grows_adds_its_new_steps(self, tmp_path: Path, context: NormaliseContext) -> None:
        short = read(tmp_path, self.trajectory(2), context)
        long = read(tmp_path, self.trajectory(3, exit_status="submitted"), context)
        assert {record.event_id for record in short} < {record.event_id for record in long}
        assert by_kind(long, "tool")[2].duration_ns == 2_250_000_000

    def test_two_old_runs_that_begin_alike_stay_apart(self, tmp_path: Path, context: NormaliseContext) -> None:
        first, second = self.trajectory(2, exit_status="submitted"), self.trajectory(3, exit_status="submitted")
        for step in [*first["trajectory"], *second["trajectory"]]:
            del step["execution_time"]
        ids = [{record.run_id for record in read(tmp_path, run, context)} for run in (first, second)]
        assert not ids[0] & ids[1]

    @pytest.mark.parametrize(
        ("status", "read_as"),
        [("submitted", "ok"), ("submitted (exit_cost)", "ok"), ("exit_context", "error"), (None, "unset")],
    )
    def test_how_a_run_ended_is_its_exit_status(
        self, tmp_path: Path, context: NormaliseContext, status: str | None, read_as: str
    ) -> None:
        assert read(tmp_path, self.trajectory(1, exit_status=status), context, "a.traj")[0].status == read_as


class TestOpenHands:
    """Actions, what they caused, and times without a zone."""

    def event(self, name: int, **fields: Any) -> dict[str, Any]:
        return {"id": name, "timestamp": f"2025-01-27T22:44:{name:02d}.500000", "source": "agent", **fields}

    def reply(self, created: int = 1_738_046_640) -> dict[str, Any]:
        usage = {"prompt_tokens": 50, "completion_tokens": 5}
        reply = {"id": "chat-1", "created": created, "model": "m", "usage": usage, "choices": []}
        return {"function_name": "execute_bash", "tool_call_id": "c1", "model_response": reply}

    @pytest.mark.parametrize(
        ("observation", "status", "decision", "kind"),
        [
            ({"observation": "run", "content": "x"}, "ok", None, "tool"),
            ({"observation": "run", "content": "x", "success": False}, "error", None, "tool"),
            ({"observation": "error", "content": "x", "extras": {"error_id": "TIMEOUT"}}, "error", None, "tool"),
            ({"observation": "user_rejected", "content": "no"}, "blocked", "rejected", "gate"),
        ],
    )
    def test_an_observation_says_how_its_action_ended(
        self,
        tmp_path: Path,
        context: NormaliseContext,
        observation: dict[str, Any],
        status: str,
        decision: str | None,
        kind: str,
    ) -> None:
        action = self.event(1, action="run", args={"command": "ls"}, tool_call_metadata=self.reply())
        found = read(tmp_path, [action, self.event(3, cause=1, **observation)], context)
        (call,) = by_kind(found, kind)
        assert (call.status, call.decision, call.name) == (status, decision, "execute_bash")
        assert call.duration_ns == 2_000_000_000

    def test_a_reply_behind_several_actions_is_one_call(self, tmp_path: Path, context: NormaliseContext) -> None:
        actions = [self.event(n, action="run", args={}, tool_call_metadata=self.reply()) for n in (1, 2)]
        found = read(tmp_path, actions, context)
        assert [record.input_tokens for record in by_kind(found, "llm")] == [50]

    def test_the_zone_of_the_file_follows_from_a_reply_and_is_utc_without_one(
        self, tmp_path: Path, context: NormaliseContext
    ) -> None:
        told = read(tmp_path, [self.event(1, action="run", tool_call_metadata=self.reply(1_738_046_641))], context)
        untold = read(tmp_path, [self.event(1, action="message")], context)
        assert told[0].started_at == 1_738_046_641_500_000_000  # 06:44:01.5 UTC: eight hours behind
        assert untold[0].started_at == 1_738_017_841_500_000_000
        assert said(told[0])["zone"] == "not written; -28800 s ahead of UTC"
        assert said(untold[0])["zone"] == "not written; read as UTC"

    def test_a_trajectory_that_grows_ends_its_open_call_and_then_its_run(
        self, tmp_path: Path, context: NormaliseContext
    ) -> None:
        whole = [
            self.event(1, action="run", args={}, tool_call_metadata=self.reply()),
            self.event(2, cause=1, observation="run", content="x"),
            self.event(4, action="finish", args={}),
        ]
        stored: dict[bytes, Record] = {}
        for length in (1, 2, 3):
            for record in read(tmp_path, whole[:length], context):
                stored.setdefault(record.event_id, record)
        ended = {key: record for key, record in stored.items() if record.status != "started"}
        assert ended == {record.event_id: record for record in read(tmp_path, whole, context)}
        runs = [record.status for record in ended.values() if record.kind == "run"]
        assert (runs, len(stored) - len(ended)) == (["unset", "ok"], 1)

    def test_a_delegate_acts_until_it_answers(self, tmp_path: Path, context: NormaliseContext) -> None:
        found = read(
            tmp_path,
            [
                self.event(1, action="delegate", args={"agent": "BrowsingAgent"}),
                self.event(2, action="think", args={}),
                self.event(3, observation="delegate", content="done"),
                self.event(4, action="think", args={}),
            ],
            context,
        )
        assert [record.agent for record in found if record.type == "openhands.think"] == ["BrowsingAgent", "openhands"]


class TestAtif:
    """Steps, sub-agents, and results without a call's name."""

    def trajectory(self, *steps: dict[str, Any], name: str = "t-1", **fields: Any) -> dict[str, Any]:
        agent = {"name": fields.pop("agent", "solver"), "version": "1", "model_name": "m"}
        numbered = [{"step_id": n, "source": "agent", "message": "x", **step} for n, step in enumerate(steps, 1)]
        return {"schema_version": "ATIF-v1.6", "session_id": name, "agent": agent, "steps": numbered, **fields}

    def test_sub_agents_are_one_run_with_their_parent_and_hang_under_its_call(
        self, traces: Path, context: NormaliseContext
    ) -> None:
        found = list(records(traces / "phoenix-atif/subagent_trajectories.json", context).values())
        assert {record.run_id for record in found} == {"atif:sess-parent-001"}
        tokens = Counter({record.agent: 0 for record in found})
        for record in by_kind(found, "llm"):
            tokens[record.agent] += record.input_tokens or 0
        assert tokens == {"orchestrator": 2000, "summarizer": 600}
        (tool,), (child,) = by_kind(found, "tool"), by_kind(found, "agent")
        assert child.parent_span_id == tool.span_id

    def test_an_answer_that_looks_like_an_error_is_not_taken_for_one(
        self, traces: Path, context: NormaliseContext
    ) -> None:
        found = list(records(traces / "phoenix-atif/parallel_tools_mixed_results.json", context).values())
        assert [(record.name, record.status, "result" in said(record)) for record in by_kind(found, "tool")] == [
            ("get_weather", "unset", True),
            ("get_stock", "unset", True),
            ("get_news", "unset", False),
        ]

    def test_steps_that_asked_no_model_are_no_calls(self, tmp_path: Path, context: NormaliseContext) -> None:
        metrics = {"prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": 2, "cost_usd": 0.5}
        found = read(
            tmp_path,
            self.trajectory(
                {"metrics": metrics}, {"metrics": metrics, "is_copied_context": True}, {"llm_call_count": 0}
            ),
            context,
        )
        assert [(r.input_tokens, r.cached_tokens, r.cost_usd, r.model) for r in by_kind(found, "llm")] == [
            (5, 2, 0.5, "m")
        ]

    def test_totals_count_only_where_no_step_has_figures(self, tmp_path: Path, context: NormaliseContext) -> None:
        totals = {"total_prompt_tokens": 9, "total_completion_tokens": 3, "total_cost_usd": 0.25}
        alone = read(tmp_path, self.trajectory({}, final_metrics=totals), context)[0]
        beside = read(tmp_path, self.trajectory({"metrics": {"prompt_tokens": 9}}, final_metrics=totals), context)[0]
        assert (alone.input_tokens, alone.cost_usd) == (9, 0.25)
        assert (beside.input_tokens, beside.cost_usd) == (None, None)
        less = read(tmp_path, self.trajectory({"metrics": {"prompt_tokens": 11}}, final_metrics=totals), context)
        assert [call.input_tokens for call in by_kind(less, "llm")] == [11, None]

    def test_what_the_totals_hold_beyond_the_steps_was_spent_too(self, traces: Path, context: NormaliseContext) -> None:
        found = list(records(traces / "phoenix-atif/harbor_terminus2_timeout.json", context).values())
        calls = by_kind(found, "llm")
        assert [call.name for call in calls if call.status == "unset"] == ["calls that no step shows"]
        assert sum(call.input_tokens or 0 for call in calls) == 982
        assert sum(call.cost_usd or 0 for call in calls) == pytest.approx(0.003905)

    def test_trajectories_that_refer_to_each_other_end(self, tmp_path: Path, context: NormaliseContext) -> None:
        def refers(name: str, to: str) -> dict[str, Any]:
            result = {"content": "x", "subagent_trajectory_ref": [{"session_id": to}]}
            return self.trajectory({"observation": {"results": [result]}}, name=name)

        found = read(tmp_path, [refers("a", "b"), refers("b", "a")], context)
        assert len(by_kind(found, "llm")) == 2
        assert len({record.run_id for record in found}) == 1

    def test_a_trajectory_inside_another_is_read_too(self, tmp_path: Path, context: NormaliseContext) -> None:
        inner = self.trajectory({"metrics": {"prompt_tokens": 4}}, name="inner", agent="helper")
        found = read(tmp_path, self.trajectory({}, subagent_trajectories=[inner]), context)
        assert [(record.agent, record.input_tokens) for record in by_kind(found, "llm")] == [
            ("solver", None),
            ("helper", 4),
        ]


ODD: dict[str, tuple[Any, list[str]]] = {
    "inspect": (
        {
            "status": "success",
            "eval": {"task": "t"},
            "samples": [
                7,
                {"id": 1, "epoch": 1, "events": [8, {"event": "info", "data": DEEP}, {"event": "info"}]},
            ],
        },
        ["samples[0]", "samples[1].events[0]", "samples[1].events[1]"],
    ),
    "swe-agent": (
        {"trajectory": [7, {"action": "ls", "state": DEEP}, {"action": "ls"}], "history": [], "info": {}},
        ["trajectory[0]", "trajectory[1]"],
    ),
    "openhands": (
        [
            *[{"id": 1, "source": "agent", "action": "think"}] * 6,
            7,
            {"id": 3, "source": "agent", "action": "run", "args": DEEP},
        ],
        ["[6]", "[7]"],
    ),
    "atif": (
        {"schema_version": "ATIF-v1.6", "session_id": "s", "steps": [7, {"step_id": 1, "extra": DEEP}, {"step_id": 2}]},
        ["s: steps[0]", "s: steps[1]"],
    ),
}


@pytest.mark.parametrize("form", ODD)
def test_odd_items_of_a_document_are_named_and_their_neighbours_kept(
    tmp_path: Path, context: NormaliseContext, form: str
) -> None:
    document, where = ODD[form]
    path = tmp_path / "file.json"
    path.write_text(json.dumps(document))
    batch = decode_file(path, context)
    assert [item.where for item in batch.rejected] == where
    assert len(batch.records) >= 2
