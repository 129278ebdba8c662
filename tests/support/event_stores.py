"""What the tests of event stores share: the stores there are, events to store, and how to run a test on one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tracehold.events import Event, EventStore
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.events.sqlite_store import SQLiteEventStore

Result = TypeVar("Result")

PATIENCE = 30
"""Seconds after which something that never happens fails a test, instead of hanging it."""

STORES: dict[str, Callable[[Path], EventStore]] = {
    "memory": lambda _: InMemoryEventStore(),
    "sqlite": lambda folder: SQLiteEventStore(folder / "log.db", poll_s=0.01),
}
"""By name, how each store is opened in an empty folder; a further store joins the contract suite here."""


def fact(id_: str, data: dict[str, Any] | None = None, **fields: Any) -> Event:
    """Return an event with an id."""
    return Event(id=id_, data={"n": id_} if data is None else data, **{"type": "test.fact"} | fields)


def facts(*ids: str) -> list[Event]:
    """Return an event for each id."""
    return [fact(id_) for id_ in ids]


def started(stream: str, **data: Any) -> Event:
    """Return a run's first event."""
    return fact(f"{stream}:started", {"algo": "a", "input": {"q": "secret-input"}} | data, type="aaa.run.started")


def completed(stream: str, **data: Any) -> Event:
    """Return a run's last event."""
    return fact(f"{stream}:completed", {"kind": "success", "value": "secret"} | data, type="aaa.run.completed")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a test's coroutine; it fails when it hangs."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


def on(store: EventStore, act: Callable[[EventStore], Awaitable[Result]]) -> Result:
    """Return what `act` does with the store, which is closed afterwards."""

    async def main() -> Result:
        try:
            return await act(store)
        finally:
            await store.aclose()

    return run(main())


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    """Return the next events of a subscription."""
    return [await anext(events) for _ in range(count)]


def ids(events: list[Event]) -> list[str]:
    """Return the ids of events."""
    return [event.id for event in events]


def seqs(events: list[Event]) -> list[int]:
    """Return the numbers of events."""
    return [event.seq for event in events]
