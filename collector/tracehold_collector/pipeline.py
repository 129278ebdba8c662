"""The way in: decode off the event loop, hand to the writer, answer after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from tracehold.core.clock import now_ns
from tracehold.privacy import Cleaner

from tracehold_collector.core.errors import QueueFullError, StoreError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Batch, Rejection
from tracehold_collector.core.tenants import Writes
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.pricing import PriceBook, price_records
from tracehold_collector.store.committer import Receipt
from tracehold_collector.store.writer import Writer

_Read = TypeVar("_Read")

NOT_YOURS: Final = "it claims a tenant that this key may not write"
_TENANTS_REMEMBERED: Final = 1024

_SMALL_BYTES: Final = 1024 * 1024
"""A body up to this size is decoded apart from the large ones, so that it never waits behind them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request."""

    receipt: Receipt
    rejected: Sequence[Rejection]


@dataclass(slots=True)
class IntakeStats:
    """Counters since the start, for `/metrics`.

    Attributes:
        rejected: spans, log records and events that could not be stored.
        points: data points of OTLP metrics, which are never stored.
    """

    rejected: int = 0
    points: int = 0


class Reservation:
    """Bytes that one request holds of what all requests together may hold in memory."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.held = 0

    def grow(self, size: int) -> None:
        """Hold `size` bytes more.

        Raises:
            QueueFullError: the bodies under way fill the memory set aside for them.
        """
        self._intake.hold(size)
        self.held += size


class Intake:
    """Takes bodies in; shared by every way a body can arrive. Used on the event loop.

    Args:
        writer: commits records.
        pseudonym_key: the store's secret, from which user and session pseudonyms are made.
        limits: what one sender, and all together, may send.
        prices: what model calls cost; `None` leaves those without a cost unpriced.
    """

    def __init__(self, writer: Writer, pseudonym_key: bytes, limits: Limits, prices: PriceBook | None = None) -> None:
        self.limits = limits
        self.prices = prices
        self.stats = IntakeStats()
        self.stopping = False
        self._writer = writer
        self._pseudonym_key = pseudonym_key
        self._pseudonyms: dict[str, Pseudonyms] = {}
        self._cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")
        self._held_bytes = 0
        # Decoding is Python and holds the interpreter: more threads would only take turns.
        self._decoders = {True: anyio.CapacityLimiter(1), False: anyio.CapacityLimiter(1)}

    def context(self, writes: Writes) -> NormaliseContext:
        """Return what decoding needs to know about this moment and this sender."""
        moment = now_ns()
        own = self._context(writes.first, moment)
        if not writes.chooses:
            return own
        contexts: dict[str, NormaliseContext] = {}

        def select(claim: object) -> NormaliseContext:
            tenant = writes.tenant_of(claim)
            if tenant is None:
                raise ItemError(NOT_YOURS)
            if tenant not in contexts:
                contexts[tenant] = self._context(tenant, moment)
            return contexts[tenant]

        return replace(own, select=select)

    def _context(self, tenant: str, moment: int) -> NormaliseContext:
        pseudonyms = self._pseudonyms.get(tenant)
        if pseudonyms is None:
            if len(self._pseudonyms) >= _TENANTS_REMEMBERED:
                self._pseudonyms.clear()
            pseudonyms = self._pseudonyms[tenant] = Pseudonyms(self._pseudonym_key, tenant)
        return NormaliseContext(
            tenant=tenant,
            pseudonyms=pseudonyms,
            cleaner=self._cleaner,
            limits=self.limits,
            now_ns=moment,
        )

    @contextmanager
    def reservation(self) -> Iterator[Reservation]:
        """Set memory aside for one request, before its body is read.

        Raises:
            QueueFullError: too much waits to be written.
            StoreError: the collector is stopping.
        """
        if self.stopping:
            raise _stopping()
        self._writer.check_room()
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            self._held_bytes -= reservation.held

    def hold(self, size: int) -> None:
        """Count `size` bytes as held; called by `Reservation`.

        Raises:
            QueueFullError: they are more than there is room for.
        """
        if self._held_bytes and self._held_bytes + size > self.limits.max_held_bytes:
            raise QueueFullError(retry_after_s=1)
        self._held_bytes += size

    async def take(self, decode: Callable[[], Batch], size: int) -> Outcome:
        """Decode on a worker thread, commit, and say what became of it.

        Cancelling leaves either nothing or everything of the request in the store; a resend adds nothing.

        Args:
            decode: turns the body into records.
            size: of the body, in bytes.

        Raises:
            QueueFullError: nothing was taken in.
            BadBodyError: the body is not what it claims to be.
            StoreError: the commit failed, or the collector stopped first; send it again.
        """
        batch = await self.read(lambda: self._priced(decode()), size)
        receipt = Receipt(0, 0)
        if batch.records:
            with self._told_to_come_back():
                receipt = await asyncio.wrap_future(self._writer.submit(batch.records))
        unstorable = [Rejection("the request", "an event could not be stored") for _ in range(receipt.refused)]
        rejected = [*batch.rejected, *unstorable]
        self.stats.rejected += len(rejected)
        return Outcome(receipt, rejected)

    def _priced(self, batch: Batch) -> Batch:
        if self.prices is not None:
            price_records(batch.records, self.prices, now_ns())
        return batch

    async def read(self, read: Callable[[], _Read], size: int) -> _Read:
        """Run the reading of a body on a worker thread and return what it gives.

        Args:
            read: reads the body.
            size: of the body, in bytes.

        Raises:
            StoreError: the collector stopped first; send it again.
            BadBodyError: the body is not what it claims to be.
        """
        with self._told_to_come_back():
            return await anyio.to_thread.run_sync(read, limiter=self._decoders[size <= _SMALL_BYTES])

    @contextmanager
    def _told_to_come_back(self) -> Iterator[None]:
        """When the time for requests under way is over, a sender that is told to come back loses nothing."""
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            raise _stopping() from None


def _stopping() -> StoreError:
    return StoreError("the collector is stopping; send the same request again")
