"""Events kept in memory: the Tracer's default, for tests and for looking at a run at once."""

from __future__ import annotations

from collections import deque

from tracehold.observability.exporters.base import Event, TraceExporter


class MemoryExporter(TraceExporter):
    """Keeps the newest events in order and lets go of the oldest (EXP-02).

    Args:
        max_events: how many to keep; `None` keeps all. Default 2048.

    Raises:
        ValueError: `max_events` below 0.
    """

    def __init__(self, max_events: int | None = 2048) -> None:
        self._events: deque[Event] = deque(maxlen=max_events)

    @property
    def events(self) -> list[Event]:
        """A copy of what is kept, oldest first."""
        return list(self._events)

    def export(self, event: Event) -> None:
        """Keep one event."""
        self._events.append(event)

    def clear(self) -> None:
        """Forget all events."""
        self._events.clear()
