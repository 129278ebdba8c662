"""The loop: ask the model, carry out the calls it wants, tell it the results, until it has an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from tracehold.agent import decisions
from tracehold.agent.journal import Journal, current_call
from tracehold.agent.turn import NESTED, TurnCall, assistant_message, calls_of
from tracehold.core.errors import LLMResponseError, RunLimitExceeded, SessionError
from tracehold.execution.recording import emit
from tracehold.governance.approvals import ambiguous_call_ids
from tracehold.governance.decisions import Decisions
from tracehold.governance.hitl import ApprovalRequired, PendingAction
from tracehold.governance.hooks import Hook
from tracehold.harness import Harness
from tracehold.observability.event_types import TOOL_CALL
from tracehold.tools.confirmation import needs_confirmation


class Suspended(Exception):  # noqa: N818 - a control signal within the agent
    """The turn cannot go on until a person has decided about `pendings`."""

    def __init__(self, pendings: list[PendingAction]) -> None:
        super().__init__(f"{len(pendings)} actions wait")
        self.pendings = pendings


@runtime_checkable
class Reentrant(Protocol):
    """A tool that keeps its own state: after a crash or a suspension it is entered again and goes on where it was."""

    reentrant: bool

    async def aforget(self, call_id: str) -> None:
        """Drop the state of a call whose result is safely kept."""


class DurableMark(Hook):
    """Notes that a call enters its tool, in the instant before it does: from then on it is never run again."""

    async def before_tool(self, name: str, parameters: dict[str, Any]) -> None:  # noqa: ARG002 - a hook's signature
        """Save the mark."""
        current = current_call.get()
        if current is not None:
            journal, call = current
            call.state = "started"
            await journal.save()


async def run_turns(harness: Harness, journal: Journal, tools: list[dict[str, Any]]) -> str:
    """Carry a run on to its answer.

    Args:
        harness: makes the calls.
        journal: the run's state; `remaining` model calls are allowed.
        tools: schemas of the tools on offer.

    Raises:
        Suspended: actions wait for a person.
        RunLimitExceeded: a limit is reached, or the model still wants calls after its last turn.
        LLMResponseError: calls that need approval cannot be told apart (HITL-09).
    """
    state = journal.state
    while True:
        if journal.calls:
            await _carry_out(harness, journal)
            state.messages.extend(call.message() for call in journal.calls)
            journal.calls = []
            await journal.save()
        if state.remaining < 1:
            raise RunLimitExceeded(
                "the model asked for tools in its last turn; raise max_turns if it needs more", rule="max_turns"
            )
        state.remaining -= 1
        state.messages = await harness.areduce("agent", state.messages, turn_start=state.meta["turn_start"])
        response = await harness.acall_llm(state.messages, tools=tools)
        if not response.tool_calls:
            return response.content
        state.messages.append(assistant_message(response))
        journal.calls = calls_of(response)
        _refuse_ambiguous(harness, journal)
        await journal.save()


def _refuse_ambiguous(harness: Harness, journal: Journal) -> None:
    """Refuse a turn whose calls for approval carry an empty or repeated id (HITL-09)."""
    if not journal.durable:
        return
    asking = [call for call in journal.calls if call.problem is None and _may_wait(harness, call)]
    ambiguous = ambiguous_call_ids([call.call_id for call in asking])
    everyone = [call.call_id for call in journal.calls]
    ambiguous += [call.call_id for call in asking if everyone.count(call.call_id) > 1]
    if not ambiguous:
        return
    reason = "calls that need approval carry an empty or repeated call id, so that no decision could tell them apart"
    for call in journal.calls:
        harness.trace_tool_gate(call.name, call.arguments, "invalid_args", reason)
    raise LLMResponseError(f"the model's turn was refused: {reason}")


def _may_wait(harness: Harness, call: TurnCall) -> bool:
    tool = harness.tool_registry.get(call.name) if harness.tool_registry is not None else None
    if tool is None:
        return False
    try:
        return isinstance(tool, Reentrant) or needs_confirmation(tool, call.arguments)
    except Exception:  # noqa: BLE001 - the gate itself refuses it later
        return False


async def _carry_out(harness: Harness, journal: Journal) -> None:
    """Carry out the calls that are left; those that may run at the same time do (REG-02)."""
    _account_for_lost(harness, journal)
    table = decisions.decisions_of(journal) if journal.durable else None
    pendings = list(journal.state.pending)
    for group in _groups(harness, [call for call in journal.calls if call.state == "waiting"]):
        outcomes = await asyncio.gather(
            *(_call(harness, journal, call, table) for call in group), return_exceptions=True
        )
        # All of a group come to their end before the first error goes on: a tool is not torn off half way.
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            pendings.extend(outcome)
    if pendings and not journal.durable:
        raise SessionError(
            "an action inside this run waits for approval, and the outer agent has no checkpoint_store to wait with: "
            "give it one"
        )
    if pendings:
        raise Suspended(pendings)


async def _call(harness: Harness, journal: Journal, call: TurnCall, table: Decisions | None) -> list[PendingAction]:
    """Carry out one call and keep its result; return what waits."""
    if call.problem is not None:
        harness.trace_tool_gate(call.name, call.arguments, "invalid_args", call.problem)
        call.finish(f"{call.name} was not run: {call.problem}")
        return []
    token = current_call.set((journal, call))
    try:
        response = await harness.aexec_tool(call.name, call.arguments, call_id=call.call_id, decisions=table)
    except ApprovalRequired as waiting:
        call.state = "pending"
        call.nested = waiting.pendings[0].call_id != call.call_id
        return waiting.pendings
    finally:
        current_call.reset(token)
    call.finish(response.text)
    decisions.settle(journal, call)
    await journal.save()
    tool = harness.tool_registry.get(call.name) if harness.tool_registry is not None else None
    if isinstance(tool, Reentrant):
        await tool.aforget(call.call_id)
    return []


def _account_for_lost(harness: Harness, journal: Journal) -> None:
    """Calls that were inside their tool when a process ended: those that keep their own state are entered again."""
    for call in journal.lost_calls():
        tool = harness.tool_registry.get(call.name) if harness.tool_registry is not None else None
        if isinstance(tool, Reentrant):
            call.state = "waiting"
            continue
        journal.give_up(call)
        decisions.settle(journal, call)
        emit(
            harness.tracer,
            {
                "type": TOOL_CALL,
                "tool": call.name,
                "params": call.arguments,
                "call_id": call.call_id,
                "status": "error",
                "error_type": "OutcomeUnknown",
                "reason": call.text,
            },
        )


def _groups(harness: Harness, calls: Iterable[TurnCall]) -> Iterator[list[TurnCall]]:
    """Yield neighbours that may run at the same time together, and every other call alone."""
    group: list[TurnCall] = []
    for call in calls:
        tool = harness.tool_registry.get(call.name) if harness.tool_registry is not None else None
        if tool is not None and tool.supports_parallel:
            group.append(call)
            continue
        if group:
            yield group
            group = []
        yield [call]
    if group:
        yield group


def nested_pendings(call_id: str, pendings: Iterable[PendingAction]) -> list[PendingAction]:
    """Return the actions that wait inside a call, under ids that say so."""
    return [
        PendingAction(
            action.tool_name,
            action.arguments,
            call_id + NESTED + action.call_id,
            digest=action.digest,
            requested_at_ns=action.requested_at_ns,
            expires_at_ns=action.expires_at_ns,
        )
        for action in pendings
    ]
