"""Recorded sessions as the tests need them: lines written by hand, and what a collector makes of a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.context import NormaliseContext

from support.decoding import decode_file


def lines(values: Iterable[Any]) -> str:
    """JSON, one value a line."""
    return "".join(json.dumps(value) + "\n" for value in values)


def records(path: Path, context: NormaliseContext) -> dict[bytes, Record]:
    """The records of a file by event id, the first of an id, as the store keeps them."""
    found: dict[bytes, Record] = {}
    for record in decode_file(path, context).records:
        found.setdefault(record.event_id, record)
    return found


def claude(
    kind: str, uuid: str, content: Any, *, second: int = 0, message: Any = None, **fields: Any
) -> dict[str, Any]:
    """A line of a Claude Code transcript."""
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "s-1",
        "timestamp": f"2026-06-14T10:00:{second:02d}.000Z",
        "isSidechain": False,
        "message": {"role": kind, "content": content, **(message or {})},
        **fields,
    }


def reply(uuid: str, message_id: str, content: Any, *, stop: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    """A line of a model's reply."""
    message = {"id": message_id, "model": "claude-x", "stop_reason": stop, "usage": fields.pop("usage", None)}
    return claude("assistant", uuid, content, message=message, **fields)


def tool_use(name: str, tool: str = "Bash", **given: Any) -> dict[str, Any]:
    """A block in which the model asks for a tool."""
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def tool_result(name: str, content: Any = "done", *, is_error: bool = False) -> dict[str, Any]:
    """A block with what came of it."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, "is_error": is_error}
