"""Clauses EXP for the exporters that keep events on this machine, and one suite that all of them pass."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracehold import ExporterError, JsonlExporter, MemoryExporter, SqliteExporter, TraceExporter, Tracer
from tracehold.observability.exporters import backlog
from tracehold.observability.exporters import sqlite as sqlite_exporter
from tracehold.observability.exporters.base import DeferredError

Read = Callable[[], list[dict[str, Any]]]


def _jsonl(folder: Path) -> tuple[TraceExporter, Read]:
    path = folder / "traces.jsonl"
    return JsonlExporter(path), lambda: [json.loads(line) for line in path.read_text().splitlines()]


def _sqlite(folder: Path) -> tuple[TraceExporter, Read]:
    path = folder / "traces.db"

    def read() -> list[dict[str, Any]]:
        with sqlite3.connect(path) as connection:
            rows = connection.execute("SELECT event FROM traces ORDER BY rowid").fetchall()
        connection.close()
        return [json.loads(row[0]) for row in rows]

    return SqliteExporter(path), read


def _memory(_folder: Path) -> tuple[TraceExporter, Read]:
    exporter = MemoryExporter(None)
    return exporter, lambda: [dict(event) for event in exporter.events]


@pytest.fixture(params=[_memory, _jsonl, _sqlite], ids=["memory", "jsonl", "sqlite"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    exporter, read = request.param(tmp_path)
    yield exporter, read
    exporter.close()


def test_an_event_is_readable_when_export_returns(made: Any) -> None:  # EXP-03, EXP-06, DEC-11
    exporter, read = made
    exporter.export({"type": "x", "n": 1})
    assert read() == [{"type": "x", "n": 1}]


def test_events_keep_their_order(made: Any) -> None:  # DEC-11
    exporter, read = made
    for n in range(50):
        exporter.export({"type": "x", "n": n})
    assert [event["n"] for event in read()] == list(range(50))


def test_concurrent_exports_lose_and_mix_nothing(made: Any) -> None:  # EXP-05
    exporter, read = made
    threads = [
        threading.Thread(
            target=lambda k=k: [exporter.export({"type": "x", "id": f"{k}-{n}", "pad": "p" * 500}) for n in range(50)]
        )
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {event["id"] for event in read()} == {f"{k}-{n}" for k in range(4) for n in range(50)}


def test_closing_twice_is_allowed(made: Any) -> None:
    exporter, _ = made
    exporter.close()
    exporter.close()


def test_the_base_class_cannot_be_used_itself() -> None:  # EXP-01
    with pytest.raises(TypeError, match="abstract"):
        TraceExporter()  # type: ignore[abstract]


def test_memory_keeps_the_newest_in_order() -> None:  # EXP-02
    exporter = MemoryExporter(max_events=3)
    for n in range(5):
        exporter.export({"type": "x", "n": n})
    assert [event["n"] for event in exporter.events] == [2, 3, 4]


def test_memory_keeps_2048_unless_told() -> None:  # EXP-02
    exporter = MemoryExporter()
    for n in range(2050):
        exporter.export({"type": "x", "n": n})
    assert len(exporter.events) == 2048


def test_jsonl_lines_survive_a_restart(tmp_path: Path) -> None:  # EXP-04
    for n in range(2):
        exporter = JsonlExporter(tmp_path / "t.jsonl")
        exporter.export({"type": "x", "n": n})
        exporter.close()
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 2


def test_jsonl_writes_what_json_does_not_know_as_text(tmp_path: Path) -> None:  # EXP-05
    exporter = JsonlExporter(tmp_path / "t.jsonl")
    exporter.export({"type": "x", "path": Path("/a"), "nan": float("nan"), "half": "\ud83e", "big": 2**80, "set": {1}})
    exporter.close()
    event = json.loads((tmp_path / "t.jsonl").read_text())
    assert (event["path"], event["nan"], event["half"], event["big"], event["set"]) == (
        "/a",
        None,
        "?",
        2**80,
        [1],
    )


def test_trace_files_are_their_owners_alone(tmp_path: Path) -> None:
    exporter = JsonlExporter(tmp_path / "t.jsonl")
    exporter.close()
    assert stat.S_IMODE((tmp_path / "t.jsonl").stat().st_mode) == 0o600


def test_processes_may_share_a_jsonl_file(tmp_path: Path) -> None:  # EXP-05
    code = (
        "import sys; from tracehold import JsonlExporter; e = JsonlExporter(sys.argv[1])\n"
        "for n in range(200): e.export({'type': 'x', 'id': sys.argv[2] + str(n), 'pad': 'p' * 3000})\n"
        "e.close()"
    )
    path = tmp_path / "t.jsonl"
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abc"]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert len({json.loads(line)["id"] for line in path.read_text().splitlines()}) == 600


def test_sqlite_has_type_and_run_id_in_columns_of_their_own(tmp_path: Path) -> None:  # EXP-06, EXP-07
    exporter = SqliteExporter(tmp_path / "t.db")
    exporter.export({"type": "llm_call", "run_id": "r1"})
    exporter.export({"type": "other"})
    exporter.close()
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT type, run_id FROM traces").fetchall() == [
        ("llm_call", "r1"),
        ("other", None),
    ]
    created_at = connection.execute("SELECT created_at FROM traces").fetchone()[0]
    assert created_at.endswith("+00:00")
    indexed = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index'").fetchall()
    assert any("run_id" in row[0] for row in indexed)
    connection.close()


def test_an_older_sqlite_table_gets_the_run_id_column(tmp_path: Path) -> None:  # EXP-07
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE traces (type TEXT, event TEXT, created_at TEXT)")
    connection.execute("INSERT INTO traces VALUES ('old', '{}', '2026-01-01')")
    connection.commit()
    connection.close()
    exporter = SqliteExporter(tmp_path / "t.db")
    exporter.export({"type": "new", "run_id": "r1"})
    exporter.close()
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT type, run_id FROM traces ORDER BY rowid").fetchall() == [
        ("old", None),
        ("new", "r1"),
    ]
    connection.close()


def test_a_sqlite_file_may_hold_other_tables(tmp_path: Path) -> None:  # EXP-08
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE sessions (id TEXT)")
    exporter = SqliteExporter(tmp_path / "t.db")
    exporter.export({"type": "x"})
    connection.execute("INSERT INTO sessions VALUES ('s')")
    connection.commit()
    exporter.close()
    connection.close()


def test_a_file_that_is_no_database_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "t.db").write_text("this is not a database" * 100)
    with pytest.raises(ExporterError, match=r"t\.db"):
        SqliteExporter(tmp_path / "t.db")


def test_a_locked_sqlite_file_defers_rows_and_keeps_their_order(tmp_path: Path) -> None:  # DEC-11
    exporter = SqliteExporter(tmp_path / "t.db")
    tracer = Tracer(exporters=[exporter])
    tracer.emit({"type": "x", "n": 0})
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for n in range(1, 4):
        tracer.emit({"type": "x", "n": n})
    other.execute("ROLLBACK")
    assert exporter.force_flush(5)
    rows = other.execute("SELECT json_extract(event, '$.n') FROM traces ORDER BY rowid").fetchall()
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert tracer.summary()["dropped"] == {}
    exporter.close()
    other.close()


def test_strict_raises_what_a_deferred_attempt_raised(tmp_path: Path) -> None:  # DEC-11
    exporter = SqliteExporter(tmp_path / "t.db")
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    tracer = Tracer(exporters=[exporter], strict=True)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        tracer.emit({"type": "x"})
    other.execute("ROLLBACK")
    assert exporter.force_flush(5)
    assert other.execute("SELECT count(*) FROM traces").fetchone() == (1,)
    exporter.close()
    other.close()


def test_a_full_backlog_drops_the_newest_and_counts_them() -> None:  # DEC-11
    written: list[int] = []
    broken = True

    def write(item: int) -> None:
        if broken:
            raise OSError("full")
        written.append(item)

    queue: backlog.Backlog[int] = backlog.Backlog("test", write, (OSError,), max_items=3)
    with pytest.raises(DeferredError):
        queue.put(0)
    for n in range(1, 6):
        queue.put(n)
    broken = False
    assert queue.drain(5)
    assert written == [0, 1, 2]
    assert queue.dropped == 3


def test_a_disk_that_fills_up_in_the_middle_of_a_line_breaks_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    exporter = JsonlExporter(path)
    real = os.write
    room = [20]

    def write(descriptor: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        taken = data[: room[0]]
        room[0] -= len(taken)
        return real(descriptor, taken)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(DeferredError):
        exporter.export({"type": "first", "pad": "p" * 50})
    exporter.export({"type": "second"})
    monkeypatch.setattr(os, "write", real)
    assert exporter.force_flush(5)
    assert [json.loads(line)["type"] for line in path.read_text().splitlines()] == ["first", "second"]
    exporter.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_writes_to_the_same_sqlite_file(tmp_path: Path) -> None:
    exporter = SqliteExporter(tmp_path / "t.db")
    exporter.export({"type": "parent"})
    child = os.fork()
    if child == 0:
        try:
            exporter.export({"type": "child"})
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must not run the rest of the tests
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    exporter.export({"type": "parent again"})
    exporter.close()
    connection = sqlite3.connect(tmp_path / "t.db")
    assert {row[0] for row in connection.execute("SELECT type FROM traces")} == {
        "parent",
        "child",
        "parent again",
    }
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_named_by_a_relative_path_stays_the_same_after_a_fork_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    exporter = SqliteExporter("a.db")
    exporter.export({"type": "before"})
    monkeypatch.chdir(elsewhere)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    exporter.export({"type": "after"})
    exporter.close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        assert connection.execute("SELECT count(*) FROM traces").fetchone() == (2,)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_never_uses_its_parents_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_exporter, "FORK_WAIT_S", 0.01)
    exporter = SqliteExporter(tmp_path / "a.db")
    exporter.export({"type": "parent"})
    assert exporter._backlog.hold(1)  # a row is being written for longer than the fork may wait
    child = os.fork()
    if child == 0:
        os._exit(0 if exporter._connection is None else 1)
    exporter._backlog.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    exporter.close()


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    SqliteExporter(tmp_path / "a.db").close()
    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("exporter", [JsonlExporter, SqliteExporter])
def test_a_folder_is_called_one(tmp_path: Path, exporter: Any) -> None:
    with pytest.raises(ExporterError, match="is a folder; name a file in it"):
        exporter(tmp_path)


@pytest.mark.parametrize("name", ["missing/a.jsonl", "a\0b"])
def test_a_jsonl_file_that_cannot_be_made_is_told_with_what_to_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExporterError, match="Give JsonlExporter a file in a folder that is there"):
        JsonlExporter(tmp_path / name)


def test_a_folder_that_is_not_there_is_told_like_any_file_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ExporterError, match="cannot use"):
        SqliteExporter(tmp_path / "missing" / "a.db")
