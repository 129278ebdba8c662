"""What is left of an event when its payload is erased (ERA-04)."""

from __future__ import annotations

from typing import Any, Final

from tracehold.events.event import Event

ERASED: Final = "$erased"
"""The key that stands in an erased event's data."""

RUN_STARTED: Final = "aaa.run.started"
RUN_COMPLETED: Final = "aaa.run.completed"
RUN_ERASED: Final = "aaa.run.erased"

_KEPT: Final[dict[str, tuple[str, ...]]] = {
    RUN_STARTED: ("algo", "parent", "run_tag", "budget"),
    RUN_COMPLETED: ("kind",),
}
_MARKER: Final = ("reason", "events", "blobs")


def scrubbed(event: Event) -> Event:
    """Return the event without its payload; scrubbing twice gives the same as once (ERA-04).

    What places it stays: id, type, source, time, stream, seq, run, tenant, trace and causal ids, schema ref. Data
    becomes `{"$erased": True}`, with algo, parent, run_tag and budget of a started event, and the kind of a completed
    one. The marker of an earlier erasure keeps its reason and counts (DEC-14): they say that something was erased.
    """
    data: dict[str, Any]
    if event.type == RUN_ERASED:
        data = {key: event.data[key] for key in _MARKER if key in event.data}
    else:
        data = {ERASED: True} | {key: event.data[key] for key in _KEPT.get(event.type, ()) if key in event.data}
    return event.with_(data=data, blobs=(), meta={}, subject=None)
