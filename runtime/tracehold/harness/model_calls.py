"""Model calls with hooks around them: plain, streamed and structured (HAR-10 to HAR-39)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from tracehold.context import WindowBudgetConfig
from tracehold.execution.governed import ModelCall, checked_response
from tracehold.governance.hooks import fire
from tracehold.harness.services import Services
from tracehold.llm.protocol import ChatMessage, LLMClient, LLMResponse, StreamStats

StatsCallback = Callable[[StreamStats], None]


async def call_llm(services: Services, messages: list[ChatMessage], kwargs: dict[str, Any]) -> LLMResponse:
    """Make one model call; `Harness.acall_llm` documents it."""
    call = await _admitted(services, messages, {})
    after = (lambda response: fire(services.hooks, "after_model", response)) if services.hooks else None
    return await call.chat(_with_output_reserve(services.llm, services.window_budget, kwargs), after)


async def stream_llm(
    services: Services, messages: list[ChatMessage], kwargs: dict[str, Any]
) -> AsyncGenerator[str | LLMResponse, None]:
    """Make one streamed model call; `Harness.astream_llm` documents it."""
    call = await _admitted(services, messages, {"streamed": True})
    stream = _Stream(call)
    error: BaseException | None = None
    try:
        call.begin()
        sent = _with_output_reserve(services.llm, services.window_budget, kwargs)
        pieces = services.llm.stream(messages, **{**sent, "on_stats": stream.listener(kwargs.get("on_stats"))})
        async with _closing(pieces):
            async for piece in pieces:
                if isinstance(piece, str):
                    stream.note_text(piece)
                    yield piece
                else:
                    # Read on: a client may deliver its statistics after its last item.
                    stream.response = checked_response(services.llm, piece)
    except GeneratorExit:
        stream.status = "cancelled"
        raise
    except BaseException as caught:
        error = caught
        raise
    finally:
        stream.settle(error)
    if stream.response is not None:
        await fire(services.hooks, "after_model", stream.response)
    call.check_used()
    if stream.response is not None:
        yield stream.response


class _Stream:
    """What one stream has told so far."""

    def __init__(self, call: ModelCall) -> None:
        self.response: LLMResponse | None = None
        self.status: str | None = None
        self._call = call
        self._stats: StreamStats | None = None
        self._text: list[str] = []

    def listener(self, also: StatsCallback | None) -> StatsCallback:
        """Return what keeps the statistics that the client delivers (HAR-27), and tells the caller's own callback."""

        def note(stats: StreamStats) -> None:
            self._stats = stats
            if also is not None:
                also(stats)

        return note

    def note_text(self, piece: str) -> None:
        """Keep a piece, for exporters that may see content (DEC-15)."""
        if self._call.keeps_content:
            self._text.append(piece)

    def settle(self, error: BaseException | None) -> None:
        """Account for the stream and record it, once, however it ended (HAR-26, DEC-03)."""
        usage = self._told("usage")
        if error is not None:
            self._call.settle_failed(error, usage)
            return
        fields: dict[str, Any] = {}
        if self.status is not None:
            fields |= {"status": self.status, "reason": "the consumer closed the stream"}
        if self.response is not None:
            fields["has_tool_calls"] = bool(getattr(self.response, "tool_calls", None))
        self._call.settle(
            usage=usage,
            model=self._told("model"),
            finish_reason=self._told("finish_reason"),
            response=self.response or "".join(self._text),
            fields=fields,
        )

    def _told(self, field: str) -> Any:
        """What the statistics say, or else the response itself: a client may fill in one and not the other."""
        said = getattr(self._stats, field, None)
        return said or getattr(self.response, field, None)


async def _admitted(services: Services, messages: list[ChatMessage], fields: dict[str, Any]) -> ModelCall:
    """Check and count the call, then let hooks see it (HAR-13, HAR-23)."""
    call = ModelCall(services.llm, messages, services.tracer, fields)
    call.admit()
    if services.hooks:
        try:
            await fire(services.hooks, "before_model", messages)
        except BaseException as error:
            call.withdraw(error)
            raise
    return call


def _with_output_reserve(llm: LLMClient, budget: WindowBudgetConfig, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Send the output reserve as `max_tokens` where the protocol demands a number and the window is known (HAR-21)."""
    window = getattr(llm, "context_window", None)
    if getattr(llm, "protocol", None) != "anthropic" or window is None or kwargs.get("max_tokens") is not None:
        return kwargs
    reserve = budget.output_reserve(window=window, model_max_output=getattr(llm, "max_output_tokens", None))
    return {**kwargs, "max_tokens": reserve}


def _closing(pieces: Any) -> contextlib.AbstractAsyncContextManager[Any]:
    """Close a client's generator when we stop early, so that its connection is released at once."""
    return contextlib.aclosing(pieces) if hasattr(pieces, "aclose") else contextlib.nullcontext()
