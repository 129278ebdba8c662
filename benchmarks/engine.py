"""The event-sourced engine beside the documented engine's own package: emit, runs, recovery, the redactor, memory.

Each measurement runs in an interpreter of its own (`engine_worker.py`), the two sides in turns (A B B A). A goal that is a
ratio needs the peer; without it ours alone is printed. A miss is printed as one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine_worker import AT_ONCE
from figures import table
from peer import Side

_EMITS = 1_000
_RUNS = 192
_STORES = {"memory": "in memory", "sqlite": "SQLite", "sqlite_redacted": "SQLite, redacted"}
_EMIT_GOALS = {"memory": 0.5, "sqlite": 0.6, "sqlite_redacted": 0.6}
_RATE_GOAL_AT_16 = 3.0
_REDACT_GOAL_MS = 5.0
_RECOVER_GOAL_S = 10.0
_RECOVER_GOAL_RUNS = 10_000
_GROWTH_GOAL_BYTES = 256
"""A run, over the last two fifths. A run kept in memory is thousands; SQLite's caches have filled by then."""

Answers = dict[str, list[dict[str, Any]]]
Row = tuple[str, str, str, str, str, str]
COLUMNS = ("figure", "ours", "peer", "ours / peer", "rounds", "goal")
_PER_ROUND = 2


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int
    open_runs: int
    finished_runs: int


def run(ours: Side, peer: Side | None, sizes: Sizes) -> None:
    """Measure both sides and print."""
    if peer is None:
        print("The engine's peer was not found (--peer-python or TRACEHOLD_PEER_PYTHON): ours alone\n")
    _emit(ours, peer, sizes.rounds)
    _runs(ours, peer, sizes.rounds)
    _once(ours, peer, sizes)


def _emit(ours: Side, peer: Side | None, rounds: int) -> None:
    rows: list[Row] = []
    for store, named in _STORES.items():
        answers = _in_turns(ours, peer, rounds, "emit", store, _EMITS)
        goal = _EMIT_GOALS[store]
        p50 = _pairs(answers, ours, peer, "p50_us")
        rows.append(_row(f"{named}: p50 us", p50, _at_most(_ratio(p50), goal)))
        rows.append(_row(f"{named}: p50 us without making the event", _pairs(answers, ours, peer, "emit_p50_us"), ""))
        rows.append(_row(f"{named}: p99 us", _pairs(answers, ours, peer, "p99_us"), ""))
        for width in AT_ONCE if store == "sqlite" else ():
            rate = _pairs(answers, ours, peer, "events_s", str(width))
            told = _at_least(_ratio(rate), _RATE_GOAL_AT_16) if width == 16 else ""
            rows.append(_row(f"{named}: durable events/s, {width} runs at once", rate, told))
    table(f"The engine: an event made and emitted, {_turns(peer, rounds)} of {_EMITS:,} events", COLUMNS, rows)


def _runs(ours: Side, peer: Side | None, rounds: int) -> None:
    answers = _in_turns(ours, peer, rounds, "runs", "sqlite", _RUNS)
    one = _pairs(answers, ours, peer, "runs_s", "1")
    many = _pairs(answers, ours, peer, "runs_s", "64")
    gain = statistics.median(many[0]) / statistics.median(one[0])
    rows = [
        _row("SQLite: runs/s, one by one", one, ""),
        _row("SQLite: runs/s, 64 at once", many, f"no slower than one by one: {_met(gain >= 1)} ({gain:.2f} times)"),
    ]
    table(f"The engine: whole runs, {_turns(peer, rounds)} of {_RUNS} runs", COLUMNS, rows)


