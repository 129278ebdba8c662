"""When a log is signed, and what is noticed at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.records import make_record
from tracehold.core.clock import now_ns
from tracehold_collector.audit.signing import Signer
from tracehold_collector.audit.tree_heads import open_tree_head
from tracehold_collector.core.errors import StoreError
from tracehold_collector.heads.copies import CopyPlace
from tracehold_collector.heads.keeper import HeadKeeper, HeadOptions
from tracehold_collector.store.collector_events import CollectorEvent, CollectorLog
from tracehold_collector.store.database import Database
from tracehold_collector.store.tree_heads import StoredHead, last_tree_heads, read_tree_heads
from tracehold_collector.store.writer import Writer, WriterOptions

LATER = HeadOptions(every_events=10, every_s=3600.0)
Keep = Callable[..., HeadKeeper]


class Place:
    """A second place that can be out of order."""

    name = "elsewhere"

    def __init__(self) -> None:
        self.has: list[StoredHead] = []
        self.broken = False

    def put(self, head: StoredHead) -> None:
        if self.broken:
            raise StoreError("nobody is there")
        self.has.append(head)


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    made = Writer(database, WriterOptions(quiet_s=30))
    yield made
    made.close()


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path, now_ns())


@pytest.fixture
def keep(database: Database, writer: Writer, signer: Signer) -> Keep:
    def made(*places: CopyPlace, options: HeadOptions = LATER) -> HeadKeeper:
        return HeadKeeper(database, lambda: [writer.log], signer, places, options)

    return made


def sizes(database: Database, tenant: str = "default") -> list[int]:
    return [head.size for head in read_tree_heads(database.connection, tenant)]


def put(writer: Writer, first: int, count: int = 1, **fields: object) -> None:
    writer.submit([make_record(n, **fields) for n in range(first, first + count)]).result(20)


def test_a_log_is_signed_after_so_many_events(database: Database, writer: Writer, keep: Keep) -> None:
    keeper = keep()
    put(writer, 0)
    keeper.look()  # the first head of a log does not wait
    put(writer, 1, 9)
    keeper.look()
    assert sizes(database) == [1]
    put(writer, 10)
    keeper.look()
    assert sizes(database) == [1, 11]


def test_a_log_is_signed_at_the_end_of_a_run_and_another_tenants_is_not(
    database: Database, writer: Writer, keep: Keep
) -> None:
    keeper = keep()
    put(writer, 0)
    put(writer, 1, tenant="beta")
    keeper.look()
    put(writer, 2, kind="run", type="run_end")
    put(writer, 3, tenant="beta")
    keeper.look()
    assert (sizes(database), sizes(database, "beta")) == ([1, 2], [1])


def test_a_log_is_signed_after_some_time_and_only_if_it_grew(database: Database, writer: Writer, keep: Keep) -> None:
    keeper = keep(options=HeadOptions(every_events=1000, every_s=0.0))
    put(writer, 0)
    for _ in range(3):
        keeper.look()
    put(writer, 1)
    keeper.look()
    assert sizes(database) == [1, 2]


def test_what_is_left_is_signed_at_the_end(database: Database, writer: Writer, keep: Keep) -> None:
    keeper = keep()
    put(writer, 0)
    keeper.look()
    put(writer, 1)
    keeper.close()
    keeper.close()
    assert sizes(database) == [1, 2]


def test_a_head_says_what_the_log_is(database: Database, writer: Writer, keep: Keep, signer: Signer) -> None:
    put(writer, 0, 5)
    keep().look()
    (head,) = read_tree_heads(database.connection, "default")
    opened = open_tree_head(head.note, signer.verifier_keys("default"), origin=signer.origin("default"))
    assert (opened.head.size, opened.head.root) == writer.log.head("default")
    assert opened.signed_at == head.signed_at // 10**9


def test_a_second_place_that_was_away_gets_the_newest_head_once_it_is_back(writer: Writer, keep: Keep) -> None:
    place = Place()
    place.broken = True
    keeper = keep(place, options=HeadOptions(every_events=1))
    put(writer, 0)
    keeper.look()
    put(writer, 1)
    keeper.look()
    assert list(keeper.copies["elsewhere"].waiting) == ["default"]
    place.broken = False
    keeper.close()
    assert [head.size for head in place.has] == [2]
    assert not keeper.copies["elsewhere"].waiting


def test_a_store_that_does_not_fit_its_last_tree_head_is_noticed_at_the_start(
    database: Database, writer: Writer, keep: Keep
) -> None:
    put(writer, 0, 3)
    keep().look()
    assert keep().altered == []
    database.connection.execute("UPDATE log_hashes SET hashes = unhex(repeat('00', 96))")
    assert keep().altered == ["default"]


def test_a_store_that_lost_its_end_is_noticed_at_the_start(database: Database, writer: Writer, keep: Keep) -> None:
    put(writer, 0, 3)
    put(writer, 3, 3)
    keep().look()
    database.connection.execute("DELETE FROM log_hashes WHERE first_index = 3")
    assert keep().altered == ["default"]


def test_the_last_head_is_the_largest(database: Database, writer: Writer, keep: Keep) -> None:
    keeper = keep(options=HeadOptions(every_events=1))
    for n in range(3):
        put(writer, n)
        keeper.look()
    assert last_tree_heads(database.connection)["default"].size == 3
    assert keeper.last("default") == last_tree_heads(database.connection)["default"]


def test_a_log_that_grew_while_no_collector_ran_is_noticed_at_the_start(
    database: Database, writer: Writer, keep: Keep
) -> None:
    own = CollectorLog(database)
    own.write([CollectorEvent("started", 1)])
    put(writer, 0, 3)
    keeper = keep()
    own.write([CollectorEvent("stopped", 2)])
    keeper.look(all_of_it=True)
    assert keep().altered == []
    put(writer, 3)
    assert keep().altered == ["default"]
    own.write([CollectorEvent("started", 3)])
    assert keep().altered == []  # after a crash what is not signed yet may be there
