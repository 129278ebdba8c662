"""Whatever somebody writes, nothing is seen that is not theirs to see, changed, or reached."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from support.two_tenants import MARK, NUMBER, OURS, SAID, statements
from tracehold_collector.core.errors import CollectorError, QueryError
from tracehold_collector.sql import process as processes
from tracehold_collector.sql.check import RefusedError, judge
from tracehold_collector.sql.desk import SqlDesk
from tracehold_collector.sql.tables import TABLES
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access

SECRETS = (MARK, str(NUMBER), SAID, str(Path.home()), sys.prefix, "root:x:0")
WAITS = ("sleep", "test_all_types")


def shows_nothing(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


def said_by(judged: Callable[[], object]) -> str:
    """What somebody sees of it: the answer, or the error."""
    try:
        return str(judged())
    except (RefusedError, duckdb.Error, CollectorError) as error:
        return str(error)


def test_a_statement_that_reaches_out_is_refused_or_shows_nothing(
    hostile: str, engine: duckdb.DuckDBPyConnection, ask: Callable[..., pa.Table]
) -> None:
    refused = said_by(lambda: [judge(engine, hostile, TABLES)])
    assert shows_nothing(refused)
    if "Statement object" in refused:
        assert shows_nothing(said_by(lambda: ask(hostile).to_pylist()))


def test_most_of_them_are_refused_before_they_run(engine: duckdb.DuckDBPyConnection) -> None:
    passed = []
    for text in statements("hostile.sql"):
        try:
            judge(engine, text, TABLES)
            passed.append(text)
        except (RefusedError, duckdb.Error):
            pass
    assert len(statements("hostile.sql")) > 150
    # What is left asks for a column that is not there, or for a word without meaning here.
    assert all("content_" in text or text.endswith(("current_user", "regclass)", "=> 1)")) for text in passed), passed


NO_WALL = """
import tracehold_collector.sql.child as child
import pyarrow as pa
def run_all(connection, begin, channel):
    seen = []
    for text in begin["sql"].splitlines():
        try:
            seen.append(str(connection.execute(text).to_arrow_reader(1000).read_all().to_pylist()))
        except Exception as error:
            seen.append(str(error))
    channel.send(child.ANSWER, child._stream(pa.schema([("seen", pa.string())]), pa.record_batch({"seen": seen})))
child._run = run_all
child.main()
"""


def test_without_the_first_wall_the_process_still_has_nothing_to_show(
    desk: SqlDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_MODULE", ("-c", NO_WALL))
    texts = [text for text in statements("hostile.sql") if not any(word in text for word in WAITS)]
    answer = desk.statement("\n".join(texts), Access((OURS,))).run()
    outcomes = dict(zip(texts, answer.table.column("seen").to_pylist(), strict=True))
    for text, seen in outcomes.items():
        # The engine names a folder of its own when an extension is asked for; no answer of the desk repeats that.
        assert shows_nothing(seen.replace(str(Path.home()), "") if "INSTALL" in text or "LOAD" in text else seen), text
    assert "'name': '19'" in outcomes["SELECT * FROM main.events"]
    assert outcomes["SELECT * FROM duckdb_tables()"] == "[]"


CONFINED = """
import os, resource, socket, sys
from tracehold_collector.sql.confine import confine
held = socket.socket(fileno=0)
confine(memory_bytes=64 * 2**20, cpu_s=30)
def attempt(what):
    try:
        what()
    except (OSError, MemoryError) as error:
        print(type(error).__name__)
    else:
        print("done")
