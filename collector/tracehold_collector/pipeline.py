"""The way in: decode off the event loop, hand to the writer, answer after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from tracehold_collector.core.errors import QueueFullError, StoreError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.record import Rejection
from tracehold_collector.decoders.decoder import Decoded, Decoder, Job
from tracehold_collector.decoders.pool import DecoderPool
from tracehold_collector.store.committer import Receipt
from tracehold_collector.store.writer import Writer

_SMALL_BYTES: Final = 1024 * 1024
"""A body up to this size is decoded apart from the large ones, so that it never waits behind them."""

_FOR_A_PROCESS: Final = 32 * 1024
"""A body from this size on is worth the way to a decoder process and back, 0.2 ms."""

ERASED: Final = "erased: this event, or the run it is of, was erased; nothing of it is taken in again"
"""Why an event is not taken in that comes after its erasure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request."""

    receipt: Receipt
    rejected: Sequence[Rejection]
    points: int = 0


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
        decoder: turns bodies into rows, in this process.
        limits: what one sender, and all together, may send.
        pool: decoder processes for all but small bodies; `None` decodes everything here.
    """

    def __init__(self, writer: Writer, decoder: Decoder, limits: Limits, pool: DecoderPool | None = None) -> None:
        self.limits = limits
        self.stats = IntakeStats()
        self.stopping = False
        self._writer = writer
        self._decoder = decoder
        self._pool = pool
        self._held_bytes = 0
        # Decoding in Python holds the interpreter: more threads of this process would only take turns.
        self._here = {True: anyio.CapacityLimiter(1), False: anyio.CapacityLimiter(1)}
        # A large body has a process to itself at most, and never the last one.
        processes = pool.size if pool is not None else 1
        self._beside = {True: anyio.CapacityLimiter(processes), False: anyio.CapacityLimiter(max(1, processes - 1))}

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

    async def take(self, job: Job, size: int) -> Outcome:
        """Decode off the event loop, commit, and say what became of it.

        Cancelling leaves either nothing or everything of the request in the store; a resend adds nothing.

        Args:
            job: the body, and what it is.
            size: of the body in bytes once it is decompressed, about.

        Raises:
            QueueFullError: nothing was taken in.
            BadBodyError: the body is not what it claims to be.
            StoreError: the commit failed, or the collector stopped first; send it again.
        """
        decoded = await self._decode(job, size)
        self.stats.points += decoded.points
        receipt = Receipt(0, 0)
        if len(decoded.rows):
            with self._told_to_come_back():
                receipt = await asyncio.wrap_future(self._writer.submit(decoded.rows))
        unstorable = [Rejection("the request", "an event could not be stored") for _ in range(receipt.refused)]
        erased = [Rejection("the request", ERASED) for _ in range(receipt.erased)]
        rejected = [*decoded.rejected, *unstorable, *erased]
        self.stats.rejected += len(rejected)
        return Outcome(receipt, rejected, decoded.points)

    async def _decode(self, job: Job, size: int) -> Decoded:
        small = size <= _SMALL_BYTES
        decode, limiter = self._decoder.decode, self._here[small]
        if self._pool is not None and size >= _FOR_A_PROCESS and self._pool.ready:
            decode, limiter = self._pool.decode, self._beside[small]
        with self._told_to_come_back():
            return await anyio.to_thread.run_sync(decode, job, limiter=limiter)

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
