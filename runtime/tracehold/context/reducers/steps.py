"""An agent's messages as steps that must not be parted (CTX-16)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracehold.llm.protocol import ChatMessage


def split_steps(messages: Sequence[ChatMessage]) -> list[range]:
    """Return the steps as ranges of indices, in order and without a gap.

    A step is one message, or a message with tool calls and everything up to the last of their results: a provider
    refuses a result without its call, and a call without its results. A result whose call is not there belongs to the
    step it follows.
    """
    begins: list[int] = []
    call_at: dict[str, int] = {}  # the latest call of an id: some models begin each turn with the same ids
    for at, message in enumerate(messages):
        if begins and _is_result(message):
            asked_at = min((call_at[call] for call in _result_ids(message) if call in call_at), default=at)
            del begins[bisect_right(begins, asked_at) :]  # what stands between a call and its result is in the step too
        else:
            begins.append(at)
        call_at.update(dict.fromkeys(_call_ids(message), at))
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], len(messages)], strict=True)]


def _is_result(message: ChatMessage) -> bool:
    return message.get("role") in {"tool", "function"} or any(True for _ in _result_ids(message))


def _call_ids(message: ChatMessage) -> Iterator[str]:
    for call in message.get("tool_calls") or ():
        if isinstance(call, Mapping):
            yield str(call.get("id"))
    for part in _parts(message, "tool_use"):
        yield str(part.get("id"))


def _result_ids(message: ChatMessage) -> Iterator[str]:
    if message.get("role") == "tool":
        yield str(message.get("tool_call_id"))
    for part in _parts(message, "tool_result"):
        yield str(part.get("tool_use_id"))


def _parts(message: ChatMessage, kind: str) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, list):
        yield from (part for part in content if isinstance(part, Mapping) and part.get("type") == kind)
