"""The SQLite store: its file survives, keeps loops free, forgets bytes, refuses what is not its own (STO-11 to 13)."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import sqlite3
import stat
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.event_stores import fact, facts, ids, on, run, seqs, started, take
from tracehold import Message, SqliteExporter, SqliteSessionStore
from tracehold.core.errors import ConcurrencyError, ConfigurationError, StoreError
from tracehold.core.retry import RetryPolicy, is_transient, retrying
from tracehold.events import Event, StoredSnapshot
from tracehold.events.sqlite import erasing, layout
from tracehold.events.sqlite.layout import STEPS, open_log
from tracehold.events.sqlite_store import SQLiteEventStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "log.db"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a lock a moment only."""
    monkeypatch.setattr(layout, "BUSY_WAIT_S", 0.02)


@contextmanager
def writing_elsewhere(path: Path) -> Iterator[None]:
    """Hold the file's write lock, as another program does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


def raw(path: Path) -> bytes:
    """Return the bytes of the database and what lies beside it."""
    return b"".join(one.read_bytes() for one in path.parent.iterdir())


def size(path: Path) -> int:
    """Return the bytes of the database alone."""
    return path.stat().st_size


# --- surviving ---


# STO-11
def test_everything_survives_reopening(path: Path) -> None:
    snap = StoredSnapshot("a", "p", 1, 1, "{}")

    async def write(store: SQLiteEventStore) -> list[Event]:
        await store.save_snapshot(snap)
        return await store.append("a", [started("a"), fact("1", {"é": "\U0001f600"}, meta={"user": "ann"})])

    written = on(SQLiteEventStore(path), write)

    async def read(store: SQLiteEventStore) -> None:
        assert await store.read("a") == written
        assert await store.load_snapshot("a", "p") == snap
        assert [info.stream for info in await store.run_index()] == ["a"]
        assert [(event.seq, event.dup) for event in await store.append("a", facts("1", "2"))] == [(1, True), (2, False)]
        assert await store.schema_version() == max(STEPS)

    on(SQLiteEventStore(str(path)), read)


# STO-11
def test_closing_leaves_one_file_that_only_its_owner_reads(path: Path) -> None:
    on(SQLiteEventStore(path), lambda store: store.append("a", facts("1")))
    assert [one.name for one in path.parent.iterdir()] == ["log.db"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# STO-13
def test_closing_ends_the_threads_and_releases_the_files(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", facts("1"))
        await store.run_index()
        await take(store.subscribe("a"), 1)

    before = set(threading.enumerate())
    on(SQLiteEventStore(path, poll_s=0.001), act)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # the one that watched the file ends at its next look
        assert not thread.is_alive()
    # By its number, which no other file has while this one exists.
    assert path.stat().st_ino not in _open_inodes()


def _open_inodes() -> set[int]:
    found = set()
    for fd in range(1024):
        with suppress(OSError):
            found.add(os.fstat(fd).st_ino)
    return found


# STO-13
def test_appends_that_wait_are_finished_before_the_store_closes(path: Path) -> None:
    async def main() -> None:
        store = SQLiteEventStore(path)
        calls = [asyncio.ensure_future(store.append("a", facts(str(n)))) for n in range(50)]
        await asyncio.sleep(0)
        await store.aclose()
        assert [seqs(await call) for call in calls] == [[n] for n in range(50)]

    run(main())


# --- the loop, and group commit ---


# STO-11
def test_the_loop_goes_on_while_an_append_waits_for_the_disk(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", facts("0"))
        with writing_elsewhere(path):
            waiting = asyncio.ensure_future(store.append("a", facts("1")))
            for _ in range(200):
                await asyncio.sleep(0)
            assert ids(await store.read("a")) == ["0"]  # readers go on as well
            assert not waiting.done()
        assert seqs(await waiting) == [1]

    on(SQLiteEventStore(path), act)


# STO-11
def test_appends_that_wait_together_share_a_transaction(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", facts("0"))
        statements: list[str] = []
        await store._writer.run(lambda connection: connection.set_trace_callback(statements.append))
        with writing_elsewhere(path):
            calls = [asyncio.ensure_future(store.append(f"s{n}", facts("1", "2"))) for n in range(100)]
            await asyncio.sleep(0.05)
        assert [seqs(await call) for call in calls] == [[0, 1]] * 100
        assert statements.count("COMMIT") <= 3

    on(SQLiteEventStore(path), act)


# STO-11
def test_a_cancelled_append_disturbs_nobody(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        calls = [asyncio.ensure_future(store.append("a", facts(str(n)))) for n in range(20)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        assert all([len(await call) == 1 for call in calls[1::2]])
        assert {str(n) for n in range(1, 20, 2)} <= set(ids(await store.read("a")))

    on(SQLiteEventStore(path), act)


# STO-11
def test_a_loop_that_ended_with_calls_under_way_does_not_stop_the_store(path: Path) -> None:
    store = SQLiteEventStore(path)

    async def leave() -> None:
        asyncio.ensure_future(store.append("a", facts("1")))  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)

    asyncio.run(leave())
    on(store, lambda store: store.append("a", facts("2")))


# --- locked, full, broken ---


# STO-11, RTY-02
@pytest.mark.usefixtures("impatient")
def test_a_locked_file_is_sqlites_own_error_and_a_retry_gets_through(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", facts("0"))
        with writing_elsewhere(path):
            results = await asyncio.gather(
                *(store.append("a", facts(str(n))) for n in range(1, 4)), return_exceptions=True
            )
            for error in results:
                assert isinstance(error, sqlite3.OperationalError)
                assert error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                assert is_transient(error)
            with pytest.raises(sqlite3.OperationalError):
                await store.scrub("a")
            retried = asyncio.ensure_future(
                retrying(lambda: store.append("a", facts("9")), RetryPolicy(base_delay_s=0.01))
            )
            await asyncio.sleep(0.05)
        assert seqs((await retried)[0]) == [1]
        assert ids(await store.read("a")) == ["0", "9"]

    on(SQLiteEventStore(path), act)


# STO-11
def test_a_full_disk_rolls_the_append_back_whole_and_fails_no_neighbour(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", facts("0"))
        await store._writer.run(_limit_pages)
        # A megabyte of events with a small one first: it must not stay behind.
        large = [fact("first"), *(fact(f"big{n}", {"x": "y" * 100_000}) for n in range(10))]
        with writing_elsewhere(path):
            calls = [store.append("a", facts("1")), store.append("a", large), store.append("b", facts("2"))]
            together = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0.02)
        before, full, after = await together
        assert isinstance(full, sqlite3.OperationalError)
        assert full.sqlite_errorcode == sqlite3.SQLITE_FULL
        assert (seqs(before), seqs(after)) == ([1], [0])
        assert ids(await store.read("a")) == ["0", "1"]
        assert seqs(await store.append("a", facts("3"), 1)) == [2]
        assert (await store.verify_chain()).ok

    on(SQLiteEventStore(path), act)


def _limit_pages(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 20}")


# STO-11
@pytest.mark.parametrize("content", [b"not a database, only a long enough text\n" * 40, b"\0" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"log\.db"):
        SQLiteEventStore(path)
    assert path.read_bytes() == content


# STO-11
def test_a_path_without_a_folder_or_to_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "log.db", tmp_path):
        with pytest.raises(StoreError, match=str(tmp_path)):
            SQLiteEventStore(path)


# STO-11
def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder; name a file in it"):
        SQLiteEventStore(tmp_path)


# STO-11
def test_a_file_that_cannot_be_made_is_told_with_what_to_do(tmp_path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        for call in (store.append("a", facts("1")), store.read("a"), store.run_index()):
            with pytest.raises(StoreError, match=r"too long\. Give it a path where this program may make") as caught:
                await call
            assert not is_transient(caught.value)

    on(SQLiteEventStore(tmp_path / ("x" * 300)), act)


# STO-11
def test_a_file_that_cannot_be_opened_is_told_with_what_to_do(path: Path) -> None:
    path.symlink_to(path.parent / "none" / "log.db")
    with pytest.raises(StoreError, match=r"unable to open database file\. Give it a path"):
        on(SQLiteEventStore(path), lambda store: store.append("a", facts("1")))


# STO-11, RTY-02: what may pass stays what a retry knows
def test_a_disk_that_is_full_when_the_file_is_made_stays_a_passing_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(layout, "create_private", full)
    with pytest.raises(OSError, match="No space left") as caught:
        on(SQLiteEventStore(path), lambda store: store.append("a", facts("1")))
    assert is_transient(caught.value)


@pytest.mark.parametrize("arguments", [{"path": ""}, {"path": ":memory:"}, {"synchronous": "MAYBE"}, {"poll_s": 0}])
def test_arguments_that_cannot_be_meant_are_refused(path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SQLiteEventStore(**{"path": path} | arguments)


@pytest.mark.parametrize("word", ["full", "OFF"])
def test_synchronous_is_handed_to_sqlite(path: Path, word: str) -> None:
    async def act(store: SQLiteEventStore) -> None:
        (level,) = await store._writer.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone())
        assert level == {"full": 2, "OFF": 0}[word]

    on(SQLiteEventStore(path, synchronous=word), act)


# --- two stores on one file ---


# STO-02, STO-11
def test_two_stores_on_one_file_number_their_events_as_one(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        other = SQLiteEventStore(path)
        won = 0
        for n in range(20):
            results = await asyncio.gather(
                store.append("a", facts(f"x{n}"), n - 1),
                other.append("a", facts(f"y{n}"), n - 1),
                return_exceptions=True,
            )
            assert sorted(isinstance(result, ConcurrencyError) for result in results) == [False, True]
            won += not isinstance(results[0], BaseException)
        await store.scrub("a")
        assert [event.dup for event in await other.append("a", await store.read("a", 19))] == [True]
        await other.delete_stream("a")
        assert seqs(await store.append("a", facts("1"))) == [0]
        assert (await store.verify_chain()).ok
        await other.aclose()

    on(SQLiteEventStore(path), act)


# STO-05
def test_a_subscription_sees_what_another_store_appends(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        other = SQLiteEventStore(path)
        following = store.subscribe("a")
        for n in range(5):
            waiting = asyncio.ensure_future(take(following, 1))
            await asyncio.sleep(0)
            await other.append("a", facts(str(n)))
            assert ids(await waiting) == [str(n)]
        await other.aclose()

    on(SQLiteEventStore(path, poll_s=0.001), act)


# STO-05
def test_a_subscription_left_behind_does_not_keep_the_file_watched(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", facts("0"))
        following = store.subscribe("a")
        await take(following, 1)
        await following.aclose()  # type: ignore[attr-defined]  # a generator
        assert not store._followers
        for thread in threading.enumerate():
            if thread.name == "tracehold-log-watch":
                await asyncio.to_thread(thread.join)
        waiting = asyncio.ensure_future(take(store.subscribe("a", 1), 1))
        other = SQLiteEventStore(path)
        await other.append("a", facts("1"))
        assert ids(await waiting) == ["1"]
        await other.aclose()

    on(SQLiteEventStore(path, poll_s=0.001), act)


# STO-11
def test_a_file_may_hold_other_tables_of_tracehold(path: Path) -> None:
    with closing(SqliteSessionStore(path)) as sessions:
        sessions.append(Message("hello", "user"))
        on(SQLiteEventStore(path), lambda store: store.append("a", facts("1")))
        assert len(sessions.load()) == 1
        with closing(SqliteExporter(path)) as exporter:
            exporter.export({"type": "x", "run_id": "r"})
        assert len(on(SQLiteEventStore(path), lambda store: store.read("a"))) == 1


# --- layout ---


# STO-12
def test_a_file_of_a_newer_layout_is_refused_and_left_untouched(path: Path) -> None:
    on(SQLiteEventStore(path), lambda store: store.append("a", facts("1")))
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        newer.execute(f"PRAGMA user_version = {max(STEPS) + 1}")
        newer.execute("PRAGMA wal_autocheckpoint = 0")
        newer.execute("CREATE TABLE of_the_future (x)")
        # With a write-ahead file beside it, which a careless look would move into the database.
        before = {one.name: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
        with pytest.raises(StoreError, match=f"layout {max(STEPS) + 1}"):
            SQLiteEventStore(path)
        after = {one.name: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
    assert after == before


# STO-12
def test_a_file_that_became_newer_while_open_is_refused_at_the_next_opening(path: Path) -> None:
    store = SQLiteEventStore(path)
    with closing(open_log(str(path), "NORMAL", {**STEPS, max(STEPS) + 1: lambda _: None})):
        pass
    with pytest.raises(StoreError, match="newer one"):
        on(store, lambda store: store.append("a", facts("1")))


def _add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE log_streams ADD COLUMN colour TEXT")


def _break(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE log_streams ADD COLUMN size TEXT")
    connection.execute("DELETE FROM log_events")
    raise RuntimeError("the step fails")


# STO-12
def test_an_older_file_is_migrated_step_by_step_each_all_or_nothing(path: Path) -> None:
    last = max(STEPS)
    written = on(SQLiteEventStore(path), lambda store: store.append("a", facts("1")))
    with pytest.raises(RuntimeError, match="step fails"):
        open_log(str(path), "NORMAL", {**STEPS, last + 1: _add_column, last + 2: _break})
    with closing(sqlite3.connect(path)) as file:
        columns = {row[1] for row in file.execute("PRAGMA table_info(log_streams)")}
        assert "colour" in columns
        assert "size" not in columns
        assert file.execute("PRAGMA user_version").fetchone() == (last + 1,)
        assert file.execute("SELECT count(*) FROM log_events").fetchone() == (len(written),)
    done: list[int] = []
    with closing(open_log(str(path), "NORMAL", {**STEPS, last + 1: _break, last + 2: lambda _: done.append(1)})):
        pass
    assert done == [1]


# STO-12
def test_openers_that_race_migrate_once(path: Path) -> None:
    done: list[int] = []
    barrier = threading.Barrier(6)
    steps = {**STEPS, max(STEPS) + 1: lambda _: done.append(1)}

    def opener() -> None:
        barrier.wait()
        open_log(str(path), "NORMAL", steps).close()

    threads = [threading.Thread(target=opener) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [1]


# --- erasing bytes ---


async def _fill(store: SQLiteEventStore) -> None:
    for n in range(60):
        stream = "ab"[n % 2]
        text = f"secret-{stream} " * (1 + n * n)
        await store.append(stream, [fact(f"{stream}{n}", {"text": text}, subject=f"secret-{stream}")])
        await store.save_snapshot(StoredSnapshot(stream, "p", n, 1, text))


# STO-08, DEC-14
@pytest.mark.parametrize("erase", ["scrub", "delete_stream"])
def test_erased_bytes_are_gone_from_the_file_and_its_write_ahead_file(path: Path, erase: str) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await _fill(store)
        assert b"secret-a" in raw(path)
        assert await getattr(store, erase)("a") == 30
        assert b"secret-a" not in raw(path)
        assert b"secret-b" in raw(path)
        assert len(await store.read("b")) == 30

    on(SQLiteEventStore(path), act)


# DEC-14: what SQLite moves when neighbours are removed would stay behind as a copy
@pytest.mark.parametrize("seed", range(4))
def test_rows_beside_erased_ones_leave_no_copies_of_themselves(path: Path, seed: int) -> None:
    chance = random.Random(seed)

    async def act(store: SQLiteEventStore) -> None:
        for n in range(500):
            stream = f"s{chance.randrange(20)}"
            await store.append(stream, [fact(str(n), {"text": f"secret{n:04d} " * chance.randrange(1, 200)})])
            if chance.random() < 0.3:
                await store.save_snapshot(
                    StoredSnapshot(stream, "p", n, 1, f"secret{n:04d} " * chance.randrange(1, 200))
                )
        for n in range(20):
            await (store.scrub if n % 4 == 0 else store.delete_stream)(f"s{n}")
        assert b"secret" not in raw(path)

    on(SQLiteEventStore(path), act)


# DEC-14
@pytest.mark.usefixtures("impatient")
def test_an_erasure_whose_bytes_a_reader_keeps_says_so_and_a_repeat_completes_it(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await _fill(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM log_events").fetchone()
            with pytest.raises(sqlite3.OperationalError, match="erase again") as caught:
                await store.scrub("a")
            assert is_transient(caught.value)
        assert all(event.data == {"$erased": True} for event in await store.read("a"))
        await store.scrub("a")
        assert b"secret-a" not in raw(path)

    on(SQLiteEventStore(path), act)


# STO-09
def test_dead_space_is_given_back_when_a_third_of_the_file_is_dead(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "COMPACT_BYTES", 200_000)

    async def act(store: SQLiteEventStore) -> None:
        for name in ("a", "b"):
            for n in range(200):
                await store.append(name, [fact(str(n), {"text": "x" * (2500 if name == "a" else 1000)})])
        full = size(path)
        kept = await store.read("b")
        await store.delete_stream("a")
        assert size(path) < full * 0.6
        assert await store.read("b") == kept
        assert (await store.verify_chain()).ok

    on(SQLiteEventStore(path), act)


# --- memory ---


# STO-11: what a store remembers of streams is bounded
def test_a_store_forgets_streams_it_has_not_seen_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehold.events.sqlite.heads.MAX_HEADS", 10)

    async def act(store: SQLiteEventStore) -> None:
        for round_ in range(2):
            for n in range(40):
                assert seqs(await store.append(f"s{n}", facts(str(round_)))) == [round_]
        assert store._writer._session is not None
        assert len(store._writer._session.heads._known) == 10

    on(SQLiteEventStore(path), act)


# STO-05: a follower reads a long stream in pages
def test_following_a_long_stream_does_not_read_it_whole(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", [fact(str(n), {"x": "y" * 1000}) for n in range(5000)])
        following = store.subscribe("a")
        tracemalloc.start()
        await take(following, 1)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3_000_000

    on(SQLiteEventStore(path), act)


# STO-07
def test_a_list_of_runs_does_not_read_other_events(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        for n in range(20):
            await store.append(f"r{n}", [started(f"r{n}"), *facts(*(str(k) for k in range(50)))])
        # Unreadable to whoever decodes them.
        await store._writer.run(
            lambda connection: connection.execute("UPDATE log_events SET content = '!' WHERE type = 'test.fact'")
        )
        assert len(await store.run_index()) == 20

    on(SQLiteEventStore(path), act)
