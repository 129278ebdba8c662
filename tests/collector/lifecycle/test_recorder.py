"""The collector's story with clocks that a test sets: starts, ends, what was missed, jumps, pauses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_record
from tracehold_collector.core.errors import BadBodyError, QueueFullError, StoreError, ThrottledError
from tracehold_collector.lifecycle import Lifecycle
from tracehold_collector.lifecycle.clocks import JUMP_NS, Reading, between
from tracehold_collector.lifecycle.heartbeat import HEARTBEAT_FILE
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer

Gaps = Callable[[], list[tuple[Any, ...]]]

FIRST = ("gap", "first_start", None, 0.0, None)


class Story:
    """A collector's story in one folder; a new life after each end."""

    def __init__(self, database: Database, folder: Path, clocks: Any) -> None:
        self.database, self.folder, self.clocks, self.commits = database, folder, clocks, 0
        self.lives: list[Lifecycle] = []

    def begin(self) -> Lifecycle:
        life = Lifecycle(self.database, self.folder, lambda: self.commits, clocks=self.clocks, watching=False)
        life.start()
        self.lives.append(life)
        return life


@pytest.fixture
def story(database: Database, tmp_path: Path, clocks: Any) -> Any:
    made = Story(database, tmp_path, clocks)
    yield made
    for life in made.lives:
        life._heartbeat.close()


def test_the_first_start_says_since_when_there_is_a_store(story: Story, gaps: Gaps) -> None:
    story.begin()
    assert gaps() == [FIRST]


def test_after_an_orderly_stop_the_gap_is_from_the_stop_to_the_start(story: Story, clocks: Any, gaps: Gaps) -> None:
    life = story.begin()
    clocks.move(100)
    life.close()
    life.close()
    clocks.move(50)
    story.begin()
    assert gaps() == [FIRST, ("gap", "stopped", 100.0, 150.0, None)]


def test_without_a_farewell_the_gap_begins_with_the_last_sign_of_life(story: Story, clocks: Any, gaps: Gaps) -> None:
    life = story.begin()
    clocks.move(2)
    life.look()
    clocks.move(60)
    story.begin()
    assert gaps() == [FIRST, ("gap", "killed_or_crashed", 2.0, 62.0, None)]


@pytest.mark.parametrize("harm", ["missing", "rubbish", "empty", "huge"])
def test_without_a_heartbeat_the_gap_begins_with_the_last_event_or_start(
    story: Story, clocks: Any, gaps: Gaps, tmp_path: Path, harm: str
) -> None:
    life = story.begin()
    clocks.move(2)
    life.look()
    file = tmp_path / HEARTBEAT_FILE
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes({"rubbish": b"\x00\xff" * 20, "empty": b"", "huge": b"9" * 40}[harm])
    clocks.move(60)
    story.begin()
    assert gaps() == [FIRST, ("gap", "killed_or_crashed", 0.0, 62.0, None)]


def test_a_commit_is_a_sign_of_life_too(
    story: Story, clocks: Any, gaps: Gaps, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.begin()
    writer = Writer(database)
    clocks.move(7)
    monkeypatch.setattr("time.time_ns", lambda: clocks.now.wall)
    monkeypatch.setattr("tracehold_collector.store.committer.now_ns", lambda: clocks.now.wall)
    writer.submit([make_record(1)]).result(10)
    writer.close()
    clocks.move(10)
    story.begin()
    assert gaps() == [FIRST, ("gap", "killed_or_crashed", 7.0, 17.0, None)]


def test_a_store_of_a_version_that_kept_no_story_says_so(story: Story, database: Database, gaps: Gaps) -> None:
    writer = Writer(database)
    writer.submit([make_record(1)]).result(10)
    writer.close()
    database.connection.execute("UPDATE events SET received_at = ?", [story.clocks.now.wall - 9 * 10**9])
    story.begin()
    assert gaps() == [("gap", "not_kept", -9.0, 0.0, None)]


def test_a_clock_that_was_set_back_while_nothing_ran_hides_no_gap(story: Story, clocks: Any, gaps: Gaps) -> None:
    life = story.begin()
    clocks.move(100)
    life.close()
    clocks.move(-1000, 5)
    story.begin()
    assert sorted(gaps(), key=str) == sorted(
        [FIRST, ("clock", "clock_backward", -900.0, 100.0, None), ("gap", "stopped", -900.0, -900.0, None)], key=str
    )
    clocks.move(1)
    story.begin()  # the latest start counts, whatever its clock said
    assert ("gap", "killed_or_crashed", -900.0, -899.0, None) in gaps()


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        ({"wall_s": 3602, "steady_s": 2}, ("clock", "clock_forward", 2.0, 3602.0, None)),
        ({"wall_s": -3598, "steady_s": 2}, ("clock", "clock_backward", -3598.0, 2.0, None)),
        ({"wall_s": 3602, "steady_s": 2, "boot_s": 3602}, ("gap", "asleep", 0.0, 3602.0, None)),
        ({"wall_s": 60, "steady_s": 60}, ("gap", "frozen", 0.0, 60.0, None)),
        ({"wall_s": 5, "steady_s": 2}, None),
        ({"wall_s": -1, "steady_s": 2}, None),
        ({"wall_s": 12, "steady_s": 12}, None),
    ],
)
def test_jumps_sleep_and_standstill_are_told_and_small_corrections_are_not(
    story: Story, clocks: Any, gaps: Gaps, moved: dict[str, float], told: Any
) -> None:
    life = story.begin()
    clocks.move(**moved)
    life.look()
    clocks.move(2)
    life.look()
    assert [gap for gap in gaps() if gap != FIRST] == ([told] if told else [])


