"""How fast a person with 1,000 runs is erased from a large store, and what senders notice of it meanwhile.

The floor of writing the file anew is a copy of its bytes that reaches the disk.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path

from evidence import START
from figures import percentile, table
from tracehold_collector.access.principal import owner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record
from tracehold_collector.erasure.beyond import BeyondDatabase
from tracehold_collector.erasure.canaries import CanaryScanner
from tracehold_collector.erasure.engine import Parts
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.service import Erasures
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.rewrite import Rewriter
from tracehold_collector.store.rows import encode
from tracehold_collector.store.writer import Writer

_PER_RUN = 10
_RUNS = 1_000
_LOT = 4_000
_PSEUDONYMS = Pseudonyms(b"k" * 32, "default")


def run(events: int) -> None:
    """Measure and print.

    Args:
        events: in the store; at least 20,000.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = Database(
            folder / FILE_NAME, keys=lambda may_create: SqliteKeyStore.open_in(folder, may_create=may_create)
        )
        writer = Writer(database)
        _fill(writer, events)
        parts = Parts(
            Rewriter(database, writer).rewrite,
            BeyondDatabase(database, folder, _PSEUDONYMS, ()),
            CanaryScanner(database, folder),
        )
        erasures = Erasures(database, writer, _PSEUDONYMS, parts=parts)
        erasures.start()
        floor_s = _copied_s(folder / FILE_NAME, folder / "copy")
        sender = _Sender(writer)
        body = {"scope": "subject", "value": "somebody", "mode": "delete", "basis": "gdpr-17-1-a"}
        record = erasures.wait(erasures.request(body, owner("bench", "default")).id, 600)
        waits = sender.stop()
        _tell(record, floor_s, waits, events)
        erasures.close()
        writer.close()
        database.close()


class _Sender:
    """Sends a little all the time, and notes how long each answer takes."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._stopping = threading.Event()
        self._waits: list[float] = []
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def stop(self) -> list[float]:
        self._stopping.set()
        self._thread.join()
        return self._waits

    def _send(self) -> None:
        number = 1 << 40
        while not self._stopping.wait(0.02):
            begun = time.perf_counter()
            self._writer.submit([_event(number, "u_sender")]).result(600)
            self._waits.append((time.perf_counter() - begun) * 1e3)
            number += 1


def _fill(writer: Writer, events: int) -> None:
    """The person's runs are spread over all of the store."""
    every = max(1, events // _PER_RUN // _RUNS)
    theirs = _PSEUDONYMS.user("somebody")
    for first in range(0, events, _LOT):
        records = []
        for n in range(first, min(events, first + _LOT)):
            run = n // _PER_RUN
            records.append(_event(n, theirs if run % every == 0 else f"u_{run % 5000:016x}"))
        writer.submit(encode(records)).result(60)
    writer.run(lambda committer: (committer.fold(), committer.checkpoint())).result(600)


def _event(n: int, user: str) -> Record:
    return Record(
        event_id=n.to_bytes(16, "big"), tenant="default", run_id=f"run-{n // _PER_RUN}", kind="llm", type="chat",
        source="otlp", span_id=f"{n:016x}", status="ok", started_at=START + n * 1_000_000, duration_ns=5_000_000,
        model=f"model-{n % 12}", input_tokens=n % 900, output_tokens=n % 300, cost_usd=0.001, user_ref=user,
        content={"input": f"question {n} of somebody", "output": "an answer of a few words " * 8},
    )  # fmt: skip


def _copied_s(source: Path, to: Path) -> float:
    begun = time.perf_counter()
    to.write_bytes(source.read_bytes())
    with to.open("rb") as file:
        os.fsync(file.fileno())
    to.unlink()
    return time.perf_counter() - begun


def _tell(record: ErasureRecord, floor_s: float, waits: list[float], events: int) -> None:
    def since(at: int | None) -> str:
        return "-" if at is None else f"{(at - record.requested_at) / 1e9:.2f} s"

    rows = [
        ("unreadable", since(record.unreadable_since), "5 s"),
        ("rows gone", since(record.completed_at), ""),
        ("bytes gone from the file", since(record.bytes_gone_since), "60 s"),
        ("a copy of the file, the floor of that", f"{floor_s:.2f} s", ""),
        ("senders meanwhile, p50", f"{percentile(waits, 0.5):.0f} ms", ""),
        ("senders meanwhile, p99", f"{percentile(waits, 0.99):.0f} ms", ""),
        ("senders meanwhile, longest", f"{max(waits):.0f} ms", ""),
    ]
    title = f"Erasing a person with {record.whole_runs:,} runs ({record.events:,} events) of {events:,} events"
    table(title, ("what", "took", "goal"), rows)
    found = record.canaries.found if record.canaries else None
    print(f"remains found in files: {found}\n")
