"""The store's file written anew beside its use: how long it takes, how long commits and questions wait, the memory.

The floor is a plain copy of the file on the same disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import big_store
import numpy as np
import pyarrow as pa
from figures import table
from tracehold_collector.core.record import Record
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.rewrite import Rewriter
from tracehold_collector.store.writer import Writer

_BODY_BYTES = 200
"""Of sealed content an event: it does not compress."""
_PIECE = 50_000


def run(events: int) -> None:
    """Measure and print.

    Args:
        events: in the store.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        big_store.build(folder, events)
        _add_content(folder / FILE_NAME)
        begun = time.perf_counter()
        shutil.copy(folder / FILE_NAME, folder / "copy")
        floor_s = time.perf_counter() - begun
        (folder / "copy").unlink()
        rows = [("a plain copy of the file", f"{floor_s:.1f} s", "", "", "")]
        rows += [_measured(folder, busy) for busy in (False, True)]
    columns = ("what", "took", "commits waited", "reads waited", "more memory")
    table(f"Writing a store of {events:,} events anew", columns, rows)


@dataclass
class _Seen:
    commit_s: list[float] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    most_bytes: int = 0


def _measured(folder: Path, busy: bool) -> tuple[str, str, str, str, str]:
    database = Database(folder / FILE_NAME)
    writer = Writer(database)
    before = _memory()
    with _use(database, writer, busy) as seen:
        done = Rewriter(database, writer).rewrite()
    writer.close()
    database.close()
    return (
        f"{'beside 1,000 events/s and a question a second' if busy else 'nobody else'}, {done.bytes_before / 1e6:.0f} MB",
        f"{done.took_s:.1f} s",
        f"{max(seen.commit_s, default=done.paused_s):.2f} s at most",
        f"{max(seen.read_s, default=done.readers_paused_s):.2f} s at most",
        f"{(seen.most_bytes - before) / 1e6:.0f} MB at most",
    )


@contextmanager
def _use(database: Database, writer: Writer, busy: bool) -> Iterator[_Seen]:
    """Watch the memory; with `busy`, send and ask as well."""
    seen, stop = _Seen(), threading.Event()
    reader, numbers = Reader(database), iter(range(1 << 60))

    def watch() -> None:
        seen.most_bytes = max(seen.most_bytes, _memory())

    def send() -> None:
        first = next(numbers) * 100
        records = [_record((1 << 100) + first + place) for place in range(100)]
        begun = time.perf_counter()
        writer.submit(records).result()
        seen.commit_s.append(time.perf_counter() - begun)

    def ask() -> None:
        begun = time.perf_counter()
        reader.query("runs", {}, Access())
        seen.read_s.append(time.perf_counter() - begun)

    jobs: list[tuple[Callable[[], None], float]] = [(watch, 0.01), *([(send, 0.1), (ask, 1.0)] if busy else [])]

    def repeat(job: Callable[[], None], rest_s: float) -> None:
        while not stop.wait(rest_s):
            job()

    threads = [threading.Thread(target=repeat, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _memory() -> int:
    """Private bytes: the libraries' code and the file's cached pages are not this work's."""
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _record(number: int) -> Record:
    return Record(
        event_id=number.to_bytes(16, "big"),
        tenant="tenant-0",
        run_id=f"live-{number // 100}",
        kind="tool",
        type="execute_tool",
        source="otlp",
        status="ok",
        content={"n": number},
    )


def _add_content(path: Path) -> None:
    database = Database(path)
    connection = database.connection
    runs = connection.execute(
        "SELECT tenant, run_id, received_at, count(*)::INTEGER AS entries FROM events GROUP BY ALL ORDER BY received_at"
    ).to_arrow_table()
    noise = np.random.default_rng(7)
    for first in range(0, runs.num_rows, _PIECE):
        piece = runs.slice(first, _PIECE)
        ends = np.cumsum(piece["entries"].to_numpy() * _BODY_BYTES)
        data = noise.bytes(int(ends[-1]))
        bodies = [data[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
        connection.register("piece", piece.append_column("body", pa.array(bodies, pa.binary())))
        connection.execute("INSERT INTO contents BY NAME SELECT uuid() AS chunk_id, 'sealed/1' AS codec, * FROM piece")
    connection.execute("CHECKPOINT")
    database.close()
