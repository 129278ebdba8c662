"""One file under several stores, threads, event loops and processes: real ones, killed and forked."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tracehold.core import database
from tracehold.core.errors import SessionError
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.execution.checkpoints import SqliteCheckpointStore
from tracehold.observability.exporters.sqlite import SqliteExporter
from tracehold.sessions import SqliteSessionStore

HEAD = """
import os, sys, threading
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.execution.checkpoints import SqliteCheckpointStore
from tracehold.observability.exporters.sqlite import SqliteExporter
from tracehold.sessions import SqliteSessionStore
path = sys.argv[1]

def said(store, scope=None):
    return [message.content for message in store.load(scope=scope)]
"""


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture
def program(path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program of its own on `path`; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error",
                "-W",
                "ignore::DeprecationWarning",
                "-c",
                HEAD + code,
                str(path),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def succeeds(process: subprocess.Popen[str], *, given: str | None = None) -> str:
    out, err = process.communicate(given, timeout=100)
    assert (process.returncode, err) == (0, "")
    return out


def said(store: SqliteSessionStore, scope: Scope | None = None, *, all_scopes: bool = False) -> list[object]:
    return [message.content for message in store.load(scope=scope, all_scopes=all_scopes)]


def test_sessions_checkpoints_and_traces_share_a_file(path: Path) -> None:  # SES-07, CKPT-07, EXP-08
    with (
        closing(SqliteExporter(path)) as exporter,
        closing(SqliteSessionStore(path)) as sessions,
        closing(SqliteCheckpointStore(path)) as checkpoints,
    ):
        for number in range(3):
            exporter.export({"type": "tool_call", "run_id": str(number)})
            sessions.append(Message(str(number), "user"))
            checkpoints.save(str(number))
    with closing(sqlite3.connect(path)) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - our names
            for table in ("traces", "session_messages", "run_checkpoints")
        ]
    assert counts == [3, 3, 1]


TOGETHER = """
import contextlib
from tracehold.observability.exporters.base import DeferredError
print("ready", flush=True)
sys.stdin.readline()
name = sys.argv[2]
exporter, sessions, checkpoints = SqliteExporter(path), SqliteSessionStore(path), SqliteCheckpointStore(path)

def work(thread):
    for number in range(10):
        with contextlib.suppress(DeferredError):  # a row that met a lock is queued
            exporter.export({"type": "tool_call", "run_id": name})
        sessions.append_many([Message(f"{name}.{thread}.{number}", "user")] * 2, scope=Scope(session=name))
        checkpoints.save(f"{name}.{thread}.{number}", scope=Scope(session=name))

threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert exporter.force_flush(60)
for store in (exporter, sessions, checkpoints): store.close()
"""


def all_go(processes: list[subprocess.Popen[str]]) -> None:
    """Let programs that have said "ready" go on together."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def test_processes_and_threads_that_write_to_one_file_lose_nothing(  # SES-07, SES-13, SES-27, CKPT-07, EXP-08
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    SqliteExporter(path).close()
    processes = [program(TOGETHER, name) for name in "abcd"]
    all_go(processes)
    for process in processes:
        succeeds(process)

    with closing(SqliteSessionStore(path)) as sessions, closing(SqliteCheckpointStore(path)) as checkpoints:
        for name in "abcd":
            found = said(sessions, Scope(session=name))
            assert found[::2] == found[1::2]  # each pair is one transaction
            assert sorted(map(str, found[::2])) == [f"{name}.{thread}.{n}" for thread in "01" for n in range(10)]
            assert str(checkpoints.load(scope=Scope(session=name))).startswith(f"{name}.")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT run_id, count(*) FROM traces GROUP BY 1").fetchall() == [
            (name, 20) for name in "abcd"
        ]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


OPENED = """
print("ready", flush=True)
sys.stdin.readline()
sessions, checkpoints = SqliteSessionStore(path), SqliteCheckpointStore(path)
sessions.append(Message(sys.argv[2], "user"))
checkpoints.save("x", scope=Scope(session=sys.argv[2]))
sessions.close()
checkpoints.close()
"""


