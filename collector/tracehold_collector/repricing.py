"""Prices what is in the store already: calls whose model had no price when they came, or calls by other prices.

Rows of `events` never change. A new figure goes to `costs`, the old one stays where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import orjson
import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import CollectorError, StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.normalise.usage import credible_cost
from tracehold_collector.pricing import PriceBook
from tracehold_collector.pricing.apply import RECORDED, call_of
from tracehold_collector.store.columns import Cost
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer

_log = structlog.get_logger(__name__)

_LOT: Final = 5_000
_WAIT_S: Final = 60.0
_SAME: Final = 1e-12
"""USD below which two figures are one."""

_COLUMNS: Final = (
    "event_id", "tenant", "run_id", "type", "name", "model", "provider", "started_at", "input_tokens", "output_tokens",
    "cached_tokens", "cache_write_tokens", "reasoning_tokens", "attributes", "cost_usd", "price_source",
)  # fmt: skip

_CALLS: Final = f"""
SELECT {", ".join(_COLUMNS)}
FROM priced_events
WHERE status <> 'started'
  AND model IS NOT NULL
  AND input_tokens IS NOT NULL
  AND CASE WHEN $again THEN price_source IS DISTINCT FROM '{RECORDED}' ELSE cost_usd IS NULL END
  AND ($since::BIGINT IS NULL OR started_at >= $since)
  AND ($until::BIGINT IS NULL OR started_at < $until)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
"""  # noqa: S608 - column names and a word of our own


@dataclass(frozen=True, slots=True)
class Scope:
    """Which calls to price.

    Attributes:
        again: also those that were priced by a list before; those whose source said a cost are left alone.
        since_ns, until_ns: only calls that started from then on, and before then; UTC nanoseconds.
        tenants: whose; `None` is everybody's.
    """

    again: bool = False
    since_ns: int | None = None
    until_ns: int | None = None
    tenants: tuple[str, ...] | None = None


@dataclass(slots=True)
class Repriced:
    """What was done.

    Attributes:
        looked_at: calls.
        priced: of these, had no cost and have one now.
        changed: had another cost before; it is kept.
        unknown: still without a price, by provider and model.
        usd: by how much the sum of all costs changed.
    """

    looked_at: int = 0
    priced: int = 0
    changed: int = 0
    unknown: dict[tuple[str | None, str], int] = field(default_factory=dict)
    usd: float = 0.0


class Repricer:
    """Prices stored calls, a lot at a time, beside the traffic.

    Args:
        database: the open store.
        writer: commits the new figures.
        book: today's prices.
    """

    def __init__(self, database: Database, writer: Writer, book: PriceBook) -> None:
        self._database = database
        self._writer = writer
        self._book = book
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Price what is unpriced, on a thread of its own: a new version or price file may know more models."""
        self._thread = threading.Thread(target=self._quietly, name="tracehold-repricer", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until what `start` began has ended; say whether it has."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def close(self) -> None:
        """Stop after the lot at hand; the next start goes on."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def run(self, scope: Scope) -> Repriced:
        """Price the calls of `scope`, and return what was done.

        Raises:
            StoreError: as `steps`.
        """
        done = Repriced()
        for done in self.steps(scope):  # noqa: B007 - the last one is the sum
            pass
        return done

    def steps(self, scope: Scope) -> Iterator[Repriced]:
        """Price the calls of `scope`, yielding what was done so far after each lot; at least once.

        Stopped half way, what is done is done, and another run goes on.

        Raises:
            StoreError: the store could not be read or take a lot in, or is closing.
        """
        done = Repriced()
        with self._one_at_a_time:
            try:
                for lot in self._lots(scope):
                    costs = [cost for call in lot if (cost := self._price(call, done)) is not None]
                    if costs:
                        self._writer.submit_costs(costs).result(_WAIT_S)
                    yield done
                    if self._stopping.is_set():
                        return
            except (duckdb.Error, TimeoutError, CancelledError) as error:
                raise StoreError("the store could not price its calls to the end; start it again") from error
        yield done

    def _quietly(self) -> None:
        done = Repriced()
        begun = time.monotonic()
        try:
            for done in self.steps(Scope()):  # noqa: B007 - the last one is the sum
                # Nobody waits for this, and senders share the interpreter with it: half of the time is theirs.
                self._stopping.wait(time.monotonic() - begun)
                begun = time.monotonic()
        except CollectorError as error:
            _log.warning("late_pricing_postponed", error=type(error).__name__)
        else:
            if done.priced:
                _log.info("priced_late", calls=done.priced, usd=round(done.usd, 6))

    def _lots(self, scope: Scope) -> Iterator[list[dict[str, Any]]]:
        tenants = None if scope.tenants is None else list(scope.tenants)
        values = {"again": scope.again, "since": scope.since_ns, "until": scope.until_ns, "tenants": tenants}
        with self._database.cursor() as cursor:
            cursor.execute(_CALLS, values)
            while rows := cursor.fetchmany(_LOT):
                yield [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    def _price(self, call: dict[str, Any], done: Repriced) -> Cost | None:
        done.looked_at += 1
        before, source = call.pop("cost_usd"), call.pop("price_source")
        event_id = call.pop("event_id").bytes
        attributes = call.pop("attributes")
        record = Record(
            event_id=event_id,
            kind="llm",
            source="",
            attributes=orjson.loads(attributes) if attributes else None,
            **call,
        )
        priced = call_of(record, now_ns())
        price = self._book.price(priced) if priced is not None else None
        usd = credible_cost(price.usd) if price is not None else None
        if price is None or usd is None:
            if before is None:
                key = (record.provider, str(record.model))
                done.unknown[key] = done.unknown.get(key, 0) + 1
            return None
        if before is None:
            done.priced += 1
        elif price.source == source or abs(usd - before) < _SAME:
            return None
        else:
            done.changed += 1
        done.usd += usd - (before or 0.0)
        return Cost(event_id, record.tenant, record.run_id, usd, price.source)
