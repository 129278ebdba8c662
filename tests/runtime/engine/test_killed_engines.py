"""Real processes with an engine on one file, killed by SIGKILL anywhere; others take over (ENG-03, RCV)."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from engine_parts import run
from engine_process import CHILDREN, COST, PARENTS, TOKENS
from support.profile import SOAK
from tracehold.engine import Ledger
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore

KILLS = 300 if SOAK else 12
MOST_A_LOG = 4
STEPS = 110
"""About how many steps an undisturbed process takes: see `Death`."""
PROGRAM = Path(__file__).with_name("engine_process.py")

Logs = dict[str, list[Event]]


def carry_on(folder: Path, kill_at: int, name: str) -> bool:
    """Let a process go on; return whether it came to its end."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), str(kill_at), name],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == -signal.SIGKILL:
        return False
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return True


def effects(folder: Path) -> Counter[str]:
    file = folder / "effects.txt"
    return Counter(file.read_text().splitlines() if file.exists() else ())


def read(folder: Path) -> Logs:
    async def main() -> Logs:
        store = SQLiteEventStore(folder / "log.db")
        report = await store.verify_chain()
        assert report.ok, report
        logs = {info.stream: await store.read(info.stream) for info in await store.run_index()}
        await store.aclose()
        return logs

    return run(main())


def results(logs: Logs) -> set[str]:
    """Return the tool calls whose result is recorded."""
    asked = {event.id: event for log in logs.values() for event in log if event.type == "aaa.tool.requested"}
    causes = {event.causation_id for log in logs.values() for event in log if event.type == "aaa.tool.completed"}
    return {f"{event.stream} {event.data['n']}" for id_, event in asked.items() if id_ in causes}


def check_so_far(folder: Path, logs: Logs) -> None:
    for log in logs.values():
        assert len({event.id for event in log}) == len(log)
        assert [event.seq for event in log] == list(range(len(log)))
        assert sum(event.type == "aaa.run.completed" for event in log) <= 1
    file = folder / "acknowledged.txt"
    for line in file.read_text().splitlines() if file.exists() else ():
        stream, id_ = line.split()
        assert id_ in {event.id for event in logs[stream]}, f"{id_} was acknowledged and is lost"


def check_at_the_end(folder: Path, logs: Logs, kills: int) -> None:
    assert set(logs) == {*PARENTS, *(f"{parent}.{tag}" for parent in PARENTS for tag in CHILDREN)}
    for parent in PARENTS:
        log = logs[parent]
        for kind in ("aaa.child.started", "aaa.child.completed"):
            assert Counter(event.data["tag"] for event in log if event.type == kind) == dict.fromkeys(CHILDREN, 1)
        (end,) = [event for event in log if event.type == "aaa.run.completed"]
        assert {tag: told["value"] for tag, told in end.data["value"].items()} == {
            tag: sum(range(1, told["calls"] + 1)) for tag, told in CHILDREN.items()
        }
        for tag, told in CHILDREN.items():
            kinds = Counter(event.type for event in logs[f"{parent}.{tag}"])
            for kind in ("aaa.tool.requested", "aaa.tool.started", "aaa.tool.completed"):
                assert kinds[kind] == told["calls"]
            assert kinds["aaa.run.completed"] == 1
        calls = sum(told["calls"] for told in CHILDREN.values())
        spent = Ledger()
        for event in log:
            spent = spent.fold(event)
        assert spent == Ledger(steps=calls, tokens=calls * TOKENS, cost=calls * COST)
    times = effects(folder)
    assert set(times) == results(logs)
    assert max(times.values()) <= 1 + kills


def through_kills(folder: Path, seed: int, kills: int) -> int:
    """Kill up to `kills` processes on one log, each at a random step, then let one come to its end."""
    chance = random.Random(seed)
    killed = 0
    recorded: set[str] = set()
    while True:
        kill_at = chance.randint(1, STEPS) if killed < min(kills, MOST_A_LOG) else 0
        before = effects(folder)
        done = carry_on(folder, kill_at, f"n{killed}")
        logs = read(folder)
        check_so_far(folder, logs)
        assert not recorded & set(effects(folder) - before), "what had a result was done again"  # RCV-03
        recorded = results(logs)
        if done:
            check_at_the_end(folder, logs, killed)
            return killed
        killed += 1


@pytest.mark.timeout(2400 if SOAK else 120)
def test_no_kill_loses_doubles_or_stops_anything(tmp_path: Path) -> None:  # ENG-03, RCV-01, RCV-03, RCV-04, BUD-06
    seeds = random.Random(20261129)
    kills = 0
    while kills < KILLS:
        seed = seeds.randrange(2**32)
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills += max(1, through_kills(folder, seed, KILLS - kills))
