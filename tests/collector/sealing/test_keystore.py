"""What every key store promises; the contract is the docstring of `sealing/keystore.py`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tracehold_collector.sealing.keystore import KeyState, KeyStore, ListedErasure
from tracehold_collector.sealing.memory_keys import MemoryKeyStore
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore


def _sqlite(folder: Path) -> KeyStore:
    return SqliteKeyStore.open_in(folder, may_create=True)


def _memory(_folder: Path) -> KeyStore:
    return MemoryKeyStore()


@pytest.fixture(params=[_sqlite, _memory], ids=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyStore]:
    make: Callable[[Path], KeyStore] = request.param
    opened = make(tmp_path)
    yield opened
    opened.close()


def test_a_key_is_returned_once_and_can_be_opened(store: KeyStore) -> None:
    keys = [store.take("acme"), *store.take_many("acme", 300), *store.take_many("globex", 3)]
    assert len({key.id for key in keys}) == len({key.key for key in keys}) == 304
    assert {len(key.key) for key in keys} == {32}
    assert store.open(key.id for key in keys) == {key.id: key.key for key in keys}


def test_threads_that_take_at_once_share_no_key(store: KeyStore) -> None:
    start = threading.Barrier(4)

    def take() -> list[uuid.UUID]:
        start.wait()
        return [store.take("acme").id for _ in range(200)]

    with ThreadPoolExecutor(4) as threads:
        taken = [key_id for future in [threads.submit(take) for _ in range(4)] for key_id in future.result()]
    assert len(set(taken)) == len(taken) == 800


def test_a_destroyed_key_is_gone_and_says_for_which_erasure(store: KeyStore) -> None:
    gone, stays = store.take_many("acme", 2)
    assert store.destroy([gone.id], erasure_id="e1", at_ns=7) == 1
    assert store.open([gone.id, stays.id]) == {stays.id: stays.key}
    states = store.state([gone.id, stays.id])
    assert states[gone.id] == KeyState(states[gone.id].made_at, 7, "e1")
    assert states[stays.id].destroyed_at is None


def test_destroying_twice_counts_once_and_keeps_what_was_said_first(store: KeyStore) -> None:
    key = store.take("acme")
    assert store.destroy([key.id, key.id], erasure_id="e1", at_ns=7) == 1
    assert store.destroy([key.id], erasure_id="e2", at_ns=8) == 0
    assert store.state([key.id])[key.id].erasure_id == "e1"


def test_an_unknown_id_is_left_out(store: KeyStore) -> None:
    # FR-47: an erasure of something that is not there must not report success.
    unknown = uuid.uuid4()
    assert store.destroy([unknown], erasure_id="e1", at_ns=7) == 0
    assert store.open([unknown]) == {}
    assert store.state([unknown]) == {}


def test_an_erasure_is_listed_once_and_left_as_it_stands(store: KeyStore) -> None:
    first = ListedErasure("e1", "acme", "delete", 5, runs=(b"r" * 16, b"s" * 16), events=(b"e" * 16,))
    store.list_erasure(first)
    store.list_erasure(ListedErasure("e1", "acme", "scrub", 6))
    second = ListedErasure("e2", "acme", "scrub", 7)
    store.list_erasure(second)
    assert store.listed_erasures() == [first, second]
    assert store.listed_erasures(known={"e1"}) == [second]


def test_closing_twice_is_once(store: KeyStore) -> None:
    store.close()
    store.close()
