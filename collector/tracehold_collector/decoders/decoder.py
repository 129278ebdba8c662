"""One request's body on its way to rows: decompress, decode, normalise, redact, price, encode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tracehold.core.clock import now_ns
from tracehold.privacy import Cleaner

from tracehold_collector.core.limits import Limits
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Batch, Rejection
from tracehold_collector.core.tenants import Writes
from tracehold_collector.decode.compression import decompress
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import count_otlp_points, decode_otlp_logs, decode_otlp_traces
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.pricing import PriceBook, price_records
from tracehold_collector.pricing.call import PriceList
from tracehold_collector.store.rows import Rows, encode, encode_apart

NOT_YOURS: Final = "it claims a tenant that this key may not write"
_TENANTS_REMEMBERED: Final = 1024

What = Literal["events", "traces", "logs", "metrics"]


@dataclass(frozen=True, slots=True)
class Job:
    """One body to decode.

    Attributes:
        what: our own events, or the OTLP signal.
        encoding: "protobuf" or "json" for OTLP, "ndjson" or "json" for events.
        body: as it was sent.
        coding: its `Content-Encoding`, if any.
        writes: whose the items may be.
    """

    what: What
    encoding: Literal["protobuf", "json", "ndjson"]
    body: bytes = field(repr=False)
    coding: str | None
    writes: Writes


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a body held.

    Attributes:
        rows: what is to be stored.
        rejected: items that cannot be, with the reason.
        points: data points of OTLP metrics.
    """

    rows: Rows
    rejected: Sequence[Rejection] = ()
    points: int = 0


@dataclass(frozen=True, slots=True)
class DecoderSettings:
    """All that a decoder needs to know; it is handed to decoder processes.

    Attributes:
        pseudonym_key: the store's secret, from which user and session pseudonyms are made.
        limits: what one sender may send.
        prices: the user's own price lists; `None` leaves calls without a cost unpriced.
        evidence: whether to make what the audit log commits to.
    """

    pseudonym_key: bytes = field(repr=False)
    limits: Limits
    prices: tuple[PriceList, ...] | None = ()
    evidence: bool = True


class Decoder:
    """Decodes bodies; safe to use from several threads.

    Args:
        settings: keys, limits and prices.
        prices: the book of the settings' price lists, when there is one already.
    """

    def __init__(self, settings: DecoderSettings, prices: PriceBook | None = None) -> None:
        self._limits = settings.limits
        self._evidence = settings.evidence
        self._key = settings.pseudonym_key
        self._prices = PriceBook(settings.prices) if prices is None and settings.prices is not None else prices
        self._pseudonyms: dict[str, Pseudonyms] = {}
        self._cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")

    def decode(self, job: Job) -> Decoded:
        """Return what `job` holds, ready to be stored.

        Raises:
            BadBodyError: the body is not what it claims to be.
            TooLargeError: it is over a limit.
            UnsupportedCodingError: nobody here reads its coding.
        """
        body = decompress(job.body, job.coding, self._limits)
        moment = now_ns()
        context = self._context(job.writes, moment)
        if job.what == "metrics":
            encoding: Any = job.encoding
            return Decoded(encode([]), points=count_otlp_points(body, encoding=encoding, context=context))
        batch = self._batch(job, body, context)
        if self._prices is not None:
            price_records(batch.records, self._prices, moment)
        rows, unfit = encode_apart(batch.records, evidence=self._evidence)
        unstorable = [Rejection("the request", "an event could not be stored") for _ in range(unfit)]
        return Decoded(rows, [*batch.rejected, *unstorable])

    def _batch(self, job: Job, body: bytes, context: NormaliseContext) -> Batch:
        encoding: Any = job.encoding
        if job.what == "events":
            return decode_events(body, encoding=encoding, context=context)
        decode = decode_otlp_traces if job.what == "traces" else decode_otlp_logs
        return decode(body, encoding=encoding, context=context)

    def _context(self, writes: Writes, moment: int) -> NormaliseContext:
        """Return what normalising needs to know about this moment and this sender."""
        own = self._tenant_context(writes.first, moment)
        if not writes.chooses:
            return own
        contexts: dict[str, NormaliseContext] = {}

        def select(claim: object) -> NormaliseContext:
            tenant = writes.tenant_of(claim)
            if tenant is None:
                raise ItemError(NOT_YOURS)
            if tenant not in contexts:
                contexts[tenant] = self._tenant_context(tenant, moment)
            return contexts[tenant]

        return replace(own, select=select)

    def _tenant_context(self, tenant: str, moment: int) -> NormaliseContext:
        pseudonyms = self._pseudonyms.get(tenant)
        if pseudonyms is None:
            if len(self._pseudonyms) >= _TENANTS_REMEMBERED:
                self._pseudonyms.clear()
            pseudonyms = self._pseudonyms[tenant] = Pseudonyms(self._key, tenant)
        return NormaliseContext(
            tenant=tenant, pseudonyms=pseudonyms, cleaner=self._cleaner, limits=self._limits, now_ns=moment
        )
