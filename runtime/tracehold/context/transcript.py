"""Messages as a text that a model can summarize without taking it for its own conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracehold.context.message_tokens import MEDIA_PARTS
from tracehold.context.text import quote
from tracehold.core import jsontext


def entry(speaker: str, text: str) -> str:
    """Return one entry of a transcript: who speaks on a line of its own, then the words, quoted."""
    return f"{speaker}:\n{quote(text)}"


def message_entry(message: Mapping[str, Any]) -> str:
    """Return a message in the function-calling shape as one entry, its tool calls with it."""
    role = str(message.get("role") or "unknown")
    text = content_text(message.get("content"))
    calls = [_call_entry(role, call) for call in message.get("tool_calls") or ()]
    return "\n".join([entry(role, text), *calls] if text or not calls else calls)


def content_text(content: object) -> str:
    """Return the words of a message's content; a picture or file becomes its type in brackets."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "\n".join(_part_text(part) for part in content)
    return _json(content)


def _part_text(part: object) -> str:
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else _json(part)
    if part.get("type") in MEDIA_PARTS:
        return f"[{part['type']}]"
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part.get("content"), str):
        return str(part["content"])
    return _json(part)


def _call_entry(role: str, call: object) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return entry(f"{role} calls", _json(call))
    arguments = function.get("arguments") or ""
    words = arguments if isinstance(arguments, str) else _json(arguments)
    return entry(f"{role} calls", f"{function.get('name') or 'a tool'} {words}".rstrip())


def _json(value: object) -> str:
    return jsontext.dumps(value).decode("utf-8")
