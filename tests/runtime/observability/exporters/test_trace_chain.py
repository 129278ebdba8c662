"""DEC-08 for trace files: what was done to the rows shows, and a damaged chain costs no event."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold import SqliteExporter
from tracehold.events.chain import ChainReport
from tracehold.observability.exporters import trace_chain

Report = list[tuple[int | None, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def write(path: Path, *numbers: int) -> None:
    exporter = SqliteExporter(path)
    for number in numbers:
        exporter.export({"type": "tool_call", "run_id": f"r-{number % 2}" if number % 3 else None, "n": number})
    exporter.close()


def verify(path: Path) -> ChainReport:
    with opened(path) as connection:
        report = trace_chain.verify(connection)
    assert report is not None
    return report


def problems(path: Path) -> Report:
    return [(one.seq, one.what) for one in verify(path).problems]


def change(path: Path, statement: str, *values: Any) -> None:
    with opened(path) as connection:
        connection.execute(statement, values)


def test_what_was_written_fits_over_several_openings(path: Path) -> None:  # DEC-08
    write(path, 1, 2, 3)
    first = verify(path).heads
    write(path, 4)
    report = verify(path)
    assert (report.ok, report.events, report.problems) == (True, 4, ())
    assert report.heads != first


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE traces SET event = '{}' WHERE rowid = 3", [(3, "its content was changed")]),
        ("UPDATE traces SET type = 'x' WHERE rowid = 3", [(3, "its content was changed")]),
        ("UPDATE traces SET run_id = NULL WHERE rowid = 4", [(4, "its content was changed")]),
        ("UPDATE traces SET created_at = '2026' WHERE rowid = 6", [(6, "its content was changed")]),
        ("UPDATE traces SET event = x'ff00' WHERE rowid = 2", [(2, "its content was changed")]),
        ("UPDATE traces SET event = CAST(x'ff00' AS TEXT) WHERE rowid = 2", [(2, "its content was changed")]),
        ("DELETE FROM traces WHERE rowid = 1", [(1, "it is missing")]),
        ("DELETE FROM traces WHERE rowid IN (2, 3, 4)", [(2, "rows 2 to 4 are missing")]),
        ("DELETE FROM traces WHERE rowid > 4", [(5, "the rows end in front of it: the tail was cut")]),
        ("DELETE FROM traces", [(1, "the rows end in front of it: the tail was cut")]),
        (
            "INSERT INTO traces VALUES ('x', NULL, '{}', '2026')",
            [(None, "1 rows at the end are not on record: they were added")],
        ),
        (
            "INSERT INTO traces (rowid, type, event, created_at) VALUES (0, 'x', '{}', '2026')",
            [(1, "the row in front of this one is not on record: it was added")],
        ),
        ("DELETE FROM trace_chain WHERE no = 2", [(3, "added"), (None, "entry 2 of the chain is missing")]),
        ("DELETE FROM trace_chain WHERE no = 9223372036854775807", [(None, "the head of the chain is missing")]),
        ("UPDATE trace_chain SET digest = x'00' WHERE no > 6", [(None, "the head of the chain is missing")]),
        ("UPDATE trace_chain SET digest = 'text' WHERE no = 2", [(2, "changed"), (None, "entry 2 of the chain")]),
    ],
)
def test_what_was_done_to_a_file_shows_and_where(path: Path, statement: str, found: Report) -> None:  # DEC-08
    write(path, 1, 2, 3, 4, 5, 6)
    change(path, statement)
    told = problems(path)
    assert [no for no, _ in told] == [no for no, _ in found]
    assert all(wanted in what for (_, what), (_, wanted) in zip(told, found, strict=True))


def test_a_row_and_its_entry_cut_together_show(path: Path) -> None:  # DEC-08
    write(path, 1, 2, 3)
    change(path, "DELETE FROM traces WHERE rowid = 3")
    change(path, "DELETE FROM trace_chain WHERE no = 3")
    assert problems(path) == [(None, "the chain has 2 entries and its head tells of 3: it was cut or added to")]


def test_a_row_and_its_digest_changed_together_show(path: Path) -> None:  # DEC-08
    write(path, 1, 2, 3)
    with opened(path) as connection:
        row = ("x", None, "{}", "2026")
        connection.execute("UPDATE traces SET type = ?, run_id = ?, event = ?, created_at = ? WHERE rowid = 2", row)
        connection.execute("UPDATE trace_chain SET digest = ? WHERE no = 2", (trace_chain._digest(row),))
    assert problems(path) == [(None, "the entries of the chain do not lead to its head: one of them was changed")]


def test_rows_that_changed_places_show(path: Path) -> None:  # DEC-08
    write(path, 1, 2, 3)
    change(path, "UPDATE traces SET rowid = 9 WHERE rowid = 1")
    assert problems(path)


def test_vacuum_is_no_alarm(path: Path) -> None:
    write(path, *range(50))
    change(path, "VACUUM")
    assert verify(path).ok


def test_many_misfits_end_the_search_and_say_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_chain, "MAX_PROBLEMS", 3)
    write(path, *range(10))
    change(path, "UPDATE traces SET event = '{}'")
    assert problems(path)[-1] == (None, "there may be more; the check of the rows ended here")
    assert len(problems(path)) == 4


def test_a_file_of_an_older_version_is_taken_over_as_it_is(path: Path) -> None:  # EXP-07, DEC-08
    with opened(path) as connection:
        connection.execute("CREATE TABLE traces (type TEXT, event TEXT, created_at TEXT)")
        connection.execute("INSERT INTO traces VALUES ('old', '{}', '2026-01-01'), ('older', '[]', '2025-01-01')")
        assert trace_chain.verify(connection) is None
    write(path, 1)
    assert (verify(path).ok, verify(path).events) == (True, 3)
    change(path, "UPDATE traces SET event = '{\"a\": 1}' WHERE type = 'old'")
    assert problems(path) == [(1, "its content was changed")]


def test_rows_that_were_there_before_the_chain_are_told_of(path: Path) -> None:  # DEC-08
    write(path, 1, 2, 3)
    assert verify(path).notes == ()
    change(path, "DROP TABLE trace_chain")
    change(path, "UPDATE traces SET event = '{}' WHERE rowid = 2")
    write(path, 4)  # takes the altered row over: nothing in the file tells what it was
    report = verify(path)
    assert (report.ok, report.events) == (True, 4)
    assert report.notes == ("3 rows were there before the chain was begun",)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM trace_chain WHERE no = 0", "do not lead to its head"),
        ("UPDATE trace_chain SET digest = CAST('adopted' || x'0000000000000001' AS BLOB) WHERE no = 0", "do not lead"),
        ("UPDATE trace_chain SET digest = 'x' WHERE no = 0", "how many rows were there before the chain was changed"),
        ("UPDATE trace_chain SET digest = x'' WHERE no = 0", "how many rows were there before the chain was changed"),
        ("INSERT INTO trace_chain VALUES (-1, x'00')", "entry 1 of the chain"),
    ],
)
def test_how_many_rows_were_there_before_cannot_be_changed_alone(path: Path, statement: str, words: str) -> None:
    # DEC-08
    write(path, 1, 2, 3)
    change(path, "DROP TABLE trace_chain")
    write(path, 4)
    change(path, statement)
    assert any(words in what for _, what in problems(path)), problems(path)


def test_an_entry_for_rows_before_a_chain_that_began_with_none_shows(path: Path) -> None:  # DEC-08
    write(path, 1)
    change(path, "INSERT INTO trace_chain VALUES (0, x'00')")
    assert not verify(path).ok


def test_rows_without_their_table_show(path: Path) -> None:  # DEC-08
    write(path, 1)
    change(path, "DROP TABLE traces")
    assert problems(path) == [(None, "table traces is missing")]


def test_two_exporters_on_one_file_make_one_chain(path: Path) -> None:  # EXP-08, DEC-08
    exporters = [SqliteExporter(path), SqliteExporter(path)]
    for number in range(20):
        exporters[number % 3 % 2].export({"type": "x", "n": number})
    for exporter in exporters:
        exporter.close()
    assert (verify(path).ok, verify(path).events) == (True, 20)


def _write_many(path: Path, first: int) -> None:
    write(path, *range(first, first + 100))


def test_processes_that_write_at_once_make_one_chain(path: Path) -> None:  # EXP-08, DEC-08
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(path, 100 * number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert (verify(path).ok, verify(path).events) == (True, 300)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE trace_chain",
        "DELETE FROM trace_chain WHERE no > 2",
        "INSERT INTO trace_chain VALUES (3, x'00')",
        "UPDATE trace_chain SET digest = x'00'",
    ],
)
def test_a_damaged_chain_costs_no_event(path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:  # DEC-08
    exporter = SqliteExporter(path)
    exporter.export({"type": "x"})
    exporter.export({"type": "x"})
    change(path, damage)
    with caplog.at_level(logging.WARNING):
        exporter.export({"type": "y"})
        exporter.export({"type": "y"})
    exporter.close()
    with opened(path) as connection:
        assert connection.execute("SELECT count(*) FROM traces").fetchone() == (4,)
    assert len(caplog.records) == 1
    if not damage.startswith("DROP"):
        assert not verify(path).ok


def test_a_row_that_cannot_be_written_now_leaves_no_entry(path: Path) -> None:  # DEC-11, DEC-08
    exporter = SqliteExporter(path)
    exporter.export({"type": "x"})
    with opened(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Exception, match="try again"):
            exporter.export({"type": "y"})
        other.execute("ROLLBACK")
    assert exporter.force_flush()
    exporter.close()
    assert (verify(path).ok, verify(path).events) == (True, 2)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.data(),
)
def test_any_change_of_the_rows_shows(tmp_path_factory: pytest.TempPathFactory, numbers: list[int], data: Any) -> None:
    # DEC-08
    path = tmp_path_factory.mktemp("chain") / "traces.db"
    write(path, *numbers)
    with opened(path) as connection:
        before = connection.execute(trace_chain._ROWS).fetchall()
        rows = data.draw(st.permutations(before).map(lambda rows: rows[: data.draw(st.integers(0, len(rows)))]))
        rows += data.draw(st.lists(st.sampled_from([*before, ("x", None, "{}", "2026")]), max_size=2))
        connection.execute("DELETE FROM traces")
        connection.executemany(trace_chain._INSERT, rows)
    assert verify(path).ok == (rows == before)
