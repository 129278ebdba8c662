"""A gated agent in the engine, through the real collector: observed live and read from its log, it counts once."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.processes import COMMAND, clean_environment, collector
from tracehold import CollectorExporter, ToolPermissions, Tracer, tool
from tracehold.agent.engine_agent import EngineAgent
from tracehold.engine import Engine
from tracehold.engine.observer import Observer, observe_history
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.testing import ScriptedLLM, tool_calls_reply

pytestmark = pytest.mark.timeout(120)


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} was delivered"


@tool
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(requires_confirmation=True)
def refund(order: str) -> str:
    """Pay a customer back."""
    return f"{order} paid"


async def a_gated_run(path: Path, tracer: Tracer) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    asks = [("look_up", {"order": "A-1"}, "c-1"), ("send", {"to": "ann"}, "c-2"), ("refund", {"order": "A-1"}, "c-3")]
    calls = tool_calls_reply(*asks, usage=usage)
    agent = EngineAgent(
        "clerk",
        ScriptedLLM([calls, "I may not."], usage=usage),
        tools=[look_up, send, refund],
        permissions=ToolPermissions(deny=["send"]),
        price=lambda _: 0.25,
    )
    store = SQLiteEventStore(path)
    with Observer(tracer) as observer:
        async with Engine(store) as engine:
            observer.attach(engine)
            handle = await engine.start(agent, {"task": "help"}, run_id="r-1")
            await engine.await_event("r-1", lambda event: event.type == "aaa.approval.requested")
            await handle.signal("aaa.approval.denied", {"call_id": "c-3", "by": "ann@example.org"})
            await handle.result()
            await engine.bus.drain()
    await store.aclose()


async def tell_history(path: Path, tracer: Tracer) -> None:
    store = SQLiteEventStore(path)
    await observe_history(store, tracer)
    await store.aclose()


def tracehold(*arguments: object) -> str:
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def rows(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tracehold(*arguments, "--json").splitlines()]


@pytest.mark.parametrize("log_first", [False, True])
def test_a_run_that_comes_both_ways_is_counted_once(tmp_path: Path, log_first: bool) -> None:
    log, exported = tmp_path / "log.db", tmp_path / "log.jsonl"
    with collector(tmp_path / "data") as running:
        tracer = Tracer(exporters=[CollectorExporter(running.url)])
        asyncio.run(a_gated_run(log, Tracer() if log_first else tracer))
        assert tracer.force_flush()
        before = figures(running.url)
        exported.write_text(tracehold("log", "export", log))
        (loaded,) = rows("ingest", exported, "--url", running.url)
        assert loaded["rejected"] == 0
        assert bool(loaded["duplicates"]) is not log_first
        after = figures(running.url)
        asyncio.run(tell_history(log, tracer))
        tracer.close()
        assert figures(running.url) == after
    if not log_first:
        assert after == before
    (run,), stopped = after
    assert (run["status"], run["llm_calls"], run["input_tokens"], run["cost_usd"]) == ("ok", 2, 14, 0.5)
    assert run["denials"] == 2
    assert sorted((row["name"], row["decision"], row["decided_by"]) for row in stopped) == [
        ("refund", "rejected", "ann@example.org"),
        ("send", "denied", "permissions"),
    ]


def figures(url: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    told = ("run_id", "name", "agent", "status", "llm_calls", "tool_calls", "denials", "input_tokens", "cost_usd")
    runs = [{key: row.get(key) for key in told} for row in rows("runs", "--url", url)]
    stopped = [
        {key: row[key] for key in ("event_id", "name", "decision", "decided_by", "rule")}
        for row in rows("denials", "--url", url)
    ]
    return runs, stopped
