"""The writer's contract: refuse when full, acknowledge after the commit, keep every event once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.records import make_record
from tracehold_collector.core.errors import QueueFullError, StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.store import committer
from tracehold_collector.store.committer import Committer, Receipt
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.writer import Writer, WriterOptions

Make = Callable[..., Record]


@pytest.fixture
def writer(database: Database) -> Any:
    opened = Writer(database)
    yield opened
    opened.close()


class Gate:
    """Holds the writer between two commits until it is let go, so that submissions pile up."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self, _records: Any) -> None:
        self.entered.set()
        self.leave.wait(10)


def count(database: Database, table: str = "events") -> int:
    with database.cursor() as cursor:
        row = cursor.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a name of ours
    assert row is not None
    return int(row[0])


def test_a_receipt_says_what_is_new(writer: Writer, database: Database, record: Make) -> None:
    assert writer.submit([record(1), record(2)]).result(10) == Receipt(accepted=2, duplicates=0)
    assert count(database) == 2


def test_a_resend_adds_nothing_and_succeeds(writer: Writer, database: Database, record: Make) -> None:  # FR-25
    batch = [record(n) for n in range(100)]
    writer.submit(batch).result(10)
    assert writer.submit(batch).result(10) == Receipt(accepted=0, duplicates=100)
    assert count(database) == 100


def test_an_id_twice_in_one_submission_is_kept_once(writer: Writer, database: Database, record: Make) -> None:
    assert writer.submit([record(1), record(1, name="other")]).result(10) == Receipt(accepted=1, duplicates=1)
    with database.cursor() as cursor:
        assert cursor.execute("SELECT name FROM events").fetchall() == [("chat m1",)]


@pytest.mark.parametrize("again", ["in one request", "at once", "after a restart"])
@pytest.mark.parametrize(
    ("change", "conflicts"),
    [
        ({}, 0),
        ({"cost_usd": 9.0, "price_source": "another list"}, 0),
        ({"source": "file", "name": "other"}, 0),
        ({"name": "other"}, 1),
        ({"duration_ns": 5}, 1),
        ({"model": None}, 1),
    ],
)
def test_another_event_under_a_known_id_is_told_from_a_resend_and_the_first_is_kept(
    tmp_path: Path, record: Make, again: str, change: dict[str, Any], conflicts: int
) -> None:
    database = Database(tmp_path / FILE_NAME)
    writer = Writer(database)
    if again == "in one request":
        writer.submit([record(1), record(1, **change)]).result(10)
    else:
        writer.submit([record(1)]).result(10)
        if again == "after a restart":
            writer.close()
            database.close()
            database = Database(tmp_path / FILE_NAME)
            writer = Writer(database)
        assert writer.submit([record(1, **change)]).result(10) == Receipt(0, 1)
    assert (writer.stats.duplicates, writer.stats.conflicts) == (1, conflicts)
    writer.close()
    assert database.connection.execute("SELECT name, duration_ns, model FROM events").fetchall() == [
        (record(1).name, record(1).duration_ns, record(1).model)
    ]
    database.close()


