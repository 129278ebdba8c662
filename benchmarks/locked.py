"""Another program holds the SQLite file for two seconds while an event loop records: does the loop stand still?

`locked.py PACKAGE SECONDS` measures one package and prints JSON; only the standard library and documented names.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from agent_events import events
from figures import table
from peer import Side

HELD_S = 2.0
_PAUSE_S = 0.002


def run(ours: Side, peer: Side | None) -> None:
    """Measure each side with and without the lock, and print."""
    rows = []
    for side in (ours, peer):
        for held in (0.0, HELD_S) if side else ():
            answer = side.run("locked.py", held)
            lost = answer["emitted"] - answer["stored"]
            rows.append(
                (
                    f"{side.package}, {f'held for {held:g} s' if held else 'nobody holds it'}",
                    f"{answer['stall_ms']:.0f}",
                    f"{answer['emitted']:,}",
                    lost,
                    "yes" if answer["in_order"] else "no",
                )
            )
    columns = (
        "a SQLite file that another connection holds",
        "longest stall of the loop ms",
        "events",
        "lost",
        "in order",
    )
    table("Under a lock", columns, rows)


async def _measure(package: str, held_s: float) -> dict[str, Any]:
    names = importlib.import_module(package)
    batch = events("tool_call")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.db"
        tracer = names.Tracer(exporters=[names.SqliteExporter(str(path))])
        released = threading.Event()
        holder = threading.Thread(target=_hold, args=(path, held_s, locked := threading.Event(), released))
        holder.start()
        await asyncio.to_thread(locked.wait)
        ticker = asyncio.create_task(_ticker(released))
        await asyncio.sleep(0)
        emitted = 0
        while not released.is_set():
            tracer.emit({**batch[emitted % len(batch)], "attempt": emitted})
            emitted += 1
            await asyncio.sleep(_PAUSE_S)
        stall_ms = await ticker
        holder.join()
        # One more, with nobody in the way: what waits is written with it.
        tracer.emit({**batch[0], "attempt": emitted})
        tracer.close()
        with closing(sqlite3.connect(path)) as store:
            kept = [json.loads(text)["attempt"] for (text,) in store.execute("SELECT event FROM traces ORDER BY rowid")]
    return {"stall_ms": stall_ms, "emitted": emitted + 1, "stored": len(set(kept)), "in_order": kept == sorted(kept)}


async def _ticker(released: threading.Event) -> float:
    """Wake every two milliseconds; the longest time between two wakings, in milliseconds."""
    longest, before, over = 0.0, time.perf_counter(), False
    while not over:
        over = released.is_set()
        await asyncio.sleep(_PAUSE_S)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    return longest * 1e3


def _hold(path: Path, held_s: float, locked: threading.Event, released: threading.Event) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if held_s:
            other.execute("BEGIN IMMEDIATE")
        locked.set()
        time.sleep(held_s or HELD_S)
        if held_s:
            other.execute("ROLLBACK")
    released.set()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], float(sys.argv[2])))))
