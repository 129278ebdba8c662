"""A model client that says what a test wrote down (LLM-06)."""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tracehold.llm.protocol import ChatMessage, LLMResponse, StreamStats, ToolCall, Usage
from tracehold.llm.wire import tool_call

Said: TypeAlias = str | LLMResponse | BaseException | Sequence[str | BaseException]
Reply: TypeAlias = Said | Callable[[list[ChatMessage]], Any]
"""One reply of a script: a text; a whole response; an exception to raise; a list of stream pieces, in which an
exception breaks the stream at its place; or a function of the messages that returns (or awaits) one of these."""

_call_numbers: Final = itertools.count(1)


class ScriptExhausted(AssertionError):  # noqa: N818 - read as what happened, as the other test errors of Python are
    """The program under test asked the scripted model for more replies than the test wrote."""


@dataclass(frozen=True)
class ScriptedCall:
    """One call the scripted model got.

    Attributes:
        messages: a copy of the messages, as they were at the time of the call.
        kwargs: a shallow copy of the other arguments; what was not passed is not there.
        streamed: whether it came by `stream`.
    """

    messages: list[ChatMessage]
    kwargs: dict[str, Any] = field(default_factory=dict)
    streamed: bool = False

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """The tools offered, or `None`."""
        return self.kwargs.get("tools")


