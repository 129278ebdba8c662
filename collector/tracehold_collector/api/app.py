"""Puts the HTTP side together."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Final

from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tracehold_collector.access.gate import Gate
from tracehold_collector.access.journal import AccessLog
from tracehold_collector.api import (
    access_log,
    erasure_reports,
    evidence,
    export,
    health,
    ingest,
    jaeger,
    jaeger_v3,
    policies,
    prices,
    reads,
    search,
    tail,
    tiles,
)
from tracehold_collector.api import budgets as budgets_api
from tracehold_collector.api import erasures as erasures_api
from tracehold_collector.api import log as log_api
from tracehold_collector.api import review as review_api
from tracehold_collector.api import sql as sql_api
from tracehold_collector.api.access import AccessMiddleware
from tracehold_collector.api.body import media_type
from tracehold_collector.api.contract.document import document_endpoint
from tracehold_collector.api.errors import on_collector_error, on_method_not_allowed, on_unforeseen
from tracehold_collector.api.otlp_status import PROTOBUF, otlp_error
from tracehold_collector.audit.signing import Signer
from tracehold_collector.audit.tiles import TileCache
from tracehold_collector.budgets import Budgets
from tracehold_collector.budgets.watch import BudgetWatch
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.processing import Processing
from tracehold_collector.erasure.retention import Retention
from tracehold_collector.erasure.service import Erasures
from tracehold_collector.forward import Forwarder
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.lifecycle import Lifecycle
from tracehold_collector.pipeline import Intake
from tracehold_collector.policies.desk import PolicyDesk
from tracehold_collector.repricing import Repricer
from tracehold_collector.review.desk import ReviewDesk
from tracehold_collector.sql.desk import SqlDesk
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Reader
from tracehold_collector.store.writer import Writer

_UNIMPLEMENTED: Final = 12


def build_app(
    *,
    database: Database,
    writer: Writer,
    reader: Reader,
    intake: Intake,
    gate: Gate,
    access_log_file: AccessLog,
    data_dir: Path,
    pseudonyms: Pseudonyms,
    lifecycle: Lifecycle,
    signer: Signer,
    heads: HeadKeeper,
    erasures: Erasures,
    retention: Retention,
    processing: Processing,
    forwarder: Forwarder | None = None,
    repricer: Repricer | None = None,
    watch: BudgetWatch | None = None,
    budgets: Budgets | None = None,
    sql: SqlDesk | None = None,
) -> Starlette:
    """Return the ASGI application.

    Args:
        database: the open store; its owner closes it and the other parts.
        writer: commits what comes in.
        reader: answers questions.
        intake: decodes bodies and hands them to the writer.
        forwarder: sends on what was taken in, for how it does.
        gate: says who asks.
        data_dir: the folder of the store, where the access log is read.
        pseudonyms: stand for what was looked for, in the access log.
        signer: signs tree heads.
        heads: sees to it that they are signed, and knows the newest.
        erasures: what is erased, and what legal holds keep.
        retention: how long what is kept.
        processing: what the record of processing activities is made of.
        lifecycle: is told which senders were sent away.
        access_log_file: where it is noted who asked for what.
        repricer: prices stored calls once more when asked.
        watch: looks at the budgets, for its metrics.
        budgets: what may be spent.
        sql: runs analysts' statements.
    """
    routes = make_routes()
    app = Starlette(
        routes=routes,
        middleware=[Middleware(AccessMiddleware, gate=gate, routes=routes, log=access_log_file)],
        exception_handlers={
            CollectorError: on_collector_error,
            404: _not_found,
            405: on_method_not_allowed,
            Exception: on_unforeseen,
        },
    )
    app.state.database = database
    app.state.signer = signer
    app.state.windows = asyncio.Semaphore(log_api.AT_ONCE)
    app.state.heads = heads
    app.state.tiles = TileCache()
    app.state.erasures = erasures
    app.state.retention = retention
    app.state.processing = processing
    app.state.writer = writer
    app.state.reader = reader
    app.state.intake = intake
    app.state.meters = gate.meters
    app.state.data_dir = data_dir
    app.state.access_log = access_log_file
    app.state.pseudonyms = pseudonyms
    app.state.tails = tail.Tails(reader, writer, intake)
    app.state.searches = search.Searches(reader, writer, intake)
    app.state.lifecycle = lifecycle
    app.state.repricer = repricer
    app.state.budgets = budgets
    app.state.health_thread = CapacityLimiter(1)
    app.state.forwarder = forwarder
    app.state.sql = sql or SqlDesk(database)
    app.state.reviews = ReviewDesk(reader, writer, pseudonyms)
    app.state.policies = PolicyDesk(reader, writer)
    app.state.exports = threading.BoundedSemaphore(export.AT_ONCE)
    app.state.metrics = health.registry(health.StoreMetrics(database, writer, intake, forwarder, watch, heads))
    return app


def make_routes() -> list[BaseRoute]:
    """Return every address there is; what each asks of a key is in `api.needs`, what it takes in `api.contract`."""
    described: list[BaseRoute] = []
    described += [
        Route("/v1/events", ingest.post_events, methods=["POST"]),
        Route("/v1/traces", ingest.post_traces, methods=["POST"]),
        Route("/v1/logs", ingest.post_logs, methods=["POST"]),
        Route("/v1/metrics", ingest.post_metrics, methods=["POST"]),
        Route("/api/v1/queries", reads.list_queries),
        Route("/api/v1/queries/{name}", reads.run_query),
        Route("/api/v1/events/{event_id}", reads.get_event),
        Route("/api/v1/contents", reads.get_contents),
        Route("/api/v1/search/content", search.search_content),
        Route("/api/v1/tail", tail.get_tail),
        Route("/api/v1/sql", sql_api.Sql),
        Route("/api/v1/export/events", export.export_events),
        Route("/api/v1/export/evidence", evidence.export_evidence),
        Route("/api/v1/prices/apply", prices.apply_prices, methods=["POST"]),
        Route("/api/v1/budgets", budgets_api.list_budgets),
        Route("/api/v1/access-log", access_log.get_access_log),
        Route("/api/v1/log", log_api.list_logs),
        Route("/api/v1/log/state", log_api.get_state),
        Route("/api/v1/log/frontier", log_api.get_frontier),
        Route("/api/v1/log/window", log_api.get_window),
        Route("/api/v1/log/{tenant:path}/checkpoint", tiles.get_checkpoint),
        Route("/api/v1/log/{tenant:path}/tile/{tile:path}", tiles.get_tile),
        Route("/api/v1/log/{tenant:path}/proof", tiles.get_proof),
        Route("/api/v1/log/{tenant:path}/consistency", tiles.get_consistency),
        Route("/api/v1/erasures", erasures_api.list_erasures),
        Route("/api/v1/erasures/preview", erasures_api.preview_erasure, methods=["POST"]),
        Route("/api/v1/erasures/request", erasures_api.request_erasure, methods=["POST"]),
        Route("/api/v1/erasures/{erasure_id}", erasures_api.get_erasure),
        Route("/api/v1/erasures/{erasure_id}/report", erasure_reports.get_report),
        Route("/api/v1/erasures/{erasure_id}/report.pdf", erasure_reports.get_report_pdf),
        Route("/api/v1/erasure-register", erasure_reports.get_register),
        Route("/api/v1/records-of-processing", erasure_reports.get_processing),
        Route("/api/v1/erasures/{erasure_id}/approve", erasures_api.approve_erasure, methods=["POST"]),
        Route("/api/v1/erasures/{erasure_id}/refuse", erasures_api.refuse_erasure, methods=["POST"]),
        Route("/api/v1/holds", erasures_api.list_holds),
        Route("/api/v1/holds/place", erasures_api.place_hold, methods=["POST"]),
        Route("/api/v1/holds/{hold_id}/release", erasures_api.release_hold, methods=["POST"]),
        Route("/api/v1/retention", erasures_api.list_policies),
        Route("/api/v1/retention/preview", erasures_api.preview_retention, methods=["POST"]),
        Route("/api/v1/retention/run", erasures_api.run_retention, methods=["POST"]),
        Route("/api/v1/reviews/{event_id}", review_api.get_review),
        Route("/api/v1/reviews/{event_id}/acts", review_api.post_act, methods=["POST"]),
        Route("/api/v1/review-days/{day}", review_api.get_day),
        Route("/api/v1/review-days/{day}/signatures", review_api.post_signature, methods=["POST"]),
        Route("/api/v1/policies", policies.post_policy, methods=["POST"]),
        *jaeger.ROUTES,
        *jaeger_v3.ROUTES,
        Route("/openapi.json", document_endpoint(described)),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/metrics", health.metrics),
    ]
    return described


async def _not_found(request: Request, _error: Exception) -> Response:
    error = f"there is nothing at {request.url.path[:200]!r}"
    hint = "send to /v1/events, /v1/traces or /v1/logs; ask at /api/v1/queries"
    if media_type(request) == PROTOBUF:
        # A sender of a signal that nobody here takes, such as profiles, reads a Status (specification, "Failures").
        return otlp_error(request.headers, 404, _UNIMPLEMENTED, f"{error}: {hint}")
    return JSONResponse({"error": error, "hint": hint}, 404)
