"""The hash chain of the SQLite store: what others changed shows, what the store erased is no alarm (DEC-08)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.event_stores import completed, fact, facts, on, started
from tracehold.events.chain import ChainReport
from tracehold.events.sqlite import verifying
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


# What goes when streams go with everything that tells of them, but for the count.
NEWEST_GONE = (
    "DELETE FROM log_events WHERE stream_no = 4",
    "DELETE FROM log_streams WHERE no = 4",
    "UPDATE sqlite_sequence SET seq = 3 WHERE name = 'log_streams'",
)
ALL_GONE = (
    "DELETE FROM log_events",
    "DELETE FROM log_streams",
    "DELETE FROM log_acts",
    "DELETE FROM sqlite_sequence",
)
RENAMED = "UPDATE log_streams SET name = 'x' WHERE no = 4"


# DEC-08: SQLite's own count is a table that can be set back like any other
@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (NEWEST_GONE, "stream number 4 is missing"),
        ((*NEWEST_GONE, "DELETE FROM sqlite_sequence WHERE name = 'log_streams'"), "stream number 4 is missing"),
        (ALL_GONE, "stream numbers 1 to 4 are missing"),
        (("DELETE FROM log_acts WHERE kind = 'delete'", "DELETE FROM sqlite_sequence"), "stream number 3 is missing"),
        (("DELETE FROM sqlite_sequence",), "4 streams were made, but SQLite's own count says 0"),
        (("UPDATE sqlite_sequence SET seq = 9 WHERE name = 'log_streams'",), "stream numbers 5 to 9 are missing"),
        (("UPDATE log_made SET made = 3",), "3 streams were made, but SQLite's own count says 4"),
        ((*NEWEST_GONE, "UPDATE log_made SET made = 3"), "does not fit their names and numbers"),
        ((RENAMED,), "does not fit their names and numbers"),
        (("UPDATE log_acts SET name_digest = x'00' WHERE kind = 'delete'",), "does not fit their names and numbers"),
        (("UPDATE log_made SET adopted = 1",), "does not fit their names and numbers"),
        (("UPDATE log_made SET made = 'x'",), "the count of streams is missing or was changed"),
        (("DELETE FROM log_made",), "the count of streams is missing or was changed"),
        (("INSERT INTO log_made SELECT * FROM log_made",), "the count of streams is missing or was changed"),
        (("DROP TABLE log_made",), "table log_made is missing"),
        (("DROP TABLE log_events",), "table log_events is missing"),
    ],
)
def test_streams_that_went_with_every_trace_of_them_still_show(
    path: Path, statements: tuple[str, ...], words: str
) -> None:
    tamper(path, *statements)
    assert any(words in one.what for one in check(path).problems), check(path).problems


# DEC-08: an append that reuses the number of a removed stream covers nothing up
def test_a_stream_made_in_the_place_of_a_removed_one_does_not_hide_it(path: Path) -> None:
    tamper(path, *NEWEST_GONE)
    on(SQLiteEventStore(path), lambda store: store.append("d", facts("1", "2")))
    assert not check(path).ok


# DEC-08
def test_a_damaged_count_costs_no_event(path: Path) -> None:
    tamper(path, "DELETE FROM log_made")
    on(SQLiteEventStore(path), lambda store: store.append("e", facts("1")))
    assert [one.what for one in check(path).problems] == ["the count of streams is missing or was changed"]


# DEC-08
def test_the_count_is_not_looked_at_for_a_stream_that_is_there(path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        statements: list[str] = []
        await store._writer.run(lambda connection: connection.set_trace_callback(statements.append))
        await store.append("a", facts("9"))
        assert statements
        assert not [one for one in statements if "log_made" in one]
        await store.append("new", facts("9"))
        assert len([one for one in statements if "log_made" in one]) == 2

    on(SQLiteEventStore(path), act)


def of_layout_1(path: Path) -> None:
    """Make the file what a version without the count wrote."""
    tamper(path, "DROP TABLE log_made", "PRAGMA user_version = 1")


# DEC-08, STO-12
def test_an_older_log_is_counted_as_it_is_and_says_so(path: Path) -> None:
    of_layout_1(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        report = verifying.verify(file, None)  # as `tracehold log verify` does, which writes nothing
    assert report.ok
    assert "keeps no count of its streams" in report.notes[0]
    report = check(path)
    assert (report.ok, report.notes) == (True, ("4 streams were there before the count of streams was begun",))
    on(SQLiteEventStore(path), lambda store: store.append("e", facts("1")))
    assert check(path).ok
    tamper(path, "DELETE FROM log_events WHERE stream_no = 5", "DELETE FROM log_streams WHERE no = 5")
    tamper(path, "DELETE FROM sqlite_sequence")
    assert "stream number 5 is missing, and no deletion is on record" in [one.what for one in check(path).problems]


# DEC-08, STO-12: what was found before is found after
def test_a_gap_in_an_older_log_is_not_healed_by_its_migration(path: Path) -> None:
    tamper(path, "DELETE FROM log_events WHERE stream_no = 1", "DELETE FROM log_streams WHERE no = 1")
    tamper(path, "UPDATE log_streams SET name = CAST(x'ff' AS TEXT) WHERE no = 2")
    of_layout_1(path)
    found = [one.what for one in check(path).problems]
    assert "stream number 1 is missing, and no deletion is on record" in found


# DEC-08
def test_a_new_log_has_nothing_to_note(path: Path) -> None:
    assert check(path).notes == ()


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