class ScriptedLLM:
    """A model client for tests: it gives the replies of a script, one a call, in order (LLM-06).

        llm = ScriptedLLM([tool_call_reply("add", {"a": 1, "b": 2}), "The sum is 3."])

    Safe under concurrency, also from several threads: replies go to calls in the order in which the calls come, and
    `calls` has the same order.

    Args:
        replies: any iterable of replies, read one a call; `itertools.repeat("ok")` never ends.
        provider: what the record calls the provider; default unknown.
        model: the model's name, also in the responses made from texts. An `LLMResponse` is given back as it is.
        usage: token counts of the responses made from texts; default unknown.
        context_window: what the harness should believe, in tokens; `None` is unknown.
        max_output_tokens: the same for the longest reply.
        protocol: the wire format to claim, "openai" or "anthropic".
        supports_function_calling: whether to claim that tools can be called.
        piece_chars: the length of stream pieces that a text is cut into.

    Attributes:
        calls: the calls it got, oldest first.

    Raises:
        TypeError: `replies` is a single text, or the script holds something that is no reply.
        ValueError: `piece_chars` is below 1.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        model: str = "scripted",
        provider: str | None = None,
        usage: Usage | None = None,
        context_window: int | None = None,
        max_output_tokens: int | None = None,
        protocol: str = "openai",
        supports_function_calling: bool = True,
        piece_chars: int = 8,
    ) -> None:
        if isinstance(replies, str):
            raise TypeError("replies is a list of replies, not one text: write ScriptedLLM([text])")
        if piece_chars < 1:
            raise ValueError(f"piece_chars must be at least 1, not {piece_chars}")
        self.model = model
        self.provider = provider
        self.context_window = context_window
        self.max_output_tokens = max_output_tokens
        self.protocol = protocol
        self.supports_function_calling = supports_function_calling
        self.calls: list[ScriptedCall] = []
        self._usage = usage
        self._piece_chars = piece_chars
        self._replies = iter(replies)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Return the model and how many calls came."""
        return f"ScriptedLLM(model={self.model!r}, calls={len(self.calls)})"

    async def chat(
        self,
        messages: list[ChatMessage],
        *,
        tools: list[dict[str, Any]] | None = None,
        output_schema: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Return the next reply of the script.

        Raises:
            ScriptExhausted: the script has no more replies.
            BaseException: the reply is an exception, or a list of pieces that holds one.
        """
        given = _given(kwargs, tools=tools, output_schema=output_schema)
        reply = await _settle(self._take(messages, given, streamed=False), messages)
        await asyncio.sleep(0)  # a real client gives way to other tasks too
        return self._response(reply)

    async def stream(
        self,
        messages: list[ChatMessage],
        *,
        on_stats: Callable[[StreamStats], None] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[str | LLMResponse]:
        """Yield the next reply in pieces; when `tools` were passed, the whole response at the end (LLM-02).

        `on_stats` is called once, before the last item or when the stream is broken or left.

        Raises:
            ScriptExhausted: on the first piece, when the script has no more replies.
            BaseException: where the script says so.
        """
        started_at = time.perf_counter()
        reply = await _settle(self._take(messages, dict(kwargs), streamed=True), messages)
        if isinstance(reply, BaseException):
            raise reply
        stats = StreamStats(model=self.model)
        try:
            for piece in self._pieces(reply):
                await asyncio.sleep(0)
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
            response = self._response(reply)
            stats = StreamStats(response.usage, response.finish_reason, response.model)
        finally:
            stats.latency_ms = round((time.perf_counter() - started_at) * 1000)
            if on_stats is not None:
                on_stats(stats)
        if kwargs.get("tools"):
            yield response

    def _take(self, messages: list[ChatMessage], kwargs: dict[str, Any], *, streamed: bool) -> Reply:
        call = ScriptedCall(copy.deepcopy(messages), kwargs, streamed)
        with self._lock:
            self.calls.append(call)
            try:
                return next(self._replies)
            except StopIteration:
                number = len(self.calls)
        raise ScriptExhausted(
            f"the script of model {self.model!r} has {number - 1} replies, and call {number} came: "
            "add a reply, or find out why the program asked again"
        )

    def _pieces(self, reply: Said) -> Sequence[Any]:
        if isinstance(reply, list | tuple):
            return reply
        text = str(reply)
        return [text[start : start + self._piece_chars] for start in range(0, len(text), self._piece_chars)]

    def _response(self, reply: Said) -> LLMResponse:
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, LLMResponse):
            return reply
        if isinstance(reply, list | tuple):
            for piece in reply:
                if isinstance(piece, BaseException):
                    raise piece
            reply = "".join(reply)
        usage = None if self._usage is None else dict(self._usage)
        return LLMResponse(str(reply), finish_reason="stop", model=self.model, usage=usage)


def tool_call_reply(
    name: str,
    arguments: dict[str, Any] | str | None = None,
    *,
    call_id: str | None = None,
    content: str = "",
    usage: Usage | None = None,
) -> LLMResponse:
    """Return a response in which the model asks for one tool call (LLM-06).

    Args:
        name: the tool's name.
        arguments: a dictionary, or a text that is sent as it is, so that a test can play broken JSON.
        call_id: default one that no other call of this process has; give it when the test looks at it.
        content: a text beside the call.
        usage: token counts, or `None`.
    """
    return _with_calls([_tool_call(name, arguments, call_id)], content, usage)


def tool_calls_reply(
    *calls: tuple[str, dict[str, Any] | str] | tuple[str, dict[str, Any] | str, str],
    content: str = "",
    usage: Usage | None = None,
) -> LLMResponse:
    """Return a response in which the model asks for several tool calls at once.

    Args:
        calls: `(name, arguments)` or `(name, arguments, call_id)` each.
        content: a text beside the calls.
        usage: token counts, or `None`.
    """
    return _with_calls([_tool_call(*call) for call in calls], content, usage)


def _with_calls(calls: list[ToolCall], content: str, usage: Usage | None) -> LLMResponse:
    return LLMResponse(content, finish_reason="tool_calls", usage=usage, tool_calls=calls)


def _tool_call(name: str, arguments: dict[str, Any] | str | None, call_id: str | None = None) -> ToolCall:
    return tool_call(call_id or f"call_{next(_call_numbers)}", name, {} if arguments is None else arguments)


def _given(kwargs: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return kwargs | {name: value for name, value in optional.items() if value is not None}


async def _settle(reply: Reply, messages: list[ChatMessage]) -> Said:
    settled: Any = reply
    if callable(reply) and not isinstance(reply, type):
        settled = reply(messages)
        if inspect.isawaitable(settled):
            settled = await settled
    if isinstance(settled, type) and issubclass(settled, BaseException):
        return settled()
    if not isinstance(settled, str | LLMResponse | BaseException | list | tuple):
        raise TypeError(
            f"a scripted reply is a text, an LLMResponse, an exception or pieces, not {type(settled).__name__}"
        )
    return settled
