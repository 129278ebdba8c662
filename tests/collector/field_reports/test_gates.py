"""Gates and approvals as the auditor finds them in the store: after a kill, after a resume, whatever stopped a call."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.asking import Row
from support.processes import clean_environment, wait_for
from support.world import World
from tracehold import (
    Agent,
    CollectorExporter,
    Interrupt,
    RunLimitExceeded,
    RunPolicy,
    Scope,
    SessionError,
    SqliteCheckpointStore,
    ToolPermissions,
    Tracer,
    parse_policy,
    tool,
)
from tracehold.testing import ScriptedLLM, tool_call_reply

CHILD = """
import sys
from tracehold import Agent, CollectorExporter, Interrupt, Scope, SqliteCheckpointStore, Tracer, tool
from tracehold.testing import ScriptedLLM, tool_call_reply

url, folder, *cases = sys.argv[1:]

@tool(requires_confirmation=True)
def pay(cents: int) -> str:
    raise AssertionError("nobody agreed")

tracer = Tracer(exporters=[CollectorExporter(url, spool_dir=folder + "/spool-child")])
for case in cases:
    store = SqliteCheckpointStore(folder + "/runs.db")
    asks = ScriptedLLM([tool_call_reply("pay", {"cents": 500}, call_id="c1")], model="m")
    desk = Agent("desk", asks, tools=[pay], tracer=tracer, checkpoint_store=store,
                 approval_ttl_s=0.01 if case == "expire" else None)
    assert isinstance(desk.run("go", run_id=case, scope=Scope(session=case)), Interrupt)
print("asked", flush=True)
sys.stdin.read()
"""
"""Asks for approvals, and is killed while they wait."""


class Desk:
    """Agents of a process that starts after the kill."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.paid: list[int] = []
        self._tracers: list[Tracer] = []
        self._open = contextlib.ExitStack()

    def agent(self, *replies: Any, name: str = "desk") -> Agent:
        @tool(requires_confirmation=True)
        def pay(cents: int) -> str:
            self.paid.append(cents)
            return f"paid {cents}"

        store = self._open.enter_context(contextlib.closing(SqliteCheckpointStore(self.folder / "runs.db")))
        self._tracers.append(Tracer(exporters=[CollectorExporter(self.world.url, spool_dir=self.folder / "spool")]))
        llm = ScriptedLLM(replies, model="m")
        return Agent(name, llm, tools=[pay], tracer=self._tracers[-1], checkpoint_store=store)

    def events(self, run_id: str, *kinds: str) -> list[Row]:
        self.sent()
        rows = self.world.ask.rows("run_events", run_id=run_id, limit=1000)
        return [row for row in rows if not kinds or row["kind"] in kinds]

    def sent(self) -> None:
        """Have the agents' processes end: a Tracer that is closed has sent everything."""
        while self._tracers:
            self._tracers.pop().close()

    def close(self) -> None:
        self.sent()
        self._open.close()


