"""The SQLite store among real processes: racing, forking, killed (STO-02, STO-05, STO-11)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.event_stores import PATIENCE, facts, ids, on, seqs, take
from support.profile import SOAK
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore

WRITER = """
import asyncio, sys
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore

async def writer(store, name):
    for n in range(1_000_000):
        batch = [Event(type="t", id=f"{name}-{n}-{k}", data={"of": n, "text": "x" * 500}) for k in range(3)]
        await store.append(name, batch)
        print(name, n, flush=True)

async def main():
    store = SQLiteEventStore(sys.argv[1])
    await asyncio.gather(*(writer(store, f"s{k}") for k in range(8)))

asyncio.run(main())
"""

RACER = """
import asyncio, sys
from tracehold.core.errors import ConcurrencyError
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore

async def main(path, name):
    store = SQLiteEventStore(path)
    while (last := await store.last_seq("a")) < 60:
        try:
            await store.append("a", [Event(type="t", id=f"{name}-{last + 1}")], last)
            print(f"{name}-{last + 1}")
        except ConcurrencyError:
            pass
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""

FORKER = """
import asyncio, os, sys
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore

store = SQLiteEventStore(sys.argv[1])

async def write(name):
    for n in range(30):
        await store.append(name, [Event(type="t", id=f"{name}-{n}")])

async def fork_while_writing():
    busy = [asyncio.ensure_future(write(f"before-{k}")) for k in range(4)]
    await asyncio.sleep(0.005)
    child = os.fork()
    if child == 0:
        return 0
    await asyncio.gather(*busy)
    return child

runner = asyncio.Runner()
child = None
async def main():
    global child
    child = await fork_while_writing()
    if child == 0:
        os._exit(child_main())
    await write("parent")

def child_main():
    import threading
    codes = []
    def work():  # a loop of its own: the inherited one is running
        asyncio.run(asyncio.wait_for(write("child"), 20))
        asyncio.run(asyncio.wait_for(store.aclose(), 20))
        codes.append(0)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return codes[0] if codes else 1

runner.run(main())
_, status = os.waitpid(child, 0)
assert status == 0, status
runner.run(write("after"))
runner.run(store.aclose())
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program."""
    # It forks beside threads, of which Python 3.12 and later warn.
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, *arguments], stdout=subprocess.PIPE, text=True
    )


# STO-11
@pytest.mark.parametrize("attempt", range(60 if SOAK else 4))
def test_of_a_killed_process_every_acknowledged_append_is_there_and_none_is_half(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "log.db"
    wait_for_lines = random.Random(attempt).randrange(1, 400)
    with start(WRITER, str(path)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(wait_for_lines)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
    acknowledged = [line.split() for line in lines if line.endswith("\n")]
    assert len(acknowledged) >= wait_for_lines

    async def judge(store: SQLiteEventStore) -> None:
        for k in range(8):
            events = await store.read(f"s{k}")
            appends = len(events) // 3
            assert ids(events) == [f"s{k}-{n}-{part}" for n in range(appends) for part in range(3)]
            assert appends >= sum(name == f"s{k}" for name, _ in acknowledged)
        assert (await store.verify_chain()).ok
        assert seqs(await store.append("s0", facts("next"))) == [await store.last_seq("s0")]

    on(SQLiteEventStore(path), judge)


# STO-02
def test_of_racing_processes_exactly_one_wins_each_number(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    processes = [start(RACER, str(path), name) for name in ("x", "y", "z")]
    won = [line for process in processes for line in process.communicate(timeout=PATIENCE)[0].split()]
    assert all(process.returncode == 0 for process in processes)
    events: list[Event] = on(SQLiteEventStore(path), lambda store: store.read("a"))
    assert seqs(events) == list(range(len(events)))
    assert len(events) >= 61
    assert sorted(won) == sorted(ids(events))


# STO-05
def test_a_subscription_follows_another_process(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def act(store: SQLiteEventStore) -> None:
        following = store.subscribe("s3")
        waiting = asyncio.ensure_future(take(following, 30))
        await asyncio.sleep(0)
        process = start(WRITER, str(path))
        try:
            assert ids(await waiting) == [f"s3-{n}-{k}" for n in range(10) for k in range(3)]
        finally:
            process.kill()
            process.communicate()

    on(SQLiteEventStore(path, poll_s=0.01), act)


# STO-11
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_parent_and_child_of_a_fork_go_on_with_one_store(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with start(FORKER, str(path)) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0

    async def judge(store: SQLiteEventStore) -> None:
        for name in ("before-0", "before-1", "before-2", "before-3", "child", "parent", "after"):
            assert ids(await store.read(name)) == [f"{name}-{n}" for n in range(30)]
        assert (await store.verify_chain()).ok

    on(SQLiteEventStore(path), judge)
