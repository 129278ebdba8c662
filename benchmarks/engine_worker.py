"""One measurement of an event-sourced engine, in an interpreter of its own: `engine_worker.py PACKAGE PART [ARGUMENT...]`.

Prints JSON. Only the standard library and documented names: the same code measures both sides.

    emit STORE EVENTS     p50_us and p99_us of making an event and emitting it, one at a time in one run, emit_p50_us without
                          the making; events_s with 1, 16 and 64 runs at once
    runs STORE RUNS       runs_s from start to result, one by one and 64 at once
    recover RUNS          recover_s and all_done_s after a crash left RUNS open runs, beside as many finished ones
    redact                worst_ms and worst, the slowest of ten hostile texts of 64 KiB
    memory RUNS           rss_mib after a fifth, three fifths and all of RUNS finished runs

STORE is memory, sqlite or sqlite_redacted; the others use SQLite.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from agent_events import events
from figures import percentile
from hostile_texts import hostile_texts

AT_ONCE = (1, 16, 64)
_WARM_UP = 200
_FACTS = 20
_PATIENCE_S = 120.0
_STEP = "bench.step"
_HOMES = {
    "Engine": "runtime",
    "Event": "events",
    "InMemoryEventStore": "events",
    "SQLiteEventStore": "events.sqlite",
    "standard_redactor": "privacy",
    "OutcomeKind": "core.outcome",
}


class Names:
    """The documented names, at a package's top or in the module that the reference puts them in."""

    def __init__(self, package: str) -> None:
        top = importlib.import_module(package)
        for name, home in _HOMES.items():
            found = top if hasattr(top, name) else importlib.import_module(f"{package}.{home}")
            setattr(self, name, getattr(found, name))

    def __getattr__(self, name: str) -> Any:
        # Only for the type checker: what was found above is never looked for here.
        raise AttributeError(name)


class Steps:
    """An algorithm that succeeds once its run's `open` is false, and after any step."""

    name = "bench.steps"

    def __init__(self, names: Names) -> None:
        self._success = names.OutcomeKind.SUCCESS
        self.awaited: set[str] = set()
        self.all_ended = asyncio.Event()

    def subscriptions(self) -> list[str]:
        """What starts a run, and what continues it."""
        return ["aaa.run.started", _STEP]

    async def on_event(self, event: Any, ctx: Any) -> list[Any]:
        """Complete the run, or leave it open."""
        if event.type == _STEP or not event.data["input"]["open"]:
            await ctx.engine.complete(event.run_id, self._success, value={"ok": True})
            self.awaited.discard(event.run_id)
            if not self.awaited:
                self.all_ended.set()
        return []


class Bench:
    """An engine, its store and its algorithm."""

    def __init__(self, names: Names, kind: str, folder: Path) -> None:
        self.names = names
        self.store = (
            names.InMemoryEventStore()
            if kind == "memory"
            else names.SQLiteEventStore(folder / "log.db", synchronous="NORMAL")
        )
        redactor = names.standard_redactor() if kind == "sqlite_redacted" else None
        self.engine = names.Engine(store=self.store, redactor=redactor)
        self.algorithm = Steps(names)
        self.engine.register(self.algorithm)

    def fact(self, run_id: str, data: dict[str, Any], kind: str = "bench.fact") -> Any:
        """An event of a run."""
        return self.names.Event(type=kind, stream=run_id, run_id=run_id, data=data)

    async def start(self, run_id: str, *, stays_open: bool) -> None:
        """Start a run that ends by itself, or one that waits."""
        await self.engine.start(self.algorithm, {"open": stays_open}, run_id=run_id)

    async def finish(self, run_id: str) -> None:
        """Start a run and wait for its result."""
        await self.start(run_id, stays_open=False)
        await self.engine.handle(run_id).result()

    async def close_store(self) -> None:
        """Close what holds the file."""
        if hasattr(self.store, "aclose"):
            await self.store.aclose()


@asynccontextmanager
async def _opened(names: Names, kind: str, folder: Path) -> AsyncIterator[Bench]:
    bench = Bench(names, kind, folder)
    async with bench.engine:
        yield bench
    await bench.close_store()


def _mixed() -> list[dict[str, Any]]:
    pairs = zip(events("tool_call", 128), events("llm_call", 128), strict=True)
    return [event for pair in pairs for event in pair]