def test_processes_that_open_one_new_file_at_once_all_succeed(  # SES-07, CKPT-07
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    processes = [program(OPENED, str(number)) for number in range(6)]
    all_go(processes)
    for process in processes:
        succeeds(process)
    with closing(SqliteSessionStore(path)) as sessions, closing(SqliteCheckpointStore(path)) as checkpoints:
        assert sorted(map(str, said(sessions))) == [str(number) for number in range(6)]
        assert {checkpoints.load(scope=Scope(session=str(number))) for number in range(6)} == {"x"}


BATCHES = """
sessions, checkpoints = SqliteSessionStore(path), SqliteCheckpointStore(path)
number = len(sessions.load()) // 5
while True:
    sessions.append_many([Message(str(number), "user")] * 5)
    checkpoints.save(str(number) * 5000)
    print(number, flush=True)
    number += 1
"""


def test_a_killed_writer_leaves_whole_batches_and_nothing_it_acknowledged_is_lost(  # SES-13, SES-14, CKPT-04
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    for _ in range(3):
        process = program(BATCHES)
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(15)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.readlines()
        process.wait()

        with closing(SqliteSessionStore(path)) as sessions, closing(SqliteCheckpointStore(path)) as checkpoints:
            found = said(sessions)
            batches = len(found) // 5
            assert found == [str(number) for number in range(batches) for _ in range(5)]
            assert batches > int(acknowledged[-1])
            assert checkpoints.load() in {str(number) * 5000 for number in (batches - 1, batches - 2)}
            with sessions._database.reading() as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


HALF_A_BATCH = """
from tracehold.sessions import sqlite as module
from tracehold.sessions.rows import message_to_row
store = SqliteSessionStore(path)
store.append(Message("before", "user"))
with store._database.transaction() as connection:
    row = (*Scope().key(), *message_to_row(Message("x" * 10_000, "user")))
    connection.executemany(module._INSERT, [row] * 1000)  # more than the page cache holds: the file is written to
    print("half", flush=True)
    sys.stdin.read()
"""


def test_a_writer_killed_inside_a_transaction_leaves_none_of_it_and_no_lock(  # SES-13, SES-14
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    process = program(HALF_A_BATCH)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()

    with closing(SqliteSessionStore(path)) as store:
        assert said(store) == ["before"]
        store.append(Message("after", "user"))
        assert said(store) == ["before", "after"]


INTERRUPTED = """
import signal
store = SqliteSessionStore(path)
done = 0
try:
    while True:
        store.append_many([Message(str(done), "user")] * 3)
        done += 1
        if done == 3:
            print("ready", flush=True)
except KeyboardInterrupt:
    pass
found = said(store)
assert found == [str(number) for number in range(len(found) // 3) for _ in range(3)], found[-5:]
store.append(Message("after", "user"))
assert said(store)[-1] == "after"
store.close()
"""


def test_ctrl_c_in_the_middle_leaves_whole_batches_and_a_store_that_works(  # SES-13, SES-14
    program: Callable[..., subprocess.Popen[str]],
) -> None:
    process = program(INTERRUPTED)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    succeeds(process)


FORKED = """
sessions, checkpoints = SqliteSessionStore(path), SqliteCheckpointStore(path)
sessions.append(Message("parent before", "user"))
checkpoints.save("parent before")
to_child, from_parent = os.pipe()
to_parent, from_child = os.pipe()
if os.fork() == 0:
    sessions.append(Message("child, parent still open", "user"))
    os.write(from_child, b".")
    os.read(to_child, 1)
    sessions.append(Message("child, parent closed", "user"))
    assert checkpoints.replace("parent before", "child")
    os._exit(0)
os.read(to_parent, 1)
sessions.append(Message("parent after", "user"))
sessions.close()
checkpoints.close()
os.write(from_parent, b".")
assert os.wait()[1] == 0
"""


@FORKS
def test_a_forked_child_and_its_parent_lose_nothing_of_each_other(  # SES-07, CKPT-07
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    succeeds(program(FORKED))
    with closing(SqliteSessionStore(path)) as sessions, closing(SqliteCheckpointStore(path)) as checkpoints:
        assert said(sessions) == [
            "parent before",
            "child, parent still open",
            "parent after",
            "child, parent closed",
        ]
        assert checkpoints.load() == "child"


FORKED_UNDER_FIRE = """
store = SqliteSessionStore(path)
stop = threading.Event()
counts = [0] * 3

def work(thread):
    while not stop.is_set():
        store.append(Message("x", "user"), scope=Scope(session=f"thread {thread}"))
        counts[thread] += 1

threads = [threading.Thread(target=work, args=(thread,)) for thread in range(3)]
for thread in threads: thread.start()
children = []
for number in range(10):
    child = os.fork()
    if child == 0:
        store.append(Message(str(number), "user"), scope=Scope(session="children"))
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
assert [len(store.load(scope=Scope(session=f"thread {n}"))) for n in range(3)] == counts
store.close()
"""


@FORKS
def test_forks_while_other_threads_write_hang_nobody_and_lose_nothing(  # SES-07, SES-27
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    succeeds(program(FORKED_UNDER_FIRE))
    with closing(SqliteSessionStore(path)) as store:
        assert sorted(map(str, said(store, Scope(session="children")))) == [str(number) for number in range(10)]


CHILDREN = """
import multiprocessing

def work(path, number):
    store = SqliteSessionStore(path)
    for _ in range(10):
        store.append(Message(str(number), "user"))
    store.close()

if __name__ == "__main__":
    store = SqliteSessionStore(path)
    context = multiprocessing.get_context(sys.argv[2])
    children = [context.Process(target=work, args=(path, number)) for number in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    assert [child.exitcode for child in children] == [0] * 3
    print(len(store.load()))
    store.close()
"""


@pytest.mark.parametrize("method", [pytest.param("fork", marks=FORKS), "spawn"])
def test_children_of_multiprocessing_write_to_the_same_file(path: Path, tmp_path: Path, method: str) -> None:  # SES-07
    script = tmp_path / "program.py"  # a spawned child imports its program again, from a file
    script.write_text(HEAD + CHILDREN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(path), method], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "30\n")


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of somebody else, which may hold the write lock."""
    SqliteSessionStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


def test_a_file_that_stays_locked_is_a_session_error_that_names_it(  # SES-14, SES-26
    path: Path, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_WAIT_S", 0.05)
    with closing(SqliteSessionStore(path)) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionError, match=r"shared\.db: another connection has held it locked for 0\.05 s"):
            store.append(Message("refused", "user"))
        assert said(store) == []  # reading needs no lock
        with pytest.raises(SessionError, match="locked"):
            SqliteSessionStore(path)
        other.execute("ROLLBACK")
        store.append(Message("accepted", "user"))
        assert said(store) == ["accepted"]


def test_the_event_loop_turns_while_an_append_waits_for_a_lock(path: Path, other: sqlite3.Connection) -> None:  # SES-05
    async def main() -> int:
        other.execute("BEGIN IMMEDIATE")
        appending = asyncio.create_task(store.aappend(Message("patient", "user")))
        turns = 0
        while turns < 1000:
            await asyncio.sleep(0)
            turns += 1
            assert not appending.done()
        other.execute("COMMIT")
        await appending
        return turns

    with closing(SqliteSessionStore(path)) as store:
        assert asyncio.run(main()) == 1000
        assert said(store) == ["patient"]


def test_a_cancelled_append_is_whole_or_absent_and_the_store_works_on(path: Path, other: sqlite3.Connection) -> None:
    # SES-05, SES-14
    async def main() -> None:
        other.execute("BEGIN IMMEDIATE")
        appending = asyncio.create_task(store.aappend_many([Message("a", "user"), Message("b", "user")]))
        for _ in range(100):
            await asyncio.sleep(0)
        appending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appending
        other.execute("COMMIT")
        await store.aappend(Message("c", "user"))

    with closing(SqliteSessionStore(path)) as store:
        asyncio.run(main())
        assert said(store) in (["a", "b", "c"], ["c"], ["c", "a", "b"])
