"""The way in: decode off the event loop, hand to the writer, answer after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread
from tracehold.core.clock import now_ns
from tracehold.privacy import Cleaner

from tracehold_collector.core.limits import Limits
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Batch, Rejection
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.store.writer import Receipt, Writer

_DECODERS = 2
"""Decoding is Python and holds the interpreter: more threads would only take turns."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request."""

    receipt: Receipt
    rejected: Sequence[Rejection]


@dataclass(slots=True)
class IntakeStats:
    """Counters since the start, for `/metrics`."""

    rejected: int = 0


class Intake:
    """Takes bodies in for one tenant set; shared by every way a body can arrive.

    Args:
        writer: commits records.
        pseudonym_key: the store's secret, from which user and session pseudonyms are made.
        limits: what one sender may send.
    """

    def __init__(self, writer: Writer, pseudonym_key: bytes, limits: Limits) -> None:
        self.limits = limits
        self.stats = IntakeStats()
        self._writer = writer
        self._pseudonym_key = pseudonym_key
        self._pseudonyms: dict[str, Pseudonyms] = {}
        self._cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")
        self._decoders = anyio.CapacityLimiter(_DECODERS)

    def context(self, tenant: str) -> NormaliseContext:
        """Return what decoding needs to know about this moment and this sender."""
        pseudonyms = self._pseudonyms.get(tenant)
        if pseudonyms is None:
            pseudonyms = self._pseudonyms[tenant] = Pseudonyms(self._pseudonym_key, tenant)
        return NormaliseContext(
            tenant=tenant,
            pseudonyms=pseudonyms,
            cleaner=self._cleaner,
            limits=self.limits,
            now_ns=now_ns(),
        )

    async def take(self, decode: Callable[[], Batch]) -> Outcome:
        """Decode on a worker thread, commit, and say what became of it.

        Cancelling leaves either nothing or everything of the request in the store; a resend adds nothing.

        Raises:
            QueueFullError: nothing was taken in; before anything was decoded.
            BadBodyError: the body is not what it claims to be.
            StoreError: the commit failed; nothing was kept.
        """
        self._writer.check_room()
        batch = await anyio.to_thread.run_sync(decode, limiter=self._decoders)
        self.stats.rejected += len(batch.rejected)
        if not batch.records:
            return Outcome(Receipt(0, 0), batch.rejected)
        receipt = await asyncio.wrap_future(self._writer.submit(batch.records))
        return Outcome(receipt, batch.rejected)
