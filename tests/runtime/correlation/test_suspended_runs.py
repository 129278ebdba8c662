"""A run that is suspended here and resumed there is one run; each half belongs to the trace that asked for it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from correlation_parts import Event, ancestors, assert_well_formed, carrier, only, place, span_of, trace_of
from tracehold import (
    Agent,
    AgentTool,
    Hook,
    Interrupt,
    Scope,
    SqliteCheckpointStore,
    Tracer,
    governed_chat,
    tool,
)
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.testing import ScriptedLLM, tool_call_reply

FIRST, SECOND = carrier(0xA), carrier(0xB)
SCOPE = Scope(user="u1", session="s1")
Kept: TypeAlias = Callable[[Any], Any]


class Desk:
    """An agent whose tool needs a person, as it is built anew by each process that shares the file."""

    def __init__(self, folder: Path, kept: Kept, *hooks: Hook) -> None:
        self.path = folder / "runs.db"
        self.kept = kept
        self.tracer = Tracer()
        self.hooks = list(hooks)
        self.seen: list[Any] = []

    def store(self) -> SqliteCheckpointStore:
        return self.kept(SqliteCheckpointStore(self.path))  # type: ignore[no-any-return]  # what it is given

    def agent(self, *replies: Any) -> Agent:
        @tool(requires_confirmation=True)
        async def refund(order: str) -> str:
            """Pay back."""
            self.seen.append(place())
            await governed_chat(ScriptedLLM(["x"]), [], tracer=self.tracer, origin="memory")
            return f"paid back {order}"

        return Agent(
            "desk",
            ScriptedLLM(replies),
            tools=[refund],
            tracer=self.tracer,
            hooks=self.hooks,
            checkpoint_store=self.store(),
        )

    def ask(self, **options: Any) -> None:
        asked = tool_call_reply("refund", {"order": "A-1"}, call_id="c1")
        assert isinstance(self.agent(asked).run("refund A-1", scope=SCOPE, **options), Interrupt)

    def answer(self, decision: bool = True, **options: Any) -> None:
        assert self.agent("done").resume(decision, scope=SCOPE, approver="ann", **options) == "done"

    @property
    def events(self) -> list[Event]:
        return list(self.tracer.events)

    def halves(self) -> tuple[list[Event], list[Event]]:
        """The events of each process: a second `run_start` begins the second half."""
        cut = [number for number, event in enumerate(self.events) if event["type"] == "run_start"][1]
        return self.events[:cut], self.events[cut:]


@pytest.fixture
def desk(tmp_path: Path, kept: Kept) -> Desk:
    return Desk(tmp_path, kept)


def steps_of(events: list[Event]) -> list[int]:
    return [event["step_index"] for event in events]


@pytest.mark.parametrize("second", [SECOND, FIRST, None], ids=["another", "the same", "none"])
@pytest.mark.parametrize("first", [FIRST, None], ids=["one", "none"])
def test_each_half_of_a_run_belongs_to_its_own_upstream(first: Any, second: Any, desk: Desk) -> None:  # EXEC-12
    desk.ask(trace_carrier=first)
    desk.answer(trace_carrier=second)
    (run_id,) = {event["run_id"] for event in desk.events}
    for events, upstream in zip(desk.halves(), (first, second), strict=True):
        assert {event["trace_id"] for event in events} == {trace_of(upstream) if upstream else run_trace_id(run_id)}
        own = [event for event in events if event["span_id"] == run_root_span_id(run_id)]
        assert {event["parent_span_id"] for event in own} == {span_of(upstream) if upstream else None}
    assert desk.seen == [(run_id, SCOPE, second)]


def test_a_resumed_run_goes_on_under_its_id_and_root_and_counts_on(desk: Desk) -> None:  # EXEC-06, EXEC-11
    desk.ask()
    desk.answer()
    assert_well_formed(desk.events)
    assert steps_of(desk.events) == list(range(1, len(desk.events) + 1))
    call = only(desk.events, type="tool_call")
    assert only(desk.events, origin="memory")["parent_span_id"] == call["span_id"]


def test_a_carrier_is_in_no_checkpoint_and_no_event(desk: Desk) -> None:  # EXEC-12, EXP-12
    desk.ask(trace_carrier=FIRST | {"baggage": "tenant=acme"})
    with contextlib.closing(sqlite3.connect(desk.path)) as database:
        (row,) = database.execute("SELECT * FROM run_checkpoints").fetchall()
    assert "refund" in str(row)
    for text in (str(row), json.dumps(desk.events)):
        assert "traceparent" not in text
        assert "acme" not in text
    assert trace_of(FIRST) not in str(row)
    assert span_of(FIRST) not in str(row)


class Diligent(Hook):
    """Records something of its own whenever a run waits for a person."""

    def __init__(self) -> None:
        self.tracer: Tracer | None = None

    async def on_interrupt(self, pendings: Any, *, scope: Any = None) -> None:
        assert self.tracer is not None
        self.tracer.emit({"type": "memory_search"})
        await governed_chat(ScriptedLLM(["a note for the approver"]), [], tracer=self.tracer, origin="memory.note")


def test_steps_go_on_after_what_a_hook_recorded_at_the_suspension(tmp_path: Path, kept: Kept) -> None:
    # EXEC-06, EXEC-11
    hook = Diligent()
    desk = Desk(tmp_path, kept, hook)
    hook.tracer = desk.tracer
    desk.ask()
    desk.answer()
    assert steps_of(desk.events) == list(range(1, len(desk.events) + 1))


def test_a_run_suspended_inside_a_sub_agent_is_one_tree_across_both_halves(desk: Desk) -> None:
    # EXEC-06, EXEC-10, EXEC-11, HITL-02
    def lead(*replies: Any, inner: Any) -> Agent:
        return Agent(
            "lead",
            ScriptedLLM(replies),
            tools=[AgentTool(desk.agent(*inner))],
            tracer=desk.tracer,
            checkpoint_store=desk.store(),
        )

    asked = tool_call_reply("refund", {"order": "A-1"}, call_id="c1")
    waits = lead(tool_call_reply("desk", {"task": "refund A-1"}, call_id="o1"), inner=[asked]).run("go", scope=SCOPE)
    assert isinstance(waits, Interrupt)
    assert lead("all done", inner=["done"]).resume(True, scope=SCOPE, approver="ann") == "all done"
    assert_well_formed(desk.events)
    above = ancestors(only(desk.events, origin="memory"), desk.events)
    assert [event.get("tool") or event["name"] for event in above] == ["refund", "desk", "desk", "lead"]
    assert [event["status"] for event in desk.events if event.get("kind") == "agent"] == ["suspended", "ok"]
    assert Counter(event["status"] for event in desk.events if event.get("tool") == "desk") == {
        "suspended": 1,
        "success": 1,
    }


PROGRAM = textwrap.dedent(
    """
    import json, sys
    from tracehold import Agent, JsonlExporter, SqliteCheckpointStore, Tracer, current_trace_carrier, tool
    from tracehold.testing import ScriptedLLM, tool_call_reply

    action, folder, carrier = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])

    @tool(requires_confirmation=True)
    def refund(order: str) -> str:
        "Pay back."
        print(json.dumps(current_trace_carrier()))
        return "paid"

    tracer = Tracer(exporters=[JsonlExporter(f"{folder}/events.jsonl")])
    replies = [tool_call_reply("refund", {"order": "A-1"}, call_id="c1")] if action == "ask" else ["done"]
    agent = Agent(
        "desk", ScriptedLLM(replies), tools=[refund], tracer=tracer,
        checkpoint_store=SqliteCheckpointStore(f"{folder}/runs.db"),
    )
    if action == "ask":
        agent.run("refund A-1", trace_carrier=carrier)
    else:
        agent.resume(True, approver="ann", trace_carrier=carrier)
    tracer.close()
    """
)


def test_a_run_crosses_processes_with_a_carrier_each(tmp_path: Path) -> None:  # EXEC-06, EXEC-12
    printed = []
    for action, upstream in (("ask", FIRST), ("answer", SECOND)):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, action, str(tmp_path), json.dumps(upstream)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.strip())
    assert printed == ["", json.dumps(SECOND)]
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]
    assert steps_of(events) == list(range(1, len(events) + 1))
    assert len({event["run_id"] for event in events}) == 1
    cut = [event["type"] for event in events].index("run_suspend") + 1
    assert {event["trace_id"] for event in events[:cut]} == {trace_of(FIRST)}
    assert {event["trace_id"] for event in events[cut:]} == {trace_of(SECOND)}
