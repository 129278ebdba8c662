"""Named queries over a store of millions of events, as the collector answers them, beside a plain scan of the same rows.

Wall time is the least of several runs with two threads of DuckDB; CPU time is that of all threads, and says more on a
machine that others use too. The floor adds up one column of every event: what any answer about all rows costs at least.
Beside them is how fast content is searched, and how fast senders are served meanwhile.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import big_store
import servers
import spans
from figures import percentile, table
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracehold_collector.store.database import FILE_NAME, Database, DatabaseOptions
from tracehold_collector.store.reader import Access, Reader

RUNS = 7
_A_RUN = "SELECT run_id FROM run_deltas ORDER BY received_at DESC LIMIT 1 OFFSET 1000"
_DAY_NS = 86_400 * 10**9
SPANS = 500
_STEP_NS = 10 * 10**9


@dataclass(frozen=True)
class Sizes:
    """How much is stored: events for the questions, of each store; events with content for the search."""

    events: Sequence[int]
    with_content: int


def run(sizes: Sizes) -> None:
    """Measure and print."""
    for events in sizes.events:
        with tempfile.TemporaryDirectory() as folder:
            seconds = big_store.build(Path(folder), events)
            print(
                f"{events:,} events, made in {seconds:.0f} s, {(Path(folder) / FILE_NAME).stat().st_size / events:.0f} bytes each"
            )
            table("Questions", ("question", "wall ms", "CPU ms", "rows", "goal, wall"), _questions(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        table("Search in content", ("what", "figure"), _content(Path(folder), sizes.with_content))


def _questions(folder: Path) -> list[tuple[object, ...]]:
    database = Database(folder / FILE_NAME, DatabaseOptions(threads=2))
    reader = Reader(database)
    with database.cursor() as cursor:
        ((run_id,),) = cursor.execute(_A_RUN).fetchall()
        ((last_ns,),) = cursor.execute("SELECT max(started_at) FROM events").fetchall()
        floor = _measured(lambda: cursor.execute("SELECT sum(duration_ns) FROM events").fetchall())
    recently = time.strftime("%Y-%m-%d", time.gmtime((last_ns - 30 * _DAY_NS) // 10**9))
    asked: list[tuple[str, str, dict[str, object], str]] = [
        ("runs page", "runs", {}, "30"),
        ("runs page, failed ones", "runs", {"status": "error"}, ""),
        ("runs page, a word", "runs", {"search": "agent-3"}, ""),
        ("one waterfall", "waterfall", {"run_id": run_id}, "30"),
        ("denials page", "gate_denials", {}, "30"),
        ("search, many hits", "search", {"text": "send_"}, "300"),
        ("search, few hits", "search", {"text": "Error17"}, "300"),
        ("search, no hit", "search", {"text": "nowhere"}, "300"),
        ("spend by model and day", "spend_by_model_day", {}, "100"),
        ("the same, Berlin's days", "spend_by_model_day", {"timezone": "Europe/Berlin"}, "100"),
        ("the same, 30 days", "spend_by_model_day", {"since": recently}, "100"),
        ("percentiles", "latency", {}, "100"),
        ("overview", "overview", {}, ""),
    ]
    rows: list[tuple[object, ...]] = [("floor: sum of one column", *floor, 1, "")]
    for name, query, parameters, goal in asked:
        found = reader.query(query, parameters, Access())
        figures = _measured(lambda query=query, parameters=parameters: reader.query(query, parameters, Access()))
        rows.append((name, *figures, found.num_rows, goal))
    database.close()
    return rows


def _measured(work: Callable[[], object]) -> tuple[str, str]:
    wall, cpu = [], []
    for _ in range(RUNS):
        begun, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    return f"{min(wall) * 1e3:.1f}", f"{min(cpu) * 1e3:.1f}"


def _content(folder: Path, events: int) -> list[tuple[object, ...]]:
    port, process = servers.start_collector(folder)
    try:
        template = spans.template(SPANS)
        alone = percentile([_send(port, template, number) for number in range(events // SPANS)], 0.5)
        rare = [_search(port, "nowhere-to-be-found") for _ in range(3)]
        common = [_search(port, "carrier", limit=1) for _ in range(5)]
        beside: list[float] = []
        over = threading.Event()

        def send() -> None:
            number = events
            while not over.is_set():
                beside.append(_send(port, template, number))
                number += 1

        sender = threading.Thread(target=send)
        sender.start()
        for _ in range(3):
            _search(port, "nowhere-to-be-found")
        over.set()
        sender.join()
    finally:
        servers.stop(process)
    seconds, _, end = min(rare)
    return [
        ("events with content", f"{end['of']:,}, {end['bytes'] / 1e6:,.0f} MB of JSON"),
        (
            "the whole, no hit",
            f"{seconds:.2f} s, {end['bytes'] / seconds / 1e6:,.0f} MB/s, {end['of'] / seconds:,.0f} events/s",
        ),
        ("first hit of a common word", f"{min(first for _, first, _ in common) * 1e3:.0f} ms"),
        ("100 spans sent alone", f"{alone * 1e3 * 100 / SPANS:.1f} ms (median)"),
        ("100 spans sent during searches", f"{percentile(beside, 0.5) * 1e3 * 100 / SPANS:.1f} ms (median)"),
    ]


def _search(port: int, text: str, limit: int = 100) -> tuple[float, float, dict[str, int]]:
    """Seconds to the end and to the first hit (or the end), and what the last line says."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    begun = time.perf_counter()
    connection.request("GET", f"/api/v1/search/content?text={text}&limit={limit}&seconds=600")
    answer = connection.getresponse()
    first = 0.0
    while line := json.loads(answer.readline()):
        if not first and ("hit" in line or "done" in line):
            first = time.perf_counter() - begun
        if "done" in line:
            return time.perf_counter() - begun, first, line["done"]
    raise SystemExit("the search broke off")


def _send(port: int, template: spans.Template, number: int) -> float:
    """Seconds until a request of `SPANS` spans, later ones than all before, is answered."""
    request = ExportTraceServiceRequest.FromString(template.body(number + 1))
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano += number * _STEP_NS
        span.end_time_unix_nano += number * _STEP_NS
    body = request.SerializeToString()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    begun = time.perf_counter()
    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise SystemExit(f"the collector answered {answer.status}")
    return time.perf_counter() - begun
