"""Rows read back are the records that were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import START
from tracehold_collector.core.record import Record
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.traces import StoredTrace, _fair_share
from tracehold_collector.store.writer import Writer

Make = Callable[..., Record]
TRACE = "1" * 32


def whole_of(trace: StoredTrace) -> list[Record]:
    return trace.records(range(trace.shown))


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    opened = Writer(database)
    yield opened
    opened.close()


def test_a_record_comes_back_as_it_was_written(database: Database, writer: Writer, record: Make) -> None:
    whole = record(
        1, trace_id=TRACE, seq=4, agent="a", user_ref="u_1", session_id="s_1", service="x", provider="p",
        cached_tokens=1, cache_write_tokens=2, reasoning_tokens=3, price_source="recorded", decision="denied",
        decided_by="gate", rule="r", error_type="E", attributes={"streamed": True}, content={"input": ["a", 1, None]},
    )  # fmt: skip
    bare = record(2, trace_id=TRACE, content=None, attributes=None, started_at=None)
    writer.submit([whole, bare]).result(10)
    (trace,) = Reader(database).traces([TRACE], Access(), max_events=10, with_content=True)
    assert whole_of(trace) == [whole, bare]
    assert (trace.events, trace.unread) == (2, 0)
    assert trace.received_at > START


def test_content_is_only_read_when_it_may_be(database: Database, writer: Writer, record: Make) -> None:
    said = record(1, trace_id=TRACE)
    writer.submit([said]).result(10)
    (trace,) = Reader(database).traces([TRACE], Access(), max_events=10, with_content=False)
    assert whole_of(trace) == [replace(said, content=None)]
    assert trace.unread == 0


def test_traces_and_records_of_other_tenants_are_not_there(database: Database, writer: Writer, record: Make) -> None:
    ours, theirs = record(1, trace_id=TRACE), record(2, trace_id=TRACE, tenant="theirs")
    writer.submit([ours, theirs]).result(10)
    reader = Reader(database)
    (trace,) = reader.traces([TRACE], Access(("default",)), max_events=10, with_content=True)
    assert whole_of(trace) == [ours]
    ids = ["00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"]
    found, whole = reader.records(ids, Access(("default",)), between_ns=(0, 2 * START))
    assert (found, whole) == ({ids[0]: ours}, True)
    assert len(reader.traces([TRACE], Access(), max_events=10, with_content=True)) == 2


def test_erased_content_is_absent_and_not_counted_as_unread(database: Database, writer: Writer, record: Make) -> None:
    writer.submit([record(1, trace_id=TRACE)]).result(10)
    with database.cursor() as cursor:
        cursor.execute("UPDATE contents SET body = NULL")
    (trace,) = Reader(database).traces([TRACE], Access(), max_events=10, with_content=True)
    assert (whole_of(trace)[0].content, trace.unread) == (None, 0)


def test_no_trace_is_no_answer(database: Database) -> None:
    assert Reader(database).traces([TRACE], Access(), max_events=10, with_content=True) == []
    assert Reader(database).traces([], Access(), max_events=10, with_content=True) == []


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(30, 5000))
def test_a_share_fills_the_room_and_never_more(sizes: list[int], room: int) -> None:
    most = _fair_share(sizes, room)
    used = sum(min(size, most) for size in sizes)
    assert used <= room
    if used < sum(sizes):
        assert sum(min(size, most + 1) for size in sizes) > room or most >= max(sizes)
