"""Prompts and replies in the shape the GenAI conventions give them: roles and parts, as JSON text.

Written only when the content has the chat shape or is plain text; anything else stays under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracehold.core.jsontext import dumps


def input_messages(value: object) -> str | None:
    """Return `gen_ai.input.messages` for a prompt, or `None` when it has no shape we know."""
    return _messages(value, "user")


def output_messages(value: object) -> str | None:
    """Return `gen_ai.output.messages` for a reply, or `None` when it has no shape we know."""
    return _messages(value, "assistant")


def _messages(value: object, role: str) -> str | None:
    if isinstance(value, str):
        value = {"role": role, "content": value}
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list) or not value:
        return None
    messages = [_message(item, role) for item in value]
    return None if None in messages else dumps(messages).decode("utf-8")


def _message(item: object, role: str) -> dict[str, Any] | None:
    if not isinstance(item, Mapping) or not ("content" in item or "tool_calls" in item):
        return None
    said = item.get("content")
    role = str(item.get("role", role))
    if role == "tool":
        return {
            "role": role,
            "parts": [_without_none(type="tool_call_response", id=item.get("tool_call_id"), response=said)],
        }
    text = said if isinstance(said, str) else dumps(said).decode("utf-8")
    parts: list[dict[str, Any]] = [] if said is None else [{"type": "text", "content": text}]
    calls = item.get("tool_calls") if isinstance(item.get("tool_calls"), list) else None
    parts += [_tool_call(call) for call in calls or () if isinstance(call, Mapping)]
    return _without_none(role=role, parts=parts, finish_reason=item.get("finish_reason"))


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """One tool call, in the function-calling shape (LLM-04) or flat."""
    function = call.get("function")
    asked = function if isinstance(function, Mapping) else call
    return _without_none(type="tool_call", id=call.get("id"), name=asked.get("name"), arguments=asked.get("arguments"))


def _without_none(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
