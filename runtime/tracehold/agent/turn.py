"""The tool calls of one turn: what the model asked for, and how far each has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from tracehold.core import strictjson
from tracehold.llm.protocol import ChatMessage, LLMResponse, ToolCall

CallState: TypeAlias = Literal["waiting", "pending", "started", "done"]
"""waiting: not run yet. pending: a person must decide. started: entered its tool. done: has its result."""

NESTED: Final = "/"
"""Between the id of a call and the id of an action that waits inside it."""

OUTCOME_UNKNOWN: Final = (
    "The process ended while this call ran. Its outcome is unknown and it was not run again: "
    "check before you repeat it."
)


@dataclass
class TurnCall:
    """One tool call of a turn.

    Attributes:
        call_id: the model's id for it, which approvals are keyed by.
        name: the tool.
        arguments: its parsed arguments.
        problem: why the arguments cannot be used, else `None`.
        state: how far it has come; kept with the checkpoint, so that no tool runs twice.
        text: what the model is told, once done.
        nested: what waits is not this call but something inside it.
        started_at_ns: when it entered its tool, UTC nanoseconds; `None` before.
    """

    call_id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    state: CallState = "waiting"
    text: str = ""
    nested: bool = False
    started_at_ns: int | None = None

    def finish(self, text: str) -> None:
        """Note the result."""
        self.state, self.text = "done", text

    def owns(self, call_id: str) -> bool:
        """Whether an action's id is this call's, or that of something which waits inside it."""
        return call_id == self.call_id or (self.nested and call_id.startswith(self.call_id + NESTED))

    def to_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps; not a copy, which a large argument would cost at every save."""
        return dict(vars(self))

    def message(self) -> ChatMessage:
        """Return the message that tells the model the result."""
        return {"role": "tool", "tool_call_id": self.call_id, "name": self.name, "content": self.text}


def calls_of(response: LLMResponse) -> list[TurnCall]:
    """Return the tool calls that a response asks for, malformed ones included."""
    return [_call(raw) for raw in response.tool_calls or ()]


def assistant_message(response: LLMResponse) -> ChatMessage:
    """Return the message that stands for `response` in the conversation."""
    if response.assistant_message is not None:
        return response.assistant_message
    message: ChatMessage = {"role": "assistant", "content": response.content}
    if response.tool_calls:
        message["tool_calls"] = response.tool_calls
    return message


_KEPT_UNDER: Final = 8
"""Levels of nesting above a call's arguments in a stored run."""


def _call(raw: ToolCall) -> TurnCall:
    function = raw.get("function")
    if not isinstance(function, Mapping):
        return TurnCall(str(raw.get("id") or ""), "", problem="it does not say which function to call")
    call = TurnCall(str(raw.get("id") or ""), str(function.get("name") or ""))
    arguments = function.get("arguments")
    try:
        # An empty text is how some providers write "no arguments".
        parsed = arguments if isinstance(arguments, dict) else strictjson.loads(arguments or "{}")
        _check_that_it_can_be_kept(parsed)
    except (ValueError, TypeError) as error:
        call.problem = f"its arguments are not valid JSON: {error}"
        return call
    if isinstance(parsed, dict):
        call.arguments = parsed
    else:
        call.problem = f"its arguments must be a JSON object, not {type(parsed).__name__}"
    return call


def _check_that_it_can_be_kept(arguments: Any) -> None:
    """Refuse here what would end the run when its state is stored: the model can then do better."""
    for _ in range(_KEPT_UNDER):
        arguments = [arguments]
    strictjson.dumps(arguments, name="arguments")
