"""The loop: ask the model, carry out the calls it wants, tell it the results, until it has an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from tracehold.agent import rulings
from tracehold.agent.decisions import event_id_of
from tracehold.agent.journal import Journal, current_call
from tracehold.agent.turn import NESTED, TurnCall, assistant_message, calls_of
from tracehold.core.errors import LLMResponseError, RunLimitExceeded, SessionError
from tracehold.core.scope import Scope
from tracehold.execution.recording import emit, stopped
from tracehold.governance.approvals import ambiguous_call_ids
from tracehold.governance.decisions import Decisions
from tracehold.governance.hitl import ApprovalRequired, PendingAction
from tracehold.governance.hooks import Hook
from tracehold.harness import Harness
from tracehold.observability.event_types import LLM_CALL, TOOL_CALL
from tracehold.tools.base import ToolResponse
from tracehold.tools.confirmation import needs_confirmation


class Suspended(Exception):  # noqa: N818 - a control signal within the agent
    """The turn cannot go on until a person has decided about `pendings`."""

    def __init__(self, pendings: list[PendingAction]) -> None:
        super().__init__(f"{len(pendings)} actions wait")
        self.pendings = pendings


@runtime_checkable
class Reentrant(Protocol):
    """A tool that keeps its own state: after a crash or a suspension it is entered again and goes on where it was."""

    @property
    def reentrant(self) -> bool:
        """Whether it does, as it is set up."""

    async def aforget(self, place: Scope) -> None:
        """Drop the state that a call kept at `place`: its result is safely kept, or nobody wants it any more."""


class DurableMark(Hook):
    """Notes that a call enters its tool, in the instant before it does: from then on it is never run again."""

    async def before_tool(self, name: str, parameters: dict[str, Any]) -> None:  # noqa: ARG002 - a hook's signature
        """Save the mark."""
        current = current_call.get()
        if current is not None:
            journal, call = current
            await journal.enter(call)


class KeptResult(Hook):
    """Keeps what a tool gave back before anybody else hears of it: a hook that fails must not lose it."""

    async def after_tool(self, name: str, parameters: dict[str, Any], result: ToolResponse) -> None:  # noqa: ARG002 - a hook's signature
        """Save the result."""
        current = current_call.get()
        if current is not None:
            journal, call = current
            await _keep(journal, call, result.text)


async def _keep(journal: Journal, call: TurnCall, text: str) -> None:
    call.finish(text)
    rulings.settle(journal, call)
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
            raise _out_of_turns(harness)
        state.remaining -= 1
        state.messages = await harness.areduce("agent", state.messages, turn_start=state.meta.get("turn_start", 0))
        response = await harness.acall_llm(state.messages, tools=tools)
        if not response.tool_calls:
            return response.content
        state.messages.append(assistant_message(response))
        journal.calls = calls_of(response)
        _refuse_ambiguous(harness, journal)
        await journal.save()


def _out_of_turns(harness: Harness) -> RunLimitExceeded:
    """Record the model call that will not be made, as for any other limit (DEC-01), and return the error."""
    error = RunLimitExceeded(
        "the model asked for tools in its last turn; raise max_turns if it needs more", rule="max_turns"
    )
    model = str(getattr(harness.llm, "model", None) or "")
    emit(harness.tracer, {"type": LLM_CALL, "model": model, **stopped(error), "decided_by": "agent"})
    return error


def _refuse_ambiguous(harness: Harness, journal: Journal) -> None:
    """Refuse a turn in which an id may stand for more than one call that needs approval (HITL-09)."""
    if not journal.durable:
        return
    asking = [call for call in journal.calls if call.problem is None and _may_wait(harness, call)]
    ids = [call.call_id for call in asking]
    everyone = [call.call_id for call in journal.calls]
    repeated = any(everyone.count(call_id) > 1 for call_id in ids)
    # "a/b" is also what waits as "b" inside a sub-agent's call "a".
    inside = any(other.startswith(call_id + NESTED) for call_id in ids for other in ids)
    if not (ambiguous_call_ids(ids) or repeated or inside):
        return
    reason = "calls that need approval carry an empty or repeated call id, so that no decision could tell them apart"
    for call in journal.calls:
        _refuse(harness, call, reason)
    raise LLMResponseError(f"the model's turn was refused: {reason}")


def _refuse(harness: Harness, call: TurnCall, reason: str) -> None:
    """Record a call that never came to the harness (DEC-01)."""
    emit(
        harness.tracer,
        {
            "type": TOOL_CALL,
            "tool": call.name,
            "params": call.arguments,
            "call_id": call.call_id,
            "status": "invalid_args",
            "decision": "invalid_args",
            "decided_by": "agent",
            "reason": reason,
        },
    )


def _may_wait(harness: Harness, call: TurnCall) -> bool:
    tool = _tool(harness, call)
    if tool is None:
        return False
    try:
        return _reentrant(harness, call) is not None or needs_confirmation(tool, call.arguments)
    except Exception:  # noqa: BLE001 - the gate itself refuses it later
        return False


def _tool(harness: Harness, call: TurnCall) -> Any:
    return harness.tool_registry.get(call.name) if harness.tool_registry is not None else None


def _reentrant(harness: Harness, call: TurnCall) -> Reentrant | None:
    tool = _tool(harness, call)
    return tool if isinstance(tool, Reentrant) and tool.reentrant else None


async def _carry_out(harness: Harness, journal: Journal) -> None:
    """Carry out the calls that are left; those that may run at the same time do (REG-02)."""
    await _pick_up(harness, journal)
    table = rulings.decisions_of(journal) if journal.durable else None
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
        _refuse(harness, call, call.problem)
        call.finish(f"{call.name} was not run: {call.problem}")
        return []
    token = current_call.set((journal, call))
    try:
        response = await harness.aexec_tool(call.name, call.arguments, call_id=call.call_id, decisions=table)
    except ApprovalRequired as waiting:
        call.state = "pending"
        call.nested = waiting.pendings[0].call_id != call.call_id
        rulings.settle_inside(journal, call)
        return waiting.pendings
    finally:
        current_call.reset(token)
    if call.state != "done":
        await _keep(journal, call, response.text)
    await _forget(harness, journal, call)
    return []


async def forget_inside(harness: Harness, journal: Journal) -> None:
    """Drop what calls of a run that is over keep for themselves."""
    for call in journal.calls:
        await _forget(harness, journal, call)


async def _forget(harness: Harness, journal: Journal, call: TurnCall) -> None:
    tool = _reentrant(harness, call)
    if tool is not None:
        await tool.aforget(journal.place_of(call))


async def _pick_up(harness: Harness, journal: Journal) -> None:
    """Go on with calls as another process left them."""
    for call in journal.calls:
        if call.state == "pending" and not journal.waits_for(call):
            call.state = "waiting"  # it ended between the question and its being kept: ask again
        elif call.state == "started" and _reentrant(harness, call) is not None:
            call.state = "waiting"  # it goes on by itself
        elif call.state == "done":
            await _forget(harness, journal, call)
    _account_for_lost(harness, journal)


def _account_for_lost(harness: Harness, journal: Journal) -> None:
    """Tell the record and the model of calls that were inside their tool when a process ended."""
    for call in journal.lost_calls():
        journal.give_up(call)
        rulings.settle(journal, call)
        emit(
            harness.tracer,
            {
                "type": TOOL_CALL,
                "event_id": event_id_of(journal, call.started_at_ns or 0, call.call_id, "outcome unknown"),
                "tool": call.name,
                "params": call.arguments,
                "call_id": call.call_id,
                "started_at_ns": call.started_at_ns,
                "status": "error",
                "error_type": "OutcomeUnknown",
                "reason": call.text,
            },
        )


def _groups(harness: Harness, calls: Iterable[TurnCall]) -> Iterator[list[TurnCall]]:
    """Yield neighbours that may run at the same time together, and every other call alone."""
    group: list[TurnCall] = []
    for call in calls:
        if getattr(_tool(harness, call), "supports_parallel", False):
            group.append(call)
            continue
        if group:
            yield group
            group = []
        yield [call]
    if group:
        yield group
