"""Handing stored events to handlers: in order, not for finished runs, again after an outage (ENG-20 to ENG-28).

An algorithm reacts to the events of one run one after another, by rising number; different runs do not wait for each
other (ENG-22, ALG-04). So a reaction may start a child, of its own algorithm too, and await its result. It must not
await what only a later reaction of its own run brings about.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from tracehold.core.control import Redeliver
from tracehold.core.errors import StoreUnavailable
from tracehold.core.outcome import OutcomeKind
from tracehold.engine.algorithm import Algorithm, Ctx, EngineView
from tracehold.engine.event_types import LIFECYCLE
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.events.bus import EventBus, Handler
from tracehold.events.event import Event
from tracehold.events.globs import Globs

_log = logging.getLogger(__name__)


class Emitter(EngineView, Protocol):
    """What delivery needs of the engine."""

    runs: Runs

    async def emit(self, event: Event) -> Event | None:
        """Store and deliver an event."""

    async def emit_together(self, run: ActiveRun, events: Sequence[Event]) -> Sequence[Event]:
        """Store the events of one reaction in one append, and deliver them; return those that are left to `emit`."""

    async def hydrate(self, event: Event) -> Event:
        """Restore a payload."""

    async def complete(self, run_id: str, kind: OutcomeKind, value: object = None, reason: str | None = None) -> None:
        """End a run."""


class Reaction:
    """An algorithm object and which event types it takes."""

    __slots__ = ("algo", "globs")

    def __init__(self, algo: Algorithm) -> None:
        self.algo = algo
        self.globs = Globs(_patterns(algo))


class Delivery:
    """Subscribes handlers and algorithms to the bus.

    Args:
        engine: emits what they return.
        bus: the bus.
    """

    def __init__(self, engine: Emitter, bus: EventBus) -> None:
        self._engine = engine
        self._bus = bus
        self._latest: dict[str, Reaction] = {}
        self._distributed = bool(getattr(bus, "distributed", False))

    def subscribe(self, pattern: str, handler: Handler, *, group: str | None = None, **options: Any) -> None:
        """Subscribe a handler whose returned events are persisted and published (ENG-23)."""
        if not callable(handler):
            raise TypeError("subscribe() takes a handler that can be called")

        async def handle(event: Event) -> None:
            await self._react(event, handler)

        # In one process each event reaches every handler, whatever its group (ENG-28).
        self._bus.subscribe(pattern, handle, group=group if self._distributed else None, **options)

    def register(self, algo: Algorithm) -> Reaction:
        """Subscribe an algorithm to the events of its own runs (ENG-20, ENG-21).

        A run goes to the object it was started with. Runs that were not started here go to the one of their algorithm's
        name that was registered last, so that a fresh object for each run costs nothing that stays.

        Raises:
            TypeError: it is no algorithm, or a pattern is no text.
        """
        _require_algorithm(algo)
        name = algo.name
        latest = self._latest.get(name)
        if latest is not None and latest.algo is algo:
            return latest
        reaction = self._latest[name] = Reaction(algo)
        if latest is None:
            self._subscribe(name)
        return reaction

    def _subscribe(self, name: str) -> None:
        def concerns(event: Event) -> bool:
            run = self._engine.runs.peek(event.stream)
            if run is None or not run.loaded:
                return True  # the handler adopts the run and sees
            return run.fold.algo == name and self._of(run, name).globs.match(event.type)

        async def handle(event: Event) -> None:
            await self._react(event, None, name)

        # A bus of another kind, without keys, gets one event after another of all runs.
        keyed = {"key": _stream_of, "concurrency": sys.maxsize} if getattr(self._bus, "keyed", False) else {}
        group = f"algo:{name}" if self._distributed else None
        # One subscription for all its patterns: an event that several match reaches it once, and in order (ENG-22).
        self._bus.subscribe("*", handle, group=group, predicate=concerns, **keyed)  # type: ignore[arg-type]  # as above

    def _of(self, run: ActiveRun, name: str) -> Reaction:
        own = run.reaction
        return own if isinstance(own, Reaction) else self._latest[name]

    async def _react(self, event: Event, handler: Handler | None, name: str = "") -> None:
        try:
            run = await self._engine.runs.get(event.stream)
            await self._engine.runs.catch_up(run, event.seq)
            if handler is None:
                handler = self._reaction(run, event, name)
            if handler is None or (run.fold.completed is not None and not event.type.startswith(LIFECYCLE)):
                return  # ENG-21, ENG-27
            await self._handle(event, handler, run)
        except StoreUnavailable as error:
            raise Redeliver(f"the store was unavailable while {event.type} was handled") from error  # ENG-26

    def _reaction(self, run: ActiveRun, event: Event, name: str) -> Handler | None:
        if run.fold.algo != name:
            return None
        reaction = self._of(run, name)
        if not reaction.globs.match(event.type):
            return None
        context = Ctx(self._engine, event.stream)
        return lambda ready: reaction.algo.on_event(ready, context)

    async def _handle(
        self, event: Event, handler: Callable[[Event], Awaitable[Sequence[Event] | None]], run: ActiveRun
    ) -> None:
        try:
            follow_ups = _events(await _awaitable(handler(await self._engine.hydrate(event))))
            for follow_up in await self._engine.emit_together(run, follow_ups):
                await self._engine.emit(follow_up)
        except (Redeliver, StoreUnavailable):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self._fail(run, error)  # of something that the handler waited for
        except Exception as error:  # noqa: BLE001 - ENG-25: whatever it is
            await self._fail(run, error)

    async def _fail(self, run: ActiveRun, error: BaseException) -> None:
        if run.fold.algo is None:
            raise error  # no run to fail: the bus isolates it
        _log.warning(
            "run %s ends as failed: the handler of its events raised %s at %s",
            run.fold.run_id,
            type(error).__name__,
            _place(error),
        )
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        await self._engine.complete(run.fold.run_id, OutcomeKind.FAILED, None, text)


def _require_algorithm(algo: object) -> None:
    if isinstance(algo, type):
        raise TypeError(f"an algorithm is an instance: give {algo.__name__}(), not the class")
    lacking = [name for name in ("name", "subscriptions", "on_event") if not hasattr(algo, name)]
    if lacking:
        hint = "; for an Agent use EngineAgent" if hasattr(algo, "arun") else ""
        raise TypeError(
            f"an algorithm has a name, subscriptions() and on_event(event, ctx); {type(algo).__name__} has no "
            f"{', '.join(lacking)}{hint}"
        )
    if not isinstance(algo.name, str):  # type: ignore[attr-defined]  # looked for above
        raise TypeError(
            f"an algorithm has a name, subscriptions() and on_event(event, ctx); the name of "
            f"{type(algo).__name__} is no text"
        )


def _patterns(algo: Algorithm) -> list[str]:
    patterns = algo.subscriptions()
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise TypeError(f"{algo.name}.subscriptions() returns a list of patterns, such as ['aaa.run.started']")
    return list(patterns)


def _awaitable(made: Any) -> Awaitable[Any]:
    if not inspect.isawaitable(made):
        raise TypeError("a handler and on_event must be `async def`; this one returned without being awaited")
    return made


def _place(error: BaseException) -> str:
    """Where it was raised, without its text, which may be content."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"


def _stream_of(event: Event) -> str:
    return event.stream


def _events(follow_ups: Any) -> list[Event]:
    """Check all before the first one is stored: half a reaction is none."""
    if follow_ups is None:
        return []
    if isinstance(follow_ups, Event):
        raise TypeError("a handler returns a list of events or None, not one event")
    events: list[Event] = list(follow_ups)
    for event in events:
        if not isinstance(event, Event):
            raise TypeError(f"a handler returns a list of events or None; it holds {type(event).__name__}")
    return events
