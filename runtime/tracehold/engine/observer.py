"""The engine's events in the same record as everything else: from live runs, and from history."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tracehold.core.errors import ConfigurationError
from tracehold.engine.observing import Translator
from tracehold.events.bus import EventBus
from tracehold.events.event import Event
from tracehold.events.store import EventStore

_log = logging.getLogger(__name__)

_SEEN: Final = 10_000
_PAGE: Final = 500


class Recorder(Protocol):
    """All that is needed of a Tracer."""

    def emit(self, event: dict[str, Any]) -> None:
        """Record one event."""


class Observed(Protocol):
    """All that is needed of an engine."""

    observers: list[Callable[[Event], None]]

    @property
    def bus(self) -> EventBus:
        """Carries its events."""


class Observer:
    """Hands what an engine delivers to a Tracer, on a thread of its own: it never fails a run and never holds one up.

    What does not fit into its queue is dropped and counted; what a Tracer fails on is counted. The record's event ids
    are derived from the log (see `engine_event_id`), so what is told twice, by a recovery, by `observe_history` or by
    the collector's own reading of the log, counts once there.

        observer = Observer(tracer)
        observer.attach(engine)

    Payloads in a blob store are not fetched: such an event says what its stub says.

    Args:
        tracer: anything with `emit(event)`.
        tenant: whose events they are to the collector, when that is not the engine's own word; default each event's
            tenant, "default" for none. It is part of the event ids.
        capacity: events that may wait.

    Attributes:
        dropped: events that found no room.
        errors: events that could not be told.
    """

    def __init__(self, tracer: Recorder, *, tenant: str | None = None, capacity: int = 10_000) -> None:
        if capacity < 1:
            raise ConfigurationError(f"capacity must be at least 1, not {capacity!r}")
        self.dropped = 0
        self.errors = 0
        self._tracer = tracer
        self._translator = Translator(tenant)
        self._waiting: queue.Queue[Event | threading.Event | None] = queue.Queue(capacity)
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def attach(self, engine: Observed) -> None:
        """Observe every event that `engine` delivers from now on, and the markers of its erasures."""
        engine.bus.subscribe("*", self._hear)
        engine.observers.append(self.observe)

    def observe(self, event: Event) -> None:
        """Take one stored event; never blocks and never raises."""
        if self._closed:
            self.dropped += 1
            return
        self._begin()
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what was taken so far is told; say whether it is in time."""
        if self._thread is None:
            return True
        told = threading.Event()
        try:
            self._waiting.put(told, timeout=timeout_s)
        except queue.Full:
            return False
        return told.wait(timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Tell what waits and stop; say whether all was told in time. The Tracer stays open."""
        self._closed = True
        done = self.flush(timeout_s)
        if self._thread is not None and done:
            self._waiting.put(None)
            self._thread.join(timeout_s)
        return done

    def __enter__(self) -> Self:
        """Return the observer; it closes with the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    async def _hear(self, event: Event) -> None:
        self.observe(event)

    def _begin(self) -> None:
        if self._thread is not None and self._thread.is_alive():  # a forked child has none
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tracehold-observer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            elif not self._told_before(item):
                self.errors += not _tell(self._translator, self._tracer, item)

    def _told_before(self, event: Event) -> bool:
        """Whether it was told: a recovery delivers again what nobody had answered."""
        key = (event.stream, event.id)
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return False


async def observe_history(
    store: EventStore,
    tracer: Recorder,
    *,
    streams: Iterable[str] | None = None,
    tenant: str | None = None,
    hydrate: Callable[[Event], Awaitable[Event]] | None = None,
) -> int:
    """Hand what a store holds to a Tracer, run by run, and return how many events were told.

    Repeating it, or having observed the runs live, gives the same event ids.

    Args:
        store: the log.
        tracer: anything with `emit(event)`.
        streams: which ones; default every run.
        tenant: as for `Observer`.
        hydrate: restores payloads from a blob store, such as `Engine.hydrate`; default as stored.
    """
    wanted = list(streams) if streams is not None else [info.stream for info in await store.run_index()]
    translator = Translator(tenant)
    told = 0
    for stream in wanted:
        seq = 0
        while page := await store.read(stream, seq, _PAGE):
            seq = page[-1].seq + 1
            if hydrate is not None:
                page = [await hydrate(event) for event in page]
            told += await asyncio.to_thread(_tell_all, translator, tracer, page)
    return told


def _tell_all(translator: Translator, tracer: Recorder, events: list[Event]) -> int:
    return sum(_tell(translator, tracer, event) for event in events)


def _tell(translator: Translator, tracer: Recorder, event: Event) -> bool:
    """Tell one event, or nothing when it is told with another; say whether that went well."""
    try:
        made = translator.translate(event)
        if made is not None:
            tracer.emit(made)
    except Exception as error:  # noqa: BLE001 - a record must never take down what it records
        _log.warning("an event of type %s could not be recorded: %s", event.type, type(error).__name__)
        return False
    return True
