"""One subscription of the in-process bus: a bounded queue and the workers that empty it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol

from tracehold.core.control import Redeliver
from tracehold.events.bus import Handler
from tracehold.events.event import Event
from tracehold.events.globs import Globs

TURNS: Final = 16
"""Events a worker handles before the rest of the program gets its turn, whatever the handlers do."""

STAND_BACK_S: Final = 1.0
"""How long a worker waits, after one event, for the queues it has filled. It ends, because the queue's handler may be
waiting for something that only this worker's next event brings about."""


SPARE: Final = 8
"""Idle workers that a subscription with keys keeps; how many it needs at once changes with every wave."""


class Owner(Protocol):
    """What a subscription needs of its bus."""

    closing: bool

    def put(self, event: Event, delivery: Delivery) -> None:
        """Queue a follow-up, whatever the queues hold."""

    def settled(self, copies: int) -> None:
        """Note that copies are handled or dropped."""

    def failed(self, subscription: Subscription, event: Event, error: BaseException) -> None:
        """Note that a handler failed."""

    def pause_s(self, failures: int) -> float:
        """Return the pause before the next attempt."""

    def gave_up(self, subscription: Subscription, copies: int) -> None:
        """Note that events wait for redelivery and the bus closes."""


class Delivery:
    """One event in one worker's hands.

    Attributes:
        subscription: whose worker.
        event: the event.
        active: whether its handler still runs; a task that the handler left behind outlives it.
        forgotten: whether its stream was forgotten meanwhile, so that it is not delivered again.
        filled: queues that the handler's own events have filled beyond their bound.
        pause: what the worker waits for before it delivers again.
    """

    __slots__ = ("active", "event", "filled", "forgotten", "pause", "subscription")

    def __init__(self, subscription: Subscription, event: Event) -> None:
        self.subscription = subscription
        self.event = event
        self.active = True
        self.forgotten = False
        self.filled: set[Subscription] | None = None
        self.pause: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the pause."""
        if self.pause is not None and not self.pause.done():
            self.pause.set_result(None)


current_delivery: Final[contextvars.ContextVar[Delivery | None]] = contextvars.ContextVar(
    "tracehold_delivery", default=None
)
"""The delivery that the running code is part of. Whoever publishes inside one must not wait for a queue: it may be the
queue that the same worker empties."""


_unhindered: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("tracehold_unhindered", default=False)


@contextlib.contextmanager
def unhindered() -> Iterator[None]:
    """Let what is published inside wait for no queue: a full one must slow senders down, and switch no limit off."""
    token = _unhindered.set(True)
    try:
        yield
    finally:
        _unhindered.reset(token)


def may_wait() -> bool:
    """Whether the running code may wait for room: it is part of no delivery, and not `unhindered`."""
    delivery = current_delivery.get()
    return not _unhindered.get() and (delivery is None or not delivery.active)


class Subscription:
    """A handler, the events waiting for it, and what it takes to deliver them.

    Args:
        owner: the bus.
        globs: which event types it takes.
        handler: takes the events.
        group: the competitors' common name, or `None`.
        concurrency: how many events at once.
        predicate: a further condition, or `None`.
        bound: events that may wait.
        key: events of one key are handled one after another, in order, whatever the concurrency; `None` knows no keys.
    """

    def __init__(
        self,
        owner: Owner,
        globs: Globs,
        handler: Handler,
        *,
        group: str | None,
        concurrency: int,
        predicate: Callable[[Event], bool] | None,
        bound: int,
        key: Callable[[Event], Hashable] | None = None,
    ) -> None:
        self.globs = globs
        self.handler = handler
        self.group = group
        self.predicate = predicate
        self.key = key
        self.queue: deque[Event] = deque()
        # A lane exists while an event of its key is queued or in hand; the later ones of that key wait in it.
        self._lanes: dict[Hashable, deque[Event]] = {}
        self._parked = 0
        self.waiting: deque[Waiting] = deque()
        self.stopped = False
        self._owner = owner
        self._bound = bound
        self._concurrency = concurrency
        self._redelivering = 0
        self._workers: set[asyncio.Task[None]] = set()
        self._in_hand: set[Delivery] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._standing_back: list[asyncio.Future[None]] = []

    @property
    def name(self) -> str:
        """How log lines call it: pattern and handler."""
        handler = getattr(self.handler, "__qualname__", type(self.handler).__qualname__)
        return f"{handler} on {', '.join(self.globs.patterns)}"

    @property
    def at_bound(self) -> bool:
        """Whether as many events wait as may (BUS-07)."""
        return self._size >= self._bound

    @property
    def full(self) -> bool:
        """Whether a publisher from outside has to wait, also because others came before it."""
        return self._size >= self._bound or bool(self.waiting)

    @property
    def crowded(self) -> bool:
        """Whether handlers' own events have filled it beyond its bound."""
        return self._size > self._bound

    @property
    def _size(self) -> int:
        # With keys there may be as many workers as events: what they have in hand must count, or nothing bounds it.
        return len(self.queue) if self.key is None else len(self.queue) + self._parked + len(self._in_hand)

    def accepts(self, event: Event) -> bool:
        """Whether its predicate lets the event through; one that fails does not."""
        if self.predicate is None:
            return True
        try:
            return bool(self.predicate(event))
        except Exception as error:  # noqa: BLE001 - a subscriber's fault must not be the publisher's (BUS-04)
            self._owner.failed(self, event, error)
            return False

    def put(self, event: Event) -> None:
        """Queue an event and see to it that a worker takes it."""
        if self.key is None or not self._park(event):
            self.queue.append(event)
            self._see_to_it()
        if self._standing_back and self.crowded:
            _wake_all(self._standing_back)  # two that wait for one another's queue would wait for good

    def _see_to_it(self) -> None:
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                return
        if len(self._workers) < self._concurrency:
            # A context of its own: what the first publisher's context says (its run, its tenant, its span) must not
            # reach the handling of everybody's events.
            work = self._work()
            task = asyncio.get_running_loop().create_task(work, name=f"bus {self.name}", context=contextvars.Context())
            self._workers.add(task)
            task.add_done_callback(self._workers.discard)

    async def room(self, event: Event) -> bool:
        """Wait, behind those who came before, until there is room; return `False` when the event was forgotten."""
        waiting = Waiting(event)
        self.waiting.append(waiting)
        try:
            while not (waiting.dropped or self.stopped) and (self.at_bound or self.waiting[0] is not waiting):
                waiting.turn = asyncio.get_running_loop().create_future()
                await waiting.turn
        finally:
            self.waiting.remove(waiting)
            self._let_in()
        return not waiting.dropped

    def forget(self, stream: str) -> int:
        """Drop what waits here of a stream (STO-08); return how many copies."""
        kept, gone = _split(self.queue, stream)
        self.queue = kept
        dropped = len(gone)
        for lane in self._lanes.values():
            rest, parked = _split(lane, stream)
            if parked:
                lane.clear()
                lane.extend(rest)
                self._parked -= len(parked)
                dropped += len(parked)
        for event in gone if self.key is not None else ():
            self._next_of_lane(event)
            self._see_to_it()
        self._owner.settled(dropped)
        for delivery in self._in_hand:
            if delivery.event.stream == stream and not delivery.forgotten:
                delivery.forgotten = True
                if delivery.pause is not None:
                    dropped += 1
                    delivery.wake()
        for waiting in self.waiting:
            if waiting.event.stream == stream and not waiting.dropped:
                dropped += 1
                waiting.dropped = True
                waiting.wake()
        self._taken()
        return dropped

    def hurry(self) -> None:
        """End all pauses: the bus closes."""
        for delivery in self._in_hand:
            delivery.wake()

    def close(self) -> int:
        """Take no more events and drop what waits; return how many. What handlers are at goes on."""
        self.stopped = True
        copies = len(self.queue) + self._parked
        self.queue.clear()
        self._lanes.clear()
        self._parked = 0
        self._owner.settled(copies)
        for waiting in self.waiting:
            waiting.wake()
        return copies

    def stop(self) -> set[asyncio.Task[None]]:
        """Close, and cancel the workers except one that runs this; return them."""
        self.close()
        workers = self._workers - {asyncio.current_task()}
        for worker in workers:
            worker.cancel()
        return workers

    async def _work(self) -> None:
        turns = 0
        while not self.stopped:
            if not self.queue or (self._redelivering and self.key is None):
                if self.key is not None and len(self._idle) >= SPARE:
                    self._workers -= {asyncio.current_task()}
                    return
                await self._rest()
                continue
            event = self.queue.popleft()
            self._taken()
            delivery = Delivery(self, event)
            await self._deliver(delivery)
            if self.key is not None:
                self._next_of_lane(event)
                self._taken()
            if delivery.filled:
                if self.key is not None and self.queue:
                    self._see_to_it()
                await self._stand_back(delivery.filled)
            turns += 1
            if turns % TURNS == 0:
                await asyncio.sleep(0)

    def _park(self, event: Event) -> bool:
        """Let an event wait behind one of its key; return `False` when there is none."""
        key = self._key_of(event)
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes[key] = deque()
            return False
        lane.append(event)
        self._parked += 1
        return True

    def _next_of_lane(self, event: Event) -> None:
        """Queue what waits behind `event`, which is done; at the end, so that no key keeps the others waiting."""
        if self.key is None:
            return
        key = self._key_of(event)
        lane = self._lanes.get(key)
        if lane:
            self._parked -= 1
            self.queue.append(lane.popleft())
        elif lane is not None:
            del self._lanes[key]

    def _drop_lane(self, event: Event) -> int:
        lane = self._lanes.get(self._key_of(event))
        if not lane:
            return 0
        copies = len(lane)
        lane.clear()
        self._parked -= copies
        self._owner.settled(copies)
        return copies

    def _key_of(self, event: Event) -> Hashable:
        """Return an event's key; all whose key cannot be told share one."""
        try:
            key = None if self.key is None else self.key(event)
            hash(key)
        except Exception as error:  # noqa: BLE001 - a subscriber's fault must not be the publisher's (BUS-04)
            self._owner.failed(self, event, error)
            return None
        return key

    async def _rest(self) -> None:
        idle = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        try:
            await idle
        finally:
            if idle in self._idle:
                self._idle.remove(idle)

    async def _deliver(self, delivery: Delivery) -> None:
        current_delivery.set(delivery)
        self._in_hand.add(delivery)
        failures = 0
        try:
            while not await self._attempt(delivery):
                failures += 1
                self._redelivering += failures == 1
                if not await self._pause(delivery, failures):
                    return
        finally:
            self._in_hand.discard(delivery)
            delivery.active = False
            if failures:
                self._redelivering -= 1
                self._resume()
            self._owner.settled(1)

    async def _attempt(self, delivery: Delivery) -> bool:
        """Hand the event over; return `False` when it is to be delivered again (BUS-05)."""
        event = delivery.event
        try:
            follow_ups = await self.handler(event)
            if follow_ups:
                for follow_up in _events(follow_ups):
                    self._owner.put(follow_up, delivery)  # BUS-02
        except Redeliver:
            return False
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self.stopped or task is None or task.cancelling():
                raise
            self._owner.failed(self, event, error)  # of something that the handler waited for
        except Exception as error:  # noqa: BLE001 - isolated (BUS-04)
            self._owner.failed(self, event, error)
        return True

    async def _pause(self, delivery: Delivery, failures: int) -> bool:
        """Wait before the next attempt; return whether there is to be one."""
        if delivery.forgotten:
            return False
        if self._owner.closing:
            if failures == 1:
                return True
            # Later events must not overtake it, and it cannot be waited for: the log has them all.
            self._owner.gave_up(self, (self.close() if self.key is None else self._drop_lane(delivery.event)) + 1)
            return False
        loop = asyncio.get_running_loop()
        delivery.pause = loop.create_future()
        timer = loop.call_later(self._owner.pause_s(failures), delivery.wake)
        try:
            await delivery.pause
        finally:
            timer.cancel()
            delivery.pause = None
        return not delivery.forgotten

    def _resume(self) -> None:
        if not self._redelivering:
            _wake_all(self._idle)

    def _taken(self) -> None:
        """Tell those who wait for this queue that it has become shorter."""
        if self.waiting:
            self._let_in()
        if self._watchers and not self.crowded:
            _wake_all(self._watchers)

    def _let_in(self) -> None:
        if self.waiting and not self.at_bound:
            self.waiting[0].wake()

    async def _stand_back(self, filled: set[Subscription]) -> None:
        """Let the queues that this worker has filled run down, so that fast handlers cannot outrun slow ones (BUS-07).

        Not while this one's own queue is over its bound as well: of workers that wait in a circle, all would be.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + STAND_BACK_S
        for other in filled:
            while other is not self and other.crowded and not self.crowded and not self.stopped:
                left = ends - loop.time()
                if left <= 0:
                    return
                turn = loop.create_future()
                other._watchers.append(turn)  # noqa: SLF001 - of the same class
                self._standing_back.append(turn)
                timer = loop.call_later(left, _wake, turn)
                try:
                    await turn
                finally:
                    timer.cancel()
                    for turns in (other._watchers, self._standing_back):  # noqa: SLF001 - of the same class
                        if turn in turns:
                            turns.remove(turn)


class Waiting:
    """A publisher from outside that waits for room.

    Attributes:
        event: what it wants to queue.
        dropped: whether its stream was forgotten.
        turn: what it waits for.
    """

    __slots__ = ("dropped", "event", "turn")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.dropped = False
        self.turn: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Let it look again."""
        if self.turn is not None:
            _wake(self.turn)


def _split(events: deque[Event], stream: str) -> tuple[deque[Event], list[Event]]:
    """Return the events of other streams, and those of this one."""
    gone = [event for event in events if event.stream == stream]
    return (deque(event for event in events if event.stream != stream) if gone else events), gone


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


def _wake_all(turns: list[asyncio.Future[None]]) -> None:
    for turn in turns:
        _wake(turn)
    turns.clear()


def _events(follow_ups: object) -> list[Event]:
    """Check all before the first one is published: half a reaction is none."""
    if isinstance(follow_ups, Event):
        raise TypeError("a handler returns a list of events or None, not one event")
    found: list[Event] = list(follow_ups)  # type: ignore[call-overload]  # what is no iterable is the handler's failure
    for event in found:
        if not isinstance(event, Event):
            raise TypeError(f"a handler returns a list of events or None; it holds {type(event).__name__}")
    return found