def test_a_resend_is_recognised_a_day_later(writer: Writer, record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # FR-25
    batch = [record(n) for n in range(50)]
    writer.submit(batch).result(10)
    real = committer.now_ns
    monkeypatch.setattr(committer, "now_ns", lambda: real() + 86_400 * 10**9)
    writer.submit([record(n) for n in range(50, 3_000)]).result(30)
    assert writer.submit(batch).result(10) == Receipt(accepted=0, duplicates=50)


def test_a_resend_is_recognised_after_a_restart(tmp_path: Path, record: Make) -> None:  # FR-25
    for expected in (Receipt(1, 0), Receipt(0, 1)):
        database = Database(tmp_path / FILE_NAME)
        writer = Writer(database)
        assert writer.submit([record(1)]).result(10) == expected
        writer.close()
        database.close()


def test_every_field_of_a_record_comes_back(writer: Writer, database: Database, record: Make) -> None:
    given = record(
        7,
        trace_id="a" * 32,
        seq=3,
        agent="a",
        user_ref="u_1",
        session_id="s_1",
        service="s",
        provider="p",
        cached_tokens=1,
        cache_write_tokens=2,
        reasoning_tokens=3,
        price_source="recorded",
        decision="denied",
        decided_by="gate",
        rule="r",
        error_type="E",
        attributes={"finish_reason": "stop"},
        content={"input": "héllo \x00", "deep": [{"a": None}]},
    )
    writer.submit([given]).result(10)
    found = Reader(database).event(given.event_id.hex(), Access())
    assert found is not None
    envelope, content = found
    assert content == given.content
    for field in (
        "tenant",
        "run_id",
        "trace_id",
        "span_id",
        "parent_span_id",
        "seq",
        "kind",
        "type",
        "name",
        "status",
        "started_at",
        "duration_ns",
        "agent",
        "user_ref",
        "session_id",
        "service",
        "model",
        "provider",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "cost_usd",
        "price_source",
        "decision",
        "decided_by",
        "rule",
        "error_type",
        "source",
    ):
        assert envelope[field] == getattr(given, field), field
    assert envelope["event_id"].bytes == given.event_id
    assert envelope["received_at"] > 0


def test_content_of_several_runs_comes_back_to_its_own_event(writer: Writer, database: Database, record: Make) -> None:
    batch = [record(n, run=f"run-{n % 7}") for n in range(200)]
    writer.submit(batch).result(10)
    found = Reader(database).contents([item.event_id.hex() for item in batch], Access())
    assert [found[item.event_id.hex()] for item in batch] == [item.content for item in batch]
    assert count(database, "contents") == 7


def test_an_event_without_content_is_complete_in_itself(writer: Writer, database: Database, record: Make) -> None:
    writer.submit([record(1, content=None)]).result(10)
    found = Reader(database).event(record(1).event_id.hex(), Access())
    assert found is not None
    assert found[1] is None
    assert count(database, "contents") == 0


def test_another_tenants_event_and_content_are_not_seen(writer: Writer, database: Database, record: Make) -> None:
    writer.submit([record(1, tenant="acme")]).result(10)
    event_id = record(1).event_id.hex()
    assert Reader(database).event(event_id, Access(tenants=("other",))) is None
    assert Reader(database).contents([event_id], Access(tenants=("other",))) == {event_id: None}


def test_a_full_queue_refuses_and_takes_nothing_in(database: Database, record: Make) -> None:
    gate = Gate()
    writer = Writer(database, WriterOptions(max_queued=10), on_commit=gate)
    first = writer.submit([record(1)])
    assert gate.entered.wait(10)
    waiting = writer.submit([record(n) for n in range(2, 12)])
    with pytest.raises(QueueFullError, match="write queue is full") as caught:
        writer.submit([record(99)])
    assert caught.value.retry_after_s >= 1
    gate.leave.set()
    assert first.result(10).accepted == 1
    assert waiting.result(10).accepted == 10
    writer.close()
    assert count(database) == 11


def test_closing_commits_what_waits(database: Database, record: Make) -> None:
    writer = Writer(database)
    futures = [writer.submit([record(n)]) for n in range(50)]
    writer.close()
    assert all(future.result(0).accepted == 1 for future in futures)
    assert count(database) == 50


def test_a_closed_writer_refuses(database: Database, record: Make) -> None:
    writer = Writer(database)
    writer.close()
    with pytest.raises(StoreError, match="closing"):
        writer.submit([record(1)])


def test_one_senders_unusable_rows_do_not_take_its_neighbours_down(database: Database, record: Make) -> None:
    gate = Gate()
    writer = Writer(database, on_commit=gate)
    writer.submit([record(0)])
    assert gate.entered.wait(10)
    good = writer.submit([record(1)])
    bad = writer.submit([record(2, seq="not a number"), record(4)])
    also_good = writer.submit([record(3)])
    gate.leave.set()
    assert good.result(10).accepted == 1
    assert also_good.result(10).accepted == 1
    assert bad.result(10) == Receipt(accepted=1, duplicates=0, refused=1)
    writer.close()
    assert count(database) == 4


def test_a_sender_that_went_away_harms_nobody(database: Database, record: Make) -> None:
    gate = Gate()
    writer = Writer(database, on_commit=gate)
    writer.submit([record(0)])
    assert gate.entered.wait(10)
    gone: Future[Receipt] = writer.submit([record(1)])
    stayed = writer.submit([record(2)])
    assert gone.cancel()
    gate.leave.set()
    assert stayed.result(10).accepted == 1
    writer.close()


def test_after_a_fatal_error_the_store_is_opened_again(
    database: Database, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(database)
    writer.submit([record(1)]).result(10)
    real = Committer.commit

    def broken(*_: Any) -> Any:
        raise duckdb.FatalException("database has been invalidated")

    monkeypatch.setattr(Committer, "commit", broken)
    with pytest.raises(StoreError, match="Send it again"):
        writer.submit([record(2)]).result(10)
    monkeypatch.setattr(Committer, "commit", real)
    assert writer.submit([record(2)]).result(10).accepted == 1
    assert writer.submit([record(1)]).result(10).duplicates == 1
    writer.close()


runs_of_records = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 3),
        st.sampled_from(["llm", "tool", "gate", "run", "agent"]),
        st.sampled_from(["ok", "error", "started", "blocked", "unset"]),
        st.sampled_from([None, 0.5]),
        st.booleans(),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(items=runs_of_records, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_the_run_row_does_not_depend_on_how_events_were_cut_into_requests(items: Any, cuts: list[int]) -> None:
    def stored(pieces: list[list[Record]], *, fold: bool) -> list[Any]:
        database = Database(None)
        writer = Writer(database)
        for piece in pieces:
            writer.submit(piece).result(10)
        writer.close()
        if fold:
            writer.fold()
        rows = database.connection.execute("SELECT * EXCLUDE (received_at) FROM runs ORDER BY ALL").fetchall()
        database.close()
        return rows

    records = [
        make_record(
            place,
            run=f"run-{run}",
            started_at=1_000_000 * (time + 1),
            kind=kind,
            status=status,
            cost_usd=cost,
            parent_span_id=None if root else "f" * 16,
            name=f"n{place}",
            agent=f"a{place}",
        )
        for place, (time, run, kind, status, cost, root) in enumerate(items)
    ]
    times = [record.started_at for record in records]
    if len(set(times)) != len(times):
        for place, record in enumerate(records):
            record.started_at = (record.started_at or 0) + place * 1000
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    pieces = [records[a:b] for a, b in itertools.pairwise(edges)]
    whole = stored([records] if records else [], fold=False)
    assert stored(pieces, fold=False) == whole
    assert stored(pieces, fold=True) == whole


def test_a_store_that_could_not_be_opened_again_at_first_is_opened_later(
    database: Database, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(database)
    writer.submit([record(1)]).result(10)
    real = Database._open

    def fail(_self: Database) -> Any:
        raise StoreError("the disk is away")

    monkeypatch.setattr(Database, "_open", fail)
    with pytest.raises(StoreError, match="the disk is away"):
        database.reopen()
    with pytest.raises(StoreError, match="Send it again"):
        writer.submit([record(2)]).result(10)
    monkeypatch.setattr(Database, "_open", real)
    with pytest.raises(StoreError, match="Send it again"):
        writer.submit([record(2)]).result(10)
    assert writer.submit([record(2)]).result(10).accepted == 1
    writer.close()


def test_rows_beyond_repair_are_a_fault_of_the_store(
    database: Database, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(database)

    def refuse(*_: Any) -> Any:
        raise duckdb.ConversionException("no such value")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", refuse)
        with pytest.raises(StoreError, match="Send it again"):
            writer.submit([record(n) for n in range(100)]).result(30)
    assert writer.submit([record(1)]).result(10).accepted == 1
    writer.close()


def test_what_a_listener_does_never_undoes_a_commit(database: Database, record: Make) -> None:
    def fail(_records: Any) -> None:
        raise RuntimeError("listener")

    writer = Writer(database, on_commit=fail)
    assert writer.submit([record(1)]).result(10).accepted == 1
    writer.close()
    assert count(database) == 1


def test_without_any_silence_run_deltas_are_folded_all_the_same(database: Database, record: Make) -> None:
    writer = Writer(database, WriterOptions(busy_rest_s=0.0, fold_after=1))
    for n in range(5):
        writer.submit([record(n)]).result(10)
    writer.close()
    assert count(database, "run_deltas") == 1


def test_a_run_without_times_has_its_name_and_how_it_ended(database: Database, record: Callable[..., Record]) -> None:
    writer = Writer(database)
    timeless = {"started_at": None, "duration_ns": None}
    run = {"kind": "run", "parent_span_id": None, "name": "SWE-agent", "status": "error", **timeless}
    writer.submit([record(0, **timeless), record(1, **run)]).result(30)
    writer.submit([record(2, run="run-2", **(run | {"started_at": 5})), record(3, run="run-2", **run)]).result(30)
    with database.cursor() as cursor:
        rows = cursor.execute("SELECT name, status, started_at FROM runs ORDER BY run_id").fetchall()
    writer.close()
    assert rows == [("SWE-agent", "error", None), ("SWE-agent", "error", 5)]
