"""How the engine's point events become spans: which event opens what another one ends.

The engine logs facts, not spans. A completion names its request as cause, a child run by its id. The first
half may have come in an earlier body: then the second keeps its own time and no duration, unknown rather than
zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tracehold.observability.engine_types import short_type

_REMEMBERED: Final = 50_000
_CHILD_SUFFIX: Final = ":childstarted"


class Opening(NamedTuple):
    """When a span was opened and what it was called then."""

    at_ns: int
    name: str | None


class OpenSpans:
    """The spans of one body or file that have been opened so far, by run and key.

    Args:
        limit: how many to remember; the oldest are forgotten.
    """

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._open: dict[tuple[str, str], Opening] = {}
        self._limit = limit

    def note(self, run_id: str, key: str, at_ns: int | None, name: str | None) -> None:
        """Remember an opening. The latest of a key wins: a tool's start over its request, then a retry."""
        if at_ns is None:
            return
        self._open.pop((run_id, key), None)
        self._open[(run_id, key)] = Opening(at_ns, name)
        if len(self._open) > self._limit:
            del self._open[next(iter(self._open))]

    def find(self, run_id: str, key: str) -> Opening | None:
        """Return the opening of that key in that run, if it was in this body."""
        return self._open.get((run_id, key))


def span_key(event: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Return what the halves of one span have in common: the id of the event that asked for it.

    Args:
        event: the engine's event.
        data: its `data`.
    """
    short = short_type(event["type"])
    if short.startswith(("child.", "task.")):
        child = data.get("child_run_id")
        if isinstance(child, str) and child:
            return child + _CHILD_SUFFIX
    cause = event.get("causation_id")
    if short == "tool.started" or short.endswith((".completed", ".failed")):
        return cause if isinstance(cause, str) and cause else str(event["id"])
    return str(event["id"])


def call_key(data: Mapping[str, Any]) -> str | None:
    """Return the key under which the name of a tool call is remembered, for events that carry only its id."""
    call_id = data.get("call_id")
    return "call:" + call_id if isinstance(call_id, str) and call_id else None
