"""Real processes, killed by SIGKILL at random operations; others take over (DEC-02, EXEC-05, FR-57)."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from agent_parts import rows
from agent_process import RUN, SIMPLE, says_yes, script_of
from support.profile import SOAK
from tracehold import Agent, AgentTool, Scope, SqliteCheckpointStore, SqliteSessionStore
from tracehold.governance.canonical import action_digest
from tracehold.testing import ScriptedLLM

KILLS = 200 if SOAK else 12
MOST_A_RUN = 5
CHILD = Path(__file__).with_name("agent_process.py")
UNKNOWN = "outcome is unknown"


def start(folder: Path, seed: int, decision: str, *, kill_at: int = 0, ttl_s: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(seed), str(kill_at), decision, ttl_s],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def carry_on(folder: Path, seed: int, decision: str, *, kill_at: int = 0, ttl_s: str = "") -> dict[str, Any] | None:
    """Let a process go on; return what it said, or `None` when it was killed."""
    with start(folder, seed, decision, kill_at=kill_at, ttl_s=ttl_s) as process:
        said, trouble = process.communicate(timeout=60)
    if process.returncode == -signal.SIGKILL:
        return None
    assert process.returncode == 0, trouble
    told: dict[str, Any] = json.loads(said)
    return told


def pending(folder: Path) -> dict[str, int]:
    """What a person sees in yet another process: call id to the number of the action."""
    store = SqliteCheckpointStore(folder / "runs.db")
    helper = Agent("helper", ScriptedLLM(), checkpoint_store=store)
    waits = Agent("boss", ScriptedLLM(), tools=[AgentTool(helper)], checkpoint_store=store).pending()
    store.close()
    return {action.call_id: action.arguments["n"] for action in waits.pendings} if waits is not None else {}


def entered(folder: Path) -> Counter[tuple[str, int]]:
    log = folder / "log.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter((name, int(n)) for what, name, n in map(str.split, lines) if what == "enter")


def events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Schedule:
    """One run through as many processes as it takes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.kills = 0

    def run(self, kills: int) -> None:
        """Kill up to `kills` processes, each at a random operation, then let one come to the end."""
        chance = random.Random(self.seed)
        while True:
            kill_at = chance.randint(1, 70) if self.kills < kills and self.kills < MOST_A_RUN else 0
            said = carry_on(self.folder, self.seed, "go", kill_at=kill_at)
            self.check_so_far()
            if said is not None:
                assert said["answer"] == f"done {RUN}"
                break
            self.kills += 1
            if self._is_over():
                break
        self.check_at_the_end()

    def _is_over(self) -> bool:
        store = SqliteCheckpointStore(self.folder / "runs.db")
        kept = store.load()
        store.close()
        if kept is not None:
            return False
        if self._conversation():
            return True
        assert not entered(self.folder)  # killed before its first write: nothing was done, it begins anew
        return False

    def _conversation(self, scope: Scope | None = None) -> list[Any]:
        talk = SqliteSessionStore(self.folder / "talk.db")
        contents = [message.content for message in talk.load(scope=scope)]
        talk.close()
        return contents

    def check_so_far(self) -> None:
        for (name, n), times in entered(self.folder).items():
            assert times == 1, f"{name} {n} was entered {times} times"
            if name == "pay":
                assert says_yes(self.seed, n), f"pay {n} was entered without an approval"

    def check_at_the_end(self) -> None:
        assert self._conversation() == [RUN, f"done {RUN}"]
        inner = self._conversation(Scope(agent="helper"))
        assert len(inner) == len(set(inner)) == 2 * (len(script_of(self.seed)) - 1)
        told = dict(json.loads(line) for line in (self.folder / "told.jsonl").read_text().splitlines())
        for task, turns in script_of(self.seed).items():
            wanted = [call for turn in turns for call in turn]
            texts = [message["content"] for message in told[task]]
            assert [message["tool_call_id"] for message in told[task]] == [
                f"call_{at}" for turn in turns for at, _ in enumerate(turn)
            ]
            for (name, n), text in zip(wanted, texts, strict=True):
                self.check_call(name, n, text)
        store = SqliteCheckpointStore(self.folder / "runs.db")
        assert rows(store) == 0
        store.close()

    def check_call(self, name: str, n: int, text: str) -> None:
        params = {"task": f"task {n}"} if name == "helper" else {"n": n}
        own = [event for event in events(self.folder) if event.get("params") == params and event["type"] == "tool_call"]
        ended = [event for event in own if event["status"] != "suspended"]
        assert ended, f"{name} {n} left no event"
        assert {event["run_id"] for event in ended} == {"r"}
        lost = {event["event_id"] for event in ended if event.get("error_type") == "OutcomeUnknown"}
        ran = entered(self.folder)[name, n]
        if UNKNOWN in text:
            assert self.kills
            assert len(lost) == 1
            return
        assert not lost
        if name == "helper":
            assert text == f"done task {n}"
        elif name == "pay" and not says_yes(self.seed, n):
            assert ran == 0
            assert "a person rejected" in text
            assert {event["decision"] for event in ended} == {"rejected"}
        else:
            assert ran == 1
            assert f"{name} {n}" in text
            assert len(ended) == 1


