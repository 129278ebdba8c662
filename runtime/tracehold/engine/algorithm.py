"""What runs inside the engine, and what it is given (ALG, CTXT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

from tracehold.engine.budget import Ledger
from tracehold.engine.event_types import RUN_STARTED
from tracehold.engine.run_ids import NoRunError
from tracehold.events.event import Event
from tracehold.events.projections import Projection

State = TypeVar("State")


class EngineView(Protocol):
    """What a context needs of its engine."""

    async def run_events(self, run_id: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        """Return a run's events, payloads restored."""

    async def project(self, projection: Projection[State], run_id: str) -> State:
        """Return a projection's state for a run."""

    def spent(self, run_id: str) -> Ledger:
        """Return what a run has spent."""


class Ctx:
    """The context of one event (CTXT-01).

    Args:
        engine: the engine.
        run_id: the run the event belongs to.
    """

    def __init__(self, engine: EngineView, run_id: str | None) -> None:
        self.engine = engine
        self.run_id = run_id

    async def history(self, from_seq: int = 0) -> list[Event]:
        """Return the run's events from there on, payloads restored (CTXT-02)."""
        return await self.engine.run_events(self._known(), from_seq)

    async def project(self, projection: Projection[State]) -> State:
        """Return the current state of a projection: latest snapshot and tail (CTXT-03)."""
        return await self.engine.project(projection, self._known())

    async def started(self) -> Event:
        """Return the started event: input, budget, parent (CTXT-04).

        Raises:
            KeyError: nobody started this run.
        """
        run_id = self._known()
        first = await self.engine.run_events(run_id, limit=1)
        if first and first[0].type != RUN_STARTED:
            first = await self.engine.run_events(run_id)  # somebody wrote to the stream before the run was started
        found = next((event for event in first if event.type == RUN_STARTED), None)
        if found is None:
            raise NoRunError(run_id)
        return found

    def ledger(self) -> Ledger:
        """Return the run's current spend (CTXT-05)."""
        return self.engine.spent(self._known())

    def _known(self) -> str:
        if self.run_id is None:
            raise KeyError("this event belongs to no run")
        return self.run_id


@runtime_checkable
class Algorithm(Protocol):
    """Reacts to events with events; keeps no run state of its own (ALG-01, ALG-02)."""

    name: str

    def subscriptions(self) -> list[str]:
        """Return globs of the event types it reacts to (ALG-03)."""

    async def on_event(self, event: Event, ctx: Ctx, /) -> Sequence[Event] | None:
        """Return the events that follow from `event`."""