def _once(ours: Side, peer: Side | None, sizes: Sizes) -> None:
    rows: list[Row] = []
    answers = _in_turn(ours, peer, "recover", sizes.open_runs)
    done = _pairs(answers, ours, peer, "all_done_s")
    unfinished = answers[ours.package][0]["unfinished"]
    allowed = _RECOVER_GOAL_S * min(1.0, sizes.open_runs / _RECOVER_GOAL_RUNS)
    met = _met(done[0][0] < allowed and not unfinished)
    rows.append(_row(f"recover() of {sizes.open_runs:,} open runs, s", _pairs(answers, ours, peer, "recover_s"), ""))
    rows.append(_row("  until all have ended, s", done, f"under {allowed:g} s: {met}"))
    answers = _in_turn(ours, peer, "redact")
    worst = _pairs(answers, ours, peer, "worst_ms")
    text = answers[ours.package][0]["worst"]
    rows.append(
        _row(
            f"64 KiB of hostile text redacted, worst of ten ({text}), ms",
            worst,
            f"under {_REDACT_GOAL_MS:g} ms: {_met(worst[0][0] < _REDACT_GOAL_MS)}",
        )
    )
    answers = _in_turn(ours, peer, "memory", sizes.finished_runs)
    resident = [[answer["rss_mib"][-1] for answer in answers[side.package]] for side in (ours, peer) if side]
    growth = [[_growth(answer) for answer in answers[side.package]] for side in (ours, peer) if side]
    rows.append(_row(f"resident MiB after {sizes.finished_runs:,} finished runs", resident, ""))
    told = f"under {_GROWTH_GOAL_BYTES} bytes: {_met(growth[0][0] < _GROWTH_GOAL_BYTES)}"
    rows.append(_row("  growth over the last two fifths, bytes a run", growth, told))
    table("The engine: recovery, the redactor, memory, once each", COLUMNS, rows)


def _growth(answer: dict[str, Any]) -> float:
    grown = float(answer["rss_mib"][-1] - answer["rss_mib"][-2]) * 2**20
    return grown / int(answer["runs"][-1] - answer["runs"][-2])


def _in_turns(ours: Side, peer: Side | None, rounds: int, *arguments: object) -> Answers:
    found: Answers = {}
    for _ in range(rounds):
        for side in (ours, peer, peer, ours) if peer else (ours,):
            found.setdefault(side.package, []).append(side.run("engine_worker.py", *arguments))
    return found


def _in_turn(ours: Side, peer: Side | None, *arguments: object) -> Answers:
    return {side.package: [side.run("engine_worker.py", *arguments)] for side in (ours, peer) if side}


def _pairs(answers: Answers, ours: Side, peer: Side | None, *path: str) -> list[list[float]]:
    """Every figure of ours, and of the peer if there is one."""
    return [[_at(answer, path) for answer in answers[side.package]] for side in (ours, peer) if side]


def _at(answer: Any, path: Sequence[str]) -> float:
    for name in path:
        answer = answer[name]
    return float(answer)


def _ratio(figures: list[list[float]]) -> float | None:
    """Ours by the peer's, of medians."""
    if len(figures) == 1 or not statistics.median(figures[1]):
        return None
    return statistics.median(figures[0]) / statistics.median(figures[1])


def _row(name: str, figures: list[list[float]], goal: str) -> Row:
    told = [_figure(statistics.median(side)) for side in figures]
    ratio = _ratio(figures)
    shown = "-" if ratio is None else f"{ratio:.2f}"
    return (name, told[0], told[1] if len(told) > 1 else "-", shown, _spread(figures), goal)


def _spread(figures: list[list[float]]) -> str:
    """The smallest and the largest ratio of a round."""
    count = len(figures[0]) // _PER_ROUND
    if len(figures) == 1 or not count:
        return ""
    rounds = [[sum(side[_PER_ROUND * number :][:_PER_ROUND]) for number in range(count)] for side in figures]
    ratios = [mine / theirs for mine, theirs in zip(*rounds, strict=True)]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _turns(peer: Side | None, rounds: int) -> str:
    return f"{rounds} rounds of A B B A" if peer else f"{rounds} rounds"


def _at_most(ratio: float | None, goal: float) -> str:
    return f"at most {goal}: {'no peer' if ratio is None else _met(ratio <= goal)}"


def _at_least(ratio: float | None, goal: float) -> str:
    return f"at least {goal:g}: {'no peer' if ratio is None else _met(ratio >= goal)}"


def _met(met: bool) -> str:
    return "met" if met else "MISSED"
