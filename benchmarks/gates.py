"""A tool call through every gate, with its durable record: permission, arguments, limits, redaction, a row or a line.

The floor is what the record alone costs: the same row inserted and committed by a bare `sqlite3`, the same line written
and flushed. The tool itself does nothing; a sync one runs on a worker thread, as blocking tools must.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from figures import percentile, table
from tracehold import (
    Harness,
    JsonlExporter,
    RunPolicy,
    SqliteExporter,
    Tool,
    ToolParameter,
    ToolPermissions,
    ToolRegistry,
    ToolResponse,
    TraceExporter,
    Tracer,
    new_run_id,
)
from tracehold.execution.running import reset_run, start_run
from tracehold.governance import Condition, PolicyPermissions, PolicyRule
from tracehold.testing import ScriptedLLM

ROUNDS = 3

ARGUMENTS = {
    "order_id": "A-10017",
    "limit": 20,
    "expand": ["lines", "customer"],
    "note": "asked by ana.silva@shop-example.org with sk-proj-" + "A1b2C3d4E5" * 4,
}
RESULT = "order A-10017 left the warehouse and waits for a signature; write to broker@customs-example.org. " * 3


class _Lookup(Tool):
    """A tool with four parameters, one of them required."""

    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter("order_id", "string", "which order"),
            ToolParameter("limit", "integer", "how many lines", required=False),
            ToolParameter("expand", "array", "what to add", required=False),
            ToolParameter("note", "string", "why", required=False),
        ]


class SyncLookup(_Lookup):
    """Blocks, as far as anybody knows."""

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        return ToolResponse.ok(RESULT, data=parameters["limit"])


class AsyncLookup(_Lookup):
    """Stays on the event loop."""

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        return ToolResponse.ok(RESULT, data=parameters["limit"])


def _policy() -> PolicyPermissions:
    return PolicyPermissions(
        [
            PolicyRule("orders.read", "allow", ["lookup*"], when=[Condition("limit", "at_most", 100)]),
            PolicyRule("no.admin", "deny", ["admin_*"], reason="not for agents"),
        ]
    )


TOOLS: dict[str, type[Tool]] = {"async": AsyncLookup, "sync": SyncLookup}
PERMISSIONS: dict[str, Callable[[], Any]] = {"lists": lambda: ToolPermissions(allow=["lookup"]), "policy": _policy}
EXPORTERS: dict[str, Callable[[Path], TraceExporter]] = {
    "SqliteExporter": lambda folder: SqliteExporter(folder / "events.db"),
    "JsonlExporter": lambda folder: JsonlExporter(folder / "events.jsonl"),
}


def run(count: int) -> None:
    """Measure `count` calls of each kind in interleaved rounds, and print."""
    seconds: dict[str, list[float]] = {}
    floors: dict[str, list[float]] = {name: [] for name in EXPORTERS}
    for _ in range(ROUNDS):
        for exporter, make in EXPORTERS.items():
            for kind, tool in TOOLS.items():
                for gate, permissions in PERMISSIONS.items():
                    with tempfile.TemporaryDirectory() as folder:
                        taken = asyncio.run(_calls(make(Path(folder)), tool, permissions(), count))
                        seconds.setdefault(f"{exporter}, {kind} tool, {gate}", []).extend(taken)
                        if len(taken) != _recorded(Path(folder)):
                            raise SystemExit(f"{exporter}: {len(taken)} calls, {_recorded(Path(folder))} records")
                        floors[exporter] += _floor(Path(folder))
    rows = []
    for exporter in EXPORTERS:
        base = statistics.median(floors[exporter])
        rows.append(_row(f"floor: the record of {exporter} alone", floors[exporter], base))
        rows += [_row(name, taken, base) for name, taken in seconds.items() if name.startswith(exporter)]
    table(
        "A gated tool call and its record", ("one call at a time", "calls/s", "p50 us", "p99 us", "p50 vs floor"), rows
    )


def _row(name: str, taken: list[float], base: float) -> tuple[str, ...]:
    middle = percentile(taken, 0.5)
    each = sum(taken) / len(taken)
    return (
        name,
        f"{1 / each:,.0f}",
        f"{middle * 1e6:.0f}",
        f"{percentile(taken, 0.99) * 1e6:.0f}",
        f"{middle / base:.1f}",
    )


async def _calls(exporter: TraceExporter, tool: type[Tool], permissions: Any, count: int) -> list[float]:
    tracer = Tracer(exporters=[exporter])
    registry = ToolRegistry()
    registry.register(tool("lookup", "Look up an order"))
    harness = Harness(ScriptedLLM([]), tool_registry=registry, permissions=permissions, tracer=tracer)
    registry.to_openai_schema()
    limits = RunPolicy(max_tool_calls=10 * count, max_tokens=10**9, deadline_seconds=3600.0)
    token = start_run(new_run_id(), policy=limits)
    taken = []
    try:
        for number in range(count):
            begun = time.perf_counter()
            response = await harness.aexec_tool("lookup", ARGUMENTS, call_id=f"call_{number}")
            taken.append(time.perf_counter() - begun)
            if response.status != "success":
                raise SystemExit(f"the call was stopped: {response.text}")
    finally:
        reset_run(token)
        tracer.close()
    return taken


def _recorded(folder: Path) -> int:
    if (folder / "events.db").exists():
        with closing(sqlite3.connect(folder / "events.db")) as store:
            return int(store.execute("SELECT count(*) FROM traces WHERE type = 'tool_call'").fetchone()[0])
    return len((folder / "events.jsonl").read_bytes().splitlines())


def _floor(folder: Path) -> list[float]:
    """Write the same records again, to a file of the same kind beside, one by one."""
    taken = []
    if (folder / "events.db").exists():
        with closing(sqlite3.connect(folder / "events.db")) as store:
            rows = store.execute("SELECT type, run_id, event, created_at FROM traces").fetchall()
        with closing(sqlite3.connect(folder / "floor.db", isolation_level=None)) as store:
            store.execute("PRAGMA journal_mode = WAL")
            store.execute("PRAGMA synchronous = NORMAL")
            store.execute("CREATE TABLE traces (type TEXT, run_id TEXT, event TEXT, created_at TEXT)")
            store.execute("CREATE INDEX traces_run_id ON traces (run_id)")
            for row in rows:
                begun = time.perf_counter()
                store.execute("INSERT INTO traces VALUES (?, ?, ?, ?)", row)
                taken.append(time.perf_counter() - begun)
        return taken
    with (folder / "floor.jsonl").open("ab") as file:
        for line in (folder / "events.jsonl").read_bytes().splitlines(keepends=True):
            begun = time.perf_counter()
            file.write(line)
            file.flush()
            taken.append(time.perf_counter() - begun)
    return taken