@given(wall=st.integers(-(10**18), 10**18), steady=st.integers(0, 10**15), asleep=st.integers(0, 10**15))
def test_whatever_the_clocks_do_a_stretch_begins_before_it_ends(wall: int, steady: int, asleep: int) -> None:
    before = Reading(1_767_225_600 * 10**9, 5, 5)
    after = Reading(before.wall + wall, before.steady + steady, before.awake_or_asleep + steady + asleep)
    found = list(between(before, after, 2 * 10**9))
    for event in found:
        assert event.started_at is not None
        assert event.ended_at is not None
        assert event.started_at < event.ended_at
    assert (abs(wall - steady - asleep) > JUMP_NS) == any(event.type == "clock" for event in found)


def full() -> StoreError:
    error = StoreError("the store could not commit this request")
    error.__cause__ = duckdb.IOException("IO Error: Could not write file x: No space left on device")
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [(QueueFullError(1), "queue_full"), (full(), "disk_full"), (StoreError("away"), "store_failed")],
)
def test_senders_that_are_sent_away_are_one_pause_until_something_is_committed(
    story: Story, clocks: Any, gaps: Gaps, error: Exception, cause: str
) -> None:
    life = story.begin()
    clocks.move(10)
    for _ in range(3):
        life.refused(error)
        clocks.move(2)
        life.look()
    story.commits += 1
    clocks.move(2)
    life.look()  # at 18: committed again; the last was sent away at 14, and 30 seconds nobody must be
    for _ in range(13):
        assert gaps() == [FIRST]
        clocks.move(2)
        life.look()
    assert gaps() == [FIRST, ("pause", cause, 10.0, 18.0, 3)]


def test_a_queue_that_fills_again_and_again_is_one_pause(story: Story, clocks: Any, gaps: Gaps) -> None:
    life = story.begin()
    for _ in range(50):
        story.commits += 1
        life.refused(QueueFullError(1))
        clocks.move(10)
        life.look()
    life.close()
    assert gaps() == [FIRST, ("pause", "queue_full", 0.0, 500.0, 50)]


def test_what_is_the_senders_own_affair_is_no_pause(story: Story, clocks: Any, gaps: Gaps) -> None:
    life = story.begin()
    for error in (BadBodyError("x"), ThrottledError("x", 1), RuntimeError("x")):
        life.refused(error)
    life.stopping = True
    life.refused(StoreError("the collector is stopping"))
    clocks.move(5)
    life.close()
    assert gaps() == [FIRST]


def test_what_cannot_be_written_now_is_written_later(
    story: Story, clocks: Any, gaps: Gaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = story.begin()
    real = Database.cursor

    def broken(_self: Database) -> Any:
        raise duckdb.IOException("No space left on device")

    monkeypatch.setattr(Database, "cursor", broken)
    clocks.move(3602, 2)
    life.look()
    monkeypatch.setattr(Database, "cursor", real)
    clocks.move(2)
    life.look()
    assert gaps() == [FIRST, ("clock", "clock_forward", 2.0, 3602.0, None)]


def test_a_collector_without_a_heartbeat_file_starts_all_the_same(database: Database, tmp_path: Path) -> None:
    (tmp_path / HEARTBEAT_FILE).mkdir()
    life = Lifecycle(database, tmp_path, lambda: 0)
    life.start()
    life.close()
    assert database.connection.execute("SELECT list(type) FROM collector_events").fetchone() == (
        ["gap", "started", "stopped"],
    )
