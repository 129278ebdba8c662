"""The official Python SDK's exporters against the collector: what a program with nothing of ours in it sees."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import duckdb
import grpc
import httpx
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.committer import Committer

Serve = Callable[..., CollectorServer]

KEY = "k" * 32
RESOURCE = Resource({"service.name": "shop"})

ways = pytest.mark.parametrize("way", ["grpc", "http"])


@pytest.fixture
def server(serve: Serve) -> CollectorServer:
    return serve(grpc=True)


def exporter(kind: Any, server: CollectorServer, way: str, path: str, **options: Any) -> Any:
    if way == "grpc":
        return kind(endpoint=server.grpc_address, insecure=True, **options)
    return kind(endpoint=f"{server.url}/v1/{path}", **options)


def spans(server: CollectorServer, way: str, **options: Any) -> TracerProvider:
    kind = GrpcSpans if way == "grpc" else HttpSpans
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter(kind, server, way, "traces", **options)))
    return provider


def logs(server: CollectorServer, way: str, **options: Any) -> LoggerProvider:
    kind = GrpcLogs if way == "grpc" else HttpLogs
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter(kind, server, way, "logs", **options)))
    return provider


def rows(server: CollectorServer, columns: str) -> list[tuple[Any, ...]]:
    with server.database.cursor() as cursor:
        return cursor.execute(f"SELECT {columns} FROM events ORDER BY started_at, kind").fetchall()  # noqa: S608


@ways
def test_spans_and_the_log_records_in_them_are_one_run(server: CollectorServer, way: str) -> None:
    tracing, logging_ = spans(server, way), logs(server, way)
    with tracing.get_tracer("t").start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as span:
        logging_.get_logger("l").emit(
            LogRecord(body="Paris", event_name="gen_ai.choice", severity_number=SeverityNumber.INFO)
        )
    tracing.shutdown()
    logging_.shutdown()  # type: ignore[no-untyped-call]  # the SDK's
    trace_id, span_id = f"{span.get_span_context().trace_id:032x}", f"{span.get_span_context().span_id:016x}"
    assert rows(server, "kind, run_id, span_id, parent_span_id, service") == [
        ("llm", trace_id, span_id, None, "shop"),
        ("context", trace_id, None, span_id, "shop"),
    ]
    query = f"{server.url}/api/v1/queries/waterfall"
    drawn = httpx.get(query, params={"run_id": trace_id}, trust_env=False).json()
    depth, kind = drawn["columns"].index("depth"), drawn["columns"].index("kind")
    assert [(row[kind], row[depth]) for row in drawn["rows"]] == [("llm", 0), ("context", 1)]


@ways
@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_compressed_exports_are_read(server: CollectorServer, way: str, compression: str) -> None:
    chosen: Any = grpc.Compression[compression.capitalize()] if way == "grpc" else Compression(compression)
    provider = spans(server, way, compression=chosen)
    provider.get_tracer("t").start_span("work").end()
    provider.shutdown()
    assert rows(server, "name") == [("work",)]


@ways
def test_metrics_are_taken_without_an_error_in_the_programs_log(
    server: CollectorServer, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = GrpcMetrics if way == "grpc" else HttpMetrics
    reader = PeriodicExportingMetricReader(exporter(kind, server, way, "metrics"), export_interval_millis=3_600_000)
    provider = MeterProvider([reader])
    usage = provider.get_meter("m").create_histogram("gen_ai.client.token.usage")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            usage.record(1000, {"gen_ai.token.type": "input"})
            assert provider.force_flush()
        provider.shutdown()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert rows(server, "kind") == []
    with server.database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    assert server._intake.stats.points >= 3


@ways
def test_a_key_is_shown_by_the_standard_headers_variable(
    serve: Serve, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{KEY}")
    server = serve(grpc=True, api_key=KEY)
    provider = spans(server, way)
    provider.get_tracer("t").start_span("work").end()
    provider.shutdown()
    assert rows(server, "name") == [("work",)]


@ways
def test_an_exporter_that_meets_a_full_queue_comes_back_and_loses_nothing(
    serve: Serve, way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(grpc=True, max_queued=1)
    entered, leave = threading.Event(), threading.Event()
    real = Committer.commit

    def slow(self: Any, batch: Any) -> Any:
        entered.set()
        leave.wait(30)
        return real(self, batch)

    monkeypatch.setattr(Committer, "commit", slow)
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("opentelemetry.exporter")]:
        # The SDK says each thing once a minute: another test of this process may have made it say this already.
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    first, second = spans(server, way), spans(server, way)
    waiting = threading.Thread(target=lambda: first.get_tracer("t").start_span("first").end())
    sending = threading.Thread(target=lambda: second.get_tracer("t").start_span("second").end())
    refused = threading.Event()
    caplog.handler.addFilter(lambda _record: (refused.set(), True)[1])
    with caplog.at_level(logging.WARNING):
        waiting.start()
        assert entered.wait(20)
        sending.start()
        assert refused.wait(20)
        leave.set()
        waiting.join(30)
        sending.join(30)
    first.shutdown()
    second.shutdown()
    assert "retrying in 1.00s" in caplog.text
    assert sorted(rows(server, "name")) == [("first",), ("second",)]


@ways
def test_an_exporter_that_meets_a_store_that_cannot_write_comes_back_and_loses_nothing(
    server: CollectorServer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Committer.commit, []

    def first_fails(self: Any, batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise duckdb.IOException("disk full")
        return real(self, batch)

    monkeypatch.setattr(Committer, "commit", first_fails)
    provider = spans(server, way)
    provider.get_tracer("t").start_span("work").end()
    provider.shutdown()
    assert rows(server, "name") == [("work",)]
    assert len(calls) == 2


@ways
@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_a_refusal_that_will_not_pass_is_not_tried_again(serve: Serve, way: str, signal: str) -> None:
    server = serve(grpc=True, api_key=KEY)
    show = {"headers": {"x-api-key": "wrong"}}
    if signal == "traces":
        traced = spans(server, way, **show)
        traced.get_tracer("t").start_span("work").end()
        traced.shutdown()
    elif signal == "logs":
        logged = logs(server, way, **show)
        logged.get_logger("l").emit(LogRecord(body="x", severity_number=SeverityNumber.INFO))
        logged.shutdown()  # type: ignore[no-untyped-call]  # the SDK's
    else:
        kind = GrpcMetrics if way == "grpc" else HttpMetrics
        reader = PeriodicExportingMetricReader(
            exporter(kind, server, way, "metrics", **show), export_interval_millis=3_600_000
        )
        measured = MeterProvider([reader])
        measured.get_meter("m").create_counter("c").add(1)
        measured.shutdown()
    server.close()
    lines = read_log(server.settings.data_dir, Asked(action="denied"), None)
    assert sum(line["repeated"] for line in lines) == 1
    assert [line["status"] for line in lines] == [401]


@ways
def test_a_partial_success_is_not_tried_again(server: CollectorServer, way: str) -> None:
    kind = GrpcMetrics if way == "grpc" else HttpMetrics
    reader = PeriodicExportingMetricReader(exporter(kind, server, way, "metrics"), export_interval_millis=3_600_000)
    provider = MeterProvider([reader])
    provider.get_meter("m").create_counter("c").add(1)
    provider.shutdown()
    assert server._intake.stats.points == 1
