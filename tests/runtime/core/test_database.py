"""The SQLite connection that sessions, checkpoints and indexes stand on."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core import database
from tracehold.core.database import Database, require_columns, text_from_column, text_to_column
from tracehold.core.errors import RetrievalError, SessionError
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.core.scope_columns import EXACT, SCOPE_COLUMNS, exact_values, restricting


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS things (name TEXT)")


def open_at(path: Path | str, **options: object) -> Database:
    return Database(path, error=SessionError, purpose="things", prepare=prepare, **options)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


@pytest.fixture
def things(path: Path) -> Iterator[Database]:
    with closing(open_at(path)) as made:
        yield made


def add(things: Database, name: str) -> None:
    with things.transaction() as connection:
        connection.execute("INSERT INTO things VALUES (?)", (name,))


def names(things: Database) -> list[str]:
    with things.reading() as connection:
        return [row[0] for row in connection.execute("SELECT name FROM things ORDER BY rowid")]


def test_what_a_transaction_wrote_is_there_for_others_when_it_ends(things: Database, path: Path) -> None:
    with things.transaction() as connection:
        connection.execute("INSERT INTO things VALUES ('a')")
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM things").fetchone() == (0,)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM things").fetchone() == (1,)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, sqlite3.IntegrityError])
def test_any_exception_rolls_the_transaction_back(things: Database, error: type[BaseException]) -> None:  # SES-14
    def fail() -> None:
        with things.transaction() as connection:
            connection.execute("INSERT INTO things VALUES ('half')")
            raise error

    with pytest.raises((error, SessionError)):
        fail()
    add(things, "next")
    assert names(things) == ["next"]


def test_a_transaction_inside_another_of_the_same_thread_is_refused_and_harms_neither(things: Database) -> None:
    with things.transaction() as connection:
        connection.execute("INSERT INTO things VALUES ('outer')")
        with pytest.raises(SessionError, match="begun inside another one"):
            add(things, "inner")
    assert names(things) == ["outer"]


@pytest.mark.parametrize("error", [SessionError, RetrievalError])
def test_errors_of_sqlite_come_as_the_chosen_class(path: Path, error: type[SessionError]) -> None:  # SES-26, CKPT-08
    with closing(Database(path, error=error, purpose="things", prepare=prepare)) as things:
        words = r"the store of things cannot use .*things\.db: no such table: nowhere"
        with pytest.raises(error, match=words) as caught, things.reading() as connection:
            connection.execute("SELECT * FROM nowhere")
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        with pytest.raises(error, match="things"), things.transaction() as connection:
            connection.execute("INSERT INTO things VALUES (?)", (2**70,))


def test_an_error_that_is_not_sqlites_passes_unchanged(things: Database) -> None:
    with pytest.raises(KeyError, match="mine"), things.transaction():
        raise KeyError("mine")


def test_a_failing_prepare_leaves_no_table_and_no_lock(path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        prepare(connection)
        require_columns(connection, "things", ["name", "size", "colour"])

    with pytest.raises(
        SessionError, match=r"table things was made by another program and lacks size, colour\. Give it"
    ):
        Database(path, error=SessionError, purpose="things", prepare=fail)
    with closing(sqlite3.connect(path, timeout=0)) as other:
        assert other.execute("SELECT * FROM sqlite_schema").fetchall() == []
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize("level", ["NORMAL", "FULL"])
def test_the_settings_are_in_force(path: Path, level: str) -> None:
    with closing(open_at(path, synchronous=level)) as things, things.reading() as connection:
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete", "busy_timeout")
        }
    assert found == {
        "journal_mode": "wal",
        "synchronous": {"NORMAL": 1, "FULL": 2}[level],
        "secure_delete": 1,
        "busy_timeout": 5000,
    }


def test_an_existing_file_keeps_its_permissions_and_a_new_one_is_private(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    theirs.touch()
    theirs.chmod(0o640)
    for path in (theirs, ours):
        open_at(path).close()
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o640
    assert stat.S_IMODE(ours.stat().st_mode) == 0o600


def test_an_empty_path_is_refused_because_it_would_keep_nothing() -> None:
    with pytest.raises(SessionError, match="no file for things: db_path is empty"):
        open_at("")


def test_opening_a_locked_file_waits_and_then_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # SES-26
    monkeypatch.setattr(database, "BUSY_WAIT_S", 0.05)
    for journal in ("WAL", "DELETE"):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"PRAGMA journal_mode = {journal}")
            other.execute("BEGIN EXCLUSIVE")
            other.execute("CREATE TABLE IF NOT EXISTS theirs (x)")
            with pytest.raises(SessionError, match=r"things\.db: another connection has held it locked for 0\.05 s"):
                open_at(path)


def test_opening_goes_on_when_the_lock_is_released(path: Path) -> None:
    released = threading.Event()

    def release() -> None:
        other.execute("COMMIT")
        released.set()

    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.1, release)
        timer.start()
        with closing(open_at(path)) as things:
            assert released.is_set()
            add(things, "a")
            assert names(things) == ["a"]
        timer.join()


def test_one_file_is_meant_however_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_at("things.db")) as things:
        add(things, "before")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        things.before_fork()
        things.after_fork(in_child=False)
        add(things, "after")
        assert names(things) == ["before", "after"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_fork_waits_for_the_call_that_uses_the_file_and_finds_it_closed(things: Database) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with things.transaction() as connection:
            connection.execute("INSERT INTO things VALUES ('whole')")
            inside.set()
            assert go_on.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    assert inside.wait(60)
    threading.Timer(0.05, go_on.set).start()
    things.before_fork()
    assert things._connection is None
    things.after_fork(in_child=False)
    writer.join()
    assert names(things) == ["whole"]


def test_a_fork_does_not_wait_for_ever(things: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_WAIT_S", -0.95)  # waits 0.05 s
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with things.transaction():
            inside.set()
            assert go_on.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(60)
    things.before_fork()  # gives up
    things.after_fork(in_child=False)
    go_on.set()
    holder.join()
    add(things, "goes on")
    assert names(things) == ["goes on"]


FORK_INSIDE = """
import os, sqlite3, sys
from tracehold.core.database import Database
from tracehold.core.errors import SessionError

