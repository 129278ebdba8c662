"""The hash chain of the SQLite store: what others changed shows, what the store erased is no alarm (DEC-08)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.event_stores import completed, fact, facts, on, started
from tracehold.events.chain import ChainReport
from tracehold.events.sqlite_store import SQLiteEventStore

AT_A3 = "WHERE stream_no = 1 AND seq = 3"
"""Stands for `@a3` below."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of three streams: `a` untouched, `b` scrubbed and grown again, `c` deleted, and `d` the last."""
    path = tmp_path / "log.db"

    async def fill(store: SQLiteEventStore) -> None:
        await store.append("a", [started("a"), *facts("1", "2", "3", "4"), completed("a")])
        await store.append("b", [started("b"), *(fact(str(n), {"text": "secret"}) for n in range(4)), completed("b")])
        await store.append("c", facts("1"))
        await store.append("d", facts("1", "2"))
        await store.scrub("b")
        await store.append("b", facts("late"))
        await store.delete_stream("c")

    on(SQLiteEventStore(path), fill)
    return path


def tamper(path: Path, *statements: str) -> None:
    """Change the file as somebody with a SQLite shell would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement.replace("@a3", AT_A3))


def check(path: Path, stream: str | None = None) -> ChainReport:
    """Verify what is in the file."""
    return on(SQLiteEventStore(path), lambda store: store.verify_chain(stream))


# DEC-08: a documented deletion leaves a tombstone and is no alarm; a scrub neither
def test_what_the_store_itself_did_verifies(path: Path) -> None:
    report = check(path)
    assert report.ok
    assert (report.streams, report.events, report.erased, report.deleted) == (3, 15, 6, 1)
    assert set(report.heads) == {"a", "b", "d"}
    assert check(path, "b").ok
    assert check(path, "nobody").streams == 0


# DEC-08
def test_verification_goes_on_after_more_scrubs_deletions_and_compaction(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.scrub("b")
        await store.scrub("b")
        await store.append("b", facts("later"))
        await store.scrub("a")
        await store.delete_stream("a")
        await store.append("c", facts("again"))
        await store.compact()
        report = await store.verify_chain()
        assert report.ok
        assert (report.streams, report.deleted) == (3, 2)

    on(SQLiteEventStore(path), act)


# DEC-08: an edit, a cut tail, a removed run shows
@pytest.mark.parametrize(
    ("statement", "stream", "seq", "words"),
    [
        ("UPDATE log_events SET content = replace(content, '3', '9') @a3", "a", 3, "content was changed"),
        ("UPDATE log_events SET salt = randomblob(16) @a3", "a", 3, "content was changed"),
        ("UPDATE log_events SET salt = NULL @a3", "a", 3, "content was changed"),
        ("UPDATE log_events SET content = NULL @a3", "a", 3, "content was changed"),
        ("UPDATE log_events SET digest = NULL @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET digest = randomblob(32) @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET chain = randomblob(32) @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET type = 'other' @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET tenant = 'other' @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET time = '2020-01-01T00:00:00.000000+00:00' @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET id = x'00' @a3", "a", 3, "envelope or hash"),
        ("DELETE FROM log_events @a3", "a", 3, "are missing"),
        ("DELETE FROM log_events WHERE stream_no = 1 AND seq = 0", "a", 0, "are missing"),
        ("DELETE FROM log_events WHERE stream_no = 1 AND seq >= 4", "a", 3, "tail was cut"),
        ("DELETE FROM log_events WHERE stream_no = 1", "a", -1, "tail was cut"),
        ("UPDATE log_streams SET last_seq = 9 WHERE no = 1", "a", 5, "tail was cut"),
        ("UPDATE log_streams SET head = randomblob(32) WHERE no = 1", "a", 5, "tail was cut"),
        ("UPDATE log_streams SET name = 'x' WHERE no = 1", "x", 0, "envelope or hash"),
        ("UPDATE log_streams SET completed_seq = NULL WHERE no = 1", "a", None, "index of runs"),
        (
            "UPDATE log_events SET erased = 1, content = '{\"data\":{}}', salt = NULL @a3",
            "a",
            3,
            "no erasure is on record",
        ),
        ("UPDATE log_events SET content = '{\"data\":{}}' WHERE stream_no = 2 AND seq = 5", "b", None, "erasure left"),
        ("UPDATE log_events SET erased = 0 WHERE stream_no = 2 AND seq = 2", "b", 2, "content was changed"),
        ("DELETE FROM log_streams WHERE no = 1", None, None, "stream number 1 is missing"),
        ("DELETE FROM log_streams WHERE no = 4", None, None, "events of stream number 4"),
        ("DELETE FROM log_acts WHERE kind = 'delete'", None, None, "stream number 3 is missing"),
        ("DELETE FROM log_acts WHERE kind = 'scrub'", None, None, "record of an erasure"),
        ("UPDATE log_acts SET at = '2020-01-01' WHERE kind = 'scrub'", None, None, "record of an erasure"),
        ("UPDATE log_acts SET head = 7 WHERE kind = 'scrub'", None, None, "record of an erasure"),
        # What no program of ours writes must not end the check either.
        ("UPDATE log_events SET content = CAST(x'ff' AS TEXT) @a3", "a", 3, "content was changed"),
        ("UPDATE log_events SET source = CAST(x'ff' AS TEXT) @a3", "a", 3, "envelope or hash"),
        ("UPDATE log_events SET seq = 'x' @a3", "a", 5, "no number"),
        ("UPDATE log_events SET content = x'00' WHERE stream_no = 2 AND seq = 5", "b", None, "erasure left"),
        ("UPDATE log_streams SET head = 'x' WHERE no = 1", "a", 5, "tail was cut"),
        ("UPDATE log_streams SET last_seq = 'x' WHERE no = 1", "a", 5, "tail was cut"),
        ("UPDATE log_streams SET name = x'00' WHERE no = 2", None, None, "name of stream number 2"),
    ],
)
def test_a_change_behind_its_back_shows(
    path: Path, statement: str, stream: str | None, seq: int | None, words: str
) -> None:
    tamper(path, statement)
    report = check(path)
    assert not report.ok
    assert any((one.stream, one.seq) == (stream, seq) and words in one.what for one in report.problems), report.problems


# DEC-08: a removed run shows
@pytest.mark.parametrize("no", [1, 4])
def test_a_run_removed_with_everything_of_it_leaves_a_gap(path: Path, no: int) -> None:
    tamper(path, "DELETE FROM log_events WHERE stream_no = @no".replace("@no", str(no)))
    tamper(path, "DELETE FROM log_streams WHERE no = @no".replace("@no", str(no)))
    assert [one.what for one in check(path).problems] == [
        f"stream number {no} is missing, and no deletion is on record"
    ]


# DEC-08
def test_two_events_that_changed_places_show(path: Path) -> None:
    tamper(
        path,
        "UPDATE log_events SET seq = 99 WHERE stream_no = 1 AND seq = 2",
        "UPDATE log_events SET seq = 2 WHERE stream_no = 1 AND seq = 3",
        "UPDATE log_events SET seq = 3 WHERE stream_no = 1 AND seq = 99",
    )
    assert {one.seq for one in check(path).problems} >= {2, 3}


# DEC-08
def test_one_edit_is_one_problem_and_other_streams_stay_clean(path: Path) -> None:
    tamper(path, "UPDATE log_events SET source = 'x' @a3")
    assert [(one.stream, one.seq) for one in check(path).problems] == [("a", 3)]
    assert check(path, "b").ok
    assert not check(path, "a").ok


# DEC-08
def test_no_problem_tells_content(path: Path) -> None:
    tamper(path, 'UPDATE log_events SET content = \'{"data":{"x":"new-secret"}}\'')
    problems = str(check(path).problems)
    assert problems
    assert "secret" not in problems


# DEC-14: the digest of an erased content cannot be used to confirm a guess of it
def test_a_scrub_takes_the_salt_with_the_content(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT salt, digest FROM log_events WHERE stream_no = 2 AND erased = 1").fetchall()
    assert len(rows) == 6
    assert all(salt is None and len(digest) == 32 for salt, digest in rows)
