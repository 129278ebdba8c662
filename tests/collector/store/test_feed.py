"""The store read as a queue: in the order of commits, in pages, each event once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import structlog.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracehold_collector.core.record import Record
from tracehold_collector.store.database import Database
from tracehold_collector.store.feed import Position, count_beyond, last_position, read_beyond
from tracehold_collector.store.writer import Writer

Commit = Callable[[Sequence[Record]], None]


@pytest.fixture
def commit(database: Database) -> Iterator[Commit]:
    writer = Writer(database)
    yield lambda records: writer.submit(records).result(20) and None
    writer.close()


def page(database: Database, position: Position, **bounds: Any) -> list[tuple[Position, Record]]:
    with database.cursor() as cursor:
        return list(
            read_beyond(cursor, database.vault, position, **({"max_records": 1000, "max_packed": 1 << 20} | bounds))
        )


def pages(database: Database, position: Position, **bounds: Any) -> Iterator[list[tuple[Position, Record]]]:
    while found := page(database, position, **bounds):
        yield found
        position = found[-1][0]


def waiting(database: Database, position: Position) -> int:
    with database.cursor() as cursor:
        return count_beyond(cursor, position)[0]


def last(database: Database) -> Position:
    with database.cursor() as cursor:
        return last_position(cursor)


def test_an_empty_store_has_nothing(database: Database) -> None:
    assert page(database, last(database)) == []
    assert waiting(database, last(database)) == 0


def test_records_come_back_as_they_were_committed(
    database: Database, commit: Commit, record: Callable[..., Record]
) -> None:
    given_records = [record(1), record(2, content=None), record(3, run="run-2", attributes={"streamed": True})]
    commit(given_records)
    found = {got.event_id: got for _, got in page(database, Position(0))}
    assert found == {each.event_id: each for each in given_records}


def test_what_is_committed_later_comes_later(database: Database, commit: Commit, record: Callable[..., Record]) -> None:
    for number in (9, 3, 7):
        commit([record(number)])
    numbers = [got.content["n"] for _, got in page(database, Position(0)) if got.content]
    assert numbers == [9, 3, 7]


def test_the_last_position_is_after_all_and_before_what_comes(
    database: Database, commit: Commit, record: Callable[..., Record]
) -> None:
    commit([record(1), record(2)])
    now = last(database)
    commit([record(3)])
    assert [got.content for _, got in page(database, now)] == [{"n": 3}]


def test_the_oldest_that_waits_is_told(database: Database, commit: Commit, record: Callable[..., Record]) -> None:
    commit([record(1)])
    first = last(database).received_at
    commit([record(2)])
    with database.cursor() as cursor:
        assert count_beyond(cursor, Position(0)) == (2, first)
        assert count_beyond(cursor, last_position(cursor)) == (0, None)


def test_tenants_may_have_one_id_in_one_commit(
    database: Database, commit: Commit, record: Callable[..., Record]
) -> None:
    commit([record(1, tenant=tenant, content=None) for tenant in ("b", "a", "c")])
    found = [got.tenant for part in pages(database, Position(0), max_records=1) for _, got in part]
    assert found == ["a", "b", "c"]


def test_contents_end_a_page_at_their_bound(database: Database, commit: Commit, record: Callable[..., Record]) -> None:
    for number in range(5):
        commit([record(number)])
    sizes = [len(part) for part in pages(database, Position(0), max_packed=1)]
    assert sizes == [1] * 5  # the first is read however large it is


def test_an_erased_content_is_none_and_its_neighbours_are_not(
    database: Database, commit: Commit, record: Callable[..., Record]
) -> None:
    commit([record(1), record(2, run="run-2")])
    with database.cursor() as cursor:
        cursor.execute("UPDATE contents SET body = NULL WHERE run_id = 'run-1'")
    found = {got.run_id: got.content for _, got in page(database, Position(0), max_packed=1)}
    assert found == {"run-1": None, "run-2": {"n": 2}}


def test_a_damaged_content_is_said_and_holds_nobody_up(
    database: Database, commit: Commit, record: Callable[..., Record]
) -> None:
    commit([record(1), record(2, run="run-2")])
    with database.cursor() as cursor:
        cursor.execute("UPDATE contents SET body = 'broken'::BLOB WHERE run_id = 'run-1'")
    with structlog.testing.capture_logs() as logs:
        found = {got.run_id: got.content for _, got in page(database, Position(0))}
    assert found == {"run-1": None, "run-2": {"n": 2}}
    assert [log["event"] for log in logs] == ["content_unreadable"]


EVENTS = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["r1", "r2"]), st.booleans())

COMMITS = st.lists(st.lists(EVENTS, min_size=1, max_size=6), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    commits=st.lists(st.lists(EVENTS, min_size=1, max_size=6), max_size=5), size=st.integers(1, 4), cut=st.booleans()
)
def test_pages_of_any_size_give_each_event_once_and_count_what_is_left(
    database: Database, commit: Commit, record: Callable[..., Record], commits: Any, size: int, cut: bool
) -> None:
    start = last(database)
    expected: list[set[tuple[str, str, bytes]]] = []
    for events in commits:
        with database.cursor() as cursor:
            row = cursor.execute("SELECT count(*) FROM events").fetchone()
        first = row[0] if row else 0
        records = [
            record(first + place, tenant=tenant, run=run, content={"n": place} if said else None)
            for place, (tenant, run, said) in enumerate(events)
        ]
        commit(records)
        expected.append({(each.tenant, each.run_id, each.event_id) for each in records})
    left = sum(map(len, expected))
    found: list[tuple[str, str, bytes]] = []
    for part in pages(database, start, max_records=size, max_packed=1 if cut else 1 << 20):
        assert len(part) <= size
        found += [(got.tenant, got.run_id, got.event_id) for _, got in part]
        assert waiting(database, part[-1][0]) == left - len(found)
    for events_of_commit in expected:
        head, found = found[: len(events_of_commit)], found[len(events_of_commit) :]
        assert set(head) == events_of_commit
    assert found == []
