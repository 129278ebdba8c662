"""What a bus must do (BUS)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, Self, TypeAlias

from tracehold.events.event import Event

Handler: TypeAlias = Callable[[Event], Awaitable[Sequence[Event] | None]]
"""Takes an event and may return follow-up events, which are published (BUS-02)."""


class EventBus(Protocol):
    """Hands events to subscriptions.

    Attributes:
        distributed: whether several processes share it (BUS-09).
    """

    distributed: bool

    def subscribe(
        self,
        pattern: str,
        handler: Handler,
        *,
        group: str | None = None,
        concurrency: int = 1,
        predicate: Callable[[Event], bool] | None = None,
    ) -> None:
        """Hand events whose type matches a case-sensitive glob to `handler` (BUS-01).

        Args:
            pattern: over event types.
            handler: may raise `Redeliver` to get the same event again later (BUS-05).
            group: subscriptions of one group compete (BUS-06); events of one stream stay in order.
            concurrency: 1 keeps publish order (BUS-03).
            predicate: a further condition.
        """

    async def publish(self, event: Event) -> None:
        """Queue an event; a full queue slows the caller (BUS-07).

        Inside a handler it must not wait for a queue that this handler holds up. Hold no lock meanwhile that a handler
        needs: outside of handlers it waits for them.
        """

    def forget(self, stream: str) -> int:
        """Drop what waits of a stream, for redelivery too; return how many copies went (STO-08, ERA-05)."""

    async def drain(self) -> None:
        """Wait until everything queued, follow-ups included, is handled (BUS-08)."""

    async def abort(self) -> None:
        """Drop everything at once (BUS-08)."""

    async def __aenter__(self) -> Self:
        """Start."""

    async def __aexit__(self, *error: object) -> None:
        """Drain and stop; what still asks for redelivery is left to the log."""
