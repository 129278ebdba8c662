"""What a model passes to a tool, sane or hostile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from harness_parts import (
    Probe,
    Refusing,
    execute,
    in_run,
    only,
    run,
    soon,
    stopped,
    with_tools,
)
from tracehold import Tracer
from tracehold.execution import RunPolicy
from tracehold.governance.hitl import ApprovalRequired
from tracehold.governance.permissions import ToolPermissions
from tracehold.tools.base import ToolParameter, ToolResponse


class Typed(Probe):
    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter("count", "integer", "How many."),
            ToolParameter("mode", "string", "How.", required=False, schema={"type": "string", "enum": ["a", "b"]}),
        ]


@pytest.mark.parametrize("parameters", [{}, {"count": "3"}, {"count": None}, {"count": 1, "mode": "c"}])
def test_parameters_that_do_not_fit_the_schema_are_refused(parameters: Any, tracer: Tracer) -> None:  # HAR-41, REG-10
    tool = Typed()
    answer = execute(with_tools(tool, tracer=tracer), parameters)
    assert answer.status == "error"
    assert tool.runs == []
    assert stopped(tracer, "invalid_args")["params"] == parameters


@pytest.mark.parametrize("parameters", [{"count": 3}, {"count": 3, "mode": "a"}, {"count": 3, "more": "ok"}])
def test_parameters_that_fit_run(parameters: Any) -> None:  # REG-10
    tool = Typed()
    assert execute(with_tools(tool), parameters).status == "success"
    assert tool.runs == [parameters]


@pytest.mark.parametrize("parameters", ["a text", ["a list"], 7, ("a", "tuple")])
def test_parameters_that_are_no_mapping_are_refused(parameters: Any, tracer: Tracer) -> None:  # HAR-41
    tool = Probe()
    answer = run(with_tools(tool, tracer=tracer).aexec_tool("probe", parameters))
    assert answer.status == "error"
    assert tool.runs == []
    stopped(tracer, "invalid_args")


def test_a_cancel_callback_that_raises_stops_the_call_and_is_recorded(tracer: Tracer) -> None:  # DEC-01
    def broken() -> bool:
        raise LookupError("no switch")

    async def stopped_by_it() -> None:
        tool = Probe()
        with in_run(RunPolicy(cancel=broken)), pytest.raises(LookupError):
            await with_tools(tool, tracer=tracer).aexec_tool("probe", {})
        assert tool.runs == []

    run(stopped_by_it())
    assert only(tracer, "tool_call")["status"] == "error"


class NoRoomError(Exception):
    pass


class FailingTracer:
    def emit(self, event: dict[str, Any]) -> None:
        raise NoRoomError


def test_a_cancellation_is_not_lost_to_a_failing_trace() -> None:  # DEC-11, HAR-32
    async def cancelled() -> None:
        asked = asyncio.Event()

        async def hang(tool: Any, parameters: Any) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        harness = with_tools(Probe(confirm=True), confirm=hang, tracer=FailingTracer())
        task = asyncio.create_task(harness.aexec_tool("probe", {}))
        await soon(asked.wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())


@pytest.mark.parametrize("name", [None, 7, ["probe"], {}, "", "x" * 100_000, "probe\n", "a\0b", "\ud83e"])
@pytest.mark.parametrize("permissions", [None, ToolPermissions(deny=["other"])])
def test_a_name_that_is_no_name_is_refused(name: Any, permissions: Any, tracer: Tracer) -> None:  # HAR-41, DEC-01
    tool = Probe()
    answer = execute(with_tools(tool, permissions=permissions, tracer=tracer), name=name)
    assert answer.status == "error"
    assert len(answer.text) < 2000
    assert tool.runs == []
    assert only(tracer, "tool_call")["decision"] in {"unknown_tool", "denied"}


class BrokenSchema(Probe):
    def get_input_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"city": {"type": "no such type"}}}


def test_a_schema_that_breaks_the_validator_is_an_error_response(tracer: Tracer) -> None:  # REG-11, DEC-01
    tool = BrokenSchema()
    assert execute(with_tools(tool, tracer=tracer), {"city": "Paris"}).status == "error"
    assert tool.runs == []
    assert only(tracer, "tool_call")["status"] in {"invalid_args", "error"}


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def circle() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


HOSTILE = {
    "lone surrogate": "\ud83e",
    "NUL": "a\0b",
    "not a number": float("nan"),
    "infinite": float("inf"),
    "huge number": 10**400,
    "huge text": "x" * 2_000_000,
    "deep": deep(1200),
    "very deep": deep(50_000),
    "circular": circle(),
    "bytes": b"\xff\x00",
    "object": object(),
    "a key that is no text": {1: 2, None: 3, (1, 2): 4},
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("mode", ["plain", "approval", "denied"])
def test_hostile_arguments_never_raise_and_are_recorded_once(kind: str, mode: str, tracer: Tracer) -> None:  # HAR-41
    tool = Probe(confirm=mode == "approval")
    harness = with_tools(tool, tracer=tracer, permissions=Refusing() if mode == "denied" else None)
    decisions = {} if mode == "approval" else None
    try:
        answer = execute(harness, {"extra": HOSTILE[kind]}, call_id="c", decisions=decisions)
    except ApprovalRequired as suspended:
        assert suspended.pending.tool_name == "probe"  # noqa: PT017 - both outcomes are right
    else:
        assert isinstance(answer, ToolResponse)
    recorded = len(tracer.events) + tracer.summary()["dropped_uncleanable"]
    assert recorded == 1
