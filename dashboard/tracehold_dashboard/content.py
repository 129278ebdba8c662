"""Find the reason and the arguments in an event's content, whichever way it came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

WITHHELD: Final = "content_withheld"
"""Stands in the place of content that the dashboard's key may not see, and says why."""

# The Tracer puts its words at the top, an engine event under `data`, an OTLP span under `attributes`.
_INSIDE: Final = ("data", "attributes")
_REASONS: Final = (
    "reason",
    "detail",
    "message",
    "tracehold.reason",
    "tracehold.gate.reason",
    "status_message",
    "error",
    "categories",
    WITHHELD,
)
_ARGUMENTS: Final = (
    "params",
    "parameters",
    "arguments",
    "args",
    "input",
    "gen_ai.tool.call.arguments",
    "tool.parameters",
    "input.value",
    WITHHELD,
)


def reason(content: Mapping[str, Any] | None) -> str | None:
    """Give why something was stopped, as the source said it; `None` when it did not."""
    found = _first(content, _REASONS)
    if isinstance(found, list):
        return ", ".join(map(str, found))
    return None if found is None else str(found)


def arguments(content: Mapping[str, Any] | None) -> Any:
    """Give the arguments of a tool call, JSON-like; `None` when there are none."""
    return _first(content, _ARGUMENTS)


def _first(content: Mapping[str, Any] | None, keys: Iterable[str]) -> Any:
    if not content:
        return None
    inner = [content[key] for key in _INSIDE if isinstance(content.get(key), Mapping)]
    for key in keys:
        for place in (content, *inner):
            if place.get(key) not in (None, "", {}, []):
                return place[key]
    return None