async def emit(names: Names, folder: Path, kind: str, count: str) -> dict[str, Any]:
    """Measure `emit`."""
    batch = _mixed()
    async with _opened(names, kind, folder) as bench:

        async def feed(run_id: str, events: int) -> list[tuple[float, float]]:
            taken = []
            for number in range(events):
                begun = time.perf_counter()
                event = bench.fact(run_id, batch[number % len(batch)])
                made = time.perf_counter()
                await bench.engine.emit(event)
                over = time.perf_counter()
                taken.append((over - begun, over - made))
            return taken

        await bench.start("first", stays_open=True)
        await feed("first", _WARM_UP)
        alone, without_making = zip(*await feed("first", int(count)), strict=True)
        rates = {}
        for width in AT_ONCE:
            runs = [f"r{width}-{number}" for number in range(width)]
            for run_id in runs:
                await bench.start(run_id, stays_open=True)
            each = max(1, int(count) // width)
            begun = time.perf_counter()
            await asyncio.gather(*(feed(run_id, each) for run_id in runs))
            rates[width] = each * width / (time.perf_counter() - begun)
    return {
        "p50_us": percentile(alone, 0.5) * 1e6,
        "p99_us": percentile(alone, 0.99) * 1e6,
        "emit_p50_us": percentile(without_making, 0.5) * 1e6,
        "events_s": rates,
    }


async def runs(names: Names, folder: Path, kind: str, count: str) -> dict[str, Any]:
    """Measure whole runs."""
    rates = {}
    async with _opened(names, kind, folder) as bench:
        for number in range(_WARM_UP // 4):
            await bench.finish(f"w{number}")
        for width in (1, 64):
            begun = time.perf_counter()
            for first in range(0, int(count), width):
                await asyncio.gather(*(bench.finish(f"r{width}-{first + number}") for number in range(width)))
            rates[width] = int(count) / (time.perf_counter() - begun)
    return {"runs_s": rates}


async def recover(names: Names, folder: Path, count: str) -> dict[str, Any]:
    """Leave open runs with an unanswered step, crash, and time their recovery."""
    batch = _mixed()
    bench = Bench(names, "sqlite", folder)
    await bench.engine.__aenter__()
    left = [f"open{number}" for number in range(int(count))]
    for number, run_id in enumerate(left):
        await bench.start(run_id, stays_open=True)
        facts = [bench.fact(run_id, batch[(number + place) % len(batch)]) for place in range(_FACTS)]
        await bench.store.append(run_id, [*facts, bench.fact(run_id, {}, _STEP)])
        await bench.finish(f"done{number}")
    await bench.engine.abort()
    await bench.close_store()
    async with _opened(names, "sqlite", folder) as bench:
        awaited = bench.algorithm.awaited = set(left)
        begun = time.perf_counter()
        adopted = len(await bench.engine.recover([bench.algorithm]))
        recovered = time.perf_counter() - begun
        # A caller waiting on each run would be measured too; what the algorithm has completed is in the log.
        with suppress(TimeoutError):
            await asyncio.wait_for(bench.algorithm.all_ended.wait(), _PATIENCE_S)
        done = time.perf_counter() - begun
    return {"adopted": adopted, "unfinished": len(awaited), "recover_s": recovered, "all_done_s": done}


async def redact(names: Names, _folder: Path) -> dict[str, Any]:
    """Redact each hostile text until half a second has passed, at most five times; the median counts."""
    redactor = names.standard_redactor()
    redactor.redact(names.Event(type="x", data={"content": "warm up"}))
    spent = {}
    for name, text in hostile_texts().items():
        event = names.Event(type="x", data={"content": text})
        taken: list[float] = []
        while len(taken) < 5 and sum(taken) < 0.5:
            begun = time.perf_counter()
            redactor.redact(event)
            taken.append(time.perf_counter() - begun)
        spent[name] = statistics.median(taken) * 1e3
    worst = max(spent, key=lambda name: spent[name])
    return {"worst_ms": spent[worst], "worst": worst, "each_ms": spent}


async def memory(names: Names, folder: Path, count: str) -> dict[str, Any]:
    """Finish runs one by one, and look at the resident set thrice."""
    total = int(count)
    marks = [total // 5, total * 3 // 5, total]
    seen = []
    async with _opened(names, "sqlite", folder) as bench:
        for number in range(1, total + 1):
            await bench.finish(f"r{number}")
            if number in marks:
                gc.collect()
                seen.append(_resident_mib())
    return {"runs": marks, "rss_mib": seen}


def _resident_mib() -> float:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("no VmRSS in /proc/self/status: memory is measured on Linux only")


PARTS: dict[str, Callable[..., Coroutine[Any, Any, dict[str, Any]]]] = {
    "emit": emit,
    "runs": runs,
    "recover": recover,
    "redact": redact,
    "memory": memory,
}


def main(package: str, part: str, *arguments: str) -> None:
    """Measure, and print one line."""
    with tempfile.TemporaryDirectory() as folder:
        answer = asyncio.run(PARTS[part](Names(package), Path(folder), *arguments))
    print(json.dumps({**answer, "python": platform.python_version()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
