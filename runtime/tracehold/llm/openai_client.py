"""A client for OpenAI and for every server that speaks its chat-completions format."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from tracehold.core.errors import LLMConfigError
from tracehold.llm.openai_wire import ChunkAssembler, read_completion, request_messages
from tracehold.llm.protocol import ChatMessage, LLMResponse
from tracehold.llm.schemas import is_object, schema_name, strict_form
from tracehold.llm.sdk_client import SdkClient
from tracehold.llm.wire import import_sdk

StructuredOutput: TypeAlias = Literal["json_schema", "json_object", "none"]
_STRUCTURED_OUTPUTS: Final = ("json_schema", "json_object", "none")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class OpenAIClient(SdkClient):
    """A model behind the chat-completions API: OpenAI, Azure, vLLM, Ollama, DeepSeek, OpenRouter and others.

        llm = OpenAIClient("gpt-4o-mini")
        llm = OpenAIClient("qwen3", base_url="http://localhost:11434/v1")

    Needs the extra `openai`. Reasoning that a server gives is in `reasoning_content`; a refusal is the content.

    Args:
        model: the model's name.
        api_key: default the variable `OPENAI_API_KEY`. A server on this machine needs none.
        base_url: the server's address up to and with `/v1`; default `OPENAI_BASE_URL`, else OpenAI.
        timeout: seconds to wait for a connection, and for each next byte.
        max_retries: how often the SDK tries again after 408, 409, 429, 5xx or a broken connection, as `Retry-After`
            says, else backing off.
        context_window: tokens of prompt and reply together; `None` is unknown, and nothing is cut to fit.
        max_output_tokens: the longest reply in tokens, for planning; it is not sent.
        structured_output: how `output_schema` is sent. "json_schema" as the schema, strict when it allows;
            "json_object" as the mere wish for JSON, for servers that know no schema; "none" not at all. With the last
            two, and for a schema whose root is no object, the messages must tell the schema, as
            `Harness.astructured` does.
        stream_usage: whether to ask for token counts of streams (`stream_options`); switch it off for a server that
            refuses the option.
        max_tokens_parameter: what a caller's `max_tokens` is sent as; default "max_completion_tokens" to OpenAI itself,
            whose newer models refuse the old name, and "max_tokens" to others.
        supports_function_calling: whether tools may be passed.
        provider: the vendor's name in errors.
        make_client: returns a new SDK client for each event loop, such as an `AsyncAzureOpenAI`; then `api_key`,
            `base_url`, `timeout` and `max_retries` are its own business.

    Raises:
        LLMConfigError: the package or the key is missing, or an argument cannot be used.
    """

    protocol: ClassVar[str] = "openai"

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
        structured_output: StructuredOutput = "json_schema",
        stream_usage: bool = True,
        max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] | None = None,
        supports_function_calling: bool = True,
        provider: str = "openai",
        make_client: Callable[[], Any] | None = None,
    ) -> None:
        if structured_output not in _STRUCTURED_OUTPUTS:
            accepted = ", ".join(_STRUCTURED_OUTPUTS)
            raise LLMConfigError(f"structured_output is one of {accepted}, not {structured_output!r}")
        sdk = import_sdk("openai")
        address = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._is_openai = address is None and make_client is None
        self._structured_output = structured_output
        self._stream_usage = stream_usage
        self._max_tokens_parameter = max_tokens_parameter or (
            "max_completion_tokens" if self._is_openai else "max_tokens"
        )
        if make_client is None:
            make_client = _maker(sdk.AsyncOpenAI, _key(api_key, address), address, timeout, max_retries)
        super().__init__(
            model,
            provider=provider,
            sdk=sdk,
            make_client=make_client,
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
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": request_messages(messages, with_reasoning=not self._is_openai),
        }
        if tools:
            arguments["tools"] = tools
        if output_schema is not None:
            arguments |= self._response_format(output_schema)
        arguments |= kwargs
        if "max_tokens" in arguments:
            arguments.setdefault(self._max_tokens_parameter, arguments["max_tokens"])
            if self._max_tokens_parameter != "max_tokens":
                del arguments["max_tokens"]
        return arguments

    def _response_format(self, schema: dict[str, Any]) -> dict[str, Any]:
        if self._structured_output == "none" or not is_object(schema):
            return {}
        if self._structured_output == "json_object":
            return {"response_format": {"type": "json_object"}}
        strict = strict_form(schema)
        described = {"name": schema_name(schema), "schema": strict or schema, "strict": strict is not None}
        return {"response_format": {"type": "json_schema", "json_schema": described}}

    def _stream_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self._stream_usage:
            return {"stream": True}
        return {"stream": True, "stream_options": {"include_usage": True} | arguments.get("stream_options", {})}

    def _method(self, sdk_client: Any) -> Any:
        return sdk_client.chat.completions.create

    def _reply(self, answer: dict[str, Any]) -> LLMResponse:
        return read_completion(answer, self._failures)

    def _assembler(self) -> ChunkAssembler:
        return ChunkAssembler()


def _maker(sdk_class: Any, key: str, base_url: str | None, timeout: float, max_retries: int) -> Callable[[], Any]:
    # A closure, so that no attribute of the client shows the key.
    def make() -> Any:
        return sdk_class(api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries)

    return make


def _key(api_key: str | None, base_url: str | None) -> str:
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if key:
        return key
    if base_url and urlsplit(base_url).hostname in _LOOPBACK:
        return "none"
    raise LLMConfigError("OpenAIClient needs a key: pass api_key or set OPENAI_API_KEY")
