"""A handle to a run, wherever it is hosted (HND)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from tracehold.core.outcome import Outcome, OutcomeKind
from tracehold.engine.event_types import RUN_CANCEL, RUN_COMPLETED, RUN_STARTED
from tracehold.engine.run_ids import NoRunError
from tracehold.events.event import Event


class Host(Protocol):
    """What a handle needs of its engine."""

    async def emit(self, event: Event) -> Event | None:
        """Store and deliver an event."""

    async def hydrate(self, event: Event) -> Event:
        """Restore a payload."""

    async def await_event(self, stream: str, match: Callable[[Event], bool], *, from_seq: int = 0) -> Event:
        """Return the first matching event, stored or future."""

    async def knows(self, run_id: str) -> bool:
        """Whether anybody started that run."""

    async def stored(self, stream: str, from_seq: int = 0) -> list[Event]:
        """Return stored events."""

    def follow(self, stream: str, from_seq: int = 0) -> AsyncGenerator[Event]:
        """Yield stored and future events, through outages."""


class RunHandle:
    """A handle to any run by its id (HND-01).

    Args:
        engine: the engine.
        run_id: the run.
    """

    def __init__(self, engine: Host, run_id: str) -> None:
        self.engine = engine
        self.run_id = run_id

    async def result(self, *, start_timeout: float | None = None) -> Outcome[Any]:
        """Return the outcome, wherever the run is hosted or was finished (HND-02).

        Args:
            start_timeout: seconds to wait for the run to be started; `None` does not wait (DEC-05).

        Raises:
            KeyError: no store knows the run.
        """
        await self._known(start_timeout)
        done = await self.engine.await_event(self.run_id, _is_completion)
        return outcome_of(done)

    async def events(self, *, hydrate: bool = False, start_timeout: float | None = None) -> AsyncGenerator[Event]:
        """Yield the run's log, then what follows, until it is completed; a finished run's log whole (HND-03).

        Args:
            hydrate: restore claim-checked payloads (HND-04).
            start_timeout: seconds to wait for the run to be started (DEC-05).

        Raises:
            KeyError: no store knows the run.
        """
        await self._known(start_timeout)
        stored = await self.engine.stored(self.run_id)
        for event in stored:
            yield await self.engine.hydrate(event) if hydrate else event
        if any(_is_completion(event) for event in stored):
            return
        async with aclosing(self.engine.follow(self.run_id, stored[-1].seq + 1 if stored else 0)) as coming:
            async for event in coming:
                yield await self.engine.hydrate(event) if hydrate else event
                if _is_completion(event):
                    return

    async def signal(self, type: str, data: dict[str, Any] | None = None) -> Event | None:  # noqa: A002 - documented
        """Append an external event to the run and deliver it (HND-05).

        Raises:
            KeyError: no store knows the run.
        """
        if not isinstance(data, Mapping | None):
            raise TypeError(f"a signal's data is a dict or None, not {data.__class__.__name__}")
        await self._known(None)
        event = Event(type=type, source="external", stream=self.run_id, run_id=self.run_id, data=dict(data or {}))
        return await self.engine.emit(event)

    async def cancel(self, reason: str = "cancelled") -> None:
        """Ask for the run to end as cancelled (HND-06, ENG-42)."""
        await self.signal(RUN_CANCEL, {"reason": reason})

    async def _known(self, start_timeout: float | None) -> None:
        if await self.engine.knows(self.run_id):
            return
        if start_timeout is not None:
            started = self.engine.await_event(self.run_id, _is_start)
            try:
                await asyncio.wait_for(started, start_timeout)
            except TimeoutError:
                pass
            else:
                return
        raise NoRunError(self.run_id)


def outcome_of(event: Event) -> Outcome[Any]:
    """Return the outcome a completion event tells; an unknown kind reads as failed."""
    kind = event.data.get("kind")
    if kind not in set(OutcomeKind):
        known = ", ".join(OutcomeKind)
        told = f"the completion tells no outcome this version knows ({kind!r}); its kind is one of {known}"
        return Outcome(OutcomeKind.FAILED, None, told)
    return Outcome(OutcomeKind(kind), event.data.get("value"), event.data.get("reason"))


def _is_start(event: Event) -> bool:
    return event.type == RUN_STARTED


def _is_completion(event: Event) -> bool:
    return event.type == RUN_COMPLETED
