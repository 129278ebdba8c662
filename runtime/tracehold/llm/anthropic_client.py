"""A client for Anthropic's Messages API."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, Final, Literal, TypeAlias

from tracehold.core.errors import LLMConfigError
from tracehold.llm.anthropic_reply import EventAssembler, read_message
from tracehold.llm.anthropic_request import OUTPUT_TOOL, convert_parameters, convert_tools, split_messages
from tracehold.llm.protocol import ChatMessage, LLMResponse
from tracehold.llm.schemas import has_open_objects, is_object
from tracehold.llm.sdk_client import SdkClient
from tracehold.llm.wire import import_sdk

StructuredOutput: TypeAlias = Literal["native", "tool", "none"]
_STRUCTURED_OUTPUTS: Final = ("native", "tool", "none")

DEFAULT_MAX_TOKENS: Final = 4096
"""The API demands a limit on the reply. This one every model accepts."""


class AnthropicClient(SdkClient):
    """A Claude model behind the Messages API; messages, tools and replies keep the function-calling shape.

        llm = AnthropicClient("claude-sonnet-4-5", context_window=200_000)

    Needs the extra `anthropic`. Finish reasons are the API's words: "end_turn", "max_tokens", "stop_sequence",
    "tool_use", "pause_turn", "refusal", "model_context_window_exceeded". A reply with thinking has an
    `assistant_message`, which holds the signed blocks and must be appended instead of one made by hand.

    Args:
        model: the model's name.
        api_key: default the variable `ANTHROPIC_API_KEY`, else the SDK's `ANTHROPIC_AUTH_TOKEN`.
        base_url: the server's address; default `ANTHROPIC_BASE_URL`, else Anthropic.
        timeout: seconds to wait for a connection, and for each next byte.
        max_retries: how often the SDK tries again after 408, 409, 429, 5xx or a broken connection, as `Retry-After`
            says, else backing off.
        context_window: tokens of prompt and reply together; `None` is unknown, and nothing is cut to fit. When it is
            known, the harness sends its output reserve as `max_tokens` (HAR-21).
        max_output_tokens: the longest reply in tokens; sent as `max_tokens` when a call names none, else 4096 is.
        structured_output: how `output_schema` is sent. "native" as the API's output format, which models before
            Claude Sonnet 4.5 refuse, and as a tool where it cannot hold the schema; "tool" as the input of a tool
            that the model is made to call; "none" not at all: then the messages must tell the schema, as
            `Harness.astructured` does, and so they must for a root that is no object.
        supports_function_calling: whether tools may be passed.
        provider: the vendor's name in errors.
        make_client: returns a new SDK client for each event loop, such as an `AsyncAnthropicBedrock`; then `api_key`,
            `base_url`, `timeout` and `max_retries` are its own business.

    Raises:
        LLMConfigError: the package or the key is missing, or an argument cannot be used.
    """

    protocol: ClassVar[str] = "anthropic"

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        context_window: int | None = None,
        max_output_tokens: int | None = None,
        structured_output: StructuredOutput = "native",
        supports_function_calling: bool = True,
        provider: str = "anthropic",
        make_client: Callable[[], Any] | None = None,
    ) -> None:
        if structured_output not in _STRUCTURED_OUTPUTS:
            accepted = ", ".join(_STRUCTURED_OUTPUTS)
            raise LLMConfigError(f"structured_output is one of {accepted}, not {structured_output!r}")
        sdk = import_sdk("anthropic")
        self._structured_output = structured_output
        self._sdk_schema: Any = getattr(sdk, "transform_schema", None)
        self._timeout = timeout if make_client is None else None
        super().__init__(
            model,
            provider=provider,
            sdk=sdk,
            make_client=make_client or _maker(sdk, api_key, base_url, timeout, max_retries),
            context_window=context_window,
            max_output_tokens=max_output_tokens,
            supports_function_calling=supports_function_calling,
        )

    def _arguments(
        self,
        messages: list[ChatMessage],
        tools: list[dict[str, Any]] | None,
        output_schema: dict[str, Any] | None,
        kwargs: dict[str, Any],
    ) -> dict[str, Any]:
        system, turns = split_messages(messages)
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": turns,
            "max_tokens": self.max_output_tokens or DEFAULT_MAX_TOKENS,
        }
        if system:
            arguments["system"] = system
        if tools:
            arguments["tools"] = convert_tools(tools)
        if self._timeout is not None:
            # Told explicitly: without it the SDK refuses a large `max_tokens` outside a stream.
            arguments["timeout"] = self._timeout
        arguments |= convert_parameters(kwargs, has_tools=bool(tools))
        if output_schema is not None and self._structured_output != "none" and is_object(output_schema):
            self._ask_for(output_schema, arguments)
        return arguments

    def _ask_for(self, schema: dict[str, Any], arguments: dict[str, Any]) -> None:
        native = self._native_form(schema)
        if native is not None:
            output_format = {"type": "json_schema", "schema": native}
            arguments["output_config"] = {**(arguments.get("output_config") or {}), "format": output_format}
            return
        others = arguments.get("tools", [])
        tool = {"name": OUTPUT_TOOL, "description": "Give the final answer.", "input_schema": schema}
        arguments["tools"] = [*others, tool]
        thinking = arguments.get("thinking") or {}
        if thinking.get("type", "disabled") == "disabled":
            # With other tools at hand the model must call one of them or answer. The API forbids to force a model that
            # thinks; there the choice stays its own.
            forced = {"type": "any"} if others else {"type": "tool", "name": OUTPUT_TOOL}
            arguments.setdefault("tool_choice", forced)

    def _native_form(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        # The API takes a subset of JSON Schema, and the SDK converts to it; an old SDK has no converter.
        if self._structured_output != "native" or self._sdk_schema is None or has_open_objects(schema):
            return None
        try:
            native: dict[str, Any] = self._sdk_schema(schema)
        except Exception:  # noqa: BLE001 - it fails in many ways, by assertion too; a tool takes any schema
            return None
        return native

    def _method(self, sdk_client: Any) -> Any:
        return sdk_client.messages.create

    def _reply(self, answer: dict[str, Any]) -> LLMResponse:
        return read_message(answer, self._failures)

    def _assembler(self) -> EventAssembler:
        return EventAssembler()


def _maker(
    sdk: ModuleType, api_key: str | None, base_url: str | None, timeout: float, max_retries: int
) -> Callable[[], Any]:
    key = api_key or os.environ.get("ANTHROPIC_API_KEY") or None
    if key is None and not os.environ.get("ANTHROPIC_AUTH_TOKEN"):
        raise LLMConfigError("AnthropicClient needs a key: pass api_key or set ANTHROPIC_API_KEY")
    sdk_class: Any = sdk.AsyncAnthropic

    # A closure, so that no attribute of the client shows the key.
    def make() -> Any:
        return sdk_class(api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries)

    return make
