"""Erasure beats late data: what was erased is not taken in again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tracehold_collector.core.errors import BadBodyError, StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.store.committer import Committer, Receipt
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.erased import plain_digest
from tracehold_collector.store.writer import Writer

Make = Callable[..., Record]


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    opened = Writer(database)
    yield opened
    opened.close()


def _erase(mode: str, *, events: tuple[int, ...] = (), runs: tuple[str, ...] = ()) -> Callable[[Committer], None]:
    ids = [uuid.UUID(int=number) for number in events]

    def erase(committer: Committer) -> None:
        digests = [committer.erased.run_digest("default", run) for run in runs]
        with committer.transaction() as connection:
            connection.execute(
                "INSERT INTO erasures VALUES ('e', 'default', 'requested', 1, ?)", [json.dumps({"mode": mode})]
            )
            for event_id in ids:
                connection.execute("INSERT INTO erased_events VALUES ('e', 'default', ?, NULL, 1)", [event_id])
                connection.execute("DELETE FROM events WHERE event_id = ?", [event_id])
            for digest in digests:
                connection.execute("INSERT INTO erased_runs VALUES ('e', 'default', ?, true, 1)", [digest])
        if mode == "delete":
            committer.erased.add_events(committer.connection, "SELECT event_id FROM erased_events")
        committer.erased.add_runs(digests)

    return erase


def test_a_deleted_event_is_refused_as_erased_also_after_a_restart(tmp_path: Path, record: Make) -> None:  # FR-47
    database = Database(tmp_path / FILE_NAME)
    writer = Writer(database)
    assert writer.submit([record(1), record(2)]).result(10) == Receipt(2, 0)
    writer.run(_erase("delete", events=(1,))).result(10)
    assert writer.submit([record(1), record(2), record(3)]).result(10) == Receipt(1, 1, erased=1)
    writer.close()
    database.close()
    database = Database(tmp_path / FILE_NAME)
    writer = Writer(database)
    assert writer.submit([record(1), record(2)]).result(10) == Receipt(0, 1, erased=1)
    assert writer.stats.erased == 1
    writer.close()
    database.close()


def test_another_tenants_event_of_the_same_id_is_taken_in(writer: Writer, record: Make) -> None:
    writer.submit([record(1)]).result(10)
    writer.run(_erase("delete", events=(1,), runs=("run-1",))).result(10)
    assert writer.submit([record(1, tenant="globex")]).result(10) == Receipt(1, 0)


def test_a_new_event_of_a_run_that_was_erased_whole_is_refused(writer: Writer, record: Make) -> None:  # FR-47
    writer.submit([record(1)]).result(10)
    writer.run(_erase("scrub", runs=("run-1",))).result(10)
    assert writer.submit([record(2), record(3, run="run-2")]).result(10) == Receipt(1, 0, erased=1)


def test_after_a_scrub_of_events_a_resend_is_a_duplicate_as_ever(writer: Writer, record: Make) -> None:
    writer.submit([record(1)]).result(10)
    writer.run(_erase("scrub")).result(10)
    assert writer.submit([record(1), record(2)]).result(10) == Receipt(1, 1)


def test_the_digest_of_a_run_is_another_at_another_tenant() -> None:
    assert plain_digest("acme", "r") != plain_digest("globex", "r")


def test_a_task_runs_on_the_writers_thread_and_its_error_is_told(writer: Writer) -> None:
    def broken(committer: Committer) -> None:
        with committer.transaction() as connection:
            connection.execute("INSERT INTO legal_holds VALUES ('h', 'acme', 'placed', 1, 'dpo', 'tenant', NULL, NULL)")
            raise ValueError

    def refused(_committer: Committer) -> None:
        raise BadBodyError("not like that")

    with pytest.raises(StoreError, match="try again"):
        writer.run(broken).result(10)
    with pytest.raises(BadBodyError, match="not like that"):
        writer.run(refused).result(10)
    held = writer.run(lambda committer: committer.connection.execute("SELECT count(*) FROM legal_holds").fetchall())
    assert held.result(10) == [(0,)]
