"""`make bench`: what recording and gating cost, each figure beside a floor and a peer measured in the same run.

Machines are shared and noisy: quote the ratios. Absolute figures are goals, and mean something only with the machine
they were measured on, which is printed first.

With `--peer-python` (or `TRACEHOLD_PEER_PYTHON`) naming an interpreter that has the package of the documented runtime,
its emit and its behaviour under a lock are measured in turns with ours, and with one that has the package of the
documented engine, that engine; give `--python` an interpreter of the same version that has Tracehold.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass

import burst
import emit
import engine
import erasure
import evidence
import gates
import ingest
import locked
import peer
import rewrite

import queries


@dataclass(frozen=True)
class Chosen:
    """What was asked for."""

    seconds: float
    events: int
    calls: int
    rounds: int
    ours: peer.Side
    other: peer.Side | None
    engine: peer.Side | None
    sizes: engine.Sizes
    mlflow: str | None
    stored: int
    asked: queries.Sizes


PARTS: dict[str, Callable[[Chosen], None]] = {
    "emit": lambda chosen: emit.run(chosen.events),
    "peer": lambda chosen: peer.run(chosen.ours, chosen.other, chosen.events, chosen.rounds),
    "burst": lambda _chosen: burst.run(),
    "gates": lambda chosen: gates.run(chosen.calls),
    "locked": lambda chosen: locked.run(chosen.ours, chosen.other),
    "engine": lambda chosen: engine.run(chosen.ours, chosen.engine, chosen.sizes),
    "queries": lambda chosen: queries.run(chosen.asked),
    "evidence": lambda chosen: evidence.run(chosen.seconds, chosen.rounds, chosen.asked.events[0]),
    "rewrite": lambda chosen: rewrite.run(chosen.asked.events[0]),
    "erasure": lambda chosen: erasure.run(chosen.asked.events[0]),
    "ingest": lambda chosen: ingest.run(chosen.seconds, chosen.mlflow, chosen.stored),
}


def main() -> None:
    """Run the benchmarks and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="run this one; may be given several times")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each ingest phase lasts")
    parser.add_argument("--events", type=int, default=20_000, help="events in each emit round")
    parser.add_argument("--calls", type=int, default=2_000, help="gated tool calls in each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of A B B A against the peer")
    parser.add_argument("--peer-python", help="an interpreter that has the documented runtime's package")
    parser.add_argument("--python", help="the interpreter that runs ours beside it; default this one")
    parser.add_argument("--open-runs", type=int, default=1_000, help="runs the engine recovers; the goal is for 10,000")
    parser.add_argument("--finished-runs", type=int, default=10_000, help="runs its memory must not grow over")
    parser.add_argument("--mlflow-python", help="an interpreter that has MLflow, whose OTLP endpoint is the peer")
    parser.add_argument("--stored", type=int, default=0, help="million events in the store before ingest begins")
    parser.add_argument(
        "--million-events", type=float, action="append", help="events in a store that is asked, in millions; default 1"
    )
    parser.add_argument("--with-content", type=int, default=300_000, help="events whose content is searched")
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()} {platform.system()}\n")
    chosen = Chosen(
        given.seconds,
        given.events,
        given.calls,
        given.rounds,
        *peer.sides(given.python, given.peer_python),
        engine=peer.sides(given.python, given.peer_python, peer.ENGINE_FACTS)[1],
        sizes=engine.Sizes(given.rounds, given.open_runs, given.finished_runs),
        mlflow=given.mlflow_python,
        stored=given.stored,
        asked=queries.Sizes([int(n * 1e6) for n in given.million_events or (1,)], given.with_content),
    )
    for name in given.only or PARTS:
        PARTS[name](chosen)


if __name__ == "__main__":
    main()
