"""`tracehold log`, as a process of its own on a real log file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.processes import COMMAND, clean_environment
from tracehold import SqliteExporter
from tracehold.core.errors import TraceholdError
from tracehold.events import Event
from tracehold.events.cloudevents import from_cloudevent
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.privacy import Cleaner
from tracehold_collector.cli.app import app
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.decode.events import decode_events
from tracehold_collector.normalise.context import NormaliseContext
from typer.testing import CliRunner

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


def fact(run: str, type_: str, second: int, data: dict[str, Any] | None = None, **fields: Any) -> Event:
    at = START + timedelta(seconds=second)
    return Event(type=type_, id=f"{run}:{second}", time=at, stream=run, run_id=run, data=data, **fields)


def started(run: str, **fields: Any) -> Event:
    return fact(run, "aaa.run.started", 0, {"algo": "guide", "input": {"task": "hello"}}, **fields)


def completed(run: str, **fields: Any) -> Event:
    return fact(run, "aaa.run.completed", 3, {"kind": "success", "value": "hi", "reason": None}, **fields)


def store_of(path: Path, work: Callable[[SQLiteEventStore], Any]) -> None:
    async def main() -> None:
        store = SQLiteEventStore(path)
        try:
            await work(store)
        finally:
            await store.aclose()

    asyncio.run(main())


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """A log with one run that ended, one of a tenant that is open, and one erased."""

    async def fill(store: SQLiteEventStore) -> None:
        await store.append(
            "r-1", [started("r-1"), fact("r-1", "aaa.llm.completed", 1, {"cost": 0.5}), completed("r-1")]
        )
        await store.append("acme/r-2", [started("acme/r-2", tenant="acme", meta={"user": "u-1"})])
        await store.append("r-3", [started("r-3"), completed("r-3")])
        await store.scrub("r-3")

    path = tmp_path / "log.db"
    store_of(path, fill)
    return path


def tracehold(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [COMMAND, "log", *map(str, arguments)],
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done


def quick(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    """As `tracehold`, in this process: a start of the command takes a second."""
    result = CliRunner().invoke(app, ["log", *map(str, arguments)])
    told = f"{result.stderr}{result.exception}" if isinstance(result.exception, TraceholdError) else result.stderr
    assert result.exit_code == status, result.stdout + told
    return subprocess.CompletedProcess([], result.exit_code, result.stdout, told)


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_shows_each_run_and_how_it_ended(log_file: Path) -> None:
    first, second, third = rows(tracehold("list", log_file, "--json"))
    assert (first["run"], first["algo"], first["ended"], first["events"]) == ("r-1", "guide", "success", 3)
    assert first["duration_ns"] == 3_000_000_000
    assert (second["run"], second["tenant"], second["ended"]) == ("acme/r-2", "acme", "open")
    assert third["run"] == "r-3"
    assert "guide" in tracehold("list", log_file).stdout


def test_list_can_be_narrowed(log_file: Path) -> None:
    assert [row["run"] for row in rows(tracehold("list", log_file, "--open", "--json"))] == ["acme/r-2"]
    assert [row["run"] for row in rows(tracehold("list", log_file, "--tenant", "acme", "--json"))] == ["acme/r-2"]


def test_show_prints_the_events_of_a_run_in_order(log_file: Path) -> None:
    shown = rows(tracehold("show", log_file, "r-1", "--json"))
    assert [row["seq"] for row in shown] == [0, 1, 2]
    assert shown[1]["data"] == {"cost": 0.5}
    table = tracehold("show", log_file, "r-1").stdout
    assert "aaa.llm.completed" in table


def test_an_unknown_run_says_where_to_look(log_file: Path) -> None:
    done = tracehold("show", log_file, "r-9", status=1)
    assert "no run 'r-9'" in done.stderr
    assert "tracehold log list" in done.stderr


def test_tail_begins_with_the_last_events_and_ends_with_the_run(log_file: Path) -> None:
    assert [row["seq"] for row in rows(tracehold("tail", log_file, "r-1", "-n", "2", "--json"))] == [1, 2]
    assert tracehold("tail", log_file, "r-1", "-n", "0").stdout == ""


def test_tail_prints_what_comes_until_the_run_is_completed(log_file: Path) -> None:
    command = [COMMAND, "log", "tail", str(log_file), "acme/r-2", "--json"]
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "aaa.run.started"

        async def go_on(store: SQLiteEventStore) -> None:
            await store.append("acme/r-2", [fact("acme/r-2", "test.step", 1), completed("acme/r-2", tenant="acme")])

        store_of(log_file, go_on)
        rest, _ = process.communicate(timeout=60)
    assert [json.loads(line)["type"] for line in rest.splitlines()] == ["test.step", "aaa.run.completed"]
    assert process.returncode == 0


def test_verify_finds_an_intact_log_with_an_erasure_intact(log_file: Path) -> None:  # DEC-08
    (report,) = rows(tracehold("verify", log_file, "--json"))
    assert (report["ok"], report["streams"], report["erased"], report["problems"]) == (True, 3, 2, [])
    assert set(report["heads"]) == {"r-1", "acme/r-2", "r-3"}
    said = tracehold("verify", log_file, "--heads").stdout
    assert said.startswith("intact: 3 streams, 6 events, 2 of them erased")
    assert report["heads"]["r-1"] in said


def test_verify_says_which_event_was_altered_and_fails(log_file: Path) -> None:  # DEC-08
    with sqlite3.connect(log_file) as connection:
        connection.execute("""UPDATE log_events SET content = replace(content, '0.5', '0.1') WHERE seq = 1""")
    connection.close()
    done = tracehold("verify", log_file, "--json", status=1)
    (report,) = rows(done)
    assert [(one["stream"], one["seq"]) for one in report["problems"]] == [("r-1", 1)]
    assert "ALTERED" in tracehold("verify", log_file, status=1).stdout
    assert tracehold("verify", log_file, "acme/r-2").stdout.startswith("intact")


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def trace(path: Path, *numbers: int) -> None:
    exporter = SqliteExporter(path)
    for number in numbers:
        exporter.export({"type": "tool_call", "n": number})
    exporter.close()


def test_verify_checks_a_trace_file_too(tmp_path: Path) -> None:  # DEC-08
    path = tmp_path / "traces.db"
    trace(path, 1, 2, 3)
    assert tracehold("verify", path).stdout.startswith("intact: 1 streams, 3 events")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM traces WHERE rowid = 2")
    connection.close()
    (report,) = rows(tracehold("verify", path, "--json", status=1))
    assert report["problems"] == [{"stream": "traces", "seq": 2, "problem": "it is missing"}]


def test_verify_checks_both_chains_of_a_shared_file(log_file: Path) -> None:  # DEC-08, EXP-08
    trace(log_file, 1, 2)
    (report,) = rows(tracehold("verify", log_file, "--json"))
    assert (report["ok"], report["streams"], report["events"], report["erased"]) == (True, 4, 8, 2)
    assert set(report["heads"]) == {"r-1", "acme/r-2", "r-3", "traces"}
    assert tracehold("verify", log_file, "r-1").stdout.startswith("intact: 1 streams, 3 events")


def test_traces_without_a_chain_are_not_called_intact(tmp_path: Path) -> None:  # DEC-08
    path = tmp_path / "traces.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE traces (type TEXT, run_id TEXT, event TEXT, created_at TEXT)")
    connection.close()
    said = tracehold("verify", path, status=1).stderr
    assert "an older version wrote it, or the chain was removed" in said
    assert "takes over the rows as they are now; keep a copy first" in said


def test_rows_from_before_the_chain_are_told_of_and_are_no_alarm(tmp_path: Path) -> None:  # DEC-08
    path = tmp_path / "traces.db"
    trace(path, 1, 2, 3)
    change(path, "DROP TABLE trace_chain")
    trace(path, 4)
    said = quick("verify", path).stdout
    assert said.startswith("intact: 1 streams, 4 events")
    assert "note: 3 rows were there before the chain was begun" in said
    (report,) = rows(quick("verify", path, "--json"))
    assert (report["ok"], report["notes"]) == (True, ["3 rows were there before the chain was begun"])


def test_traces_beside_a_log_that_have_no_chain_are_told_of(log_file: Path) -> None:  # DEC-08, EXP-08
    trace(log_file, 1)
    change(log_file, "DROP TABLE trace_chain")
    (report,) = rows(quick("verify", log_file, "--json"))
    assert "have no hash chain and were not checked" in report["notes"][0]


def test_verify_finds_the_newest_run_gone_with_its_number(log_file: Path) -> None:  # DEC-08
    change(log_file, "DELETE FROM log_events WHERE stream_no = 3", "DELETE FROM log_streams WHERE no = 3")
    change(log_file, "DELETE FROM log_acts", "DELETE FROM sqlite_sequence")
    assert "stream number 3 is missing" in quick("verify", log_file, status=1).stdout


@pytest.mark.parametrize("table", ["log_events", "log_streams", "log_acts", "log_made"])
def test_verify_says_which_table_is_missing(log_file: Path, table: str) -> None:  # DEC-08
    change(log_file, f"DROP TABLE {table}")
    said = quick("verify", log_file, status=1).stdout
    assert f"table {table} is missing" in said
    assert "ALTERED" in said
    assert f"table {table} is missing" in quick("verify", log_file, "r-1", status=1).stdout


def test_the_other_verbs_say_which_table_is_missing(log_file: Path) -> None:
    change(log_file, "DROP TABLE log_events")
    for arguments in (["list", log_file], ["show", log_file, "r-1"], ["export", log_file]):
        assert "table log_events is missing" in quick(*arguments, status=1).stderr


def test_columns_that_are_not_those_of_a_log_are_told_of(log_file: Path) -> None:
    change(log_file, "ALTER TABLE log_events RENAME COLUMN content TO other")
    assert "its tables are not those of a log" in quick("show", log_file, "r-1", status=1).stderr


@pytest.mark.parametrize("left", [50, 5000, 20_000])
def test_a_file_that_was_cut_is_called_damaged(log_file: Path, left: int) -> None:
    log_file.write_bytes(log_file.read_bytes()[:left])
    for verb in ("list", "verify"):
        assert "the file is damaged or cut" in quick(verb, log_file, status=1).stderr


def test_a_collectors_store_is_told_from_a_log(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE x AS SELECT 1")
        connection.execute("CHECKPOINT")
        said = tracehold("list", path, status=1).stderr
        assert "another program has it locked; a collector's store is read by 'tracehold runs'" in said
    assert "it is no SQLite file" in quick("list", path, status=1).stderr


@pytest.mark.parametrize(
    "verb", [["list"], ["show", "r-1"], ["tail", "r-1"], ["export"], ["export", "r-1"], ["verify", "r-1"]]
)
def test_a_file_of_a_sqlite_exporter_is_only_verified(tmp_path: Path, verb: list[str]) -> None:
    path = tmp_path / "traces.db"
    trace(path, 1)
    said = quick(verb[0], path, *verb[1:], status=1).stderr
    assert "holds traces of a SqliteExporter and no engine log; only 'tracehold log verify" in said
    assert "(without a run) reads it" in said


def test_another_sqlite_file_holds_neither(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE x (y)")
    for verb in ("list", "verify"):
        assert "holds neither an engine log nor traces" in quick(verb, path, status=1).stderr


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    assert "is a folder; name a file in it" in quick("list", tmp_path, status=1).stderr


def test_a_tenant_without_runs_is_not_a_log_without_runs(log_file: Path) -> None:
    assert quick("list", log_file, "--tenant", "zzz").stdout == "no runs of tenant 'zzz' in this log\n"
    said = quick("list", log_file, "--tenant", "zzz", "--open").stdout
    assert said == "no open runs of tenant 'zzz' in this log\n"


def test_the_run_of_a_tenant_is_suggested(log_file: Path) -> None:
    for verb in ("show", "tail", "export", "verify"):
        assert "no run 'r-2'; did you mean acme/r-2?" in quick(verb, log_file, "r-2", status=1).stderr


@pytest.mark.parametrize(
    "damage",
    [
        "content = 'not json'",
        "content = CAST(x'ff' AS TEXT)",
        "content = '{}'",
        "time = 'yesterday'",
        "content = NULL",
        "seq = 'x'",
    ],
)
def test_events_in_front_of_a_damaged_one_are_printed(log_file: Path, damage: str) -> None:
    change(log_file, f"UPDATE log_events SET {damage} WHERE stream_no = 1 AND seq = 1")  # noqa: S608 - from above
    change(log_file, "UPDATE log_streams SET completed_seq = 2 WHERE no = 1")
    seen = {"show": ["--json"], "tail": ["-n", "9", "--json"], "export": []}
    for verb, options in seen.items():
        done = quick(verb, log_file, "r-1", *options, status=1)
        first = rows(done)[0]
        assert first.get("event", first)["type"] == "aaa.run.started"
        assert "of run 'r-1' in" in done.stderr
        assert "cannot be read" in done.stderr
        if "seq" not in damage:
            assert "event 1 of run 'r-1'" in done.stderr
    assert "aaa.run.started" in quick("show", log_file, "r-1", status=1).stdout


def test_an_export_is_what_the_collector_reads(log_file: Path) -> None:
    out = tracehold("export", log_file).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    assert [set(line) for line in lines] == [{"stream", "event"}] * 6
    batch = decode(out)
    assert batch.rejected == []
    assert [record.run_id for record in batch.records][:4] == ["r-1", "r-1", "r-1", "acme/r-2"]
    assert batch.records[1].cost_usd == 0.5


def test_cloudevents_are_the_same_events(log_file: Path) -> None:
    out = tracehold("export", log_file, "acme/r-2", "--cloudevents").stdout
    (event,) = [from_cloudevent(line) for line in out.splitlines()]
    assert event == started("acme/r-2", tenant="acme", meta={"user": "u-1"}).with_(seq=0)
    (plain,) = decode(tracehold("export", log_file, "acme/r-2").stdout).records
    (cloud,) = decode(out).records
    assert plain.event_id == cloud.event_id


def decode(text: str) -> Any:
    context = NormaliseContext("default", Pseudonyms(b"k" * 32, "default"), Cleaner())
    return decode_events(text.encode(), encoding="ndjson", context=context)


def test_nothing_is_written_and_no_file_is_made(log_file: Path, tmp_path: Path) -> None:
    before = log_file.read_bytes()
    for arguments in (["list", log_file], ["verify", log_file], ["export", log_file], ["show", log_file, "r-1"]):
        tracehold(*arguments)
    assert log_file.read_bytes() == before
    missing = tmp_path / "nothing.db"
    assert "there is no log file" in tracehold("list", missing, status=1).stderr
    assert not missing.exists()


def test_another_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be taken for one\n" * 100)
    assert "cannot use" in tracehold("list", text, status=1).stderr
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (event TEXT)")
    connection.close()
    assert "'tracehold ingest'" in tracehold("list", other, status=1).stderr


def test_a_log_of_a_newer_layout_is_left_alone(log_file: Path) -> None:  # STO-12
    with sqlite3.connect(log_file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "layout 99" in tracehold("list", log_file, status=1).stderr


def test_a_reader_that_went_away_ends_it_without_a_word(log_file: Path) -> None:
    command = [COMMAND, "log", "tail", str(log_file), "acme/r-2", "--json"]
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None  # noqa: PT018 - for the types
        process.stdout.readline()
        process.stdout.close()

        async def go_on(store: SQLiteEventStore) -> None:
            await store.append("acme/r-2", [fact("acme/r-2", "test.step", 1)])

        store_of(log_file, go_on)
        assert process.stderr.read() == ""
