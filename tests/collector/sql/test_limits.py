"""A statement takes neither the collector's memory nor its time, and its answer has bounds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.processes import wait_for
from support.records import make_record
from tracehold_collector.core.errors import QueryError, StoreError, ThrottledError
from tracehold_collector.sql import process as processes
from tracehold_collector.sql.desk import SqlDesk, SqlOptions
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access
from tracehold_collector.store.writer import Writer

WITHOUT_END = "SELECT count(*) FROM range(10000000000) a, range(100000) b WHERE a.range * b.range = -1"
ALL = Access(None)


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    opened = Writer(database)
    yield opened
    opened.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that statements were given, as they start."""
    begun: list[Any] = []
    real = processes.Process.__init__

    def init(self: Any) -> None:
        real(self)
        begun.append(self._process)

    monkeypatch.setattr(processes.Process, "__init__", init)
    return begun


@pytest.mark.parametrize(
    "text",
    [
        "SELECT list(i) FROM range(1000000000) t(i)",
        "SELECT string_agg(i::VARCHAR, '') FROM range(1000000000) t(i)",
        "SELECT repeat('x', 2000000000)",
        "SELECT len(range(1000000000))",
        "SELECT length(repeat('x', 150000000) || i) FROM range(10) t(i) ORDER BY i",
        "SELECT count(DISTINCT i) FROM range(100000000) t(i)",
        "SELECT * FROM range(100000000) t(i) ORDER BY hash(i)",
    ],
)
def test_what_needs_too_much_memory_is_stopped_and_says_so(database: Database, text: str) -> None:
    desk = SqlDesk(database, SqlOptions(memory_bytes=64 * 2**20))
    with pytest.raises(QueryError, match="needed more than 64 MiB"):
        desk.statement(text, ALL).run()


def test_what_takes_too_long_is_stopped_and_its_process_is_gone(database: Database, started: list[Any]) -> None:
    desk = SqlDesk(database, SqlOptions(timeout_s=1.0, at_once=1))
    with pytest.raises(QueryError, match="took longer than 1 s"):
        desk.statement(WITHOUT_END, ALL).run()
    assert [process.returncode is not None for process in started] == [True]
    assert desk._places.acquire(blocking=False)


def test_a_scan_of_the_store_that_takes_too_long_is_stopped_as_well(
    database: Database, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "(SELECT count(*) FROM range(100000000000) a WHERE hash(a.range) = 1) > 0"
    writer.submit([make_record(0)]).result(10)
    monkeypatch.setattr("tracehold_collector.sql.scans._condition", lambda *_: (f"$tenants IS NULL AND {slow}", {}))
    with pytest.raises(QueryError, match="took longer than 1 s"):
        SqlDesk(database, SqlOptions(timeout_s=1.0)).statement("SELECT count(*) FROM events", ALL).run()


def test_events_are_taken_in_while_a_statement_eats_what_it_may(database: Database, writer: Writer) -> None:
    desk = SqlDesk(database, SqlOptions(memory_bytes=64 * 2**20))
    running = desk.statement(WITHOUT_END, ALL)
    failed: list[Exception] = []

    def run() -> None:
        try:
            running.run()
        except QueryError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    for n in range(50):
        writer.submit([make_record(n)]).result(10)
    running.stop()
    thread.join(20)
    assert "nobody waits" in str(failed[0])
    answer = desk.statement("SELECT count(*) AS n FROM events", ALL).run()
    assert answer.table.to_pylist() == [{"n": 50}]


def test_as_many_as_may_run_at_once_do_and_the_next_is_told_to_come_back(
    database: Database, started: list[Any]
) -> None:
    desk = SqlDesk(database, SqlOptions(at_once=1))
    first = desk.statement(WITHOUT_END, ALL)

    def run() -> None:
        with pytest.raises(QueryError, match="nobody waits"):
            first.run()

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: len(started) == 1, what="the first statement")
    with pytest.raises(ThrottledError, match="1 statements are under way"):
        desk.statement("SELECT 1", ALL).run()
    first.stop()
    thread.join(20)
    assert desk.statement("SELECT 1 AS one", ALL).run().table.to_pylist() == [{"one": 1}]


def test_one_that_is_stopped_before_it_runs_does_not_run(database: Database) -> None:
    statement = SqlDesk(database).statement(WITHOUT_END, ALL)
    statement.stop()
    with pytest.raises(QueryError, match="nobody waits"):
        statement.run()


