"""What was deleted is gone from the file, and nothing else is: while events come in, after a kill, on a full disk."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.export.events import EventExport
from tracehold_collector.export.selection import Selection
from tracehold_collector.store import copying, rewrite
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.rewrite import RewriteOptions, Rewriter, RewriteStoppedError
from tracehold_collector.store.swap import new_file_of, wal_of
from tracehold_collector.store.writer import Writer, WriterOptions

Make = Callable[..., Record]

POINTS = (
    "before the first row is copied",
    "after the first rows are copied",
    "before the small tables are copied",
    "after the files are counted",
    "before the new file is put in place",
    "before the rename",
    "after the rename",
    "before the old file is overwritten",
    "after the old file is overwritten",
)

QUICK = RewriteOptions(patience_s=0.0, grace_s=0.2, quiet_s=0.0)


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    opened = Writer(database, WriterOptions(quiet_s=30))
    yield opened
    opened.close()


@pytest.fixture
def rewriter(database: Database, writer: Writer) -> Rewriter:
    return Rewriter(database, writer, QUICK)


def marked(n: int) -> str:
    """A text that DuckDB cannot fold together with its neighbours."""
    return f"deleted-{uuid.uuid5(uuid.NAMESPACE_OID, str(n)).hex}"


def fill(writer: Writer, record: Make, count: int = 50, **fields: Any) -> None:
    for first in range(0, count, 10):
        records = [record(n, run=f"run-{n % 5}", rule=marked(n), **fields) for n in range(first, first + 10)]
        writer.submit(records).result(10)


def delete_runs(writer: Writer) -> None:
    def work(committer: Committer) -> None:
        with committer.transaction() as connection:
            for table in ("events", "run_deltas", "contents"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = 'run-1'")  # noqa: S608 - names of ours

    writer.run(work).result(10)


def everything(database: Database) -> dict[str, list[Any]]:
    with database.cursor() as cursor:
        return {
            table: cursor.execute(f'SELECT rowid, * FROM "{table}" ORDER BY rowid').fetchall()  # noqa: S608
            for table in copying.tables(cursor)
        }


def without_rowids(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {table: [row[1:] for row in found] for table, found in rows.items()}


def held(path: Path, texts: list[str]) -> int:
    """How many of these stand in the store's file or its write-ahead file; only while nobody has it open."""
    data = path.read_bytes() + (wal_of(path).read_bytes() if wal_of(path).exists() else b"")
    return sum(text.encode() in data for text in texts)


def test_duckdb_keeps_deleted_bytes_and_a_rewrite_does_not(tmp_path: Path, record: Make) -> None:
    path = tmp_path / FILE_NAME
    gone = [marked(n) for n in range(50) if n % 5 == 1]
    kept = [marked(n) for n in range(50) if n % 5 != 1]

    def opened(work: Callable[[Database, Writer], None]) -> None:
        database = Database(path)
        writer = Writer(database)
        work(database, writer)
        writer.close()
        database.close()

    opened(lambda _, writer: fill(writer, record))
    assert held(path, gone) == len(gone)

    def erase(database: Database, writer: Writer) -> None:
        delete_runs(writer)
        database.connection.execute("CHECKPOINT")
        database.connection.execute("VACUUM")
        database.connection.execute("CHECKPOINT")

    opened(erase)
    assert held(path, gone) == len(gone)  # the reason for all this
    opened(lambda database, writer: Rewriter(database, writer, QUICK).rewrite() and None)
    assert held(path, gone) == 0
    assert held(path, kept) == len(kept)
    assert {file.name for file in tmp_path.iterdir()} == {FILE_NAME}


def test_a_rewrite_keeps_every_row_of_every_table_in_its_order(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make
) -> None:
    fill(writer, record)
    writer.run(lambda committer: committer.fold()).result(10)
    delete_runs(writer)
    before = without_rowids(everything(database))
    steps: list[tuple[int, int]] = []
    done = rewriter.rewrite(lambda copied, of: steps.append((copied, of)))
    after = everything(database)
    assert without_rowids(after) == before
    assert [row[0] for row in after["events"]] == list(range(40))
    received = [row[-1] for row in after["log_hashes"]]
    assert received == sorted(received)
    assert done.rows == steps[-1][0] == sum(map(len, before.values()))
    assert done.overwritten


def test_every_table_is_known_to_be_copied_beside_the_writer_or_whole(database: Database) -> None:
    # A new table: does it only grow, with a later received_at in each commit? Then APPENDED, else WHOLE.
    with database.cursor() as cursor:
        assert set(copying.tables(cursor)) == {*copying.APPENDED, *copying.WHOLE}
        for name in copying.APPENDED:
            assert "received_at" in [row[0] for row in cursor.execute(f"DESCRIBE {name}").fetchall()]


def test_a_table_nobody_named_is_copied_all_the_same(database: Database, rewriter: Rewriter) -> None:
    database.connection.execute("CREATE TABLE later AS SELECT 1 AS one")
    rewriter.rewrite()
    assert everything(database)["later"] == [(0, 1)]