@pytest.mark.timeout(1200 if SOAK else 120)
def test_no_kill_makes_a_tool_run_twice_or_without_approval(tmp_path: Path) -> None:  # DEC-02, EXEC-05, FR-57
    seeds = random.Random(20261129)
    kills = 0
    while kills < KILLS:
        seed = seeds.randrange(2**32)
        folder = tmp_path / str(seed)
        folder.mkdir()
        schedule = Schedule(folder, seed)
        schedule.run(KILLS - kills)
        kills += schedule.kills


def seed_that_asks() -> int:
    """A script whose first turn is one payment, and which has nothing else."""
    return next(seed for seed in range(100_000) if script_of(seed) == {RUN: [[("pay", 1)]]})


@pytest.mark.parametrize("answer", ["approve", "deny", "expire"])
def test_an_approval_survives_a_kill_and_the_audit_tells_what_became_of_it(
    tmp_path: Path, answer: str
) -> None:  # FR-57
    seed = seed_that_asks()
    ttl_s = "1e-9" if answer == "expire" else ""
    said = carry_on(tmp_path, seed, "ask", ttl_s=ttl_s)
    assert said is not None
    # The process that asked is gone. What waits is listed, and nothing was approved by itself.
    assert pending(tmp_path) == {"call_0": 1}
    assert entered(tmp_path) == {}

    # The next one is killed right after it claimed the decision, before anything came of it.
    decision = json.dumps(answer != "deny")
    assert carry_on(tmp_path, seed, decision, kill_at=2, ttl_s=ttl_s) is None
    assert pending(tmp_path) == {}
    assert carry_on(tmp_path, seed, "go", ttl_s=ttl_s) == {"waits": None, "answer": f"done {RUN}"}

    assert entered(tmp_path) == ({("pay", 1): 1} if answer == "approve" else {})
    digest = action_digest("pay", {"n": 1})
    audit = [event for event in events(tmp_path) if event.get("call_id") == "call_0"]
    want = {"approve": "allowed", "deny": "rejected", "expire": "expired"}[answer]
    assert [(event["type"], event.get("decision")) for event in audit] == [
        ("approval_request", "suspended"),
        ("approval_decision", want),
        ("tool_call", want),
    ]
    assert [event.get("digest") for event in audit[:2]] == [digest, digest]
    assert {event["decided_by"] for event in audit[1:]} == {"ann"}
    assert {event["run_id"] for event in audit} == {"r"}


def test_of_processes_that_resume_at_once_one_runs_the_tool(tmp_path: Path) -> None:  # DEC-02
    seed = seed_that_asks()
    carry_on(tmp_path, seed, "ask")
    together = [start(tmp_path, seed, "@true") for _ in range(3)]
    for process in together:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    said = []
    for process in together:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in together:
        said.append(process.communicate(timeout=60)[0])
        assert process.returncode == 0
    assert entered(tmp_path) == {("pay", 1): 1}
    answers = [json.loads(line)["answer"] for line in said if line]
    # A slower one finds nothing to resume, or the finished run that the faster one is about to clear.
    assert set(answers) == {f"done {RUN}"}
    talk = SqliteSessionStore(tmp_path / "talk.db")
    assert [message.content for message in talk.load()] == [RUN, f"done {RUN}"]
    talk.close()
    decisions = [event for event in events(tmp_path) if event["type"] == "approval_decision"]
    assert len({event["event_id"] for event in decisions}) == 1


def test_the_scripts_hold_what_is_to_be_tested() -> None:
    """The random scripts are not all alike: every tool and sub-agents occur among the first ones."""
    seeds = random.Random(20261129)
    names = {
        name
        for _ in range(12)
        for turns in script_of(seeds.randrange(2**32)).values()
        for turn in turns
        for name, _ in turn
    }
    assert names == {*SIMPLE, "helper"}
