"""What one event costs the agent's process: ours with redaction on, the OpenTelemetry SDK's own span, and a floor.

The event carries ten attributes, as the span it is compared with. Rounds are interleaved (A B C A B C), the median
round counts; CPU time, flush included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from figures import percentile, table
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tracehold import CollectorExporter, JsonlExporter, MemoryExporter, SqliteExporter, Tracer

ROUNDS = 5

Emit = Callable[[dict[str, Any]], None]


def events(count: int) -> list[dict[str, Any]]:
    """Model calls with ten attributes beside their type, none alike."""
    return [
        {
            "type": "llm_call",
            "model": ("gpt-4o-mini", "claude-sonnet-4", "gemini-2.5-flash")[n % 3],
            "provider": "openai",
            "agent": ("researcher", "planner", "writer")[n % 3],
            "latency_ms": 100 + n % 900,
            "prompt_tokens": 200 + n,
            "completion_tokens": 20 + n % 300,
            "finish_reason": "stop",
            "has_tool_calls": n % 2 == 0,
            "call_id": f"call_{n:024d}",
            "note": f"step {n} of the plan, asked for the order status and the carrier",
        }
        for n in range(count)
    ]


@contextmanager
def _floor(folder: Path) -> Iterator[tuple[Emit, Callable[[], object]]]:
    with (folder / "floor.jsonl").open("wb") as file:
        yield lambda event: file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)), file.flush  # type: ignore[misc]


@contextmanager
def _sdk(_folder: Path) -> Iterator[tuple[Emit, Callable[[], object]]]:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter(), max_queue_size=1 << 20))
    tracer = provider.get_tracer("bench")

    def emit(event: dict[str, Any]) -> None:
        tracer.start_span(event["type"], attributes={key: event[key] for key in event if key != "type"}).end()

    yield emit, provider.force_flush
    provider.shutdown()


def _ours(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    @contextmanager
    def opened(folder: Path) -> Iterator[tuple[Emit, Callable[[], object]]]:
        tracer = Tracer(exporters=[make(folder)])
        yield tracer.emit, lambda: None
        tracer.close()

    return opened


def _collector(folder: Path) -> CollectorExporter:
    # Nobody listens: what is measured is the agent's side, spooling included.
    return CollectorExporter(
        "http://127.0.0.1:9", spool_dir=folder / "spool", shutdown_timeout_s=0.5, handle_sigterm=False
    )


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    "floor: orjson line, no redaction": _floor,
    "OpenTelemetry SDK span, no redaction": _sdk,
    "Tracer + MemoryExporter": _ours(lambda _folder: MemoryExporter()),
    "Tracer + JsonlExporter": _ours(lambda folder: JsonlExporter(folder / "t.jsonl")),
    "Tracer + SqliteExporter": _ours(lambda folder: SqliteExporter(folder / "t.db")),
    "Tracer + CollectorExporter": _ours(_collector),
}


def run(count: int) -> None:
    """Measure and print."""
    cpu: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    calls: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    disk: dict[str, float] = {}
    batch = events(count)
    for _ in range(ROUNDS):
        for name, open_one in CONTENDERS.items():
            with tempfile.TemporaryDirectory() as folder:
                cpu[name].append(_round(open_one, Path(folder), batch, calls[name]))
                disk[name] = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / count
    sdk = statistics.median(cpu["OpenTelemetry SDK span, no redaction"])
    rows = []
    for name in CONTENDERS:
        each = statistics.median(cpu[name])
        rows.append(
            (
                name,
                f"{1e6 / each:,.0f}",
                f"{each:.1f}",
                f"{percentile(calls[name], 0.5):.1f}",
                f"{percentile(calls[name], 0.99):.1f}",
                f"{disk[name]:,.0f}",
                f"{each / sdk:.2f}",
            )
        )
    columns = (
        "emit, ten attributes",
        "events/s",
        "CPU us/event",
        "call p50 us",
        "call p99 us",
        "bytes/event",
        "vs SDK",
    )
    table("In the agent's process", columns, rows)


def _round(open_one: Callable[[Path], Any], folder: Path, batch: list[dict[str, Any]], calls: list[float]) -> float:
    with open_one(folder) as (emit, flush):
        for event in batch[:500]:
            emit(event)
        started = time.process_time()
        for event in batch:
            emit(event)
        flush()
        spent = time.process_time() - started
        for event in batch[:2000]:
            before = time.perf_counter()
            emit(event)
            calls.append((time.perf_counter() - before) * 1e6)
    return spent / len(batch) * 1e6