def test_what_a_connection_put_aside_for_itself_is_left_out(
    database: Database, writer: Writer, rewriter: Rewriter
) -> None:
    aside = "CREATE TEMP TABLE aside AS SELECT 1 AS one"
    writer.run(lambda committer: committer.connection.execute(aside) and None).result(10)
    rewriter.rewrite()
    assert "aside" not in everything(database)


def test_a_store_with_what_no_migration_makes_is_left_alone(database: Database, rewriter: Rewriter) -> None:
    database.connection.execute("CREATE SEQUENCE numbers")
    with pytest.raises(StoreError, match="sequences that Tracehold did not make"):
        rewriter.rewrite()


def test_big_tables_are_copied_in_pieces_that_leave_no_commit_out(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(writer, record, 100)
    before = everything(database)
    monkeypatch.setattr(copying, "next_stretch", small(copying.next_stretch, rows=25))
    rewriter.rewrite()
    assert without_rowids(everything(database)) == without_rowids(before)


def small(real: Callable[..., Any], rows: int) -> Callable[..., Any]:
    def stretch(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(copying, "PIECE_ROWS", rows)
            return real(*given)

    return stretch


def test_events_that_come_in_meanwhile_are_in_the_new_file_and_known_there(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(writer, record)
    late = [record(1000 + n, run="late") for n in range(20)]

    def catch_up(copy: Any, real: Any = rewrite._Copy.catch_up) -> None:
        real(copy)
        writer.submit(late.pop() and [late.pop()]).result(10)

    monkeypatch.setattr(rewrite._Copy, "catch_up", catch_up)
    rewriter.rewrite()
    fill(writer, record)  # all of them known: nothing is added
    assert len(everything(database)["events"]) == 52
    assert writer.submit([record(2000)]).result(10).accepted == 1
    with database.cursor() as cursor:
        rows = cursor.execute("SELECT leaf_index FROM events ORDER BY rowid").fetchall()
    assert [row[0] for row in rows] == list(range(53))


def test_rows_erased_during_the_copy_are_not_in_the_new_file(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(writer, record)
    begun = []

    def catch_up(copy: Any, real: Any = rewrite._Copy.catch_up) -> None:
        real(copy)
        begun.append(copy)
        if len(begun) == 1:
            delete_runs(writer)

    monkeypatch.setattr(rewrite._Copy, "catch_up", catch_up)
    rewriter.rewrite()
    assert len({id(copy) for copy in begun}) > 1
    path = database.path
    assert path is not None
    database.connection.execute("CHECKPOINT")
    writer.close()
    database.close()
    assert held(path, [marked(n) for n in range(50) if n % 5 == 1]) == 0


def test_a_change_nobody_told_of_is_noticed_before_anybody_waits(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(writer, record)
    begun = []

    def check(copy: Any, real: Any = rewrite._Copy.check) -> None:
        begun.append(copy)
        if len(begun) == 1:
            work = "UPDATE contents SET body = NULL WHERE run_id = 'run-1'"
            writer.run(lambda committer: committer.connection.execute(work) and None).result(10)
        real(copy)

    monkeypatch.setattr(rewrite._Copy, "check", check)
    rewriter.rewrite()
    assert len(begun) == 2
    with database.cursor() as cursor:
        assert cursor.execute("SELECT DISTINCT run_id FROM contents WHERE body IS NULL").fetchall() == [("run-1",)]


def test_a_change_that_was_under_way_when_the_copy_began_is_in_the_new_file(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As an erasure seals anew what stays: no count of anything tells that.
    fill(writer, record)
    entered, leave = threading.Event(), threading.Event()

    def work(committer: Committer) -> None:
        with committer.transaction() as connection:
            connection.execute("UPDATE contents SET body = 'sealed anew'::BLOB WHERE run_id = 'run-1'")
            entered.set()
            leave.wait(10)

    changing = writer.run(work)
    entered.wait(10)

    def check(copy: Any, real: Any = rewrite._Copy.check) -> None:
        leave.set()
        changing.result(10)
        real(copy)

    monkeypatch.setattr(rewrite._Copy, "check", check)
    rewriter.rewrite()
    with database.cursor() as cursor:
        found = cursor.execute("SELECT DISTINCT body FROM contents WHERE run_id = 'run-1'").fetchall()
    assert found == [(b"sealed anew",)]


def test_sums_of_runs_that_are_folded_meanwhile_are_copied_again(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(writer, record)
    runs = Reader(database).query("runs", {}, Access()).to_pylist()
    begun = []

    def check(copy: Any, real: Any = rewrite._Copy.check) -> None:
        begun.append(copy)
        if len(begun) == 1:
            writer.run(lambda committer: committer.fold()).result(10)
        real(copy)

    monkeypatch.setattr(rewrite._Copy, "check", check)
    rewriter.rewrite()
    assert len(begun) == 2
    assert Reader(database).query("runs", {}, Access()).to_pylist() == runs
    assert len(everything(database)["run_deltas"]) == 5


def test_a_slow_export_is_told_to_come_again_and_the_store_goes_on(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make
) -> None:
    fill(writer, record)
    export = EventExport(database, Selection(), Access(), with_content=True)
    parts = export.parts()
    assert next(parts).rows.num_rows == 50
    rewriter.rewrite()
    with pytest.raises(StoreError, match="ask again"):
        next(parts)
    export.close()
    assert Reader(database).query("runs", {}, Access()).num_rows == 5


def test_a_running_question_is_told_to_go_when_it_takes_too_long(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make
) -> None:
    fill(writer, record)
    entered, errors = threading.Event(), []

    def ask() -> None:
        def work(cursor: duckdb.DuckDBPyConnection) -> None:
            entered.set()
            cursor.execute("SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c WHERE a.range % 3 = 1")

        try:
            Reader(database, timeout_s=60).run(work)
        except StoreError as error:
            errors.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    entered.wait(10)
    rewriter.rewrite()
    asking.join(30)
    assert len(errors) == 1
    assert "ask again" in errors[0]


def test_a_reader_that_does_not_go_keeps_the_old_file(database: Database, writer: Writer, record: Make) -> None:
    fill(writer, record, 10)
    options = RewriteOptions(patience_s=0.0, grace_s=0.05, quiet_s=0.0, attempts=2)
    with database.cursor() as cursor:
        cursor.execute("SELECT 1")
        with pytest.raises(StoreError, match="1 readers of the store"):
            Rewriter(database, writer, options).rewrite()
        assert writer.submit([record(99)]).result(10).accepted == 1
    assert len(everything(database)["events"]) == 11
    assert database.path is not None
    assert not new_file_of(database.path).exists()


def test_a_stopped_rewrite_leaves_the_old_file(database: Database, writer: Writer, record: Make) -> None:
    fill(writer, record, 10)
    stopped = Rewriter(database, writer, QUICK)
    stopped.stop()
    with pytest.raises(RewriteStoppedError):
        stopped.rewrite()
    assert len(everything(database)["events"]) == 10


def test_too_little_room_is_said_before_anything_is_written(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(writer, record, 10)
    monkeypatch.setattr(rewrite.shutil, "disk_usage", lambda _path: rewrite.shutil._ntuple_diskusage(100, 100, 0))
    with pytest.raises(StoreError, match=r"needs \d+ MB beside it, and 0 MB are free"):
        rewriter.rewrite()
    assert writer.submit([record(99)]).result(10).accepted == 1


def test_a_file_that_cannot_grow_leaves_the_old_store_at_work(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make
) -> None:
    fill(writer, record, 400)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # as a full disk: writes beyond it fail
    try:
        with pytest.raises(StoreError, match="goes on"):
            rewriter.rewrite()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert writer.submit([record(9999)]).result(10).accepted == 1
    assert database.path is not None
    assert not new_file_of(database.path).exists()


def test_a_hard_link_made_by_a_backup_is_not_overwritten(
    database: Database, writer: Writer, rewriter: Rewriter, record: Make, tmp_path: Path
) -> None:
    fill(writer, record, 10)
    assert database.path is not None
    os.link(database.path, tmp_path / "backup")
    assert not rewriter.rewrite().overwritten
    with duckdb.connect(str(tmp_path / "backup"), read_only=True) as backup:
        assert backup.execute("SELECT count(*) FROM events").fetchall() == [(10,)]


def test_the_new_file_is_its_owners_alone(database: Database, rewriter: Rewriter) -> None:
    rewriter.rewrite()
    assert database.path is not None
    assert database.path.stat().st_mode & 0o777 == 0o600


def test_a_second_collector_is_kept_away_after_a_rewrite(database: Database, rewriter: Rewriter) -> None:  # FR-51
    rewriter.rewrite()
    code = f"import duckdb\ntry: duckdb.connect({str(database.path)!r})\nexcept duckdb.IOException: print('locked')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "locked"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """For each point, what a process that was killed there left, and what the next start found."""
    script = Path(__file__).with_name("killed_rewrite.py")
    folder = tmp_path_factory.mktemp("killed")
    paths = [str(Path(__file__).parents[2]), *sys.path]
    done = subprocess.run(
        [sys.executable, str(script), str(folder), *POINTS],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 2 * len(POINTS), done.stderr
    return {first["point"]: first | second for first, second in zip(lines[::2], lines[1::2], strict=True)}


@pytest.mark.xdist_group("killed rewrite")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_one_whole_store_and_the_next_start_nothing_beside_it(
    killed: dict[str, dict[str, Any]], point: str
) -> None:
    found = killed[point]
    assert found["killed"]
    assert FILE_NAME in found["left"]
    assert found["counts"] == [150, 2, 5]
    assert found["now"] in ([FILE_NAME], [FILE_NAME, f"{FILE_NAME}.wal"])
