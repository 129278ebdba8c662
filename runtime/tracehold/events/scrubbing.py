"""What is left of an event when its payload is erased (ERA-04)."""

from __future__ import annotations

from typing import Any, Final

from tracehold.core.outcome import OutcomeKind
from tracehold.events.event import Event

ERASED: Final = "$erased"
"""The key that stands in an erased event's data."""

RUN_STARTED: Final = "aaa.run.started"
RUN_COMPLETED: Final = "aaa.run.completed"
RUN_ERASED: Final = "aaa.run.erased"

_STARTED_KEEPS: Final = ("algo", "parent", "run_tag", "budget")
_MARKER_KEEPS: Final = ("reason", "events", "blobs")
_KINDS: Final = frozenset(OutcomeKind)


def scrubbed(event: Event) -> Event:
    """Return the event without its payload; scrubbing twice gives the same as once (ERA-04).

    What places it stays: id, type, source, time, stream, seq, run, tenant, trace and causal ids, schema ref. Data
    becomes `{"$erased": True}`, with algo, parent, run_tag and budget of a started event, and the kind of a completed
    one. The marker of an earlier erasure keeps its reason and counts (DEC-14): they say that something was erased.
    """
    return event.with_(data=_left_of(event), blobs=(), meta={}, subject=None)


def is_scrubbed(event: Event) -> bool:
    """Whether an event has lost its payload; the marker of an erasure, which has none, has lost nothing."""
    return scrubbed(event) == event and not is_marker(event.type, event.id, event.stream)


def is_marker(type_: str, event_id: str, stream: str) -> bool:
    """Whether an event is what the engine left after an erasure; anybody can write another of its type (EVT-07)."""
    return type_ == RUN_ERASED and event_id == f"{stream}:erased"


def _left_of(event: Event) -> dict[str, Any]:
    # Only under the engine's own ids (EVT-07): an algorithm can give an event any type, and any text to such fields.
    if is_marker(event.type, event.id, event.stream):
        return {key: event.data[key] for key in _MARKER_KEEPS if key in event.data}
    data: dict[str, Any] = {ERASED: True}
    if event.type == RUN_STARTED and event.id == f"{event.stream}:started":
        data |= {key: event.data[key] for key in _STARTED_KEEPS if key in event.data}
    elif event.type == RUN_COMPLETED and event.data.get("kind") in _KINDS:
        data["kind"] = event.data["kind"]
    return data
