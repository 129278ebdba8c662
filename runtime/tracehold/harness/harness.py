"""The choke point: every model call and every tool call of an agent goes through a `Harness` (HAR)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, TypeVar

from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.execution.recording import emit
from tracehold.harness import context, model_calls, structured, tool_calls
from tracehold.harness.services import Services
from tracehold.harness.structured import Model
from tracehold.llm.protocol import ChatMessage, LLMResponse
from tracehold.observability.event_types import TOOL_CALL
from tracehold.tools.base import ToolResponse

Data = TypeVar("Data")

_DEFAULT_STRUCTURED_RETRIES: Final = 1

_GATE_BEHIND: Final = {"denied": "permissions", "rejected": "approval", "invalid_args": "registry"}


class Harness(Services):
    """Model calls, tool calls and context under one set of gates, hooks, limits and records.

    Everything that happens leaves one event, what was stopped included (DEC-01). The constructor and its parameters are
    those of `Services`.
    """

    async def acall_llm(
        self, messages: list[ChatMessage], *, tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Call the model once and return its response unchanged (HAR-10).

        Order: limit check, `before_model` hooks, the call, its usage recorded, its event, `after_model` hooks, token
        check, deadline check (HAR-13).

        Args:
            messages: in the function-calling shape.
            tools: schemas of the tools on offer; sent only when there are any (HAR-11).
            kwargs: reach `chat` unchanged (HAR-12).

        Raises:
            RunLimitExceeded: a limit was reached before the call, or the call went beyond one.
            RunCancelled: the cancel callback said stop.
        """
        return await model_calls.call_llm(self, messages, {**kwargs, "tools": tools} if tools else kwargs)

    async def astream_llm(self, messages: list[ChatMessage], **kwargs: Any) -> AsyncGenerator[str | LLMResponse, None]:
        """Yield the model's text piece by piece; with `tools`, at the end its `LLMResponse` (HAR-22 to HAR-32).

        The call counts when it starts; it is accounted and recorded once however it ends: drained, closed early or
        broken (DEC-03).

        Args:
            messages: in the function-calling shape.
            kwargs: reach `stream` unchanged; `tools` among them.

        Raises:
            RunLimitExceeded: on the first iteration when a limit is reached; at the end when the call went beyond one.
            RunCancelled: the cancel callback said stop.
        """
        pieces = model_calls.stream_llm(self, messages, kwargs)
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()

    async def astructured(
        self,
        messages: list[ChatMessage],
        schema_model: type[Model],
        *,
        retries: int = _DEFAULT_STRUCTURED_RETRIES,
        **kwargs: Any,
    ) -> Model:
        """Return a validated instance of a pydantic class (HAR-33).

        The schema is sent to the client and stands in a leading system message (HAR-34). A reply that does not validate
        is sent back with what is wrong (HAR-35).

        Args:
            messages: not modified.
            schema_model: a pydantic class.
            retries: further attempts after the first; each is a full `acall_llm` (HAR-37).
            kwargs: for each call.

        Raises:
            LLMResponseError: no attempt gave a valid object (HAR-36).
        """
        return await structured.structured(self.acall_llm, messages, schema_model, retries, kwargs)

    async def aexec_tool(
        self,
        name: str,
        parameters: dict[str, Any],
        *,
        call_id: str | None = None,
        decisions: Mapping[str, Any] | None = None,
    ) -> ToolResponse:
        """Take one tool call through its gates and run it (HAR-40).

        A refusal comes back as an error response, so that the model can react (HAR-41).

        Args:
            name: the tool.
            parameters: its arguments.
            call_id: the call's id, which decisions are keyed by.
            decisions: `{call_id: bool}`; anything but `None` selects approval mode, an empty one too (HAR-45). A
                `Decisions` also says who decided.

        Raises:
            ApprovalRequired: in approval mode, when a person has not decided about this call yet (HAR-46).
            RunLimitExceeded: a limit is reached.
            RunCancelled: the cancel callback said stop.
            ValueError: in approval mode, a call that needs approval without a `call_id` (HAR-50).
        """
        return await tool_calls.exec_tool(self, name, parameters, call_id, decisions)

    async def aassemble(
        self, history: Sequence[Message], query: str = "", scope: Scope | None = None
    ) -> list[ChatMessage]:
        """Return the messages to send: the history, compacted if need be, behind a block of retrieved material.

        Args:
            history: the conversation so far.
            query: what to retrieve for; empty inserts nothing (HAR-67).
            scope: reaches every source unchanged (HAR-68).
        """
        return await context.assemble(self, history, query, scope, self._asummarize)

    def context_block(self, query: str, scope: Scope | None = None) -> str:
        """Return retrieved material behind a preface that marks it as reference, or `""` (HAR-70 to HAR-74)."""
        return context.context_block(self, query, scope)

    async def acontext_block(self, query: str, scope: Scope | None = None) -> str:
        """Return what `context_block` returns, with the sources fetched concurrently (HAR-74)."""
        return await context.acontext_block(self, query, scope)

    async def areduce(self, kind: str, data: Data, **kw: Any) -> Data:
        """Shorten a trajectory that is over its budget; otherwise return the same object (HAR-75 to HAR-82).

        Args:
            kind: "agent" (messages), "plan" (texts) or "reflection" (dicts with `kind` and `text`).
            data: the trajectory.
            kw: for the reducer, such as `turn_start` for "agent".

        Raises:
            KeyError: another kind, when the window is known.
            ContextWindowExceeded: what must be kept alone is over the budget.
        """
        return await context.reduce(self, kind, data, self._asummarize, kw)

    async def atools_for(self, query: str) -> list[dict[str, Any]]:
        """Return the schemas of the tools to offer for `query`, without denied ones (HAR-83 to HAR-86)."""
        return await context.tools_for(self, query)

    def trace(self, event: dict[str, Any]) -> None:
        """Hand an event to the tracer; without one do nothing (HAR-87)."""
        if self.tracer is not None:
            self.tracer.emit(event)

    def trace_tool_gate(self, name: str, parameters: dict[str, Any], status: str, detail: str = "") -> None:
        """Record a tool call that a gate stopped before it came here (HAR-88).

        Args:
            name: the tool.
            parameters: its arguments, as far as they are known.
            status: "denied", "rejected", "invalid_args" or another decision of DEC-01.
            detail: the reason.
        """
        emit(
            self.tracer,
            {
                "type": TOOL_CALL,
                "tool": name,
                "params": parameters,
                "status": status,
                "decision": status,
                "decided_by": _GATE_BEHIND.get(status, "harness"),
                "reason": detail,
            },
        )

    async def _asummarize(self, instructions: str, text: str) -> str:
        return await context.summarize(self, self.acall_llm, instructions, text)
