"""The documented runtime's own package beside ours, each in an interpreter of its own, in turns (A B B A)."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import table

HERE = Path(__file__).parent
FACTS = HERE.parent / "tests" / "contract" / "documented_a.json"
ENGINE_FACTS = FACTS.with_name("documented_b.json")

OURS = "tracehold"
KINDS = ("tool_call", "llm_call")
EXPORTERS = ("memory", "jsonl", "sqlite")


@dataclass(frozen=True)
class Side:
    """A package, and an interpreter that has it."""

    package: str
    python: str

    def run(self, script: str, *arguments: object) -> dict[str, Any]:
        """Run a script of this folder with the package's name and `arguments`; return the JSON it prints.

        Raises:
            SystemExit: it failed; with what it said.
        """
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TRACEHOLD_", "PYTHON"))
        }
        command = [self.python, str(HERE / script), self.package, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{script} failed with {self.package}:\n{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


def sides(ours: str | None, peer: str | None, facts: Path = FACTS) -> tuple[Side, Side | None]:
    """Ours and, when an interpreter is named that has it, the peer.

    Args:
        ours: an interpreter that has Tracehold; default the one that runs this. Give one of the peer's version.
        peer: an interpreter that has the documented package; default `TRACEHOLD_PEER_PYTHON`.
        facts: the frozen facts of the document, which name that package.
    """
    peer = peer or os.environ.get("TRACEHOLD_PEER_PYTHON")
    package = json.loads(facts.read_text("utf-8"))["package"]
    found = peer and not subprocess.run([peer, "-c", f"import {package}"], capture_output=True, check=False).returncode
    return Side(OURS, ours or sys.executable), Side(package, peer) if peer and found else None


def run(ours: Side, peer: Side | None, count: int, rounds: int) -> None:
    """Measure the same events through the same exporters on both sides, and print the ratio."""
    title = f"Against the documented package, CPU of emit, {rounds} rounds of A B B A, {count:,} events each"
    if peer is None:
        print(f"{title}\n  not run: no peer found (--peer-python or TRACEHOLD_PEER_PYTHON)\n")
        return
    versions: dict[str, str] = {}
    rows = []
    for kind in KINDS:
        for exporter in EXPORTERS:
            spent: dict[Side, list[float]] = {ours: [], peer: []}
            ratios = []
            for _ in range(rounds):
                turn = {side: [] for side in (ours, peer)}
                for side in (ours, peer, peer, ours):
                    answer = side.run("emit_worker.py", kind, exporter, count)
                    versions[side.package] = answer["python"]
                    turn[side].append(answer["cpu_us"])
                ratios.append(sum(turn[ours]) / sum(turn[peer]))
                for side in spent:
                    spent[side] += turn[side]
            rows.append(
                (
                    f"{kind}, {exporter}",
                    f"{statistics.median(spent[ours]):.1f}",
                    f"{statistics.median(spent[peer]):.1f}",
                    f"{statistics.median(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                )
            )
    table(title, ("event, exporter", "ours us", "peer us", "ours / peer", "rounds"), rows)
    print(f"  Python {versions[ours.package]} (ours), {versions[peer.package]} (peer)\n")
