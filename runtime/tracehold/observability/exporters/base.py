"""What a Tracer needs of the place it hands events to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

Event = Mapping[str, Any]
"""A cleaned event: JSON-like values, string keys. An exporter MUST NOT change it; other exporters see the same one."""


class TraceExporter(ABC):
    """A destination for cleaned events (EXP-01).

    `export` is called once per event, inline, in order, from any thread; what it raises is counted by the Tracer
    and reaches the caller only with `strict=True` (TRC-14).

    Attributes:
        accepts_content: whether this exporter may see prompts, replies, arguments and results in full (DEC-15).
            Every other exporter sees the documented, truncated event.
        dropped: events this exporter accepted and then had to give up; the Tracer adds it to its `summary()` (DEC-11).
    """

    accepts_content: ClassVar[bool] = False
    dropped: int = 0

    @abstractmethod
    def export(self, event: Event) -> None:
        """Take one cleaned event."""

    def force_flush(self, timeout_s: float = 5.0) -> bool:  # noqa: ARG002
        """Wait at most `timeout_s` seconds until all accepted events are handed over; say whether they are."""
        return True

    def close(self) -> None:  # noqa: B027 - doing nothing is the documented default (EXP-01)
        """Release what the exporter holds; a second call does nothing (EXP-01, EXP-13)."""


class DeferredError(Exception):
    """The inline attempt failed, but the event is queued and will be tried again: nothing is lost.

    The Tracer does not count it as a failure; with `strict=True` it raises the cause (DEC-11).
    """
