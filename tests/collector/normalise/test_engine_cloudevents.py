"""What the runtime writes as a CloudEvent is read here as the event itself is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tracehold.events.cloudevents import to_cloudevent
from tracehold.events.event import Event
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.cloud_events import from_cloud_event
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.engine_events import engine_record
from tracehold_collector.normalise.engine_spans import OpenSpans

EVENTS = [
    Event(
        id="acme/r-1:started",
        type="aaa.run.started",
        source="tool_loop",
        stream="acme/r-1",
        run_id="acme/r-1",
        tenant="acme",
        seq=0,
        time=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        data={"algo": "tool_loop", "input": {"task": "ship order 7"}, "parent": None, "run_tag": None, "budget": {}},
        meta={"user": "ann", "session": "s-1", "agent": "shipping"},
    ),
    Event(
        id="e-2",
        type="aaa.llm.completed",
        stream="acme/r-1",
        run_id="acme/r-1",
        seq=2,
        time=datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
        causation_id="e-1",
        correlation_id="acme/r-1:started",
        schema_ref="llm/v2",
        data={
            "tag": "main",
            "response": {"model": "m-1", "finish_reason": "stop"},
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            "cost": 0.25,
        },
        meta={"user": "ann", "session": "s-1"},
    ),
    Event(
        id="e-3",
        type="aaa.tool.completed",
        stream="acme/r-1",
        run_id="acme/r-1",
        seq=4,
        data={"name": "search", "call_id": "c-1", "result": "found"},
    ),
]


def read(event: dict[str, Any], context: NormaliseContext) -> Record:
    return engine_record(event, None, OpenSpans(), context)


def as_logged(event: Event) -> dict[str, Any]:
    """The event as its own log holds it, which is what the collector knows best."""
    logged: dict[str, Any] = json.loads(json.dumps(event.__dict__ | {"time": event.time.isoformat()}))
    return {key: value for key, value in logged.items() if key != "dup"}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_a_cloud_event_of_the_runtime_is_read_as_the_event_of_its_log(event: Event, context: NormaliseContext) -> None:
    sent = json.loads(json.dumps(to_cloudevent(event)))
    assert read(from_cloud_event(sent), context) == read(as_logged(event), context)


def test_user_session_agent_and_spend_arrive(context: NormaliseContext) -> None:
    started, completed = (read(from_cloud_event(to_cloudevent(event)), context) for event in EVENTS[:2])
    assert started.user_ref == completed.user_ref is not None
    assert started.session_id == completed.session_id is not None
    assert started.agent == "tool_loop"
    assert (completed.input_tokens, completed.output_tokens, completed.cost_usd) == (10, 5, 0.25)
    assert completed.trace_id == "0af7651916cd43dd8448eb211c80319c"


def test_meta_that_no_attribute_can_carry_arrives_as_content(context: NormaliseContext) -> None:
    event = Event(type="aaa.tool.completed", id="e-4", run_id="r", data={}, meta={"Rate-Limit": 0.5, "user": "ann"})
    record = read(from_cloud_event(to_cloudevent(event)), context)
    assert record.user_ref is not None
    assert "Rate-Limit" in json.dumps(record.content, default=str)
