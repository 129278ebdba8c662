"""What both clients do alike: ask, measure, stream, close."""

from __future__ import annotations

import contextlib
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any, ClassVar, Self

from tracehold.core.errors import LLMConfigError
from tracehold.llm.connections import ConnectionsPerLoop
from tracehold.llm.failures import Failures
from tracehold.llm.protocol import ChatMessage, LLMResponse, StreamStats
from tracehold.llm.wire import Assembler, as_dict, sendable, with_extra_body

OnStats = Callable[[StreamStats], None]


class SdkClient(ABC):
    """A model client on a provider's SDK; use a subclass.

    It holds no key: only the function that makes SDK clients does. The same object may be used from several event
    loops and threads.

    Attributes:
        model: the model asked for.
        provider: the vendor's name, for errors.
        context_window: tokens of prompt and reply together, `None` when unknown.
        max_output_tokens: the longest reply in tokens, `None` when unknown.
        supports_function_calling: whether tools may be passed.
        protocol: the wire format, "openai" or "anthropic".
    """

    protocol: ClassVar[str]

    def __init__(
        self,
        model: str,
        *,
        provider: str,
        sdk: ModuleType,
        make_client: Callable[[], Any],
        context_window: int | None,
        max_output_tokens: int | None,
        supports_function_calling: bool,
    ) -> None:
        if not model:
            raise LLMConfigError(f"{type(self).__name__} needs the name of a model")
        self.model = model
        self.provider = provider
        self.context_window = context_window
        self.max_output_tokens = max_output_tokens
        self.supports_function_calling = supports_function_calling
        self._failures = Failures(sdk, provider, model)
        self._connections = ConnectionsPerLoop(make_client)
        self._known: frozenset[str] | None = None

    def __repr__(self) -> str:
        """Return class and model; addresses may hold credentials."""
        return f"{type(self).__name__}(model={self.model!r})"

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Close this event loop's connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close this event loop's connections; a later call opens new ones.

        Not needed under `asyncio.run`: connections are closed with their loop.
        """
        await self._connections.aclose()

    async def chat(
        self,
        messages: list[ChatMessage],
        *,
        tools: list[dict[str, Any]] | None = None,
        output_schema: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Return the model's reply (LLM-01).

        Args:
            messages: the conversation in the function-calling shape.
            tools: the tools offered, in the function-calling shape.
            output_schema: a JSON Schema that the reply should follow.
            kwargs: further parameters of the provider's API, such as `temperature`; what the SDK does not know is sent
                in the body as it is.

        Raises:
            LLMRequestError: the provider refused, or could not be reached; `retryable` says whether to try again.
            LLMResponseError: the answer is no reply.
        """
        started_at = time.perf_counter()
        arguments = self._arguments(messages, tools, output_schema, kwargs)
        with self._failures.mapped():
            answer = await self._send(arguments)
            content = as_dict(answer)
            if content is None:
                raise self._failures.unusable("not with JSON; check base_url and what stands before the server")
            response = self._reply(content)
        response.raw = answer
        response.latency_ms = _milliseconds_since(started_at)
        return response

    async def stream(
        self,
        messages: list[ChatMessage],
        *,
        tools: list[dict[str, Any]] | None = None,
        output_schema: dict[str, Any] | None = None,
        on_stats: OnStats | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[str | LLMResponse]:
        """Yield the reply's text as it comes; with `tools`, at the end the whole `LLMResponse` (LLM-02).

        Args:
            messages: as in `chat`.
            tools: as in `chat`.
            output_schema: as in `chat`.
            on_stats: called once for each stream that was opened, also when it breaks or is left; counts that the
                provider had not told by then are absent.
            kwargs: as in `chat`.

        Raises:
            LLMRequestError: as in `chat`; also when the stream ends before the reply does.
            LLMResponseError: as in `chat`.
        """
        started_at = time.perf_counter()
        arguments = self._arguments(messages, tools, output_schema, kwargs)
        with self._failures.mapped():
            events = await self._open(arguments)
        assembler = self._assembler()
        try:
            # No `yield` inside `mapped()`: what the consumer throws in is not the provider's failure.
            while (piece := await self._next_piece(events, assembler)) is not None:
                if piece:
                    yield piece
            if not assembler.finished():
                raise self._failures.cut_off()
        finally:
            try:
                with contextlib.suppress(Exception):
                    await events.close()
            finally:
                response = assembler.response()
                response.latency_ms = _milliseconds_since(started_at)
                if on_stats is not None:
                    on_stats(StreamStats(response.usage, response.finish_reason, response.model, response.latency_ms))
        if tools:
            yield response

    async def _open(self, arguments: dict[str, Any]) -> Any:
        events = await self._send(arguments | self._stream_arguments(arguments))
        if not hasattr(events, "__anext__"):
            raise self._failures.unusable("not with a stream; check base_url and what stands before the server")
        return events

    async def _next_piece(self, events: Any, assembler: Assembler) -> str | None:
        with self._failures.mapped():
            try:
                event = as_dict(await events.__anext__())
            except StopAsyncIteration:
                return None
            return "" if event is None else assembler.feed(event)

    async def _send(self, arguments: dict[str, Any]) -> Any:
        create = self._method(await self._connections.client())
        if self._known is None:
            self._known = frozenset(inspect.signature(create).parameters)
        return await create(**with_extra_body(sendable(arguments), self._known))

    def _stream_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - for overriding
        return {"stream": True}

    @abstractmethod
    def _arguments(
        self,
        messages: list[ChatMessage],
        tools: list[dict[str, Any]] | None,
        output_schema: dict[str, Any] | None,
        kwargs: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the arguments of the SDK's method."""

    @abstractmethod
    def _method(self, sdk_client: Any) -> Any:
        """Return the SDK's method that makes a call."""

    @abstractmethod
    def _reply(self, answer: dict[str, Any]) -> LLMResponse:
        """Read a whole answer."""

    @abstractmethod
    def _assembler(self) -> Assembler:
        """Return what puts a streamed answer together."""


def _milliseconds_since(started_at: float) -> int:
    return round((time.perf_counter() - started_at) * 1000)
