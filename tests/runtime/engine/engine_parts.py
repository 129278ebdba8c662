"""What the engine's tests share: small algorithms, a store that fails on demand, and views of a log."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tracehold.core.retry import RetryPolicy
from tracehold.engine import Ctx, Engine
from tracehold.events import ANY_SEQ, Event, EventStore, RunInfo, StoredSnapshot
from tracehold.events.in_process_bus import InProcessBus

Result = TypeVar("Result")

PATIENCE = 30
"""Seconds after which something that never happens fails a test, instead of hanging it."""

FAST = RetryPolicy(max_attempts=3, base_delay_s=0.001, max_delay_s=0.002)
"""Three attempts, at once: an outage of two calls is ridden out, a longer one is not."""


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a test's coroutine; it fails when it hangs."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


async def until(condition: Callable[[], Any]) -> None:
    """Let others work until a condition (maybe async) holds; the test's own deadline ends it."""
    while True:
        held = condition()
        if await held if inspect.isawaitable(held) else held:
            return
        await asyncio.sleep(0)


class RefusingBus(InProcessBus):
    """Refuses the first `times` events with an outage; it loses no time over redelivery."""

    def __init__(self, times: int) -> None:
        super().__init__(redeliver_base_s=0.001, redeliver_max_s=0.002)
        self.left = times

    async def publish(self, event: Event) -> None:
        if self.left:
            self.left -= 1
            raise outage()
        await super().publish(event)


def engine_on(store: EventStore | None = None, **options: Any) -> Engine:
    """Return an engine that loses no time: quick retries, quick redelivery."""
    options.setdefault("store_retry", FAST)
    options.setdefault("bus", InProcessBus(redeliver_base_s=0.001, redeliver_max_s=0.002))
    return Engine(store, **options)


def finished(event: Event, value: Any = None, kind: str = "success", reason: str | None = None) -> list[Event]:
    """Return what an algorithm returns to end its run."""
    return [event.caused("aaa.run.completed", {"kind": kind, "value": value, "reason": reason})]


def fact(run_id: str, id_: str | None = None, type_: str = "test.fact", **data: Any) -> Event:
    """Return an event for a run."""
    return Event(type=type_, id=id_, source="test", stream=run_id, run_id=run_id, data=data)


def llm(run_id: str, id_: str | None = None, *, tokens: Any = 1, cost: Any = 0.0) -> Event:
    """Return a completed model call: one step, some tokens, some cost."""
    return fact(run_id, id_, "aaa.llm.completed", usage={"total_tokens": tokens}, cost=cost)


def types(events: Sequence[Event]) -> list[str]:
    """Return the types of events."""
    return [event.type for event in events]


class Echo:
    """Ends with its input."""

    def __init__(self, name: str = "echo") -> None:
        self.name = name

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        return finished(event, event.data["input"])


class Counting:
    """Counts to its input's `to`, an event each, then ends with that number. `seen` is for tests only."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.seen: list[Event] = []

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started", "count.*"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        self.seen.append(event)
        if event.type == "aaa.run.started":
            return [event.caused("count.tick", {"n": 1, "to": event.data["input"]["to"]})]
        n, to = event.data["n"], event.data["to"]
        return finished(event, n) if n >= to else [event.caused("count.tick", {"n": n + 1, "to": to})]


class Idle:
    """Does nothing until it is signalled `test.go`, then ends with the signal's data. `seen` is for tests only."""

    def __init__(self, name: str = "idle", patterns: Sequence[str] = ("*",)) -> None:
        self.name = name
        self.patterns = list(patterns)
        self.seen: list[Event] = []

    def subscriptions(self) -> list[str]:
        return self.patterns

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
        self.seen.append(event)
        return finished(event, event.data) if event.type == "test.go" else None


class Failing:
    """Raises what it is given."""

    def __init__(self, error: BaseException | None = None, name: str = "failing") -> None:
        self.name = name
        self.error = error or ZeroDivisionError("made to fail")

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        raise self.error


class Slow:
    """Waits in its reaction until `release` is set, then ends with its input."""

    def __init__(self, name: str = "slow") -> None:
        self.name = name
        self.entered = asyncio.Event()
        self.release = asyncio.Event()

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        self.entered.set()
        await self.release.wait()
        return finished(event, event.data["input"])


class Spending:
    """Makes `calls` completed model calls of `tokens` and `cost` each, one after another, then ends."""

    def __init__(self, name: str = "spending") -> None:
        self.name = name

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started", "aaa.llm.completed"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        wanted = (await ctx.started()).data["input"]
        made = sum(one.type == "aaa.llm.completed" for one in await ctx.history())
        if made >= wanted["calls"]:
            return finished(event, made)
        usage = {"total_tokens": wanted.get("tokens", 1)}
        return [event.caused("aaa.llm.completed", {"n": made, "usage": usage, "cost": wanted.get("cost", 0.0)})]


class Parent:
    """Starts a child for each of its input's `children` (an input each), and ends with their outcomes by tag.

    Args:
        child: the children's algorithm.
    """

    def __init__(self, child: Any, name: str = "parent") -> None:
        self.name = name
        self.child = child

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started", "aaa.child.completed"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
        wanted = (await ctx.started()).data["input"]["children"]
        if event.type == "aaa.run.started":
            for tag, told in wanted.items():
                await ctx.engine.start(  # type: ignore[attr-defined]  # an Engine
                    self.child, told, run_id=f"{ctx.run_id}.{tag}", parent=ctx.run_id, tag=tag
                )
            return finished(event, {}) if not wanted else None
        heard = {one.data["tag"]: one.data["outcome"] for one in await ctx.history() if one.type == event.type}
        return finished(event, heard) if heard.keys() == wanted.keys() else None


