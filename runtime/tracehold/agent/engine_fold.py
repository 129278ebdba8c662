"""What a run's log says about an agent's conversation: a fold, nothing else is state (ALG-02)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracehold.agent.turn import TurnCall, calls_of
from tracehold.core.clock import NS_PER_S
from tracehold.engine.event_types import RUN_STARTED
from tracehold.events.event import Event
from tracehold.governance.approvals import ambiguous_call_ids
from tracehold.governance.decisions import Behind, Decisions
from tracehold.llm.protocol import ChatMessage, LLMResponse

GUARD_VERDICT: Final = "aaa.guard.verdict"
LLM_REQUESTED: Final = "aaa.llm.requested"
LLM_COMPLETED: Final = "aaa.llm.completed"
LLM_FAILED: Final = "aaa.llm.failed"
TOOL_REQUESTED: Final = "aaa.tool.requested"
TOOL_STARTED: Final = "aaa.tool.started"
TOOL_COMPLETED: Final = "aaa.tool.completed"
TOOL_FAILED: Final = "aaa.tool.failed"
APPROVAL_REQUESTED: Final = "aaa.approval.requested"
APPROVAL_GRANTED: Final = "aaa.approval.granted"
APPROVAL_DENIED: Final = "aaa.approval.denied"
APPROVAL_REJECTED: Final = "aaa.approval.rejected"
APPROVAL_EXPIRED: Final = "aaa.approval.expired"

_ANSWERS: Final = frozenset({APPROVAL_GRANTED, APPROVAL_DENIED, APPROVAL_REJECTED, APPROVAL_EXPIRED})
_EXTERNAL: Final = "external"
"""The source of a signal."""
_AMBIGUOUS: Final = (
    "the calls of this turn carry empty or repeated call ids, so that their results could not be told apart"
)


@dataclass
class Turn:
    """One reply of the model.

    Attributes:
        answer: id of the event it came in.
        message: as the conversation holds it.
        text: what it says.
        calls: what it wants called; "pending" is requested, "started" entered, "done" has its result.
    """

    answer: str
    message: ChatMessage
    text: str
    calls: list[TurnCall]


@dataclass
class Conversation:
    """The state of a run.

    Attributes:
        task: what it was started with.
        turns: the model's replies, oldest first.
        answered: ids of requests that have their answer.
        requests: id of a tool request to its call.
        asked: id of a tool request to the approval it waits for.
        decided: id of a tool request to the answer a person gave.
    """

    task: str = ""
    turns: list[Turn] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    requests: dict[str, TurnCall] = field(default_factory=dict)
    asked: dict[str, Event] = field(default_factory=dict)
    decided: dict[str, Event] = field(default_factory=dict)

    def messages(self, system_prompt: str | None) -> list[ChatMessage]:
        """Return what the model is to be sent next."""
        made: list[ChatMessage] = [{"role": "system", "content": system_prompt}] if system_prompt else []
        made.append({"role": "user", "content": self.task})
        for turn in self.turns:
            made += [turn.message, *(call.message() for call in turn.calls)]
        return made

    def decisions(self, request: str) -> Decisions:
        """Return what a person decided about a call; an empty table when nobody has."""
        answer = self.decided.get(request)
        if answer is None:
            return Decisions()
        data = answer.data
        call_id = self.requests[request].call_id
        expired = answer.type == APPROVAL_EXPIRED  # nobody decided anything
        table = Decisions() if expired else Decisions({call_id: answer.type == APPROVAL_GRANTED})
        expires = self.asked[request].data.get("expires_at_ns")
        late = expires is not None and int(answer.time.timestamp() * NS_PER_S) >= expires
        table.behind[call_id] = Behind(
            _text(data.get("by")) or _text(data.get("decided_by")),
            _text(data.get("reason")),
            late or expired,
        )
        return table


def fold(events: Sequence[Event]) -> Conversation:
    """Return the state after `events`, a run's log with its payloads."""
    state = Conversation()
    for event in events:
        if believed(event):
            _take(state, event)
    return state


def believed(event: Event) -> bool:
    """Whether an event may move the conversation on: of what comes from outside, only a person's answer (HND-05)."""
    return event.source != _EXTERNAL or event.type in _ANSWERS


def answers(asked: Event, event: Event) -> bool:
    """Whether `event` decides what `asked` asks for; an answer to other arguments is none (DEC-02)."""
    if event.type not in _ANSWERS or event.data.get("call_id") != asked.data.get("call_id"):
        return False
    digest = event.data.get("digest")
    return digest is None or digest == asked.data.get("digest")


def _take(state: Conversation, event: Event) -> None:
    cause = event.causation_id or ""
    if event.type == RUN_STARTED:
        told = event.data.get("input")
        state.task = str(told.get("task", "")) if isinstance(told, Mapping) else str(told or "")
    elif event.type in {LLM_COMPLETED, LLM_FAILED}:
        state.answered.add(cause)
        if event.type == LLM_COMPLETED:
            state.turns.append(_turn(event))
    elif event.type == TOOL_REQUESTED and state.turns:
        call = state.turns[-1].calls[int(event.data["index"])]
        call.state = "pending"
        state.requests[event.id] = call
    elif event.type == TOOL_STARTED and cause in state.requests:
        state.requests[cause].state = "started"
    elif event.type in {TOOL_COMPLETED, TOOL_FAILED} and cause in state.requests:
        state.requests[cause].finish(str(event.data.get("result", "")))
    elif event.type == APPROVAL_REQUESTED:
        state.asked[cause] = event
    elif event.type in _ANSWERS:
        for request, asked in state.asked.items():
            if request not in state.decided and answers(asked, event):
                state.decided[request] = event
                break


def _turn(event: Event) -> Turn:
    response: dict[str, Any] = event.data.get("response") or {}
    message: ChatMessage = response.get("message") or {"role": "assistant", "content": ""}
    calls = calls_of(LLMResponse(tool_calls=message.get("tool_calls")))
    if len(calls) > 1 and ambiguous_call_ids([call.call_id for call in calls]):
        for call in calls:
            call.problem = call.problem or _AMBIGUOUS
    return Turn(event.id, message, str(message.get("content") or ""), calls)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
