"""Durable OTLP/HTTP ingest over loopback: the collector, MLflow when there is one, and a floor that parses and syncs.

Requests hold spans of about 20 attributes, pre-serialised; ids are unique to each. Closed loop over keep-alive
connections; the client shares the machine's cores. Every answered span is then counted in the store. CPU and memory are
those of the server's whole process tree.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import big_store
import servers
import spans
import trees
from figures import percentile, table

PACED = 5_000
"""Spans a second, for the latency a sender sees below the limit."""


@dataclass(frozen=True)
class Load:
    """One phase: how many senders, how many spans in a request, and spans a second if not as fast as they are taken."""

    senders: int
    size: int
    pace: int | None = None

    def __str__(self) -> str:
        pace = f", {self.pace:,}/s" if self.pace else ""
        return f"{self.senders} x {self.size}{pace}"


LOADS = (Load(1, 100), Load(4, 100), Load(4, 100, PACED), Load(1, 512), Load(4, 512), Load(16, 512))
PEER_LOADS = (Load(1, 100), Load(4, 512))


@dataclass
class Server:
    """A receiver under load."""

    name: str
    port: int
    pid: int
    folder: Path
    headers: dict[str, str] = field(default_factory=dict)
    sent: int = 0


def run(seconds: float, mlflow_python: str | None, stored: int) -> None:
    """Measure and print.

    Args:
        seconds: how long each phase lasts.
        mlflow_python: an interpreter that has MLflow, if any.
        stored: millions of events that are in the collector's store already.
    """
    rows = []
    rates: dict[tuple[str, str], float] = {}
    with _collector(stored) as server:
        rows += [phase(server, load, seconds, rates) for load in LOADS]
    if mlflow_python:
        with _mlflow(mlflow_python) as server:
            rows += [phase(server, load, seconds, rates) for load in PEER_LOADS]
    with _started("floor: parse, append, fsync", servers.start_floor) as server:
        rows += [phase(server, load, seconds, rates) for load in PEER_LOADS]
    title = f"Into a store of {stored} million events" if stored else "Into the store"
    columns = (
        "durable OTLP/HTTP",
        "senders x spans",
        "spans/s",
        "p50 ms",
        "p99 ms",
        "CPU us/span",
        "bytes/span",
        "peak MB (PSS)",
        "spans",
    )
    table(title, columns, rows)
    for load in map(str, PEER_LOADS):
        if ("MLflow", load) in rates:
            print(f"{load}: {rates['collector', load] / rates['MLflow', load]:.1f} times MLflow")


@contextmanager
def _collector(stored: int) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if stored:
            print(f"making a store of {stored} million events: {big_store.build(folder, stored * 1_000_000):.0f} s")
        before = servers.events_stored(folder) if stored else 0
        begun = time.perf_counter()
        port, process = servers.start_collector(folder)
        print(f"the collector was ready after {time.perf_counter() - begun:.1f} s")
        server = Server("collector", port, process.pid, folder)
        try:
            # The first larger request starts the decoder processes.
            phase(server, Load(1, 100), 2.0, {})
            yield server
        finally:
            servers.stop(process)
        found = servers.events_stored(folder) - before
        if found < server.sent:
            raise SystemExit(f"{server.sent} spans were acknowledged, the store holds {found}")


@contextmanager
def _mlflow(python: str) -> Iterator[Server]:
    with _started("MLflow", lambda folder: servers.start_mlflow(folder, python)) as server:
        server.headers["x-mlflow-experiment-id"] = "0"
        # Its first requests load what it needs, for ten seconds and more.
        phase(server, Load(1, 100), 15.0, {})
        yield server


@contextmanager
def _started(name: str, start: Callable[[Path], tuple[int, servers.Process]]) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        port, process = start(Path(folder))
        try:
            yield Server(name, port, process.pid, Path(folder))
        finally:
            servers.stop(process)


def phase(server: Server, load: Load, seconds: float, rates: dict[tuple[str, str], float]) -> tuple[object, ...]:
    """Send for `seconds`: as fast as answers come, or at the load's pace, late ones counting from when they were due."""
    template = spans.template(load.size)
    latencies: list[float] = []
    first = time.time_ns() // 1000
    numbers = iter(range(first, 2**62))
    lock = threading.Lock()
    before_cpu, before_disk = trees.cpu_s(server.pid), _disk(server.folder)
    peak = 0.0
    begun = time.perf_counter()
    deadline = begun + seconds

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        headers = {"Content-Type": "application/x-protobuf", **server.headers}
        while time.perf_counter() < deadline:
            with lock:
                number = next(numbers)
            body = template.body(number)
            started = time.perf_counter()
            if load.pace is not None:
                started = begun + (number - first) * load.size / load.pace
                time.sleep(max(0.0, started - time.perf_counter()))
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                latencies.append((time.perf_counter() - started) * 1e3)
            else:
                time.sleep(0.05)

    threads = [threading.Thread(target=send) for _ in range(load.senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)
            peak = max(peak, trees.pss_mb(server.pid))
    elapsed = time.perf_counter() - begun
    sent = len(latencies) * load.size
    server.sent += sent
    rates[server.name, str(load)] = sent / elapsed
    return (
        server.name,
        load,
        f"{sent / elapsed:,.0f}",
        f"{percentile(latencies, 0.5):.1f}",
        f"{percentile(latencies, 0.99):.1f}",
        f"{(trees.cpu_s(server.pid) - before_cpu) / sent * 1e6:.0f}",
        f"{(_disk(server.folder) - before_disk) / sent:,.0f}",
        f"{peak:,.0f}",
        sent,
    )


def _disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
