"""Where suspended runs are kept: one suite over SQLite in memory, SQLite in a file, and the base's defaults."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tracehold.core import database
from tracehold.core.errors import SessionError
from tracehold.core.message import Message
from tracehold.core.scope import DIMENSIONS, Scope, scope_key
from tracehold.execution.checkpoints import CheckpointStore, SqliteCheckpointStore
from tracehold.sessions import SqliteSessionStore

FULL = Scope(base="b", user="u", agent="a", session="s", app="p")


class DictCheckpointStore(CheckpointStore):
    """The least a store must write itself; everything else is the base's."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, ...], str] = {}
        self.threads: list[int] = []

    def save(self, state_json: str, *, scope: Scope | None = None) -> None:
        self.threads.append(threading.get_ident())
        self.kept[scope_key(scope)] = state_json

    def load(self, *, scope: Scope | None = None) -> str | None:
        self.threads.append(threading.get_ident())
        return self.kept.get(scope_key(scope))

    def clear(self, *, scope: Scope | None = None) -> None:
        self.threads.append(threading.get_ident())
        self.kept.pop(scope_key(scope), None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


@pytest.fixture(params=["base", "memory", "file"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[CheckpointStore]:
    made: CheckpointStore
    if request.param == "base":
        made = DictCheckpointStore()
    else:
        made = SqliteCheckpointStore(":memory:" if request.param == "memory" else path)
    yield made
    made.close()


@pytest.fixture
def sqlite_store(path: Path) -> Iterator[SqliteCheckpointStore]:
    with closing(SqliteCheckpointStore(path)) as made:
        yield made


def ask(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("method", ["save", "load", "clear"])
def test_a_store_must_write_save_load_and_clear_itself(method: str) -> None:  # CKPT-01
    written = {name: getattr(DictCheckpointStore, name) for name in ("save", "load", "clear") if name != method}
    incomplete = type("Incomplete", (CheckpointStore,), written)
    with pytest.raises(TypeError, match=method):
        incomplete()


def test_the_async_twins_do_what_the_sync_methods_do(store: CheckpointStore) -> None:  # CKPT-01
    async def main() -> None:
        assert await store.aload(scope=FULL) is None
        await store.asave("one", scope=FULL)
        assert await store.aload(scope=FULL) == "one"
        assert await store.aload() is None
        assert await store.areplace("one", "two", scope=FULL) is True
        assert await store.areplace("one", "three", scope=FULL) is False
        assert await store.aload(scope=FULL) == "two"
        await store.aclear(scope=FULL)
        assert await store.aload(scope=FULL) is None

    asyncio.run(main())


def test_the_async_twins_of_the_base_run_on_a_worker_thread() -> None:  # CKPT-01
    store = DictCheckpointStore()

    async def main() -> None:
        await store.asave("x")
        await store.aload()
        await store.areplace("x", "y")
        await store.aclear()

    asyncio.run(main())
    assert len(store.threads) == 5
    assert threading.get_ident() not in store.threads


def test_save_replaces_the_one_before(store: CheckpointStore) -> None:  # CKPT-02
    for text in ("one", "two", "three"):
        store.save(text, scope=FULL)
    assert store.load(scope=FULL) == "three"
    store.clear(scope=FULL)
    assert store.load(scope=FULL) is None


def test_there_is_one_row_a_scope(sqlite_store: SqliteCheckpointStore, path: Path) -> None:  # CKPT-02, CKPT-04
    for text in ("one", "two"):
        for scope in (None, FULL, Scope(user="u")):
            sqlite_store.save(text, scope=scope)
    assert ask(path, "SELECT state, count(*) FROM run_checkpoints GROUP BY 1") == [("two", 3)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        ' {"a":  1} \n',
        "null",
        "not json",
        "a\x00b\x00",
        "\ud800",
        "\ud83d\ude00",
        "é\u0301😀",
        "x" * 3_000_000,
    ],
    ids=lambda text: ascii(text)[:12],
)
def test_the_text_comes_back_unchanged(store: CheckpointStore, text: str) -> None:  # CKPT-03
    store.save(text)
    assert store.load() == text


def test_there_is_nothing_to_load_at_first(store: CheckpointStore) -> None:  # CKPT-03
    assert store.load() is None
    assert store.load(scope=FULL) is None


def test_a_uniqueness_rule_over_all_dimensions_backs_the_one_row(  # CKPT-04
    sqlite_store: SqliteCheckpointStore, path: Path
) -> None:
    sqlite_store.save("x", scope=FULL)
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE.*base.*user.*agent.*session.*app"):
        ask(path, "INSERT INTO run_checkpoints VALUES (NULL, 'b', 'u', 'a', 's', 'p', 'y')")


def test_a_save_is_one_statement_that_writes(sqlite_store: SqliteCheckpointStore) -> None:  # CKPT-04
    sqlite_store.save("old")
    connection = sqlite_store._database._connection
    assert connection is not None
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    sqlite_store.save("new")
    assert [sql.split()[0] for sql in statements] == ["BEGIN", "INSERT", "COMMIT"]


def test_concurrent_saves_of_a_scope_leave_one_row(path: Path) -> None:  # CKPT-04
    stores = [SqliteCheckpointStore(path) for _ in range(4)]

    def work(number: int) -> None:
        for turn in range(10):
            stores[number % 4].save(f"{number}.{turn}", scope=FULL)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    ((last,),) = ask(path, "SELECT state FROM run_checkpoints")
    assert last.endswith(".9")
    for made in stores:
        made.close()


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_scopes_match_exactly(store: CheckpointStore, dimension: str) -> None:  # CKPT-05
    parent, sibling = FULL.with_(**{dimension: None}), FULL.with_(**{dimension: "other"})
    for scope, text in ((FULL, "full"), (parent, "parent"), (sibling, "sibling")):
        store.save(text, scope=scope)
    assert [store.load(scope=scope) for scope in (FULL, parent, sibling)] == ["full", "parent", "sibling"]
    store.clear(scope=parent)
    assert [store.load(scope=scope) for scope in (FULL, parent, sibling)] == ["full", None, "sibling"]
    assert store.replace("full", None, scope=parent) is False
    assert store.replace("full", "changed", scope=FULL) is True
    assert [store.load(scope=scope) for scope in (FULL, parent, sibling)] == ["changed", None, "sibling"]


def test_no_scope_is_the_one_with_nothing_set(store: CheckpointStore) -> None:  # CKPT-05
    store.save("nobody's")
    store.save("ours", scope=Scope(app="p"))
    assert store.load(scope=Scope()) == "nobody's"
    store.clear()
    assert store.load() is None
    assert store.load(scope=Scope(app="p")) == "ours"


def test_clearing_what_is_not_there_does_nothing(store: CheckpointStore) -> None:  # CKPT-06
    store.save("kept", scope=FULL)
    store.clear()
    store.clear(scope=Scope(user="u"))
    assert store.load(scope=FULL) == "kept"


@pytest.mark.parametrize("old", [None, "old", "a\x00", "\ud800"], ids=ascii)
@pytest.mark.parametrize("new", [None, "new", "old"])
def test_replace_changes_only_what_the_caller_has_seen(  # DEC-02
    store: CheckpointStore, old: str | None, new: str | None
) -> None:
    if old is not None:
        store.save(old, scope=FULL)
    for wrong in {None, "old", "OLD", "old ", "", "a"} - {old}:
        assert store.replace(wrong, new, scope=FULL) is False
        assert store.load(scope=FULL) == old
    assert store.replace(old, new, scope=FULL) is True
    assert store.load(scope=FULL) == new


def test_of_many_threads_that_resume_one_run_one_may_go_on(path: Path) -> None:  # DEC-02, CKPT-04
    stores = [SqliteCheckpointStore(path) for _ in range(3)]
    for number in range(10):
        stores[0].save(f"suspended {number}", scope=FULL)
        start = threading.Barrier(6)

        def resume(worker: int, number: int = number, start: threading.Barrier = start) -> bool:
            start.wait()
            return stores[worker % 3].replace(f"suspended {number}", f"claimed by {worker}", scope=FULL)

        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(resume, range(6)))
        assert sorted(won) == [False] * 5 + [True]
        assert stores[0].load(scope=FULL) == f"claimed by {won.index(True)}"
    for made in stores:
        made.close()


RESUME = """
import sys
from tracehold.execution.checkpoints import SqliteCheckpointStore
store = SqliteCheckpointStore(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    number = line.strip()
    print(store.replace(f"suspended {number}", f"claimed {number}"), flush=True)
store.close()
"""


def test_of_several_processes_that_resume_one_run_one_may_go_on(  # DEC-02, CKPT-04
    sqlite_store: SqliteCheckpointStore, path: Path
) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RESUME, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    try:
        assert [process.stdout and process.stdout.readline() for process in processes] == ["ready\n"] * 3
        for number in range(10):
            sqlite_store.save(f"suspended {number}")
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
            won = [process.stdout and process.stdout.readline() for process in processes]
            assert sorted(map(str, won)) == ["False\n", "False\n", "True\n"]
    finally:
        for process in processes:
            process.communicate(timeout=60)


def test_a_checkpoint_and_a_session_share_a_file(sqlite_store: SqliteCheckpointStore, path: Path) -> None:  # CKPT-07
    with closing(SqliteSessionStore(path)) as sessions:
        sqlite_store.save("waiting", scope=FULL)
        sessions.append(Message("hello", "user"), scope=FULL)
        sessions.clear(all_scopes=True)
        assert sqlite_store.load(scope=FULL) == "waiting"
        sessions.append(Message("again", "user"), scope=FULL)
        sqlite_store.clear(scope=FULL)
        assert [message.content for message in sessions.load(scope=FULL)] == ["again"]


def test_a_checkpoint_is_on_the_disk_when_save_returns(sqlite_store: SqliteCheckpointStore) -> None:  # CKPT-04
    with sqlite_store._database.reading() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: each commit is flushed


def test_close_releases_the_file_and_a_closed_store_says_so(path: Path) -> None:  # CKPT-08
    store = SqliteCheckpointStore(path)
    store.save("x")
    store.close()
    store.close()
    assert [item.name for item in path.parent.iterdir()] == ["checkpoints.db"]
    for call in (store.load, store.clear, lambda: store.save("y"), lambda: store.replace("x", None)):
        with pytest.raises(SessionError, match=r"checkpoints in .*checkpoints\.db is closed"):
            call()
    with closing(SqliteCheckpointStore(path)) as again:
        assert again.load() == "x"


def test_errors_of_sqlite_are_session_errors(  # CKPT-08
    sqlite_store: SqliteCheckpointStore, path: Path, tmp_path: Path
) -> None:
    ask(path, "DROP TABLE run_checkpoints")
    for call in (
        sqlite_store.load,
        sqlite_store.clear,
        lambda: sqlite_store.save("y"),
        lambda: sqlite_store.replace("x", None),
    ):
        with pytest.raises(SessionError, match="no such table"):
            call()
    diary = tmp_path / "diary.db"
    diary.write_text("this is a diary, not a database, and long enough to be looked at", encoding="utf-8")
    with pytest.raises(SessionError, match=r"diary\.db.* not a database"):
        SqliteCheckpointStore(diary)


def test_a_lock_that_stays_is_a_session_error_and_changes_nothing(  # CKPT-08
    sqlite_store: SqliteCheckpointStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_store.save("old")
    monkeypatch.setattr(database, "BUSY_WAIT_S", 0.05)
    with (
        closing(SqliteCheckpointStore(path)) as impatient,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        for call in (
            lambda: impatient.save("new"),
            lambda: impatient.replace("old", "new"),
            lambda: impatient.replace("old", None),
            impatient.clear,
        ):
            with pytest.raises(SessionError, match=r"checkpoints\.db: another connection has held it locked"):
                call()
        assert impatient.load() == "old"


@pytest.mark.parametrize("state", [None, b"{}", {"v": 1}, 5], ids=repr)
def test_what_is_no_text_is_refused(sqlite_store: SqliteCheckpointStore, state: Any) -> None:  # CKPT-08
    sqlite_store.save("old")
    with pytest.raises(SessionError, match="a checkpoint is a text"):
        sqlite_store.save(state)
    if state is not None:
        with pytest.raises(SessionError, match="a checkpoint is a text"):
            sqlite_store.replace("old", state)
    assert sqlite_store.load() == "old"


def test_a_scope_that_no_database_can_hold_is_refused(sqlite_store: SqliteCheckpointStore) -> None:  # CKPT-08
    scope = Scope(user="\ud800")
    for call in (
        lambda: sqlite_store.save("x", scope=scope),
        lambda: sqlite_store.load(scope=scope),
        lambda: sqlite_store.clear(scope=scope),
        lambda: sqlite_store.replace(None, "x", scope=scope),
    ):
        with pytest.raises(SessionError, match=r"Scope\.user is not valid Unicode"):
            call()


def test_a_damaged_row_is_a_session_error(sqlite_store: SqliteCheckpointStore, path: Path) -> None:  # CKPT-08
    sqlite_store.save("x")
    ask(path, "UPDATE run_checkpoints SET state = x'ff'")
    for call in (sqlite_store.load, lambda: sqlite_store.replace("x", None)):
        with pytest.raises(SessionError, match=r"checkpoint .* is damaged"):
            call()
    sqlite_store.clear()
    assert sqlite_store.load() is None


OLD = "CREATE TABLE run_checkpoints (id INTEGER PRIMARY KEY, {}, state TEXT NOT NULL)"


@pytest.mark.parametrize("missing", DIMENSIONS)
def test_a_table_without_a_scope_column_is_refused_and_left_as_it_was(path: Path, missing: str) -> None:  # CKPT-09
    ask(path, OLD.format(", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in DIMENSIONS if name != missing)))
    ask(path, "INSERT INTO run_checkpoints (state) VALUES ('one'), ('two')")
    before = ask(path, "SELECT sql FROM sqlite_schema")

    with pytest.raises(SessionError, match=f"run_checkpoints was made by another program and lacks {missing}"):
        SqliteCheckpointStore(path)

    assert ask(path, "SELECT sql FROM sqlite_schema") == before
    assert ask(path, "SELECT state FROM run_checkpoints") == [("one",), ("two",)]


def test_duplicates_of_older_code_are_collapsed_to_the_newest(path: Path) -> None:  # CKPT-09
    ask(path, OLD.format(", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in DIMENSIONS)))
    ask(
        path,
        "INSERT INTO run_checkpoints (user, state) "
        "VALUES ('ann', '1'), ('bob', '2'), ('ann', '3'), ('', '4'), ('ann', '5'), ('', '6')",
    )
    with closing(SqliteCheckpointStore(path)) as store:
        assert store.load(scope=Scope(user="ann")) == "5"
        assert store.load(scope=Scope(user="bob")) == "2"
        assert store.load() == "6"
        store.save("7", scope=Scope(user="ann"))
    assert ask(path, "SELECT user, state FROM run_checkpoints ORDER BY user") == [("", "6"), ("ann", "7"), ("bob", "2")]


scopes = st.none() | st.builds(Scope, user=st.sampled_from([None, "a", "A"]), session=st.sampled_from([None, "a"]))
texts = st.sampled_from(["", "one", "two", "a\x00", "\ud800"])


class CheckpointsAgainstADict(RuleBasedStateMachine):
    """`self.kept` is what the store must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = SqliteCheckpointStore(self.folder / "checkpoints.db")
        self.kept: dict[Scope, str] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(scope=scopes, text=texts | st.text(st.characters() | st.sampled_from("\x00\ud800\udfff")))
    def save(self, scope: Scope | None, text: str) -> None:
        self.store.save(text, scope=scope)
        self.kept[scope or Scope()] = text

    @rule(scope=scopes)
    def clear(self, scope: Scope | None) -> None:
        self.store.clear(scope=scope)
        self.kept.pop(scope or Scope(), None)

    @rule(scope=scopes, expected=st.none() | texts, new=st.none() | texts, right=st.booleans())
    def replace(self, scope: Scope | None, expected: str | None, new: str | None, right: bool) -> None:
        there = self.kept.get(scope or Scope())
        expected = there if right else expected
        assert self.store.replace(expected, new, scope=scope) is (expected == there)
        if expected == there:
            self.kept.pop(scope or Scope(), None)
            if new is not None:
                self.kept[scope or Scope()] = new

    @rule(scope=scopes)
    def load(self, scope: Scope | None) -> None:
        assert self.store.load(scope=scope) == self.kept.get(scope or Scope())

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteCheckpointStore(self.folder / "checkpoints.db")

    @invariant()
    def holds_exactly_what_was_kept(self) -> None:
        with self.store._database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM run_checkpoints").fetchone() == (len(self.kept),)
        assert {scope: self.store.load(scope=scope) for scope in self.kept} == self.kept


# CKPT-02, CKPT-03, CKPT-05, CKPT-06, DEC-02
TestCheckpointsAgainstADict = CheckpointsAgainstADict.TestCase
