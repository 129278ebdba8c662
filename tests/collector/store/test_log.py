"""Every event is a leaf of its tenant's log, written with it or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.records import make_record
from tracehold_collector.audit.merkle import root_of
from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.keystore import DataKey
from tracehold_collector.sealing.memory_keys import MemoryKeyStore
from tracehold_collector.store.database import Database
from tracehold_collector.store.log import LogWriter, read_hashes, read_node
from tracehold_collector.store.writer import Writer, WriterOptions

COMMITS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400)), min_size=1, max_size=80), min_size=1, max_size=8
)


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    made = Writer(database, WriterOptions(quiet_s=30))
    yield made
    made.close()


def rows(database: Database, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return database.connection.execute(sql, list(values)).fetchall()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COMMITS)
def test_the_leaves_of_each_tenant_are_numbered_without_a_hole_and_the_trees_go_on_after_a_restart(
    commits: list[list[tuple[str, int]]],
) -> None:
    database = Database(None)
    writer = Writer(database, WriterOptions(quiet_s=30))
    for commit in commits:
        writer.submit([make_record(n, tenant=tenant, run=f"r{n % 3}") for tenant, n in commit]).result(20)
    kept = {tenant: writer.log.head(tenant) for tenant in writer.log.sizes}
    for tenant, (size, root) in kept.items():
        indexes = rows(database, "SELECT leaf_index FROM events WHERE tenant = ? ORDER BY leaf_index", tenant)
        assert indexes == [(n,) for n in range(size)]
        hashes = read_hashes(database.connection, tenant, 0, 0, size)
        assert root_of(hashes) == root
        if size >= 256:
            assert read_node(database.connection, tenant, 8, 0) == root_of(hashes[: 256 * 32])
    again = LogWriter(database.connection)
    assert {tenant: again.head(tenant) for tenant in again.sizes} == kept
    writer.close()
    database.close()


def test_a_log_goes_on_over_the_edges_of_its_tiles(database: Database, writer: Writer) -> None:
    for first in range(0, 1100, 100):
        writer.submit([make_record(n) for n in range(first, first + 100)]).result(20)
        reopened = LogWriter(database.connection)
        assert reopened.head("default") == writer.log.head("default")
    full = rows(database, "SELECT first_index, octet_length(hashes) FROM log_hashes WHERE level = 1 ORDER BY 1")
    assert sum(size for _, size in full) == 4 * 32


def test_an_event_that_comes_again_gets_no_second_leaf(database: Database, writer: Writer) -> None:
    writer.submit([make_record(1), make_record(2)]).result(20)
    writer.submit([make_record(2), make_record(3), make_record(3)]).result(20)
    assert rows(database, "SELECT leaf_index FROM events ORDER BY event_id") == [(0,), (1,), (2,)]
    assert writer.log.sizes == {"default": 3}


def test_a_commit_that_fails_leaves_no_leaf(
    database: Database, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.submit([make_record(1)]).result(20)
    before = writer.log.head("default")
    shares = writer._committer._shares

    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(shares, "settle", fail)
        with pytest.raises(Exception, match="Send it again"):
            writer.submit([make_record(2)]).result(20)
    assert writer.log.head("default") == before
    writer.submit([make_record(3)]).result(20)
    assert rows(database, "SELECT right(event_id::VARCHAR, 1), leaf_index FROM events ORDER BY 2") == [
        ("1", 0),
        ("3", 1),
    ]


def test_a_tree_head_is_due_when_a_run_ended(writer: Writer) -> None:
    writer.submit([make_record(1)]).result(20)
    assert writer.log.take_ended() == set()
    writer.submit([make_record(2, kind="run", type="run_end"), make_record(3, tenant="beta")]).result(20)
    assert writer.log.take_ended() == {"default"}
    assert writer.log.take_ended() == set()


def test_without_an_audit_log_events_have_no_leaf(database: Database) -> None:
    writer = Writer(database, WriterOptions(audit_log=False))
    writer.submit([make_record(1)]).result(20)
    writer.close()
    assert rows(database, "SELECT leaf_index FROM events") == [(None,)]
    assert rows(database, "SELECT count(*) FROM log_hashes") == [(0,)]


class NoKeys(MemoryKeyStore):
    """A key store that is out of order until it is mended."""

    mended = False

    def take(self, tenant: str) -> DataKey:
        if not self.mended:
            raise StoreError("keys.db cannot be written")
        return super().take(tenant)


def test_without_a_key_nothing_is_taken_in_and_nothing_is_refused_for_good() -> None:
    keys = NoKeys()
    database = Database(None, keys=lambda _may_create: keys)
    writer = Writer(database)
    for _ in range(2):
        with pytest.raises(StoreError, match="Send it again"):
            writer.submit([make_record(1), make_record(2)]).result(20)
    assert rows(database, "SELECT count(*) FROM events") == [(0,)]
    keys.mended = True
    assert writer.submit([make_record(1), make_record(2)]).result(20).accepted == 2
    writer.close()
    database.close()


def test_a_commit_is_later_than_one_whose_events_were_erased(database: Database) -> None:
    writer = Writer(database)
    writer.submit([make_record(1)]).result(20)
    writer.close()
    database.connection.execute("UPDATE log_hashes SET received_at = received_at + 3600000000000")
    database.connection.execute("DELETE FROM events")
    again = Writer(database)
    again.submit([make_record(2)]).result(20)
    again.close()
    ((later,),) = rows(database, "SELECT received_at > (SELECT min(received_at) FROM log_hashes) FROM events")
    assert later
