"""What the harness needs of a model client, and what a client gives back (LLM)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

ChatMessage: TypeAlias = dict[str, Any]
"""A message in the function-calling shape: role and content, for an assistant also `tool_calls`, for a tool
`tool_call_id`."""

ToolCall: TypeAlias = dict[str, Any]
"""`{"id": ..., "type": "function", "function": {"name": ..., "arguments": "<JSON text>"}}` (LLM-04)."""

Usage: TypeAlias = dict[str, Any]
"""Token counts of one call, at least `total_tokens` when known (LLM-05). Ours also fill `prompt_tokens`,
`completion_tokens`, `cached_tokens`, `cache_write_tokens` and `reasoning_tokens` when the provider tells them."""


@dataclass
class LLMResponse:
    """A complete reply of a model (LLM-04).

    Attributes:
        content: the text; `str()` of the response.
        finish_reason: the provider's word, such as "stop", "length" or "tool_calls".
        model: the model that answered, as the provider names it.
        usage: token counts, or `None` when the provider told none.
        reasoning_content: the model's own reasoning, where the provider shows it.
        tool_calls: what the model wants called, or `None`.
        latency_ms: whole milliseconds the client measured.
        raw: the provider's own object, for what has no field here.
        assistant_message: the message to append to the conversation when it must hold more than content and
            `tool_calls`, such as signed reasoning.
    """

    content: str = ""
    finish_reason: str | None = None
    model: str = ""
    usage: Usage | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    latency_ms: int = 0
    raw: Any = None
    assistant_message: ChatMessage | None = None

    def __str__(self) -> str:
        """Return the content."""
        return self.content


@dataclass
class StreamStats:
    """What a client tells through `on_stats` when a stream ends (LLM-02)."""

    usage: Usage | None = None
    finish_reason: str | None = None
    model: str = ""
    latency_ms: int = 0


@runtime_checkable
class LLMClient(Protocol):
    """A model client; duck-typed, no base class is needed (LLM-03).

    The harness also reads, when present: `model`, `context_window` and `max_output_tokens` (tokens, `None` when
    unknown), `protocol` ("openai" or "anthropic"), `supports_function_calling`.
    """

    async def chat(
        self,
        messages: list[ChatMessage],
        *,
        tools: list[dict[str, Any]] | None = None,
        output_schema: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Return the model's reply (LLM-01)."""

    def stream(
        self,
        messages: list[ChatMessage],
        *,
        on_stats: Callable[[StreamStats], None] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[str | LLMResponse]:
        """Yield text pieces; with `tools`, at the end one `LLMResponse` (LLM-02)."""