@pytest.fixture
def desk(world: World, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(world, tmp_path)
    yield made
    made.close()


def killed_while_asking(desk: Desk, *cases: str) -> None:
    arguments = [sys.executable, "-c", CHILD, desk.world.url, str(desk.folder), *cases]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": clean_environment()}
    with subprocess.Popen(arguments, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "asked\n"
        waits = desk.world.ask.rows
        wait_for(lambda: len(waits("runs", status="suspended")) == len(cases), what="the questions in the store")
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL


def test_fr_57_what_waited_for_a_person_at_a_kill_is_answered_once_and_the_record_says_how(desk: Desk) -> None:  # FR-57
    cases = ("approve", "deny", "expire")
    killed_while_asking(desk, *cases)
    ask = desk.world.ask

    # After the kill: the counter, the list and what is pending agree, and nothing was approved by itself.
    assert ask.row("overview")["suspended"] == 3
    assert {row["run_id"] for row in ask.rows("runs", status="suspended")} == set(cases)
    for case in cases:
        pending = desk.agent().pending(scope=Scope(session=case))
        assert pending is not None
        assert [action.call_id for action in pending.pendings] == ["c1"]
        assert [row["type"] for row in desk.events(case, "tool", "gate", "approval")] == ["approval_request"]

    for case, decision in (("approve", True), ("deny", False), ("expire", True)):
        assert desk.agent("done").resume(decision, approver="ann", scope=Scope(session=case)) == "done"
        with pytest.raises(SessionError, match="nothing to resume"):
            desk.agent("done").resume(True, scope=Scope(session=case))

    assert desk.paid == [500]
    told = {
        case: [(row["type"], row["decision"], row["status"]) for row in desk.events(case, "tool", "gate", "approval")]
        for case in cases
    }
    asked = ("approval_request", "suspended", "suspended")
    assert told == {
        "approve": [asked, ("approval_decision", "allowed", "ok"), ("tool_call", "allowed", "ok")],
        "deny": [asked, ("approval_decision", "rejected", "ok"), ("tool_call", "rejected", "blocked")],
        "expire": [asked, ("approval_decision", "expired", "ok"), ("tool_call", "expired", "blocked")],
    }
    desk.sent()
    assert ask.row("overview")["suspended"] == 0
    assert sorted(row["decision"] for row in ask.rows("review_queue")) == ["expired", "rejected"]


def test_fr_59_an_approval_for_a_renamed_agent_runs_nothing_and_the_record_still_waits(desk: Desk) -> None:  # FR-59
    killed_while_asking(desk, "renamed")
    renamed = desk.agent("done", name="cashier")
    with pytest.raises(SessionError, match="begun by agent 'desk', not by 'cashier'"):
        renamed.resume(True, approver="ann", scope=Scope(session="renamed"))
    assert desk.paid == []
    assert [row["type"] for row in desk.events("renamed", "tool", "gate", "approval")] == ["approval_request"]
    assert desk.world.ask.row("run", run_id="renamed")["status"] == "suspended"


def test_fr_59_request_decision_and_the_one_execution_stand_in_one_run_of_the_store(desk: Desk) -> None:  # FR-59
    killed_while_asking(desk, "one-run")
    carrier = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}  # a context given on resume changes nothing
    again = desk.agent("done")
    assert again.resume(True, approver="ann", scope=Scope(session="one-run"), trace_carrier=carrier) == "done"
    rows = desk.events("one-run", "tool", "gate", "approval")
    assert [(row["type"], row["name"]) for row in rows] == [
        ("approval_request", "pay"),
        ("approval_decision", "pay"),
        ("tool_call", "pay"),
    ]
    assert desk.paid == [500]
    assert [row["run_id"] for row in desk.world.ask.rows("runs")] == ["one-run"]
    stored = [desk.world.http.get(f"/api/v1/events/{row['event_id']}").json()["event"] for row in rows[:2]]
    asked, decided = [event["attributes"] for event in stored]
    digest = "sha256:"
    assert digest in str(asked)
    assert digest in str(decided)


SECRET = "hunter2" + "Xy9"
NO_ETC = {
    "version": 1,
    "default": "allow",
    "rules": [
        {"id": "no-etc", "effect": "deny", "tools": ["probe"], "reason": "paths below /etc"}
        | {"when": [{"argument": "path", "op": "under", "value": "/etc"}]},
    ],
}


class Broken:
    """A gate that raises."""

    def denial_reason(self, _tool: Any) -> str | None:
        raise OSError("the policy server is away")


async def never(*_: Any) -> bool:
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # it never comes


KINDS: dict[str, tuple[dict[str, Any], tuple[str, str, str | None], str]] = {
    "allow-list": ({"permissions": ToolPermissions(allow=["x"])}, ("denied", "permissions", "unlisted"), "allow list"),
    "path-rule": ({"permissions": parse_policy(NO_ETC)}, ("denied", "permissions", "no-etc"), "paths below /etc"),
    "budget": (
        {"run_policy": RunPolicy(max_tool_calls=0)}, ("limited", "run_policy", "max_tool_calls"), "limit 0",
    ),
    "exception": ({"permissions": Broken()}, ("denied", "permissions", "gate_error"), "OSError"),
    "timeout": (
        {"confirm": never, "confirm_timeout_s": 0.01},
        ("unconfirmed", "confirm:never", "confirm_timeout"),
        "timeout",
    ),
}  # fmt: skip
"""What FR-61 tries: options of the agent, what the record says, words of its reason."""


def test_fr_61_five_kinds_of_denial_are_five_records_and_none_looks_executed(
    world: World, tmp_path: Path
) -> None:  # FR-61
    tracer = Tracer(exporters=[CollectorExporter(world.url, spool_dir=tmp_path / "spool")])

    @tool(requires_confirmation=lambda _: True)
    def probe(path: str, password: str) -> str:
        raise AssertionError(f"a denied tool must not run: {path} {password}")

    for kind, (options, _, _) in KINDS.items():
        asks = tool_call_reply("probe", {"path": "/etc/shadow", "password": SECRET}, call_id="c1")
        agent = Agent(kind, ScriptedLLM([asks, "I could not"], model="m"), tools=[probe], tracer=tracer, **options)
        with contextlib.suppress(RunLimitExceeded):
            assert not isinstance(agent.run("go", run_id=kind), Interrupt)
    tracer.close()

    rows = {row["run_id"]: row for row in world.ask.rows("gate_denials")}
    assert {run: (row["decision"], row["decided_by"], row["rule"]) for run, row in rows.items()} == {
        kind: said for kind, (_, said, _) in KINDS.items()
    }
    for kind, (_, _, reason) in KINDS.items():
        row = rows[kind]
        assert (row["name"], row["agent"], row["kind"]) == ("probe", kind, "gate")
        content = world.ask.content(row["event_id"])
        assert reason in content["reason"]
        assert content["params"]["path"] == "/etc/shadow"
        assert SECRET not in str(content)
        run = world.ask.row("run", run_id=kind)
        assert (run["tool_calls"], run["denials"]) == (0, 1)
    assert [(row["tool"], row["calls"], row["blocked"]) for row in world.ask.rows("tools")] == [("probe", 0, 5)]
    assert {row["state"] for row in world.ask.rows("review_queue")} == {"open"}
