"""The chat-completions format: reading answers of OpenAI and of the many servers that speak it approximately.

Formats: https://platform.openai.com/docs/api-reference/chat/object and .../chat/streaming. Deviations that are read too
are named where they are handled. Nothing here needs the SDK.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracehold.llm.failures import Failures
from tracehold.llm.protocol import ChatMessage, LLMResponse, ToolCall, Usage
from tracehold.llm.wire import count, text, tool_call

_MESSAGE_KEYS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"})
_REASONING_KEYS: Final = ("reasoning_content", "reasoning")
"""Where servers put the model's reasoning: DeepSeek and older vLLM the first, newer vLLM and OpenRouter the second."""


def request_messages(messages: Sequence[ChatMessage], *, with_reasoning: bool) -> list[ChatMessage]:
    """Return messages with only the keys that the format has: strict servers refuse others, such as another provider's.

    Args:
        messages: the conversation.
        with_reasoning: whether the server takes back the reasoning it gave; OpenAI does not.
    """
    kept = _MESSAGE_KEYS | set(_REASONING_KEYS) if with_reasoning else _MESSAGE_KEYS
    return [{key: value for key, value in message.items() if key in kept} for message in messages]


def read_usage(usage: object) -> Usage | None:
    """Return our token counts, without those that were not told (LLM-05); `None` when none was."""
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    prompt_details = _mapping(usage.get("prompt_tokens_details"))
    cached = count(prompt_details.get("cached_tokens"))
    told = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        # DeepSeek tells cache hits beside the counts.
        "cached_tokens": count(usage.get("prompt_cache_hit_tokens")) if cached is None else cached,
        "cache_write_tokens": count(prompt_details.get("cache_write_tokens")),
        "reasoning_tokens": count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    }
    return {name: number for name, number in told.items() if number is not None} or None


def read_completion(answer: Mapping[str, Any], failures: Failures) -> LLMResponse:
    """Return the response that a whole answer holds.

    Raises:
        LLMRequestError: the answer is an error with status 200, as OpenRouter sends them.
        LLMResponseError: it has no choice with a message.
    """
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
        if isinstance(answer.get("error"), Mapping):
            raise failures.told_in_answer(answer["error"])
        raise failures.unusable("without a choice that holds a message")
    message = choice["message"]
    raw_calls = message.get("tool_calls")
    calls = [_read_call(call) for call in raw_calls if isinstance(call, Mapping)] if isinstance(raw_calls, list) else []
    return _response(
        # A refusal is what the model says; its finish reason is "stop" (safety refusals in structured outputs).
        content=text(message.get("content")) or text(message.get("refusal")),
        reasoning=_reasoning(message),
        calls=[call for call in calls if call is not None],
        finish_reason=choice.get("finish_reason"),
        model=answer.get("model"),
        usage=read_usage(answer.get("usage")),
    )


@dataclass
class _Call:
    """A tool call whose pieces are still coming."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ChunkAssembler:
    """Puts the chunks of a stream together."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._open_calls: dict[int, _Call] = {}
        self._finish_reason: object = None
        self._model: object = None
        self._usage: Usage | None = None

    def feed(self, event: dict[str, Any]) -> str:
        """Take one chunk; return the text it adds."""
        self._model = event.get("model") or self._model
        # With `include_usage` the counts come in a last chunk that has no choice; others repeat them in each chunk.
        self._usage = read_usage(event.get("usage")) or self._usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            return ""
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = _mapping(choice.get("delta"))
        self._reasoning.append(_reasoning(delta) or "")
        raw_calls = delta.get("tool_calls")
        for piece in raw_calls if isinstance(raw_calls, list) else ():
            if isinstance(piece, Mapping):
                self._feed_call(piece)
        added = text(delta.get("content")) + text(delta.get("refusal"))
        self._content.append(added)
        return added

    def finished(self) -> bool:
        """Whether a finish reason came, or the counts that end a stream of servers that give no reason."""
        return self._finish_reason is not None or self._usage is not None

    def response(self) -> LLMResponse:
        """Return what came so far."""
        calls = [_named_call(call.call_id, call.name, "".join(call.arguments)) for call in self._calls]
        return _response(
            content="".join(self._content),
            reasoning="".join(self._reasoning) or None,
            calls=[call for call in calls if call is not None],
            finish_reason=self._finish_reason,
            model=self._model,
            usage=self._usage,
        )

    def _feed_call(self, piece: Mapping[str, Any]) -> None:
        call = self._call_of(piece)
        function = _mapping(piece.get("function"))
        call.name = call.name or text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)

    def _call_of(self, piece: Mapping[str, Any]) -> _Call:
        # Some servers give no index, or index 0 to every call: then a new id opens a new call.
        given, call_id = piece.get("index"), text(piece.get("id"))
        index = given if type(given) is int else len(self._calls) - (0 if call_id or not self._calls else 1)
        call = self._open_calls.get(index)
        if call is None or (call_id and call.call_id and call_id != call.call_id):
            call = self._open_calls[index] = _Call()
            self._calls.append(call)
        call.call_id = call.call_id or call_id
        return call


def _response(
    *,
    content: str,
    reasoning: str | None,
    calls: list[ToolCall],
    finish_reason: object,
    model: object,
    usage: Usage | None,
) -> LLMResponse:
    response = LLMResponse(
        content=content,
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        model=model if isinstance(model, str) else "",
        usage=usage,
        reasoning_content=reasoning,
        tool_calls=calls or None,
    )
    if calls and reasoning:
        # DeepSeek refuses the turn after a tool call that does not give the reasoning back.
        response.assistant_message = {
            "role": "assistant",
            "content": content,
            "reasoning_content": reasoning,
            "tool_calls": calls,
        }
    return response


def _read_call(call: Mapping[str, Any]) -> ToolCall | None:
    function = _mapping(call.get("function"))
    return _named_call(text(call.get("id")), text(function.get("name")), function.get("arguments"))


def _named_call(call_id: str, name: str, arguments: object) -> ToolCall | None:
    """Return the call, or `None` for one without a name (a custom tool); a missing id gets a fresh one."""
    if not name:
        return None
    return tool_call(
        call_id or f"call_{uuid.uuid4().hex}", name, "{}" if arguments is None or arguments == "" else arguments
    )


def _reasoning(message: Mapping[str, Any]) -> str | None:
    for key in _REASONING_KEYS:
        if told := text(message.get(key)):
            return told
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
