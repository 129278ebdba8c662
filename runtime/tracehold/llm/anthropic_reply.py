"""From the Messages API back to a response (https://platform.claude.com/docs/en/api/messages and .../streaming)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tracehold.llm.anthropic_request import BLOCKS_KEY, OUTPUT_TOOL, Block, parsed_arguments
from tracehold.llm.failures import Failures
from tracehold.llm.protocol import LLMResponse, Usage
from tracehold.llm.wire import count, text, tool_call

_PLAIN: Final = frozenset({"text", "tool_use"})
"""Blocks that content and `tool_calls` hold completely; any other must go back as it came."""
_PIECES: Final = "_pieces"
_PIECES_OF: Final = "_pieces_of"
_GROWING: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""Delta to the field it lengthens. Pieces are joined once, at the end: a text that grows by copying is quadratic."""


def read_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Return our token counts, without those that were not told (LLM-05).

    The API's `input_tokens` leaves out what was read from or written to the cache; `prompt_tokens` is all three.
    """
    uncached, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    prompt = None if uncached is None else uncached + (read or 0) + (written or 0)
    details = usage.get("output_tokens_details")
    told = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": None if prompt is None or completion is None else prompt + completion,
        "cached_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": count(details.get("thinking_tokens")) if isinstance(details, Mapping) else None,
    }
    return {name: number for name, number in told.items() if number is not None} or None


def read_message(answer: Mapping[str, Any], failures: Failures) -> LLMResponse:
    """Return the response that a whole answer holds.

    Raises:
        LLMResponseError: it has no content.
    """
    content = answer.get("content")
    if not isinstance(content, list):
        if isinstance(answer.get("error"), Mapping):
            raise failures.told_in_answer(answer["error"])
        raise failures.unusable("without content")
    usage = answer.get("usage")
    return _response(
        [dict(block) for block in content if isinstance(block, Mapping)],
        answer.get("stop_reason"),
        answer.get("model"),
        read_usage(usage) if isinstance(usage, Mapping) else None,
    )


class EventAssembler:
    """Puts the events of a stream together."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._usage: dict[str, Any] = {}
        self._model: object = None
        self._stop_reason: object = None
        self._output_ended = False

    def feed(self, event: dict[str, Any]) -> str:
        """Take one event; return the text it adds."""
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            message = _mapping(event.get("message"))
            self._model = message.get("model")
            # Its `output_tokens` is a start, not a result: only `message_delta` tells what the reply took.
            self._count({**_mapping(message.get("usage")), "output_tokens": None})
        elif kind == "message_delta":
            self._stop_reason = _mapping(event.get("delta")).get("stop_reason") or self._stop_reason
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._output_ended = True
        elif kind == "content_block_start" and type(index) is int:
            block = self._blocks[index] = dict(_mapping(event.get("content_block")))
            return text(block.get("text")) if block.get("type") == "text" else ""
        elif kind == "content_block_delta" and type(index) is int:
            return _extend(self._blocks.setdefault(index, {}), _mapping(event.get("delta")))
        return ""

    def finished(self) -> bool:
        """Whether the stop reason or the last event came."""
        return self._output_ended or self._stop_reason is not None

    def response(self) -> LLMResponse:
        """Return what came so far."""
        blocks = [_joined(self._blocks[index]) for index in sorted(self._blocks)]
        return _response(blocks, self._stop_reason, self._model, read_usage(self._usage))

    def _count(self, usage: Any) -> None:
        # Counts are cumulative, and a later event may leave out what an earlier one told.
        self._usage |= {name: value for name, value in _mapping(usage).items() if value is not None}


def _extend(block: Block, delta: Mapping[str, Any]) -> str:
    """Add a delta to its block; return the text that the reply grows by."""
    kind = str(delta.get("type"))
    if kind == "input_json_delta":
        piece = text(delta.get("partial_json"))
        block.setdefault(_PIECES, []).append(piece)
        return piece if block.get("name") == OUTPUT_TOOL else ""
    if kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
    elif kind in _GROWING:
        field = _GROWING[kind]
        piece = text(delta.get(field))
        block.setdefault(_PIECES_OF, {}).setdefault(field, [text(block.get(field))]).append(piece)
        return piece if field == "text" else ""
    return ""


def _joined(block: Block) -> Block:
    """Return a streamed block with its pieces of text put together."""
    pieces = block.get(_PIECES_OF, {})
    rest = {name: value for name, value in block.items() if name != _PIECES_OF}
    return rest | {field: "".join(told) for field, told in pieces.items()}


def _whole(block: Block) -> Block:
    """Return a streamed block as a whole answer would hold it."""
    if _PIECES not in block:
        return block
    rest = {name: value for name, value in block.items() if name != _PIECES}
    return rest | {"input": parsed_arguments("".join(block[_PIECES]))}


def _response(blocks: list[Block], stop_reason: object, model: object, usage: Usage | None) -> LLMResponse:
    spoken = [text(block.get("text")) for block in blocks if block.get("type") == "text"]
    used = [block for block in blocks if block.get("type") == "tool_use"]
    outputs = [_arguments(block) for block in used if block.get("name") == OUTPUT_TOOL]
    calls = [
        tool_call(text(block.get("id")), text(block.get("name")), _arguments(block))
        for block in used
        if block.get("name") != OUTPUT_TOOL
    ]
    content = outputs[0] if outputs else "".join(spoken)
    response = LLMResponse(
        content=content,
        finish_reason=stop_reason if isinstance(stop_reason, str) else None,
        model=model if isinstance(model, str) else "",
        usage=usage,
        reasoning_content="".join(text(block.get("thinking")) for block in blocks) or None,
        tool_calls=calls or None,
    )
    if not outputs and any(block.get("type") not in _PLAIN for block in blocks):
        message: dict[str, Any] = {
            "role": "assistant",
            "content": content,
            BLOCKS_KEY: [_whole(block) for block in blocks],
        }
        response.assistant_message = message | ({"tool_calls": calls} if calls else {})
    return response


def _arguments(block: Block) -> str:
    """Return the input as JSON text; a streamed one as the model wrote it, also when it was cut off."""
    if _PIECES in block:
        return "".join(block[_PIECES]) or "{}"
    return json.dumps(block.get("input") or {}, ensure_ascii=False)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