def prepare(connection):
    connection.execute("CREATE TABLE IF NOT EXISTS things (name TEXT)")

def names(things):
    with things.reading() as connection:
        return [row[0] for row in connection.execute("SELECT name FROM things")]

def child_does(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

file, memory = (
    Database(path, error=SessionError, purpose="things", prepare=prepare) for path in (sys.argv[1], ":memory:")
)
with memory.transaction() as connection:
    connection.execute("INSERT INTO things VALUES ('copied')")

def use_the_copy():
    assert names(memory) == ["copied"]
    with memory.transaction() as connection:
        connection.execute("INSERT INTO things VALUES ('of the child')")
    assert names(memory) == ["copied", "of the child"]

child_does(use_the_copy)
assert names(memory) == ["copied"]

with file.transaction() as connection:
    connection.execute("INSERT INTO things VALUES ('open at the fork')")
    child_does(lambda: None)
assert names(file) == ["open at the fork"]

def grandchild():
    child_does(lambda: names(file))
    assert names(file) == ["open at the fork"]

child_does(grandchild)
file.close()
child_does(file.close)
memory.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_memory_is_copied_by_a_fork_and_an_open_transaction_survives_it(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK_INSIDE, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@given(st.text(st.characters() | st.sampled_from("\x00\ud800\udfff\ud83d\ude00")))
def test_every_text_goes_through_a_column_unchanged(text: str) -> None:  # CKPT-03
    with closing(sqlite3.connect(":memory:")) as connection:
        (value,) = connection.execute("SELECT ?", (text_to_column(text),)).fetchone()
    assert text_from_column(value) == text


def test_bytes_that_are_no_text_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        text_from_column(b"\xff")


@given(st.builds(Scope, *[st.none() | st.sampled_from(["a", "A", "a\x00", "é", "e\u0301"])] * 5), st.data())
def test_exact_and_restricting_conditions_say_what_scopes_say(
    held: Scope, data: st.DataObject
) -> None:  # SES-02, SES-23
    asked = data.draw(st.sampled_from([held, Scope(), held.with_(user=None), held.with_(app="a"), Scope(user="a")]))
    but = data.draw(st.sampled_from([None, *DIMENSIONS]))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE rows ({SCOPE_COLUMNS})")
        connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", exact_values(held, error=SessionError))
        (exact,) = connection.execute(
            f"SELECT count(*) FROM rows WHERE {EXACT}",  # noqa: S608 - a constant
            exact_values(asked, error=SessionError),
        ).fetchone()
        where, values = restricting(asked, error=SessionError, but=but)
        (restricted,) = connection.execute(f"SELECT count(*) FROM rows WHERE {where}", values).fetchone()  # noqa: S608
    assert exact == (held == asked)
    assert restricted == all(
        getattr(held, name) == value for name, value in asked.restrictions().items() if name != but
    )
