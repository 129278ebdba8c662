"""What a log must do (STO). One contract suite in the tests runs against every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tracehold.events.event import Event

ANY_SEQ: Final = -2
"""As `expected_seq`: append whatever the last number is."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a store: its stream, its started event, its completed event or `None` (STO-07)."""

    stream: str
    started: Event
    completed: Event | None


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A projection's state after the event `seq` of a stream (STO-10); `state` is JSON text.

    With `event_id`, which is not kept, it is saved only if the stream still holds that event at that place, not erased:
    what was read before an erasure must not come back after it (ERA-12).
    """

    stream: str
    name: str
    seq: int
    version: int
    state: str
    event_id: str | None = field(default=None, compare=False)


class EventStore(Protocol):
    """An append-only log of streams; each stream numbers its events from 0 (STO-01)."""

    async def append(self, stream: str, events: Sequence[Event], expected_seq: int = ANY_SEQ) -> list[Event]:
        """Store events, all or none, and return them with their numbers (STO-01 to STO-03).

        An id the stream already has stores nothing; the stored event comes back with `dup` set.

        Raises:
            ConcurrencyError: `expected_seq` is not the stream's last number (-1 when empty); nothing is stored.
        """

    async def read(self, stream: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        """Return events in order; an unknown stream is empty (STO-04)."""

    def subscribe(self, stream: str, from_seq: int = 0) -> AsyncIterator[Event]:
        """Yield stored events, then new ones as they come, another process's too (STO-05). Never ends by itself."""

    async def last_seq(self, stream: str) -> int:
        """Return the last number, -1 when empty (STO-06)."""

    async def has(self, stream: str, event_id: str) -> bool:
        """Whether the stream holds that id (STO-06)."""

    async def run_index(self, *, open_only: bool = False) -> list[RunInfo]:
        """Return every stream with a started event, without reading the others (STO-07).

        Args:
            open_only: leave out the runs that have a completed event; costs nothing for those.
        """

    async def scrub(self, stream: str) -> int:
        """Empty every payload of a stream and drop its snapshots; return its number of events (STO-08, ERA-04)."""

    async def replace_data(self, stream: str, event_id: str, data: dict[str, Any]) -> bool:
        """Replace one event's payload and drop its blob references; say whether the stream holds that id (DEC-14).

        For what an erasure must take out of a stream that stays. The rest of the event stays as it is, the stream's
        snapshots go, since they may hold what was replaced. Doing it twice changes nothing.

        Raises:
            SchemaError: `data` cannot be stored (STO-14); nothing is changed.
        """

    async def delete_stream(self, stream: str) -> int:
        """Remove a stream and its snapshots; return how many events went (STO-09)."""

    async def load_snapshot(self, stream: str, name: str) -> StoredSnapshot | None:
        """Return a snapshot, or `None` (STO-10)."""

    async def save_snapshot(self, snap: StoredSnapshot) -> None:
        """Keep a snapshot, unless a newer one is kept (STO-10)."""

    async def aclose(self) -> None:
        """Release files and threads (STO-13)."""
