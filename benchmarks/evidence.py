"""What evidence costs, and how fast it is checked: ingest with the audit log off and on in turns, verifying a log, proofs.

Verifying is done as an auditor does it: the command asks a running collector and computes everything again itself.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ingest
import servers
from figures import percentile, table
from tracehold_collector.audit.merkle import inclusion_proof, verify_inclusion
from tracehold_collector.audit.tiles import TileCache
from tracehold_collector.core.record import Record
from tracehold_collector.core.secretfile import load_or_create_key
from tracehold_collector.evidence.log_reader import LogReader
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore
from tracehold_collector.serve import PSEUDONYM_KEY_FILE
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.rows import encode
from tracehold_collector.store.writer import Writer

LOADS = (ingest.Load(4, 512), ingest.Load(16, 512), ingest.Load(1, 100))
START = 1_780_000_000_000_000_000
PER_RUN = 20
_LOT = 4_000


def run(seconds: float, rounds: int, events: int) -> None:
    """Measure and print.

    Args:
        seconds: how long each ingest phase lasts.
        rounds: of off, on, on, off.
        events: in the log that is verified.
    """
    _cost(seconds, rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder, events)
        _proofs(folder)
        _verify(folder, events)


def _cost(seconds: float, rounds: int) -> None:
    rates: dict[tuple[bool, str], list[float]] = {}
    for _ in range(rounds):
        for audit_log in (False, True, True, False):
            with tempfile.TemporaryDirectory() as name:
                port, process = servers.start_collector(Path(name), audit_log=audit_log)
                server = ingest.Server("collector", port, process.pid, Path(name))
                try:
                    ingest.phase(server, ingest.Load(1, 512), 2.0, {})
                    for load in LOADS:
                        found: dict[tuple[str, str], float] = {}
                        ingest.phase(server, load, seconds, found)
                        rates.setdefault((audit_log, str(load)), []).append(found["collector", str(load)])
                finally:
                    servers.stop(process)
    rows = []
    for load in map(str, LOADS):
        off, on = (statistics.median(rates[audit_log, load]) for audit_log in (False, True))
        rows.append((load, f"{off:,.0f}", f"{on:,.0f}", f"{100 * (off - on) / off:.1f} %"))
    table("What the audit log costs ingest", ("senders x spans", "off, spans/s", "on, spans/s", "cost"), rows)


def build(folder: Path, events: int) -> None:
    """Fill a store through the writer, as the collector does: sealed contents, a leaf an event."""
    begun = time.perf_counter()
    load_or_create_key(folder / PSEUDONYM_KEY_FILE)
    database = Database(
        folder / FILE_NAME, keys=lambda may_create: SqliteKeyStore.open_in(folder, may_create=may_create)
    )
    writer = Writer(database)
    for first in range(0, events, _LOT):
        writer.submit(encode([_event(n) for n in range(first, min(events, first + _LOT))])).result(60)
    writer.close()
    database.close()
    print(f"a store of {events:,} events, each with content: {time.perf_counter() - begun:.0f} s")


def _event(n: int) -> Record:
    run_id = f"{n // PER_RUN:032x}"
    return Record(
        event_id=n.to_bytes(16, "big"), tenant="default", run_id=run_id, trace_id=run_id, span_id=f"{n:016x}",
        parent_span_id=f"{n - n % PER_RUN:016x}", kind="llm" if n % 2 else "tool", type="chat", name=f"chat model-{n % 12}",
        status="ok", started_at=START + n * 1_000_000, duration_ns=5_000_000, agent=f"agent-{n % 40}", model=f"model-{n % 12}",
        input_tokens=n % 900, output_tokens=n % 300, cost_usd=0.001, source="otlp", user_ref=f"u_{n // PER_RUN % 1000:016x}",
        content={"input": f"question {n} of somebody about something", "output": "an answer of a few words " * 8},
    )  # fmt: skip


def _proofs(folder: Path) -> None:
    database = Database(
        folder / FILE_NAME, keys=lambda may_create: SqliteKeyStore.open_in(folder, may_create=may_create)
    )
    writer = Writer(database)
    size, root = writer.log.head("default")
    rows = []
    cache = TileCache()
    with database.cursor() as cursor:
        for what, order in (("cold, any leaf", 7919), ("warm, the same again", 7919)):
            times: list[float] = []
            for place in range(200):
                index = place * order % size
                begun = time.perf_counter()
                nodes = LogReader(cursor, "default", cache).nodes(size)
                proof = inclusion_proof(index, size, nodes)
                times.append((time.perf_counter() - begun) * 1e3)
                verify_inclusion(nodes(0, index), index, size, proof, root)
            rows.append((what, f"{percentile(times, 0.5):.2f}", f"{percentile(times, 0.99):.2f}"))
    writer.close()
    database.close()
    table(f"One inclusion proof of {size:,} leaves", ("tiles", "p50 ms", "p99 ms"), rows)


def _verify(folder: Path, events: int) -> None:
    port, process = servers.start_collector(folder)
    program = str(Path(sys.executable).with_name("tracehold"))
    rows = []
    try:
        time.sleep(2.0)  # the first tree head is signed
        for contents in ("none", "check"):
            begun = time.perf_counter()
            command = [program, "verify", "--contents", contents, "--url", f"http://127.0.0.1:{port}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            rows.append((contents, f"{time.perf_counter() - begun:.1f} s", done.stdout.splitlines()[1].strip()))
    finally:
        servers.stop(process)
    table(f"Verifying {events:,} events over HTTP", ("contents", "time", "said"), rows)