class Awaiting(Parent):
    """Starts one child and waits for its result inside the reaction."""

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
        if event.type != "aaa.run.started":
            return None
        outcome = await ctx.engine.run(  # type: ignore[attr-defined]  # an Engine
            self.child, event.data["input"], run_id=f"{ctx.run_id}.child", parent=ctx.run_id
        )
        return finished(event, outcome.value, outcome.kind, outcome.reason)


def outage() -> Exception:
    """Return an error that may go away by itself."""
    return ConnectionResetError("the store went away")


class Fault:
    """What happens to some calls of one operation; see `FaultyStore`.

    Attributes:
        met: set once the first call has met it.
        release: lets the calls that hang go on.
    """

    def __init__(
        self, kind: str, error: Exception | None, at: int, times: int | None, when: Callable[..., bool] | None
    ) -> None:
        self.kind = kind
        self.error = error
        self.left = times
        self.when = when
        self.met = asyncio.Event()
        self.release = asyncio.Event()
        self._skip = at - 1

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether this call meets it."""
        if self.left == 0 or (self.when is not None and not self.when(*args)):
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        self.met.set()
        return True


class FaultyStore:
    """A store in front of another one that fails, hangs, or loses answers, as it is told.

    Operations are the store's methods, and "event": one event of a subscription on its way. `calls` counts them.

    Args:
        store: the store that works.
    """

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        self._faults: dict[str, list[Fault]] = {}

    def fail(
        self,
        operation: str,
        error: Exception | None = None,
        *,
        at: int = 1,
        times: int | None = 1,
        when: Callable[..., bool] | None = None,
    ) -> Fault:
        """Raise instead of doing it.

        Args:
            operation: a method's name, or "event".
            error: default an outage.
            at: the first call that fails, counted from now.
            times: how many calls fail; `None` is all until `mend`.
            when: only calls whose arguments it accepts count.
        """
        return self._add(operation, Fault("fail", error or outage(), at, times, when))

    def lose(
        self,
        operation: str,
        error: Exception | None = None,
        *,
        at: int = 1,
        times: int | None = 1,
        when: Callable[..., bool] | None = None,
    ) -> Fault:
        """Do it, then raise: it took effect and the caller cannot know."""
        return self._add(operation, Fault("lose", error or outage(), at, times, when))

    def hang(
        self, operation: str, *, at: int = 1, times: int | None = 1, when: Callable[..., bool] | None = None
    ) -> Fault:
        """Wait for the fault's `release` before doing it."""
        return self._add(operation, Fault("hang", None, at, times, when))

    def mend(self) -> None:
        """Work again."""
        for faults in self._faults.values():
            for fault in faults:
                fault.release.set()
        self._faults.clear()

    def _add(self, operation: str, fault: Fault) -> Fault:
        self._faults.setdefault(operation, []).append(fault)
        return fault

    async def _do(self, operation: str, *args: Any, **kw: Any) -> Any:
        self.calls[operation] += 1
        fault = next((one for one in self._faults.get(operation, []) if one.takes(args)), None)
        if fault is not None and fault.kind == "hang":
            await fault.release.wait()
        if fault is not None and fault.kind == "fail" and fault.error is not None:
            raise fault.error
        answer = await getattr(self.store, operation)(*args, **kw) if hasattr(self.store, operation) else None
        if fault is not None and fault.kind == "lose" and fault.error is not None:
            raise fault.error
        return answer

    async def append(self, stream: str, events: Sequence[Event], expected_seq: int = ANY_SEQ) -> list[Event]:
        stored: list[Event] = await self._do("append", stream, events, expected_seq)
        return stored

    async def read(self, stream: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        events: list[Event] = await self._do("read", stream, from_seq, limit)
        return events

    async def subscribe(self, stream: str, from_seq: int = 0) -> AsyncIterator[Event]:
        self.calls["subscribe"] += 1
        for fault in self._faults.get("subscribe", []):
            if fault.takes((stream, from_seq)) and fault.error is not None:
                raise fault.error
        events = self.store.subscribe(stream, from_seq)
        try:
            async for event in events:
                await self._do("event", event)
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # a generator

    async def last_seq(self, stream: str) -> int:
        return int(await self._do("last_seq", stream))

    async def has(self, stream: str, event_id: str) -> bool:
        return bool(await self._do("has", stream, event_id))

    async def run_index(self, *, open_only: bool = False) -> list[RunInfo]:
        index: list[RunInfo] = await self._do("run_index", open_only=open_only)
        return index

    async def scrub(self, stream: str) -> int:
        return int(await self._do("scrub", stream))

    async def delete_stream(self, stream: str) -> int:
        return int(await self._do("delete_stream", stream))

    async def load_snapshot(self, stream: str, name: str) -> StoredSnapshot | None:
        snap: StoredSnapshot | None = await self._do("load_snapshot", stream, name)
        return snap

    async def save_snapshot(self, snap: StoredSnapshot) -> None:
        await self._do("save_snapshot", snap)

    async def aclose(self) -> None:
        await self.store.aclose()
