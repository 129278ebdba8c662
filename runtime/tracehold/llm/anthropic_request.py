"""From the function-calling shape to the Messages API (https://platform.claude.com/docs/en/api/messages)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tracehold.llm.protocol import ChatMessage
from tracehold.llm.wire import text

Block: TypeAlias = dict[str, Any]

BLOCKS_KEY: Final = "anthropic_content"
"""Key of an assistant message under which a reply's own blocks wait for the next turn, signatures included."""

OUTPUT_TOOL: Final = "tracehold_output"
"""Name of the tool a model is made to call when the schema of its answer cannot be sent natively."""

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_TOOL_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}


def split_messages(messages: Sequence[ChatMessage]) -> tuple[list[Block], list[ChatMessage]]:
    """Return the system blocks and the conversation.

    All system messages move to the front, in their order. Neighbours of one role become one message, so that the
    results of parallel tool calls arrive together, as the API demands.
    """
    system: list[Block] = []
    turns: list[ChatMessage] = []
    for message in messages:
        role = message.get("role")
        if role in {"system", "developer"}:
            system += _blocks(message.get("content"))
        elif role == "assistant":
            _append(turns, "assistant", _assistant_blocks(message))
        elif role == "tool":
            _append_result(turns, _tool_result(message))
        else:
            _append(turns, "user", _blocks(message.get("content")))
    return system, turns


def convert_tools(tools: Iterable[Mapping[str, Any]]) -> list[Block]:
    """Return tools in the API's shape; what is no function (a server tool) passes as it is."""
    return [_tool(tool["function"]) if isinstance(tool.get("function"), Mapping) else dict(tool) for tool in tools]


def convert_parameters(kwargs: Mapping[str, Any], *, has_tools: bool) -> dict[str, Any]:
    """Return further parameters under the API's names: `stop`, `tool_choice`, `parallel_tool_calls`, `max_tokens`."""
    rest = dict(kwargs)
    if "max_completion_tokens" in rest:
        rest.setdefault("max_tokens", rest["max_completion_tokens"])
        del rest["max_completion_tokens"]
    stop = rest.pop("stop", None)
    if stop:
        rest["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    parallel = rest.pop("parallel_tool_calls", None)
    choice = _tool_choice(rest.pop("tool_choice", None))
    if parallel is False and has_tools:
        choice = {"type": "auto"} | (choice or {}) | {"disable_parallel_tool_use": True}
    if choice is not None:
        rest["tool_choice"] = choice
    return rest


def parsed_arguments(written: str) -> dict[str, Any]:
    """Return arguments as the object that the API demands; what is none, such as JSON cut off, is put inside one."""
    try:
        parsed: Any = json.loads(written) if written.strip() else {}
    except (ValueError, RecursionError):
        parsed = written
    return parsed if isinstance(parsed, dict) else {"invalid_arguments": parsed}


def _tool(function: Mapping[str, Any]) -> Block:
    tool = {"name": function.get("name"), "input_schema": function.get("parameters") or {"type": "object"}}
    if function.get("description"):
        tool["description"] = function["description"]
    return tool


def _tool_choice(choice: Any) -> Block | None:
    if isinstance(choice, str):
        return {"type": _TOOL_CHOICES.get(choice, choice)}
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        return {"type": "tool", "name": choice["function"].get("name")}
    return dict(choice) if isinstance(choice, Mapping) else None


def _append(turns: list[ChatMessage], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return  # the API refuses a message without content
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _append_result(turns: list[ChatMessage], result: Block) -> None:
    _append(turns, "user", [result])
    # Results must come before any other content of their message. `sort` is stable.
    turns[-1]["content"].sort(key=lambda block: block.get("type") != "tool_result")


def _tool_result(message: Mapping[str, Any]) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    content = _blocks(message.get("content"))
    return result | {"content": content} if content else result


def _assistant_blocks(message: Mapping[str, Any]) -> list[Block]:
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, Mapping)]
    content = _blocks(message.get("content"))
    own = message.get(BLOCKS_KEY)
    if not isinstance(own, list):
        return content + [_tool_use(call) for call in calls]
    if _says(own) == (text(message.get("content")), [call.get("id") for call in calls]):
        return list(own)
    # Somebody shortened the message since: keep what it says now, and the thinking, which the API wants back unchanged.
    return [block for block in own if block.get("type") in _THINKING] + content + [_tool_use(call) for call in calls]


def _says(blocks: Iterable[Mapping[str, Any]]) -> tuple[str, list[Any]]:
    said = "".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
    return said, [block.get("id") for block in blocks if block.get("type") == "tool_use"]


def _tool_use(call: Mapping[str, Any]) -> Block:
    function = call.get("function") or {}
    arguments = _parsed(function.get("arguments"))
    return {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": arguments}


def _parsed(arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, str):
        return arguments if isinstance(arguments, dict) else {}
    return parsed_arguments(arguments)


def _blocks(content: Any) -> list[Block]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    blocks = [_block(part) for part in parts if isinstance(part, Mapping)]
    # The API refuses texts of nothing but white space.
    return [block for block in blocks if block.get("type") != "text" or str(block.get("text") or "").strip()]


def _block(part: Mapping[str, Any]) -> Block:
    if part.get("type") != "image_url":
        return dict(part)
    image = part.get("image_url")
    url = str(image.get("url") if isinstance(image, Mapping) else image)
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        media_type = head[len("data:") : -len(";base64")].partition(";")[0]
        return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}
