"""Handing stored events to handlers: in order, not for finished runs, again after an outage (ENG-20 to ENG-28)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from tracehold.core.control import Redeliver
from tracehold.core.errors import StoreUnavailable
from tracehold.core.outcome import OutcomeKind
from tracehold.engine.algorithm import Algorithm, Ctx, EngineView
from tracehold.engine.event_types import LIFECYCLE
from tracehold.engine.run_fold import RunFold
from tracehold.events.bus import EventBus, Handler
from tracehold.events.event import Event


class Emitter(EngineView, Protocol):
    """What delivery needs of the engine."""

    async def emit(self, event: Event) -> Event | None:
        """Store and deliver an event."""

    async def hydrate(self, event: Event) -> Event:
        """Restore a payload."""

    async def complete(self, run_id: str, kind: OutcomeKind, value: object = None, reason: str | None = None) -> None:
        """End a run."""

    async def fold_of(self, run_id: str) -> RunFold:
        """Return a run's state."""


class Delivery:
    """Subscribes handlers and algorithms to the bus.

    Args:
        engine: emits what they return.
        bus: the bus.
    """

    def __init__(self, engine: Emitter, bus: EventBus) -> None:
        self._engine = engine
        self._bus = bus
        self._algorithms: dict[int, Algorithm] = {}

    def subscribe(self, pattern: str, handler: Handler, *, group: str | None = None, **options: object) -> None:
        """Subscribe a handler whose returned events are persisted and published (ENG-23)."""

        async def handle(event: Event) -> None:
            await self._react(event, handler)

        self._bus.subscribe(pattern, handle, group=group, **options)  # type: ignore[arg-type]  # the bus checks them

    def register(self, algo: Algorithm) -> None:
        """Subscribe an algorithm to the events of its own runs (ENG-20, ENG-21)."""
        if id(algo) in self._algorithms:
            return
        self._algorithms[id(algo)] = algo
        patterns = list(algo.subscriptions())

        async def handle(event: Event) -> None:
            run = await self._engine.fold_of(event.stream)
            if run.algo == algo.name:
                context = Ctx(self._engine, event.run_id)
                await self._react(event, lambda ready: algo.on_event(ready, context))

        # One subscription for all its patterns: an event that several match reaches it once, and in order (ENG-22).
        self._bus.subscribe(
            "*", handle, group=f"algo:{algo.name}", predicate=lambda event: _matches(event.type, patterns)
        )

    async def _react(self, event: Event, handler: Callable[[Event], Awaitable[Sequence[Event] | None]]) -> None:
        run = await self._engine.fold_of(event.stream)
        if run.completed is not None and not event.type.startswith(LIFECYCLE):
            return  # ENG-27
        try:
            follow_ups = await handler(await self._engine.hydrate(event))
            for follow_up in follow_ups or ():
                await self._engine.emit(follow_up)
        except Redeliver:
            raise
        except StoreUnavailable as error:
            raise Redeliver(f"the store was unavailable while {event.type} was handled") from error  # ENG-26
        except Exception as error:
            if run.algo is None:
                raise  # no run to fail: the bus isolates it
            await self._engine.complete(event.stream, OutcomeKind.FAILED, None, f"{type(error).__name__}: {error}")


def _matches(event_type: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(event_type, pattern) for pattern in patterns)
