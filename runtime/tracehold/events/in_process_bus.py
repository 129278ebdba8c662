"""The bus of one process and one event loop (BUS)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Hashable
from typing import Final, Self

from tracehold.events.bus import Handler
from tracehold.events.event import Event
from tracehold.events.globs import KEPT, Globs
from tracehold.events.subscription import Delivery, Subscription, current_delivery, may_wait

_STOP_S: Final = 1.0
_KINDS: Final = 256
_log = logging.getLogger(__name__)

OnError = Callable[[Event, BaseException], None]

_Route = tuple[tuple[Subscription, ...], tuple[tuple[Subscription, ...], ...]]
"""For one event type: the subscriptions without a group, and those of each group."""


class InProcessBus:
    """Hands events to the handlers of this process, each subscription with a bounded queue of its own.

    Workers start with the first event and stop when the context is left; one event loop uses it. A publisher outside of
    handlers waits while a queue it needs is full. One inside a handler does not: the queue may be its own. Instead its
    worker lets the queues it has filled run down before it takes its next event (BUS-07).

    After `abort`, or when the context was left, what is published is dropped: it is in the log.

    Args:
        queue_size: events that may wait for one subscription.
        redeliver_base_s: seconds before the first redelivery; each further pause is twice as long (BUS-05).
        redeliver_max_s: longest pause, in seconds.
        on_error: called with the event and the error of a handler that failed; what it raises is dropped.

    Attributes:
        distributed: `False` (BUS-09).
        keyed: `True`: `subscribe` takes a key.

    Raises:
        ValueError: a size below 1, a pause that is not above 0.
    """

    distributed: bool = False
    keyed: bool = True

    def __init__(
        self,
        queue_size: int = 1024,
        *,
        redeliver_base_s: float = 0.2,
        redeliver_max_s: float = 5.0,
        on_error: OnError | None = None,
    ) -> None:
        _require_count("queue_size", queue_size)
        for name, value in (("redeliver_base_s", redeliver_base_s), ("redeliver_max_s", redeliver_max_s)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
        self.on_error = on_error
        self.closing = False
        self._queue_size = queue_size
        self._redeliver_base_s = redeliver_base_s
        self._redeliver_max_s = redeliver_max_s
        self._subscriptions: list[Subscription] = []
        self._routes: dict[str, _Route] = {}
        self._entered = 0
        self._closed = False
        self._unhandled = 0
        self._publishing = 0
        self._drains: list[asyncio.Future[None]] = []
        self._logged: set[tuple[str, str]] = set()

    def subscribe(
        self,
        pattern: str,
        handler: Handler,
        *,
        group: str | None = None,
        concurrency: int = 1,
        predicate: Callable[[Event], bool] | None = None,
        key: Callable[[Event], Hashable] | None = None,
    ) -> None:
        """Hand events whose type matches a case-sensitive glob to `handler` (BUS-01).

        Args:
            pattern: over event types.
            handler: takes an event, may return follow-ups, may raise `Redeliver`.
            group: of subscriptions with one group that take an event, one gets it; all events of a stream go to the
                same one, so that they stay in order (BUS-06).
            concurrency: events handled at once; 1 keeps publish order (BUS-03).
            predicate: a further condition, asked when an event is published.
            key: events of one key, such as their stream, stay in order and are handled one after another; those of
                different keys at once, `concurrency` of them at most. Those in hand count as waiting.

        Raises:
            TypeError: a handler or predicate that cannot be called, a pattern or group that is no text.
            ValueError: an empty pattern, a concurrency below 1.
        """
        if not all(one is None or callable(one) for one in (predicate, key)) or not callable(handler):
            raise TypeError("subscribe() takes a handler, and perhaps a predicate and a key, that can be called")
        if not (group is None or isinstance(group, str)):
            raise TypeError(f"a group must be a text or None, not {type(group).__name__}")
        _require_count("concurrency", concurrency)
        self._subscriptions.append(
            Subscription(
                self,
                Globs((pattern,)),
                handler,
                group=group,
                concurrency=concurrency,
                predicate=predicate,
                bound=self._queue_size,
                key=key,
            )
        )
        self._routes.clear()

    async def publish(self, event: Event) -> None:
        """Queue an event for each subscription that takes it; wait while one of their queues is full (BUS-07).

        Cancelled while it waits, it has queued nothing.
        """
        delivery = current_delivery.get()
        if delivery is not None and delivery.active:
            self.put(event, delivery)
            return
        targets = self._targets(event)
        for target in targets if may_wait() else ():
            if target.full:
                if not await self._room(targets, event):
                    return
                break
        self._put(event, targets)

    def put(self, event: Event, delivery: Delivery) -> None:
        """Queue what a handler publishes, whatever the queues hold."""
        targets = self._targets(event)
        self._put(event, targets)
        for target in targets:
            if target.crowded:
                delivery.filled = delivery.filled or set()
                delivery.filled.add(target)

    def forget(self, stream: str) -> int:
        """Drop what waits of a stream, also for redelivery or for room; return how many copies went (STO-08, ERA-05).

        An event that a handler holds at this moment is finished, and not delivered again.
        """
        dropped = sum(subscription.forget(stream) for subscription in self._subscriptions)
        self.settled(0)
        return dropped

    async def drain(self) -> None:
        """Wait until everything published is handled, follow-ups and redeliveries included (BUS-08).

        Raises:
            RuntimeError: a handler called it: it would wait for itself.
        """
        delivery = current_delivery.get()
        if delivery is not None and delivery.active:
            raise RuntimeError("drain() inside a handler would wait for that handler; call it from outside")
        while self._unhandled or self._publishing:
            quiet = asyncio.get_running_loop().create_future()
            self._drains.append(quiet)
            await quiet

    async def abort(self) -> None:
        """Drop everything at once: what is queued, and what handlers are at (BUS-08)."""
        self._closed = True
        await self._stop()

    async def __aenter__(self) -> Self:
        """Start; also again after it was left."""
        if not self._entered:
            self.closing = self._closed = False
            for subscription in self._subscriptions:
                subscription.stopped = False
        self._entered += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        """Drain and stop; events that wait for redelivery get one more attempt (BUS-05, BUS-08)."""
        self._entered = max(0, self._entered - 1)
        if self._closed:
            return
        if self._entered:
            await self.drain()
            return
        self.closing = True
        for subscription in self._subscriptions:
            subscription.hurry()
        try:
            await self.drain()
        finally:
            self._closed = True
            await self._stop()

    def settled(self, copies: int) -> None:
        """Note that copies were handled or dropped."""
        self._unhandled -= copies
        if self._drains and not self._unhandled and not self._publishing:
            for quiet in self._drains:
                if not quiet.done():
                    quiet.set_result(None)
            self._drains.clear()

    def pause_s(self, failures: int) -> float:
        """Return the pause after the n-th failure of one delivery."""
        doubled = 2.0 ** min(failures - 1, 64)
        return min(self._redeliver_max_s, self._redeliver_base_s * doubled)

    def failed(self, subscription: Subscription, event: Event, error: BaseException) -> None:
        """Tell the hook, and the log once a kind, that a handler failed (BUS-04)."""
        kind = (subscription.name, type(error).__name__)
        if kind not in self._logged and len(self._logged) < _KINDS:
            self._logged.add(kind)
            # Neither the event's content nor the error's own text, which may quote it.
            _log.warning(
                "handler %s failed with %s at an event of type %s; the bus goes on, further ones of this kind are not "
                "logged (on_error sees them)",
                *kind,
                event.type,
            )
        if self.on_error is not None:
            try:
                self.on_error(event, error)
            except Exception as second:  # noqa: BLE001 - a hook cannot stop the bus
                _log.debug("on_error itself failed with %s", type(second).__name__)

    def gave_up(self, subscription: Subscription, copies: int) -> None:
        """Note that a closing bus leaves events behind."""
        _log.warning(
            "the bus closed while handler %s still asked for redelivery; %d event(s) were not handled. They are in the "
            "log: recover() continues there",
            subscription.name,
            copies,
        )

    def _targets(self, event: Event) -> list[Subscription]:
        if self._closed:
            return []
        plain, groups = self._routes.get(event.type) or self._route(event.type)
        targets = [one for one in plain if not one.stopped and (one.predicate is None or one.accepts(event))]
        for group in groups:
            members = [one for one in group if not one.stopped and one.accepts(event)]
            if members:
                # By stream, as a distributed bus does it: each event goes to one, and a run stays in order (BUS-06).
                targets.append(members[hash(event.stream) % len(members)])
        return targets

    def _route(self, event_type: str) -> _Route:
        plain: list[Subscription] = []
        groups: dict[str, list[Subscription]] = {}
        for one in self._subscriptions:
            if one.globs.match(event_type):
                (plain if one.group is None else groups.setdefault(one.group, [])).append(one)
        if len(self._routes) >= KEPT:
            self._routes.clear()
        route = self._routes[event_type] = (tuple(plain), tuple(map(tuple, groups.values())))
        return route

    def _put(self, event: Event, targets: list[Subscription]) -> None:
        for target in targets:
            if not target.stopped:  # since it was chosen
                self._unhandled += 1
                target.put(event)

    async def _room(self, targets: list[Subscription], event: Event) -> bool:
        """Wait until no target is full; return whether the event is still to be queued."""
        self._publishing += 1
        try:
            full = next((target for target in targets if target.full), None)
            while full is not None:
                if not await full.room(event):
                    return False
                # Its turn has come: whoever waits elsewhere is no reason to wait again, only a queue at its bound is.
                full = next((target for target in targets if target.at_bound and not target.stopped), None)
            return True
        finally:
            self._publishing -= 1
            self.settled(0)

    async def _stop(self) -> None:
        workers = set[asyncio.Task[None]]()
        for subscription in self._subscriptions:
            workers |= subscription.stop()
        self.settled(0)
        if workers:
            # A handler that will not be cancelled must not hold up the end.
            await asyncio.wait(workers, timeout=_STOP_S)


def _require_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
