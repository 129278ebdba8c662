"""Durable OTLP/HTTP ingest over loopback: the collector, and a floor that only parses, appends and syncs.

Requests hold 100 spans of about 20 attributes, pre-serialised; ids are unique to each. Closed loop over keep-alive
connections; the client shares the machine's cores. Every answered span is then counted in the store.
"""

from __future__ import annotations

import http.client
import os
import tempfile
import threading
import time
from pathlib import Path

import servers
import spans
from figures import percentile, table

SPANS = 100
PACED = 5_000
"""Spans a second: the goal, whose latency is what a sender would see."""


def run(seconds: float) -> None:
    """Measure and print."""
    rows = []
    for name, start in (("collector", servers.start_collector), ("floor: parse, append, fsync", servers.start_floor)):
        with tempfile.TemporaryDirectory() as folder:
            port, process = start(Path(folder))
            try:
                server = (name, port, process.pid, Path(folder))
                phases = [
                    _phase(*server, senders, seconds, pace) for senders, pace in ((1, None), (4, None), (4, PACED))
                ]
            finally:
                servers.stop(process)
            rows += phases
            if name == "collector":
                _check(Path(folder), sum(row[-1] for row in rows))
    columns = (
        "durable OTLP/HTTP, 100 spans a request",
        "senders",
        "spans/s",
        "p50 ms",
        "p99 ms",
        "server CPU us/span",
        "bytes/span",
        "spans",
    )
    table("Into the store", columns, rows)


def _phase(
    name: str, port: int, pid: int, folder: Path, connections: int, seconds: float, pace: int | None
) -> tuple[object, ...]:
    """Send for `seconds`: as fast as answers come, or `pace` spans a second, late ones counting from when they were due."""
    template = spans.template(SPANS)
    latencies: list[float] = []
    first = (connections + (pace or 0)) * 10_000_000
    numbers = iter(range(first, 2**62))
    lock = threading.Lock()
    before_cpu, before_disk = _cpu_s(pid), _disk(folder)
    begun = time.perf_counter()
    deadline = begun + seconds

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < deadline:
            with lock:
                number = next(numbers)
            body = template.body(number)
            started = time.perf_counter()
            if pace is not None:
                started = begun + (number - first) * SPANS / pace
                time.sleep(max(0.0, started - time.perf_counter()))
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                latencies.append((time.perf_counter() - started) * 1e3)
            else:
                time.sleep(0.05)

    threads = [threading.Thread(target=send) for _ in range(connections)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    sent = len(latencies) * SPANS
    return (
        name,
        f"{connections}, {pace:,}/s" if pace else connections,
        f"{sent / elapsed:,.0f}",
        f"{percentile(latencies, 0.5):.1f}",
        f"{percentile(latencies, 0.99):.1f}",
        f"{(_cpu_s(pid) - before_cpu) / sent * 1e6:.0f}",
        f"{(_disk(folder) - before_disk) / sent:,.0f}",
        sent,
    )


def _check(folder: Path, sent: int) -> None:
    stored = servers.events_stored(folder)
    if stored < sent:
        raise SystemExit(f"{sent} spans were acknowledged, the store holds {stored}")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
