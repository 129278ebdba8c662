"""Up, ready, and how much of everything: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import anyio
import anyio.to_thread
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tracehold_collector.budgets.watch import BudgetWatch
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.forward import Forwarder, ForwardStatus
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.pipeline import Intake
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Reader
from tracehold_collector.store.writer import Writer

READY_WITHIN_S: Final = 5.0
"""How long `/readyz` waits for the store."""


async def healthz(_request: Request) -> Response:
    """Answer while the process can answer."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Answer 200 while the store answers and the writer takes records, else 503.

    Says how forwarding does, too; a receiver in trouble makes nobody here less ready.
    """
    reader: Reader = request.app.state.reader
    writer: Writer = request.app.state.writer
    # A thread of its own: behind slow questions it would call a collector down that is not, and have it restarted.
    limiter: anyio.CapacityLimiter = request.app.state.health_thread
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            await anyio.to_thread.run_sync(reader.ping, limiter=limiter, abandon_on_cancel=True)
        writer.check_room()
    except TimeoutError:
        return JSONResponse({"ready": False, "error": f"the store did not answer within {READY_WITHIN_S:g} s"}, 503)
    except CollectorError as error:
        return JSONResponse({"ready": False, "error": str(error)}, 503)
    forwarder: Forwarder | None = request.app.state.forwarder
    if forwarder is None:
        return JSONResponse({"ready": True})
    status = await asyncio.to_thread(forwarder.status)
    shown = {"trouble": status.trouble, "waiting": status.waiting, "behind_s": status.behind_s}
    return JSONResponse({"ready": True, "forward": shown})


async def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' text format."""
    limiter: anyio.CapacityLimiter = request.app.state.health_thread
    body = await anyio.to_thread.run_sync(generate_latest, request.app.state.metrics, limiter=limiter)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


class StoreMetrics(Collector):
    """Reads the collector's own counters when asked; the hot path counts in plain integers."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        intake: Intake,
        forwarder: Forwarder | None,
        watch: BudgetWatch | None = None,
        heads: HeadKeeper | None = None,
    ) -> None:
        self._heads = heads
        self._watch = watch
        self._database = database
        self._writer = writer
        self._intake = intake
        self._forwarder = forwarder

    def _budgets(self) -> Iterator[Metric]:
        share = GaugeMetricFamily(
            "tracehold_budget_spent_ratio", "Known spend of a budget's period, 1 is all of it.", labels=["budget"]
        )
        for state in self._watch.latest if self._watch is not None else ():
            share.add_metric([state.name], state.share)
        if share.samples:
            yield share

    def collect(self) -> Iterator[Metric]:
        """Yield each metric."""
        stats = self._writer.stats
        taken = self._intake.stats
        yield from self._budgets()
        yield _counter("events_accepted", "Events committed to the store.", stats.accepted)
        yield _counter("events_duplicate", "Events that were in the store already.", stats.duplicates)
        yield _counter(
            "events_conflicting", "Of these, events that said something else than the stored one.", stats.conflicts
        )
        yield _counter("events_rejected", "Events, spans or log records that could not be stored.", taken.rejected)
        yield _counter("events_erased", "Events not taken in since they, or their run, were erased.", stats.erased)
        yield _counter("metric_points", "Data points of OTLP metrics, which are not stored.", taken.points)
        yield _counter("commits", "Transactions committed.", stats.commits)
        yield _counter("commits_failed", "Transactions that failed; their senders were told.", stats.failed_commits)
        yield _counter("content_bytes", "Bytes of compressed content written.", stats.content_bytes)
        yield _gauge("queue_events", "Events waiting to be committed.", self._writer.queued)
        yield _gauge(
            "store_bytes",
            "Size of the store on disk, write-ahead file included.",
            self._database.disk_bytes(),
        )
        yield _gauge("wal_bytes", "Size of the write-ahead file.", self._database.wal_bytes())
        if self._heads is not None:
            yield from _tree_heads(self._heads)
        if self._forwarder is not None:
            yield from _forwarding(self._forwarder.status())


def _tree_heads(heads: HeadKeeper) -> Iterator[Metric]:
    yield _gauge(
        "logs_altered",
        "Audit logs that did not fit their last tree head at the start.",
        len(heads.altered),
    )
    waiting = GaugeMetricFamily(
        "tracehold_tree_heads_waiting", "Logs whose newest tree head a second place has not got.", labels=["place"]
    )
    for place, state in heads.copies.items():
        waiting.add_metric([place], len(state.waiting))
    yield waiting


def _forwarding(status: ForwardStatus) -> Iterator[Metric]:
    yield _counter("forward_sent", "Events the receiver took, since it was first named.", status.sent)
    yield _counter("forward_refused", "Events the receiver will never have.", status.refused)
    yield _counter("forward_skipped", "Opening halves of spans, which are never sent.", status.skipped)
    yield _counter("forward_retries", "Requests that had to be made again.", status.retries)
    yield _gauge("forward_in_trouble", "1 while the receiver takes nothing, else 0.", status.trouble is not None)
    if status.waiting is not None and status.behind_s is not None:
        yield _gauge("forward_waiting_events", "Events that wait to be forwarded.", status.waiting)
        yield _gauge("forward_behind_seconds", "Age of the oldest event that waits to be forwarded.", status.behind_s)


def registry(source: Collector) -> CollectorRegistry:
    """Return a registry of its own, so that two collectors in one process (tests) do not meet."""
    own = CollectorRegistry(auto_describe=False)
    own.register(source)
    return own


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"tracehold_{name}", text, value=value)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tracehold_{name}", text, value=value)
