"""How an engine is asked: events, states and results come from the log, whichever process wrote it (ENG-04)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from tracehold.core.errors import StoreUnavailable
from tracehold.core.retry import RetryPolicy
from tracehold.engine.budget import Ledger
from tracehold.engine.event_types import started_id
from tracehold.engine.log import Log
from tracehold.engine.run_fold import RunFold
from tracehold.engine.runs import Runs
from tracehold.events.event import Event
from tracehold.events.projections import Projection
from tracehold.events.store import EventStore

State = TypeVar("State")


class Reading:
    """What `Engine` offers to who asks. It changes nothing.

    Attributes:
        store: the log as it was given.
        log: the engine's way to it.
        runs: the runs this process works on.
    """

    store: EventStore
    log: Log
    runs: Runs

    async def retry(
        self, fn: Callable[[], Awaitable[Any]], what: str = "store operation", policy: RetryPolicy | None = None
    ) -> Any:
        """Call `fn`, riding out transient failures (ENG-37).

        Raises:
            StoreUnavailable: the rules are exhausted; the last error is its cause.
        """
        return await self.log.retry(fn, what, policy, may_take_long=True)

    async def hydrate(self, event: Event) -> Event:
        """Restore a claim-checked payload; any other event is returned unchanged (ENG-38)."""
        return await self.log.hydrate(event)

    async def knows(self, run_id: str) -> bool:
        """Whether anybody started a run of this id, here or elsewhere, and nobody has deleted it."""
        held = self.runs.peek(run_id)
        if held is not None and held.fold.is_open:
            return True
        return await self.log.retry(lambda: self.store.has(run_id, started_id(run_id)), f"looking up {run_id}", None)

    async def stored(self, stream: str, from_seq: int = 0) -> list[Event]:
        """Return stored events of a stream."""
        return await self.log.read(stream, from_seq)

    async def run_events(self, run_id: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        """Return a run's events, payloads restored."""
        return await self.log.hydrated(await self.log.read(run_id, from_seq, limit))

    async def project(self, projection: Projection[State], run_id: str) -> State:
        """Return a projection's state for a run (ENG-40)."""
        loaded = await self.log.retry(
            lambda: projection.load(self.store, run_id, hydrate=self.hydrate),
            f"projecting {run_id}",
            None,
            may_take_long=True,  # it reads a whole log
        )
        return loaded.state

    async def fold_of(self, run_id: str) -> RunFold:
        """Return a run's state, adopted from the log if need be."""
        return (await self.runs.get(run_id)).fold

    def spent(self, run_id: str) -> Ledger:
        """Return what a run that this engine holds has spent."""
        run = self.runs.peek(run_id)
        return run.fold.ledger if run is not None else Ledger()

    def is_done(self, run_id: str) -> bool:
        """Whether a run that this engine holds has ended; one that ended long ago is let go, and its log tells."""
        run = self.runs.peek(run_id)
        return run is not None and run.fold.completed is not None

    async def await_event(self, stream: str, match: Callable[[Event], bool], *, from_seq: int = 0) -> Event:
        """Return the first event that `match` accepts, stored already or to come (ENG-39).

        Raises:
            StoreUnavailable: an outage outlasted the rules.
        """
        async with aclosing(self.follow(stream, from_seq)) as events:
            async for event in events:
                if match(event):
                    return event
        raise StoreUnavailable(f"the store ended its subscription to {stream}")

    async def follow(self, stream: str, from_seq: int = 0) -> AsyncGenerator[Event]:
        """Yield stored and future events of a stream; a dropped connection resumes after the last one seen (ENG-39)."""
        position, outage = from_seq, self.log.outage(f"following {stream}")
        while True:
            pending = self.store.subscribe(stream, position)
            outage.opened()
            try:
                async for event in pending:
                    outage.over()
                    position = event.seq + 1
                    yield event
            except Exception as error:  # noqa: BLE001 - the outage decides which ones it rides out
                await outage.ride_out(error)
                # A store that cannot be asked either is gone, however long each attempt to connect took.
                await self.log.retry(lambda: self.store.last_seq(stream), f"following {stream}", None)
            else:
                return
            finally:
                close = getattr(pending, "aclose", None)
                if close is not None:
                    await close()
