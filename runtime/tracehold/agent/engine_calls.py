"""One call of an agent in the engine, on its way through the harness: what the log has to know of it, and when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from tracehold.agent.engine_fold import APPROVAL_REQUESTED, TOOL_COMPLETED, TOOL_FAILED, TOOL_STARTED
from tracehold.agent.turn import TurnCall
from tracehold.core.outcome import OutcomeKind
from tracehold.engine.algorithm import EngineView
from tracehold.engine.run_fold import RunFold
from tracehold.events.derived_ids import derived_id
from tracehold.events.event import Event
from tracehold.governance.hitl import ApprovalRequired
from tracehold.governance.hooks import Hook
from tracehold.observability.event_types import DENIALS

_BY_PERSON: Final = frozenset({"rejected", "expired"})
"""Decisions whose event is the approval's own: told again with the call, one attempt would be two denials (DEC-01)."""

_GATE_FIELDS: Final = ("decision", "decided_by", "rule", "policy_digest")


class Host(EngineView, Protocol):
    """What the agent needs of its engine beyond a context's."""

    def spawn(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run tracked background work."""

    async def emit(self, event: Event) -> Event | None:
        """Store and deliver an event."""

    async def complete(self, run_id: str, kind: OutcomeKind, value: Any = None, reason: str | None = None) -> None:
        """End a run."""

    def follow(self, stream: str, from_seq: int = 0) -> AsyncGenerator[Event]:
        """Yield stored and future events, another process's too."""

    async def hydrate(self, event: Event) -> Event:
        """Restore a payload."""

    async def fold_of(self, run_id: str) -> RunFold:
        """Return a run's state."""


class NotOursError(Exception):
    """The run has ended, or another process has entered the tool."""


@dataclass
class Call:
    """One call on its way through the harness.

    Attributes:
        host: the engine.
        request: the event that asks for it.
        record: what the harness recorded of it last.
        kept: what the tool gave back, `None` before.
    """

    host: Host
    request: Event
    record: dict[str, Any] = field(default_factory=dict)
    kept: str | None = None

    @contextlib.contextmanager
    def entered(self) -> Iterator[Self]:
        """Make it the current call for a block."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)


_current: ContextVar[Call | None] = ContextVar("tracehold_engine_call", default=None)


class Records:
    """Stands in for a tracer: keeps what the gates said about the current call."""

    def emit(self, event: dict[str, Any]) -> None:
        """Keep the event with its call."""
        call = _current.get()
        if call is not None:
            call.record = event


class Entered(Hook):
    """Puts into the log that a tool is entered, in the instant before it is; last of all hooks."""

    async def before_tool(self, name: str, parameters: dict[str, Any]) -> None:  # noqa: ARG002 - a hook's signature
        """Store the event, or stop the call when the run has ended or somebody else has entered the tool."""
        call = _current.get()
        if call is None:
            return
        if not await may_go_on(call.host, call.request.stream):
            raise NotOursError
        data = {"call_id": call.request.data.get("call_id"), "name": name}
        made = call.request.caused(TOOL_STARTED, data, id=derived_id(call.request.id, "started"))
        stored = await call.host.emit(made)
        # Another time: another process has entered it, and a retry of ours met its event.
        if stored is None or stored.dup or stored.time != made.time:
            raise NotOursError


class Kept(Hook):
    """Keeps a result before anybody's hook hears of it; first of all hooks."""

    async def after_tool(self, name: str, parameters: dict[str, Any], result: Any) -> None:  # noqa: ARG002 - as above
        """Keep it."""
        call = _current.get()
        if call is not None:
            call.kept = result.text


async def may_go_on(host: Host, run_id: str) -> bool:
    """Whether the run is open and within its budget: the engine may be about to end it."""
    run = await host.fold_of(run_id)
    return run.is_open and run.budget.exceeded_by(run.ledger) is None


def asked_for(request: Event, waiting: ApprovalRequired) -> Event:
    """Return the event that asks a person about a call, bound to its arguments (DEC-02)."""
    pending = waiting.pendings[0]
    data = {
        "call_id": pending.call_id,
        "name": pending.tool_name,
        "arguments": pending.arguments,
        "digest": pending.digest,
        "requested_at_ns": pending.requested_at_ns,
        "expires_at_ns": pending.expires_at_ns,
    }
    return request.caused(APPROVAL_REQUESTED, data, id=derived_id(request.id, "approval"))


def verdict(record: dict[str, Any]) -> dict[str, Any]:
    """What the log says about a call that came back from the harness, out of the harness's own record of it."""
    decision = record.get("decision")
    said = {key: record[key] for key in _GATE_FIELDS if record.get(key) is not None}
    if decision in _BY_PERSON:
        return {"error": {"type": decision, "message": record.get("reason")}}
    if decision in DENIALS:
        return said | {"error": {"type": decision, "message": record.get("reason")}}
    if record.get("status") == "error":
        return said | {"error": {"type": record.get("error_type") or "ToolError", "message": record.get("result")}}
    return said


def result_of(request: Event, call: TurnCall, text: str, said: dict[str, Any]) -> Event:
    """Return the one event that ends a call.

    Args:
        request: the event that asked for it.
        call: the call.
        text: what the model is told.
        said: further fields; with an `error` among them it has failed.
    """
    kind = TOOL_FAILED if "error" in said else TOOL_COMPLETED
    data = {"call_id": call.call_id, "name": call.name, "result": text, **said}
    return request.caused(kind, data, id=derived_id(request.id, "result"))