def test_rows_beyond_the_bound_are_cut_off_and_that_is_said(database: Database) -> None:
    desk = SqlDesk(database)
    whole = desk.statement("SELECT * FROM range(25000)", ALL, max_rows=25_000).run()
    assert (whole.table.num_rows, whole.cut) == (25_000, None)
    part = desk.statement("SELECT * FROM range(25001)", ALL, max_rows=25_000).run()
    assert (part.table.num_rows, part.cut) == (25_000, "rows")
    few = desk.statement("SELECT * FROM range(25001)", ALL, max_rows=7).run()
    assert (few.table.num_rows, few.cut) == (7, "rows")


def test_bytes_beyond_the_bound_are_cut_off_and_that_is_said(database: Database) -> None:
    desk = SqlDesk(database, SqlOptions(max_answer_bytes=2**20))
    answer = desk.statement("SELECT repeat('x', 10) AS text FROM range(200000)", ALL, max_rows=200_000).run()
    assert answer.cut == "bytes"
    assert 0 < answer.table.num_rows < 200_000
    assert answer.table.nbytes <= 2**20


def test_an_answer_without_rows_has_its_columns(database: Database) -> None:
    answer = SqlDesk(database).statement("SELECT name, 1 AS one FROM events", ALL).run()
    assert (answer.table.num_rows, answer.table.column_names) == (0, ["name", "one"])


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.abort()",
        "import sys; sys.exit(3)",
        "import os; os.write(0, b'HTTP/1.1 200 OK' * 100)",
        "import os; os.write(0, b'a' + bytes([255, 255, 255, 255]))",
        "import os; os.write(0, b'a' + (5).to_bytes(4, 'big') + b'wrong')",
        "import os; os.write(0, b's' + (5).to_bytes(4, 'big') + b'wrong')",
        "import os; os.write(0, b'n' + (11).to_bytes(4, 'big') + b'{\"scan\": 77}')",
        "import os; os.write(0, b'f' + (2).to_bytes(4, 'big') + b'[]')",
        "import os; os.write(0, b'd' + (13).to_bytes(4, 'big') + b'{\"cut\": null}')",
    ],
)
def test_a_process_that_breaks_or_lies_is_an_error_and_nothing_more(
    database: Database, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(processes, "_MODULE", ("-c", program))
    with pytest.raises(QueryError, match="ended the process that ran it"):
        SqlDesk(database).statement("SELECT 1", ALL).run()


def test_when_no_process_can_be_started_the_asker_is_told_to_come_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = SqlDesk(database, SqlOptions(at_once=1))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(StoreError, match="could be started"):
            desk.statement("SELECT 1", ALL).run()
    assert desk.statement("SELECT 1 AS one", ALL).run().table.to_pylist() == [{"one": 1}]


def test_a_process_that_asks_for_what_is_not_on_offer_gets_nothing(
    database: Database, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.submit([make_record(0, tenant="other")]).result(10)
    from tracehold_collector.sql.scans import Scans  # noqa: PLC0415 - for this test only
    from tracehold_collector.sql.tables import table_schemas  # noqa: PLC0415 - as above

    scans = Scans(database, table_schemas(database), Access(("default",)))
    for asked in (
        {"scan": 1, "table": "contents", "columns": ["body"]},
        {"scan": 1, "table": "events", "columns": ["content_chunk"]},
        {"scan": 1, "table": 'events" --', "columns": ["tenant"]},
        {"scan": 1, "table": "events", "columns": ['tenant" FROM contents --']},
        {"scan": 1, "table": "events", "columns": "tenant"},
        {"scan": 1, "table": "events", "columns": [["tenant"]]},
    ):
        with pytest.raises(QueryError, match="not on offer"):
            scans.open(asked)
    for bounds in (
        [["tenant", "== 'other' OR", "x"]],
        [["tenant) OR (tenant", "==", "other"]],
        [["tenant", "==", "other"]],
        [["started_at", ">=", "0 OR true"]],
        [["nothing", "==", 1]],
    ):
        scans.open({"scan": 2, "table": "events", "columns": ["tenant"], "bounds": bounds})
        assert scans.next(2) is None
    scans.close()


def test_a_statement_that_reads_a_table_too_often_at_once_is_told_so(database: Database, writer: Writer) -> None:
    writer.submit([make_record(n) for n in range(100)]).result(10)
    tables = ", ".join(f"(SELECT min(seq) AS s FROM events) e{n}" for n in range(20))  # noqa: S608
    joined = f"SELECT count(*) AS n FROM events, {tables}"  # noqa: S608
    assert SqlDesk(database).statement(joined, ALL).run().table.to_pylist() == [{"n": 100}]
    many = " UNION ALL ".join(["(SELECT tenant FROM events LIMIT 1)"] * 200)
    with pytest.raises(QueryError, match="more than 64 tables at once"):
        SqlDesk(database).statement(many, ALL).run()