attempt(lambda: open("/etc/passwd"))
attempt(lambda: open("new-file", "w"))
attempt(lambda: socket.socket())
attempt(lambda: os.pipe())
attempt(lambda: os.dup(1))
attempt(lambda: len(b"x" * (512 * 2**20)))
attempt(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)) if os.geteuid() else open("/etc/hosts"))
print(sorted(os.environ))
"""


def test_the_process_can_open_nothing_and_take_no_memory_beyond_its_own(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415 - for this test only

    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-c", CONFINED],
            stdin=theirs.fileno(), capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True,
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    *attempts, environment = done.stdout.splitlines()
    assert "done" not in attempts, attempts
    assert len(attempts) == 7
    assert "TRACEHOLD" not in environment
    assert list(tmp_path.iterdir()) == []


def test_the_process_is_told_no_secret_of_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEHOLD_API_KEY", "a-made-up-key-of-the-settings")
    assert not any("made-up" in value for value in processes._environment().values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT content_chunk FROM events", "LINE 1: SELECT content_chunk FROM events"),
        ("SELECT nme FROM events", 'Candidate bindings: "name"'),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM contents", "there is no table 'contents' (at byte 14)"),
        ("SELECT getenv('HOME')", "the function getenv is not among those"),
        ("", "one SELECT"),
        ("-- nothing", "one SELECT"),
        ("SELECT 'a\0b'", "no text"),
        ("SELECT '\ud800'", "no text"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, ""),
        ("SELECT " + "+".join(["1"] * 9000), ""),
        ("SELECT " + "-" * 40_000 + "\n1", ""),
        ("SELECT '" + "x" * 60_000 + "'", "50,000"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(ask: Callable[..., pa.Table], text: str, says: str) -> None:
    assert says in said_by(lambda: ask(text).num_rows)


def test_an_ordinary_statement_runs(ordinary: str, outcome: Callable[[str], str], engine, ask) -> None:
    judge(engine, ordinary, TABLES)
    seen = outcome(ordinary)
    assert "Error" not in seen
    assert shows_nothing(seen)


def test_a_cast_meets_only_rows_the_asker_may_see(ask: Callable[..., pa.Table]) -> None:
    """Every name of ours is a number, and none of theirs: the cast would fail, and quote it, on a row of theirs."""
    assert ask("SELECT sum(name::INTEGER) AS n FROM events").to_pylist() == [{"n": sum(range(20))}]
    assert ask("SELECT count(*) AS n FROM events WHERE name::INTEGER >= 0").to_pylist() == [{"n": 20}]
    assert ask("SELECT max(name::INT) AS n FROM events WHERE tenant <> '' AND run_id LIKE '%'").to_pylist() == [
        {"n": 19}
    ]
    for text in (
        "SELECT agent::INTEGER FROM events",
        "SELECT count(*) FROM events WHERE agent::INTEGER = 1",
        "SELECT * FROM events e JOIN events f ON e.agent::INTEGER = f.agent::INTEGER",
        "SELECT error(agent) FROM events",
        "SELECT CASE WHEN tenant = 'acme' THEN 1 ELSE error(name) END FROM events",
    ):
        seen = said_by(lambda text=text: ask(text).to_pylist())
        assert shows_nothing(seen)
    with pytest.raises(QueryError, match="Could not convert string 'ann' to INT32"):
        ask("SELECT agent::INTEGER FROM events")


@pytest.mark.parametrize("table", TABLES)
def test_each_table_shows_the_rows_of_the_askers_tenants(ask: Callable[..., pa.Table], table: str) -> None:
    text = f"SELECT DISTINCT tenant FROM {table} ORDER BY 1"  # noqa: S608
    both = {row["tenant"] for row in ask(text, (OURS, MARK)).to_pylist()}
    own = {row["tenant"] for row in ask(text).to_pylist()}
    every = {row["tenant"] for row in ask(text, None).to_pylist()}
    none = ask(text, ()).to_pylist()
    expected = set() if table == "costs" else {OURS, MARK}
    assert (both, every, own, none) == (expected, expected, expected & {OURS}, [])


def test_no_table_that_is_offered_has_a_column_that_leads_to_contents(desk: SqlDesk, store: Database) -> None:
    """A new relation or column of the store is looked at before it is offered: these are all there are."""
    for name, schema in desk.tables().items():
        assert not {column for column in schema.names if "content" in column or "body" in column}, name
    with store.cursor() as cursor:
        there = {row[0] for row in cursor.execute("SELECT table_name FROM information_schema.tables").fetchall()}
    assert there >= set(TABLES)
    assert not {"contents", "run_deltas"} & set(TABLES)
