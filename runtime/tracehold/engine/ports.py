"""What the modules around the engine need of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from tracehold.core.outcome import OutcomeKind
from tracehold.engine.algorithm import Algorithm
from tracehold.engine.handle import RunHandle
from tracehold.engine.run_fold import RunFold
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.events.blobs import BlobStore
from tracehold.events.bus import EventBus
from tracehold.events.event import Event
from tracehold.events.store import EventStore


class EngineOps(Protocol):
    """`Engine` is one; a module that takes this can be read without it."""

    store: EventStore
    bus: EventBus
    blobs: BlobStore | None
    runs: Runs
    retention: tuple[Any, ...]
    memory: tuple[Any, ...]
    leftovers: Any
    last_recovery: Any
    observers: list[Callable[[Event], None]]

    def register(self, algo: Algorithm) -> None:
        """Subscribe an algorithm."""

    def handle(self, run_id: str) -> RunHandle:
        """Return a handle."""

    def arm_deadline(self, run: ActiveRun) -> None:
        """Set the timer of a run's deadline."""

    @property
    def start(self) -> Callable[..., Awaitable[RunHandle]]:
        """Starts a run."""

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> object:
        """Run tracked background work."""

    async def emit(self, event: Event) -> Event | None:
        """Store and deliver an event."""

    async def publish(self, run: ActiveRun) -> None:
        """Deliver what waits in a run's outbox."""

    async def complete(self, run_id: str, kind: OutcomeKind, value: Any = None, reason: str | None = None) -> None:
        """End a run."""

    async def expire(self, run_id: str) -> None:
        """End a run whose deadline has passed."""

    async def fold_of(self, run_id: str) -> RunFold:
        """Return a run's state."""

    async def stored(self, stream: str, from_seq: int = 0) -> list[Event]:
        """Return stored events."""

    async def retry(self, fn: Callable[[], Awaitable[Any]], what: str = "store operation") -> Any:
        """Ride out an outage."""

    async def erase(self, run_id: str, *, delete: bool = False, reason: str = "erasure", force: bool = False) -> Any:
        """Erase a run."""

    async def forget_memory(self, scope: Any) -> Any:
        """Ask memory backends to forget."""

    async def apply_retention(self) -> Any:
        """Evaluate the retention policies."""
