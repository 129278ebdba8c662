"""Runs a collector: opens the parts, serves, and closes them in the order that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import structlog
import uvicorn
from tracehold.core.clock import now_ns
from tracehold.core.errors import ConfigurationError

from tracehold_collector.access.book import KeyBook
from tracehold_collector.access.gate import Gate
from tracehold_collector.access.journal import AccessLog
from tracehold_collector.api.app import build_app
from tracehold_collector.api.connection import BoundedConnection
from tracehold_collector.api.otlp_grpc import OtlpGrpcServer
from tracehold_collector.audit.signing import Signer
from tracehold_collector.budgets import Budgets, load_budgets
from tracehold_collector.budgets.watch import BudgetWatch
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.limits import DEFAULT_LIMITS
from tracehold_collector.core.ports import bind
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.secretfile import load_or_create_key, prepare_folder
from tracehold_collector.core.settings import CollectorSettings, is_loopback, no_key_for
from tracehold_collector.core.tls import Certificate
from tracehold_collector.decoders.decoder import Decoder, DecoderSettings
from tracehold_collector.decoders.pool import DecoderPool
from tracehold_collector.erasure.beyond import BeyondDatabase
from tracehold_collector.erasure.canaries import CanaryScanner
from tracehold_collector.erasure.engine import Parts
from tracehold_collector.erasure.places_file import Place, load_places
from tracehold_collector.erasure.policies import Policy, load_policies
from tracehold_collector.erasure.processing import Known, Processing, load_written
from tracehold_collector.erasure.retention import Retention
from tracehold_collector.erasure.service import Erasures, Rules
from tracehold_collector.forward import Forwarder
from tracehold_collector.heads.copies import open_places
from tracehold_collector.heads.keeper import HeadKeeper, HeadOptions
from tracehold_collector.heads.stamps import StampKeeper
from tracehold_collector.lifecycle import Lifecycle
from tracehold_collector.pipeline import Intake
from tracehold_collector.pricing import PriceBook, load_prices
from tracehold_collector.repricing import Repricer
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore
from tracehold_collector.sql.desk import SqlDesk, SqlOptions
from tracehold_collector.store.database import FILE_NAME, Database, DatabaseOptions
from tracehold_collector.store.mapping_versions import note_mapping
from tracehold_collector.store.reader import Reader
from tracehold_collector.store.rewrite import Rewriter
from tracehold_collector.store.writer import Writer, WriterOptions

_log = structlog.get_logger(__name__)

PSEUDONYM_KEY_FILE = "pseudonym.key"

_SWITCH_INTERVAL_S = 0.0005
"""How long a decoding thread may hold the interpreter while the event loop or the writer wants it. Python's 5 ms would
be paid at every hand-over of a request between the three."""

_GRACE_S = 6
"""How long requests that are under way at shutdown may take to be answered."""


class CollectorServer:
    """A collector from open to close.

    The order matters: the sockets are bound before the store is opened, so that a taken port harms nothing; at the end
    requests under way are answered first, then the writer commits what waits, then the file is closed.

    Args:
        settings: validated settings.

    Raises:
        ConfigurationError: the certificate or key cannot be used.
        PortTakenError: names the port and offers another.
        StoreError: the store cannot be opened.
    """

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        self._certificate: Certificate | None = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            self._certificate = Certificate.load(settings.tls_cert, settings.tls_key)
        self._socket = bind(settings.host, settings.port)
        self.port: int = self._socket.getsockname()[1]
        self._grpc_place: socket.socket | None = None
        self.grpc_port: int | None = None
        self._failed: BaseException | None = None
        try:
            if settings.grpc:
                # gRPC takes no socket of ours: this one keeps the port until it listens itself.
                self._grpc_place = bind(settings.host, settings.grpc_port, setting="grpc_port")
                self.grpc_port = self._grpc_place.getsockname()[1]
            self._open_parts()
        except BaseException:
            self._close_sockets()
            raise
        config = uvicorn.Config(
            self._app,
            http=BoundedConnection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            lifespan="off",
            ssl_certfile=self._certificate.chain_file if self._certificate else None,
            ssl_keyfile=self._certificate.key_file if self._certificate else None,
        )
        self._server = _Server(config, self._grpc)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where this collector is reached."""
        return f"{'https' if self._certificate else 'http'}://{self._host}:{self.port}"

    @property
    def grpc_address(self) -> str | None:
        """Where this collector takes OTLP/gRPC, as host and port; `None` when it does not."""
        return None if self.grpc_port is None else f"{self._host}:{self.grpc_port}"

    @property
    def _host(self) -> str:
        host = self.settings.host
        return f"[{host}]" if ":" in host else host

    def run(self, on_ready: Callable[[], None] | None = None) -> None:
        """Serve until SIGINT or SIGTERM, then close everything; a second signal hurries. Main thread only.

        Args:
            on_ready: called once requests are answered.
        """
        _log.info(
            "collector_started",
            url=self.url,
            grpc=self.grpc_address or "off",
            store=str(self.database.path),
            keyless=self.gate.keyless,
            keys=len(self.keys.keys),
        )
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            _run(self._serve(on_ready))
        finally:
            self.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Serve on a thread of its own; returns once requests are answered. End it with `close`."""
        ready = threading.Event()

        def serve() -> None:
            try:
                _run(self._serve(ready.set))
            except CollectorError as error:
                self._failed = error

        self._thread = threading.Thread(target=serve, name="tracehold-http", daemon=True)
        self._thread.start()
        while not ready.wait(0.05):
            if not self._thread.is_alive():
                raise self._failed or CollectorError("the collector stopped while starting; see the log")

    def stop(self) -> None:
        """Ask the server to end; `run` then returns."""
        self._intake.stopping = True
        self.lifecycle.stopping = True
        self._server.should_exit = True

    def close(self) -> None:
        """Answer what is under way, commit what waits, close the store; a second call does nothing."""
        self.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._close_sockets()
        self.budget_watch.close()
        self.retention.close()
        self.rewriter.stop()
        self.erasures.close()
        self.repricer.close()
        if self.decoders is not None:
            self.decoders.close()
        self.writer.close()
        self.heads.sign_rest()
        self.lifecycle.close()
        self.heads.close()
        if self.stamps is not None:
            self.stamps.close()
        if self.forwarder is not None:
            self.forwarder.close()
        self.database.close()
        self._access_log.close()
        self.keys.close()

    def __enter__(self) -> Self:
        """Start serving on a thread."""
        self.start()
        return self

    def __exit__(self, _type: object, _error: BaseException | None, _trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _close_sockets(self) -> None:
        self._socket.close()
        if self._grpc_place is not None:
            self._grpc_place.close()

    def _on_signal(self, _number: int, _frame: object) -> None:
        if self._server.should_exit:
            self._server.force_exit = True
        self.stop()

    def _open_parts(self) -> None:
        settings = self.settings
        files = (load_prices(settings.prices),) if settings.prices else ()
        prices = PriceBook(files)
        written = load_budgets(settings.budgets) if settings.budgets else []
        policies = load_policies(settings.retention, settings.min_retention_days) if settings.retention else []
        places = load_places(settings.places) if settings.places else []
        # The store, its write-ahead file and its temporary files are their owner's alone: they hold what agents said.
        os.umask(0o077)
        store = settings.data_dir / FILE_NAME
        prepare_folder(settings.data_dir)
        key = load_or_create_key(settings.data_dir / PSEUDONYM_KEY_FILE, may_create=not store.exists())
        pseudonyms = Pseudonyms(key, settings.tenant)
        self.database = Database(
            store,
            DatabaseOptions(memory_limit=settings.memory_limit),
            keys=lambda may_create: SqliteKeyStore.open_in(settings.data_dir, may_create=may_create),
        )
        note_mapping(self.database.connection, now_ns())
        try:
            self._open_gate()
        except BaseException:
            self.database.close()
            raise
        self.forwarder: Forwarder | None = None
        if settings.forward:
            secret = settings.forward_headers
            self.forwarder = Forwarder(
                self.database,
                settings.data_dir,
                settings.forward,
                headers=parse_headers(secret.get_secret_value()) if secret else None,
                since=settings.forward_from,
            )
        self.writer = Writer(
            self.database,
            WriterOptions(max_queued=settings.max_queued, audit_log=settings.audit_log),
            on_commit=self.forwarder.wake if self.forwarder else None,
            run_digest=lambda tenant, run_id: pseudonyms.of(tenant).run(run_id),
        )
        self.rewriter = Rewriter(self.database, self.writer)
        self.erasures = Erasures(
            self.database,
            self.writer,
            pseudonyms,
            Rules(settings.min_retention_days, settings.strict_erasure),
            self._erasure_parts(places, pseudonyms),
        )
        self.retention = Retention(self.database, self.erasures, policies)
        limits = replace(DEFAULT_LIMITS, max_body_bytes=settings.max_body_bytes)
        decoding = DecoderSettings(key, limits, files, settings.audit_log)
        self.decoders = DecoderPool(decoding, settings.decoders) if settings.decoders else None
        self._intake = Intake(self.writer, Decoder(decoding, prices), limits, self.decoders)
        signer = Signer(settings.data_dir, now_ns())
        self._open_heads(signer)
        self.repricer = Repricer(self.database, self.writer, prices)
        self.lifecycle = Lifecycle(self.database, settings.data_dir, lambda: self.writer.stats.commits)
        self._grpc = OtlpGrpcServer(
            self._intake,
            gate=self.gate,
            log=self._access_log,
            lifecycle=self.lifecycle,
            certificate=self._certificate,
        )
        reader = Reader(self.database, timeout_s=settings.query_timeout_s)
        budgets = Budgets(written, reader, pseudonyms)
        self.budget_watch = BudgetWatch(budgets)
        self._app = build_app(
            database=self.database,
            writer=self.writer,
            reader=reader,
            intake=self._intake,
            gate=self.gate,
            access_log_file=self._access_log,
            data_dir=settings.data_dir,
            pseudonyms=pseudonyms,
            lifecycle=self.lifecycle,
            signer=signer,
            heads=self.heads,
            erasures=self.erasures,
            retention=self.retention,
            processing=self._processing(policies, [place.name for place in places]),
            forwarder=self.forwarder,
            repricer=self.repricer,
            watch=self.budget_watch,
            budgets=budgets,
            sql=SqlDesk(
                self.database,
                SqlOptions(timeout_s=settings.query_timeout_s, memory_bytes=settings.sql_memory_mb * 1024 * 1024),
            ),
        )
        self._start_parts()

    def _processing(self, policies: Sequence[Policy], places: Sequence[str]) -> Processing:
        settings = self.settings
        written = load_written(settings.processing_record) if settings.processing_record else None
        known = Known(
            policies=policies,
            min_retention_days=settings.min_retention_days,
            strict_erasure=settings.strict_erasure,
            access_log_days=settings.access_log_days,
            audit_log=settings.audit_log,
            tree_head_copies=bool(settings.tree_head_copies),
            tls=self._certificate is not None,
            keys=not self.gate.keyless,
            forwards=[self.forwarder.endpoint] if self.forwarder is not None else [],
            places=places,
        )
        return Processing(written, known)

    def _start_parts(self) -> None:
        # First of all: a database that was restored from a backup may hold what was erased since.
        self.erasures.apply_list()
        self.lifecycle.start()
        self.heads.start()
        self.erasures.start()
        self.retention.start()
        self.repricer.start()
        self.budget_watch.start()
        if self.forwarder is not None:
            self.forwarder.start()

    def _erasure_parts(self, places: Sequence[Place], pseudonyms: Pseudonyms) -> Parts:
        folder = self.settings.data_dir
        return Parts(
            rewrite=self.rewriter.rewrite,
            beyond=BeyondDatabase(self.database, folder, pseudonyms, places),
            scanner=CanaryScanner(self.database, folder, [place.path for place in places]),
        )

    def _open_heads(self, signer: Signer) -> None:
        settings = self.settings
        self.heads = HeadKeeper(
            self.database,
            lambda: (self.writer.log, self.lifecycle.log),
            signer,
            open_places(settings.tree_head_copies, settings.data_dir),
            HeadOptions(settings.tree_head_events, settings.tree_head_seconds),
        )
        self.stamps: StampKeeper | None = None
        if settings.time_stamp_url:
            self.stamps = StampKeeper(self.database, settings.time_stamp_url, settings.time_stamp_hours * 3_600)
            self.stamps.start()

    def _open_gate(self) -> None:
        settings = self.settings
        self.keys = KeyBook(settings.data_dir)
        api_key = settings.api_key.get_secret_value() if settings.api_key else None
        self.gate = Gate(self.keys, api_key=api_key, tenant=settings.tenant)
        try:
            self._refuse_without_key()
            self._access_log = AccessLog(settings.data_dir, settings.access_log_days)
        except BaseException:
            self.keys.close()
            raise

    def _refuse_without_key(self) -> None:
        if self.gate.shut:
            raise ConfigurationError(
                "TRACEHOLD_API_KEY holds a key that 'tracehold keys' made, and the data folder "
                f"{self.settings.data_dir} has no keys: nobody could ask this collector. Unset the variable, name the "
                "folder the key belongs to with --data-dir, or make a key with 'tracehold keys create'"
            )
        if self.gate.keyless and not is_loopback(self.settings.host):
            raise ConfigurationError(no_key_for(self.settings.host))

    async def _serve(self, on_ready: Callable[[], None] | None) -> None:
        if self.grpc_port is not None and self._grpc_place is not None:
            self._grpc_place.close()
            await self._grpc.start(self.settings.host, self.grpc_port)
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(0.005)
        if self._server.started and on_ready is not None:
            on_ready()
        await serving


class _Server(uvicorn.Server):
    """uvicorn, and gRPC beside it: both stop at once, so that the time for requests under way is spent once.

    uvicorn also raises a caught signal again when it has served: the process would end before the store is closed.
    """

    def __init__(self, config: uvicorn.Config, beside: OtlpGrpcServer) -> None:
        super().__init__(config)
        self._beside = beside

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is under way, over HTTP and gRPC; a forced exit does not wait for the latter."""
        stopping = asyncio.create_task(self._beside.stop(_GRACE_S))
        await super().shutdown(sockets)
        if self.force_exit:
            await self._beside.stop(0)
        await stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `CollectorServer.run`."""
        yield


def _run(serving: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where there is one (not on Windows), with threads that hand over quickly."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if importlib.util.find_spec("uvloop") is not None:
        factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serving)


def parse_headers(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, percent-encoded as in `OTEL_EXPORTER_OTLP_HEADERS`."""
    return dict(_headers(text))


def _headers(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip():
            yield unquote(name.strip()), unquote(value.strip())


def configure_logging(level: str) -> None:
    """Send structlog's events to standard error, one line each, at `level` and above."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=False),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
