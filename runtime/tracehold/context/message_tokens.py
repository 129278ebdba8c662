"""How many tokens a message takes: one estimate for all that shorten conversations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tracehold.core import jsontext
from tracehold.core.tokens import TokenCounter

MEDIA_TOKENS: Final = 1_000
"""What an image, a sound or a file part is taken for: about a 1-megapixel image with the large providers. Its base64
text says nothing about its price."""

MEDIA_PARTS: Final = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file", "document"}
)
"""Types of content parts that hold something other than text."""

_MAX_NESTING: Final = 8
_STRUCTURE: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})


def count_content_tokens(content: object, token_counter: TokenCounter, *, depth: int = 0) -> int:
    """Return the tokens of a message's content: a text, a list of parts, or nothing.

    Parts of text count as text, media as `MEDIA_TOKENS`, nested content as what is in it, anything else as its JSON.
    """
    if content is None:
        return 0
    if isinstance(content, str):
        return token_counter(content)
    if not isinstance(content, list | tuple) or depth > _MAX_NESTING:
        return token_counter(_json(content))
    return sum(_part_tokens(part, token_counter, depth + 1) for part in content)


def count_message_tokens(message: Mapping[str, Any], token_counter: TokenCounter) -> int:
    """Return the tokens of one message in the function-calling shape.

    Counted are its content, the names and arguments of its tool calls, and whatever else it carries, such as reasoning;
    its role and the ids that link calls to results are not.
    """
    calls = sum(_call_tokens(call, token_counter) for call in message.get("tool_calls") or ())
    others = (value for key, value in message.items() if key not in _STRUCTURE and value is not None)
    return (
        count_content_tokens(message.get("content"), token_counter)
        + calls
        + sum(token_counter(value if isinstance(value, str) else _json(value)) for value in others)
    )


def count_messages_tokens(messages: Iterable[Mapping[str, Any]], token_counter: TokenCounter) -> int:
    """Return the sum of `count_message_tokens`."""
    return sum(count_message_tokens(message, token_counter) for message in messages)


def _part_tokens(part: object, token_counter: TokenCounter, depth: int) -> int:
    if not isinstance(part, Mapping):
        return count_content_tokens(part, token_counter, depth=depth)
    if part.get("type") in MEDIA_PARTS:
        return MEDIA_TOKENS
    if isinstance(part.get("text"), str):
        return token_counter(part["text"])
    if isinstance(part.get("content"), str | list):
        return count_content_tokens(part["content"], token_counter, depth=depth)
    return token_counter(_json(part))


def _call_tokens(call: object, token_counter: TokenCounter) -> int:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return token_counter(_json(call))
    arguments = function.get("arguments") or ""
    return token_counter(str(function.get("name") or "")) + token_counter(
        arguments if isinstance(arguments, str) else _json(arguments)
    )


def _json(value: object) -> str:
    return jsontext.dumps(value).decode("utf-8")
