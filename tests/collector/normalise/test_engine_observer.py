"""What an engine's observer told and what the collector reads from the engine's log are the same events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from tracehold.agent.engine_agent import EngineAgent
from tracehold.engine import Engine
from tracehold.engine.observer import Observer
from tracehold.engine.observing import Translator
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.governance.permissions import ToolPermissions
from tracehold.observability.engine_types import ENGINE_TYPES
from tracehold.observability.tracer import Tracer
from tracehold.privacy import Cleaner
from tracehold.testing import ScriptedLLM, tool_calls_reply
from tracehold.tools import tool
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record
from tracehold_collector.decode.events import decode_events
from tracehold_collector.normalise.context import NormaliseContext


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
    return "paid"


async def a_gated_run(
    path: Path, tenant: str | None = None, *, erased: bool = False
) -> tuple[list[dict[str, Any]], list[Event]]:
    """What a Tracer was told of a run, and the run's log: one call runs, one is denied, one is rejected by a person."""
    calls = tool_calls_reply(
        ("look_up", {"order": "A-1"}, "c-1"), ("send", {"to": "ann"}, "c-2"), ("refund", {"order": "A-1"}, "c-3")
    )
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    agent = EngineAgent(
        "clerk",
        ScriptedLLM([calls, "I may not."], usage=usage),
        tools=[look_up, send, refund],
        permissions=ToolPermissions(deny=["send"]),
        price=lambda _: 0.25,
    )
    tracer = Tracer()
    store = SQLiteEventStore(path, poll_s=0.01)
    with Observer(tracer) as observer:
        async with Engine(store) as engine:
            observer.attach(engine)
            handle = await engine.start(agent, {"task": "help"}, run_id="r", tenant=tenant, meta={"user": "u-1"})
            await engine.await_event("r", lambda event: event.type == "aaa.approval.requested")
            await handle.signal("aaa.approval.denied", {"call_id": "c-3", "by": "ann@example.org"})
            await handle.result()
            await engine.bus.drain()
            if erased:
                await engine.erase("r")
            log = await store.read("r")
    await store.aclose()
    return tracer.events, log


@pytest.fixture
def decode() -> Any:
    def read(events: list[dict[str, Any]], tenant: str = "default") -> list[Record]:
        context = NormaliseContext(tenant, Pseudonyms(b"k" * 32, tenant), Cleaner())
        batch = decode_events(b"\n".join(map(orjson.dumps, events)), encoding="ndjson", context=context)
        assert batch.rejected == []
        return batch.records

    return read


def as_line(event: Event) -> dict[str, Any]:
    fields = {name: value for name, value in event.__dict__.items() if name != "dup"}
    made = fields | {"time": event.time.isoformat().replace("+00:00", "Z"), "blobs": []}
    return {"stream": event.stream, "event": made}


def facts_of(record: Record) -> dict[str, Any]:
    names = (
        "tenant", "run_id", "kind", "trace_id", "span_id", "parent_span_id", "seq", "status", "started_at",
        "duration_ns", "user_ref", "model", "input_tokens", "output_tokens", "cost_usd", "decision", "decided_by",
        "rule", "error_type",
    )  # fmt: skip
    return {name: getattr(record, name) for name in names}


def denials(records: list[Record]) -> list[tuple[str, str | None]]:
    return [
        (record.kind, record.decision)
        for record in records
        if record.status == "blocked" and record.decision is not None
    ]


@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_what_comes_both_ways_has_one_id(tmp_path: Path, tenant: str, decode: Any) -> None:
    live, log = asyncio.run(a_gated_run(tmp_path / "log.db", None if tenant == "default" else tenant, erased=True))
    told = {record.event_id for record in decode(live, tenant)}
    read = {record.event_id: record for record in decode([as_line(event) for event in log], tenant)}
    assert len(told) == len(live)
    assert told < set(read)
    # What only the log has are the halves that open a call, which no figure counts.
    assert {read[only].type for only in set(read) - told} == {
        "aaa.llm.requested", "aaa.tool.requested", "aaa.tool.started",
    }  # fmt: skip


def test_what_comes_both_ways_says_the_same(tmp_path: Path, decode: Any) -> None:
    live, log = asyncio.run(a_gated_run(tmp_path / "log.db"))
    told = decode(live)
    read = {record.event_id: record for record in decode([as_line(event) for event in log])}
    for record in told:
        assert facts_of(record) == facts_of(read[record.event_id])
    # DEC-01: each attempt that was stopped is one denial, on either way.
    assert denials(told) == denials(list(read.values())) == [("gate", "denied"), ("approval", "rejected")]


@pytest.mark.parametrize("short", sorted(ENGINE_TYPES))
def test_each_type_is_of_the_same_kind_and_status(short: str, decode: Any) -> None:
    data = {"call_id": "c", "name": "send", "kind": "success", "outcome": {"kind": "failed"}, "child_run_id": "k"}
    event = Event(type=f"aaa.{short}", id="e", stream="r", run_id="r", seq=4, data=data)
    made = Translator().translate(event)
    (read,) = decode([as_line(event)])
    if made is None:
        assert read.status == "started" or short == "llm.delta"
        return
    (told,) = decode([made])
    assert told.event_id == read.event_id
    assert facts_of(told) == facts_of(read)
