"""Twenty thousand events as fast as a loop can emit them: is every one kept, whatever the exporter?"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import servers
from agent_events import events
from figures import table
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tracehold import (
    CollectorExporter,
    JsonlExporter,
    MemoryExporter,
    OTelExporter,
    SqliteExporter,
    TraceExporter,
    Tracer,
)

BURST = 20_000

Kept = Callable[[], int]
"""Called once the exporter is closed: how many different events were kept."""


def run() -> None:
    """Emit a burst through each exporter, and print what became of it."""
    rows = []
    for name, open_one in EXPORTERS.items():
        with tempfile.TemporaryDirectory() as folder, open_one(Path(folder)) as (exporter, kept):
            tracer = Tracer(exporters=[exporter])
            batch = events("tool_call")
            begun = time.perf_counter()
            for number in range(BURST):
                tracer.emit(batch[number % len(batch)])
            emitted = time.perf_counter() - begun
            tracer.force_flush(60)
            tracer.close()
            done = time.perf_counter() - begun
            lost = BURST - kept()
            dropped = sum(tracer.summary()["dropped"].values())
            rows.append((name, f"{BURST / emitted:,.0f}", f"{done:.1f}", lost, dropped))
    columns = (f"{BURST:,} tool calls in one go", "events/s", "closed after s", "lost", "counted as dropped")
    table("A burst", columns, rows)


@contextmanager
def _memory(_folder: Path) -> Iterator[tuple[TraceExporter, Kept]]:
    exporter = MemoryExporter(max_events=None)
    yield exporter, lambda: len({event["event_id"] for event in exporter.events})


@contextmanager
def _jsonl(folder: Path) -> Iterator[tuple[TraceExporter, Kept]]:
    path = folder / "events.jsonl"
    yield (
        JsonlExporter(path),
        lambda: len({json.loads(line)["event_id"] for line in path.read_text("utf-8").splitlines()}),
    )


@contextmanager
def _sqlite(folder: Path) -> Iterator[tuple[TraceExporter, Kept]]:
    path = folder / "events.db"

    def kept() -> int:
        with closing(sqlite3.connect(path)) as store:
            return len({json.loads(text)["event_id"] for (text,) in store.execute("SELECT event FROM traces")})

    yield SqliteExporter(path), kept


@contextmanager
def _otel(_folder: Path) -> Iterator[tuple[TraceExporter, Kept]]:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield (
        OTelExporter(tracer_provider=provider),
        lambda: len({(span.attributes or {})["tracehold.event_id"] for span in spans.get_finished_spans()}),
    )
    provider.shutdown()


@contextmanager
def _collector(folder: Path) -> Iterator[tuple[TraceExporter, Kept]]:
    port, process = servers.start_collector(folder / "data")

    def kept() -> int:
        servers.stop(process)
        return servers.events_stored(folder / "data")

    try:
        yield CollectorExporter(f"http://127.0.0.1:{port}", spool_dir=folder / "spool", handle_sigterm=False), kept
    finally:
        servers.stop(process)


EXPORTERS: dict[str, Callable[[Path], object]] = {
    "MemoryExporter(max_events=None)": _memory,
    "JsonlExporter": _jsonl,
    "SqliteExporter": _sqlite,
    "OTelExporter, simple processor": _otel,
    "CollectorExporter, a collector on loopback": _collector,
}
