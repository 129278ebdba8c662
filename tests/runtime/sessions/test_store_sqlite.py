"""What the SQLite session store promises beyond the interface."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tracehold.core.errors import SessionError
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.sessions import ScopeSummary, SqliteSessionStore

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
KYIV = timezone(timedelta(hours=3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSessionStore]:
    with closing(SqliteSessionStore(path)) as made:
        yield made


def say(store: SqliteSessionStore, text: str, scope: Scope | None = None, *, at: datetime = NOON) -> None:
    store.append(Message(text, "user", timestamp=at), scope=scope)


def said(store: SqliteSessionStore, scope: Scope | None = None, *, all_scopes: bool = False) -> list[Any]:
    return [message.content for message in store.load(scope=scope, all_scopes=all_scopes)]


def rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def test_the_table_is_created_where_it_is_missing(path: Path) -> None:  # SES-07
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with closing(SqliteSessionStore(path)) as store:
        say(store, "hello", Scope(base="b", user="u", agent="a", session="s", app="p"))
    assert rows(path, "SELECT base, user, agent, session, app, role FROM session_messages") == [
        ("b", "u", "a", "s", "p", "user")
    ]


def test_two_stores_on_one_file_see_the_same_rows(store: SqliteSessionStore, path: Path) -> None:  # SES-07
    with closing(SqliteSessionStore(path)) as other:
        say(store, "one")
        say(other, "two")
        assert said(store) == said(other) == ["one", "two"]
        other.clear()
        assert said(store) == []


def test_the_default_is_a_database_in_memory_of_its_own() -> None:  # SES-07
    with closing(SqliteSessionStore()) as one, closing(SqliteSessionStore()) as two:
        say(one, "hello")
        assert (said(one), said(two)) == (["hello"], [])


def test_append_adds_a_row_and_changes_none(store: SqliteSessionStore, path: Path) -> None:  # SES-08
    say(store, "one")
    before = rows(path, "SELECT * FROM session_messages")
    say(store, "one")
    after = rows(path, "SELECT * FROM session_messages ORDER BY id")
    assert after[:1] == before
    assert len(after) == 2


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool"])
def test_a_message_comes_back_whole(store: SqliteSessionStore, role: Any) -> None:  # SES-09
    message = Message("hello", role, timestamp=NOON, metadata={"a": [1, 2.5, None, True], "b": {"c": "d"}})
    store.append(message)
    assert store.load() == [message]
    assert store.load()[0].timestamp.tzinfo is UTC


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (datetime(2026, 5, 1, 12), NOON),  # noqa: DTZ001 - a naive time is the case
        (datetime(2026, 5, 1, 15, tzinfo=KYIV), NOON),
        (datetime(2026, 5, 1, 12, 0, 0, 1, tzinfo=UTC), NOON + timedelta(microseconds=1)),
        (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_are_stored_in_utc_and_naive_ones_taken_as_utc(  # SES-10
    store: SqliteSessionStore, path: Path, given: datetime, stored: datetime
) -> None:
    say(store, "x", at=given)
    assert store.load()[0].timestamp == stored
    assert rows(path, "SELECT timestamp FROM session_messages") == [(stored.isoformat(timespec="microseconds"),)]


def circular() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["self"] = [loop]
    return loop


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


UNHOLDABLE = {
    "an object": {"x": object()},
    "bytes": {"x": b"secret"},
    "a set": {"x": {1}},
    "NaN": {"x": float("nan")},
    "infinity": {"x": [float("inf")]},
    "a circle": circular(),
    "a key that is no text": {"x": {(1, 2): 3}},
    "two keys of one text": {"x": {1: "a", "1": "b"}},
    "very deep": {"x": nested(100_000)},
    "an endless number": {"x": 10**5000},
    "no dict": ["x"],
}


@pytest.mark.parametrize("metadata", UNHOLDABLE.values(), ids=UNHOLDABLE.keys())
def test_metadata_that_json_cannot_hold_is_refused_and_nothing_is_stored(  # SES-11, SES-14
    store: SqliteSessionStore, metadata: Any
) -> None:
    with pytest.raises(SessionError, match="metadata"):
        store.append(Message("x", "user", metadata=metadata))
    say(store, "next")
    assert said(store, all_scopes=True) == ["next"]


def test_a_refusal_names_the_place_and_not_the_value(store: SqliteSessionStore) -> None:  # SES-11
    with pytest.raises(SessionError) as caught:
        store.append(Message("x", "user", metadata={"tags": [1, {"my secret key!": b"my secret value"}]}))
    assert "metadata.tags[1][...] is of type bytes" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_metadata_follows_the_usual_rules_of_json(store: SqliteSessionStore) -> None:  # SES-11
    store.append(Message("x", "user", metadata={"pair": (1, 2), "scores": {7: "a", None: "b", True: "c", 0.5: "d"}}))
    assert store.load()[0].metadata == {"pair": [1, 2], "scores": {"7": "a", "null": "b", "true": "c", "0.5": "d"}}


@pytest.mark.parametrize(
    "change",
    [{"role": "robot"}, {"content": 5}, {"content": b"x"}, {"timestamp": "today"}, {"metadata": None}],
    ids=lambda change: next(iter(change)),
)
def test_a_message_that_was_spoilt_after_it_was_made_is_refused(  # SES-14
    store: SqliteSessionStore, change: dict[str, Any]
) -> None:
    message = Message("x", "user")
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(SessionError, match=next(iter(change))):
        store.append(message)
    assert said(store, all_scopes=True) == []


def test_a_time_that_leaves_the_calendar_in_utc_is_refused(store: SqliteSessionStore) -> None:  # SES-10
    with pytest.raises(SessionError, match="timestamp is before the year 1 or after 9999"):
        say(store, "x", at=datetime(1, 1, 1, tzinfo=KYIV))


def test_content_in_parts_comes_back_as_parts_and_metadata_stays_as_it_was(store: SqliteSessionStore) -> None:  # SES-12
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    metadata = {"k": "v"}
    message = Message(parts, "user", metadata=metadata)
    store.append(message)
    assert store.load()[0].content == parts
    assert store.load()[0].metadata == metadata == {"k": "v"}
    assert message.content is parts


@pytest.mark.parametrize(
    "content",
    ["", "[]", "null", '["text"]', '{"a": 1}', "NaN", "a\x00b", "\x00", "\ud800", "\ud83d\ude00", "😀", "é\u0301", []],
    ids=ascii,
)
def test_odd_texts_come_back_unchanged(store: SqliteSessionStore, content: Any) -> None:  # SES-09, SES-12
    store.append(Message(content, "user", metadata={"same": content}))
    loaded = store.load()[0]
    assert loaded.content == content
    assert loaded.metadata == {"same": content}


def test_ten_megabytes_come_back_unchanged(store: SqliteSessionStore) -> None:  # SES-09
    text = "é\x00😀\n" * 1_250_000
    say(store, text)
    assert said(store) == [text]


def test_one_bad_message_keeps_the_whole_batch_out(store: SqliteSessionStore) -> None:  # SES-13
    batch = [Message("one", "user"), Message("two", "user", metadata={"x": object()}), Message("three", "user")]
    with pytest.raises(SessionError, match=r"metadata\.x"):
        store.append_many(batch)
    assert said(store, all_scopes=True) == []


def refuse_in_sql(path: Path, text: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            f"CREATE TRIGGER no BEFORE INSERT ON session_messages WHEN new.content = '\"{text}\"' "
            "BEGIN SELECT RAISE(ABORT, 'disk on fire'); END"
        )


def test_a_failure_in_the_middle_of_a_batch_rolls_the_others_back(  # SES-13, SES-26
    store: SqliteSessionStore, path: Path
) -> None:
    refuse_in_sql(path, "two")
    with pytest.raises(SessionError, match="disk on fire"):
        store.append_many([Message("one", "user"), Message("two", "user"), Message("three", "user")])
    assert said(store, all_scopes=True) == []
    store.append_many([Message("four", "user"), Message("five", "user")])
    assert said(store) == ["four", "five"]


def test_after_a_failed_append_the_next_one_works(store: SqliteSessionStore, path: Path) -> None:  # SES-14
    refuse_in_sql(path, "bad")
    say(store, "before")
    with pytest.raises(SessionError, match="disk on fire"):
        say(store, "bad")
    with closing(sqlite3.connect(path, timeout=0)) as other:  # nothing holds the write lock
        other.execute("BEGIN IMMEDIATE")
    say(store, "after")
    assert said(store) == ["before", "after"]


def test_clear_deletes_the_bytes_and_not_only_the_row(store: SqliteSessionStore, path: Path) -> None:  # SES-15
    say(store, "tell nobody about the zebra")
    say(store, "the giraffe may stay", Scope(session="s"))
    store.clear()
    store.close()
    assert b"giraffe" in path.read_bytes()
    assert b"zebra" not in path.read_bytes()


# Pruning


@pytest.fixture
def five(store: SqliteSessionStore) -> SqliteSessionStore:
    """Five messages in the session "s", one hour apart, and one older one in "t"."""
    say(store, "t", Scope(session="t"), at=NOON - timedelta(days=1))
    for hour in range(5):
        say(store, str(hour), Scope(session="s"), at=NOON + timedelta(hours=hour))
    return store


S = Scope(session="s")


def test_prune_returns_how_many_it_deleted(five: SqliteSessionStore) -> None:  # SES-16
    assert five.prune(scope=S, keep_last=3) == 2
    assert five.prune(scope=S, keep_last=3) == 0
    assert said(five, S) == ["2", "3", "4"]


@pytest.mark.parametrize("all_scopes", [False, True])
def test_prune_without_a_condition_is_refused_and_deletes_nothing(  # SES-17
    five: SqliteSessionStore, all_scopes: bool
) -> None:
    with pytest.raises(SessionError, match="keep_last or before"):
        five.prune(scope=S, all_scopes=all_scopes)
    assert len(said(five, all_scopes=True)) == 6


@pytest.mark.parametrize("keep_last", [-1, -(2**70), True, 1.0, "1"])
def test_a_keep_last_that_is_no_count_is_refused(five: SqliteSessionStore, keep_last: Any) -> None:  # SES-18
    with pytest.raises(SessionError, match="keep_last is an integer of at least 0"):
        five.prune(scope=S, keep_last=keep_last, before=NOON + timedelta(days=1))
    assert len(said(five, all_scopes=True)) == 6


def test_keep_last_zero_deletes_the_whole_session(five: SqliteSessionStore) -> None:  # SES-18
    assert five.prune(scope=S, keep_last=0) == 5
    assert said(five, all_scopes=True) == ["t"]


@pytest.mark.parametrize("keep_last", [5, 6, 2**63, 2**100])
def test_a_keep_last_beyond_what_is_there_deletes_nothing(five: SqliteSessionStore, keep_last: int) -> None:  # SES-18
    assert five.prune(scope=S, keep_last=keep_last) == 0


@pytest.mark.parametrize(
    "before",
    [
        NOON + timedelta(hours=2),
        (NOON + timedelta(hours=2)).replace(tzinfo=None),
        (NOON + timedelta(hours=2)).astimezone(KYIV),
        (NOON + timedelta(hours=2)).astimezone(timezone(timedelta(hours=-11, minutes=-30))),
    ],
    ids=["utc", "naive", "+03:00", "-11:30"],
)
def test_before_deletes_what_is_strictly_earlier_by_instant(
    five: SqliteSessionStore, before: datetime
) -> None:  # SES-19
    assert five.prune(scope=S, before=before) == 2
    assert said(five, S) == ["2", "3", "4"]


def test_before_tells_one_microsecond(store: SqliteSessionStore) -> None:  # SES-19
    say(store, "whole second", at=NOON)
    say(store, "a microsecond later", at=NOON + timedelta(microseconds=1))
    assert store.prune(before=NOON + timedelta(microseconds=1)) == 1
    assert said(store) == ["a microsecond later"]


@pytest.mark.parametrize("before", ["2026-05-01", 5, datetime(2026, 5, 1).date()])  # noqa: DTZ001 - a date
def test_a_before_that_is_no_datetime_is_refused(five: SqliteSessionStore, before: Any) -> None:  # SES-19
    with pytest.raises(SessionError, match="before is a datetime"):
        five.prune(scope=S, before=before, keep_last=0)
    assert len(said(five, all_scopes=True)) == 6


def test_before_comes_first_and_keep_last_counts_the_rest(store: SqliteSessionStore) -> None:  # SES-20
    for hour in (3, 0, 4, 1):  # inserted in another order than their times
        say(store, str(hour), at=NOON + timedelta(hours=hour))
    assert store.prune(before=NOON + timedelta(hours=2), keep_last=1) == 3
    assert said(store) == ["4"]
    # keep_last first would have kept "1", and `before` then deleted that too.


def test_prune_matches_the_scope_exactly(store: SqliteSessionStore) -> None:  # SES-21
    for scope in (Scope(user="u"), Scope(user="u", session="s"), Scope(session="s"), None):
        say(store, str(scope), scope)
    assert store.prune(scope=Scope(user="u"), keep_last=0) == 1
    assert store.prune(keep_last=0) == 1
    assert said(store, all_scopes=True) == [str(Scope(user="u", session="s")), str(Scope(session="s"))]


def test_over_all_scopes_keep_last_counts_all_sessions_together(five: SqliteSessionStore) -> None:  # SES-21
    say(five, "newest", Scope(session="t"))
    assert five.prune(all_scopes=True, keep_last=2) == 5
    assert said(five, all_scopes=True) == ["4", "newest"]


def test_over_all_scopes_before_reaches_every_session(five: SqliteSessionStore) -> None:  # SES-21
    assert five.prune(all_scopes=True, before=NOON + timedelta(hours=1)) == 2
    assert said(five, all_scopes=True) == ["1", "2", "3", "4"]


# Listing


@pytest.fixture
def house(store: SqliteSessionStore) -> SqliteSessionStore:
    """Two users; sessions of both; one message without a session."""
    say(store, "1", Scope(user="ann", session="s1"), at=NOON)
    say(store, "2", Scope(user="bob", session="s2"), at=NOON + timedelta(hours=5))
    say(store, "3", Scope(user="ann", session="s3"), at=NOON + timedelta(hours=2))
    say(store, "4", Scope(user="ann", session="s1", agent="x"), at=NOON + timedelta(hours=1))
    say(store, "5", Scope(user="ann"), at=NOON + timedelta(hours=3))
    return store


def values(found: list[ScopeSummary]) -> list[str]:
    return [summary.value for summary in found]


def test_sessions_are_listed_with_the_most_recently_active_first(house: SqliteSessionStore) -> None:  # SES-22, SES-25
    assert house.list_scopes() == [
        ScopeSummary("session", "s2", 1, NOON + timedelta(hours=5), NOON + timedelta(hours=5)),
        ScopeSummary("session", "", 1, NOON + timedelta(hours=3), NOON + timedelta(hours=3)),
        ScopeSummary("session", "s3", 1, NOON + timedelta(hours=2), NOON + timedelta(hours=2)),
        ScopeSummary("session", "s1", 2, NOON, NOON + timedelta(hours=1)),
    ]


def test_the_times_of_a_summary_are_aware_and_in_utc(store: SqliteSessionStore) -> None:  # SES-25
    say(store, "x", at=datetime(2026, 5, 1, 15, tzinfo=KYIV))
    (summary,) = store.list_scopes()
    assert summary.first_at == summary.last_at == NOON
    assert summary.first_at is not None
    assert summary.first_at.tzinfo is UTC


def test_any_dimension_can_be_listed(house: SqliteSessionStore) -> None:  # SES-22
    assert values(house.list_scopes(along="user")) == ["bob", "ann"]
    assert values(house.list_scopes(along="agent")) == ["", "x"]
    assert values(house.list_scopes(along="base")) == values(house.list_scopes(along="app")) == [""]


def test_an_empty_store_lists_nothing(store: SqliteSessionStore) -> None:  # SES-22
    assert store.list_scopes() == []


def test_set_dimensions_restrict_and_unset_ones_do_not(house: SqliteSessionStore) -> None:  # SES-23
    assert values(house.list_scopes(scope=Scope(user="ann"))) == ["", "s3", "s1"]
    assert values(house.list_scopes(scope=Scope(user="ann", agent="x"))) == ["s1"]
    assert values(house.list_scopes(scope=Scope(app="other"))) == []


def test_the_listed_dimension_itself_never_filters(house: SqliteSessionStore) -> None:  # SES-23
    assert values(house.list_scopes(scope=Scope(user="ann", session="s1"))) == ["", "s3", "s1"]


@pytest.mark.parametrize("along", ["", "content", "Session", "session; DROP TABLE session_messages", "1", "*"])
def test_an_unknown_dimension_is_refused_and_reaches_no_sql(house: SqliteSessionStore, along: str) -> None:  # SES-24
    connection = house._database._connection
    assert connection is not None
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    with pytest.raises(ValueError, match="along is one of base, user, agent, session, app"):
        house.list_scopes(along=along)
    assert statements == []


# Errors, threads, other files


def test_close_releases_the_file_and_a_closed_store_says_so(store: SqliteSessionStore, path: Path) -> None:  # SES-26
    say(store, "x")
    store.close()
    store.close()
    with pytest.raises(SessionError, match=r"sessions\.db is closed"):
        store.load()
    assert not path.with_name("sessions.db-wal").exists()  # the last connection tidies up


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:  # SES-26
    path.write_text("this is a diary, not a database, and long enough to be looked at", encoding="utf-8")
    with pytest.raises(SessionError, match=r"sessions\.db.* not a database"):
        SqliteSessionStore(path)


def test_a_path_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:  # SES-26
    for path in (tmp_path / "no" / "such" / "folder.db", tmp_path):
        with pytest.raises(SessionError, match=path.name):
            SqliteSessionStore(path)
    for bad in ("", "a\x00b", "\ud800"):
        with pytest.raises(SessionError, match="sessions"):
            SqliteSessionStore(bad)


def test_a_table_that_vanishes_is_a_session_error(store: SqliteSessionStore, path: Path) -> None:  # SES-26
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE session_messages")
    for call in (store.load, store.clear, store.list_scopes, lambda: say(store, "x"), lambda: store.prune(keep_last=1)):
        with pytest.raises(SessionError, match="no such table"):
            call()


def test_a_damaged_row_is_a_session_error_that_names_it(store: SqliteSessionStore, path: Path) -> None:  # SES-26
    for column, value in [
        ("content", "{not json my secret"),
        ("metadata", "[NaN]"),
        ("timestamp", "noon"),
        ("role", "robot"),
        ("content", b"\xff\xff"),
        ("content", "[" * 100_000),
    ]:
        store.clear()
        say(store, "x")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE session_messages SET {column} = ?", (value,))  # noqa: S608 - listed above
        with pytest.raises(SessionError, match="message 1 of the table session_messages") as caught:
            store.load()
        assert "secret" not in str(caught.value)


def test_a_listing_of_a_damaged_time_is_a_session_error(store: SqliteSessionStore, path: Path) -> None:  # SES-26
    say(store, "x")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE session_messages SET timestamp = 'noon'")
    with pytest.raises(SessionError, match="not ISO 8601"):
        store.list_scopes()


@pytest.mark.parametrize("scope", [Scope(session="\ud800"), Scope(user="a\udfff")])
def test_a_scope_that_no_database_can_hold_is_refused_everywhere(
    store: SqliteSessionStore, scope: Scope
) -> None:  # SES-26
    for call in (
        lambda: say(store, "x", scope),
        lambda: store.append_many([], scope=scope),
        lambda: store.load(scope=scope),
        lambda: store.clear(scope=scope),
        lambda: store.prune(scope=scope, keep_last=0),
        lambda: store.list_scopes(along="app", scope=scope),
    ):
        with pytest.raises(SessionError, match=r"Scope\.(session|user) is not valid Unicode"):
            call()


def test_scopes_that_look_alike_stay_apart(store: SqliteSessionStore) -> None:  # SES-02
    alike = ["s", "S", "s ", "s\x00", "s\x00t", "%", "_", "é", "e\u0301", "' OR 1=1 --"]
    for session in alike:
        say(store, session, Scope(session=session))
    assert [said(store, Scope(session=session)) for session in alike] == [[session] for session in alike]
    assert len(store.list_scopes()) == len(alike)


def test_calls_from_many_threads_are_all_kept(store: SqliteSessionStore) -> None:  # SES-27
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(25):
            say(store, f"{number}.{turn}", Scope(session=str(number)))
            store.load(scope=Scope(session=str(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    for number in range(8):
        assert said(store, Scope(session=str(number))) == [f"{number}.{turn}" for turn in range(25)]


def test_batches_from_many_threads_do_not_mix(store: SqliteSessionStore) -> None:  # SES-13, SES-27
    def work(number: int) -> None:
        for _ in range(10):
            store.append_many([Message(f"{number}", "user")] * 5)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    found = said(store)
    assert len(found) == 300
    assert all(len(set(found[at : at + 5])) == 1 for at in range(0, 300, 5))


@pytest.mark.parametrize("missing", ["base", "user", "agent", "session", "app"])
def test_a_table_without_a_scope_column_is_refused_and_left_as_it_was(path: Path, missing: str) -> None:  # SES-28
    columns = [name for name in ("base", "user", "agent", "session", "app") if name != missing]
    made = ", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in columns)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE session_messages (id INTEGER PRIMARY KEY, {made}, role, content, timestamp)")
        connection.execute("INSERT INTO session_messages (content) VALUES ('old')")
    before = rows(path, "SELECT sql FROM sqlite_schema")

    with pytest.raises(
        SessionError, match=rf"session_messages was made by another program and lacks {missing}, metadata"
    ):
        SqliteSessionStore(path)

    assert rows(path, "SELECT sql FROM sqlite_schema") == before
    assert rows(path, "SELECT content FROM session_messages") == [("old",)]


def test_a_new_file_is_readable_by_its_owner_only(store: SqliteSessionStore, path: Path) -> None:  # SES-07
    say(store, "x")
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["sessions.db", "sessions.db-shm", "sessions.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_no_question_about_one_session_reads_the_others(store: SqliteSessionStore) -> None:  # SES-02
    connection = store._database._connection
    assert connection is not None
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    store.load(scope=S)
    store.prune(scope=S, keep_last=3, before=NOON)
    store.clear(scope=S)
    store.list_scopes(scope=Scope(user="ann"))
    connection.set_trace_callback(None)
    asked = [sql for sql in statements if sql.startswith(("SELECT", "DELETE"))]
    assert len(asked) == 5
    for sql in asked:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert any("session_messages_scope" in step for step in plan), plan
        assert not [step for step in plan if step.startswith("SCAN")], plan
