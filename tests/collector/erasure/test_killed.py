"""A process that is killed while it erases: at every place where something became durable, and just before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.erasing import ALICE, OTHERS, Store, fill, opened
from support.records import make_record
from tracehold_collector.store.committer import Receipt

_KILLED = """
import os, signal, sys
from pathlib import Path
from support.erasing import ADMIN, Store
from tracehold_collector.sealing import sqlite_keys
from tracehold_collector.store import committer

when, number = sys.argv[2], int(sys.argv[3])
store = Store(Path(sys.argv[1]))
passed = 0

def pass_by(place):
    global passed
    if place == when:
        passed += 1
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

def around(function):
    def wrapped(*args, **kwargs):
        pass_by("before")
        result = function(*args, **kwargs)
        pass_by("after")
        return result
    return wrapped

enter = committer.Committer.transaction.__wrapped__
from contextlib import contextmanager

@contextmanager
def transaction(self):
    with contextmanager(enter)(self) as connection:
        yield connection
        pass_by("before")
    pass_by("after")

committer.Committer.transaction = transaction
committer.Committer.commit = around(committer.Committer.commit)
sqlite_keys.SqliteKeyStore.destroy = around(sqlite_keys.SqliteKeyStore.destroy)
sqlite_keys.SqliteKeyStore.list_erasure = around(sqlite_keys.SqliteKeyStore.list_erasure)
record = store.erasures.request(dict(scope="subject", value="alice", mode=sys.argv[4]), ADMIN)
store.erasures.engine.finish(record.id)
print(passed)
"""


def _erase(folder: Path, when: str, number: int, mode: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder), when, str(number), mode],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("mode", ["scrub", "delete"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 12))
def test_a_kill_at_any_step_loses_nothing_and_the_next_start_ends_it(
    tmp_path: Path, when: str, number: int, mode: str
) -> None:
    with opened(tmp_path) as store:
        fill(store)
    done = _erase(tmp_path, when, number, mode)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with opened(tmp_path) as store:
        records = store.erasures.records(None)
        if not records:  # killed before the request was durable: the one who asked was not told otherwise
            assert set(store.said()) == ALICE | OTHERS
            return
        store.erasures.apply_list()
        assert set(store.said()) >= OTHERS
        (record,) = [store.erasures.engine.finish(record.id) for record in records]
        _assert_erased(store, mode)
        assert record.status == "completed"
        assert record.events == 8
        counts = {place.place: place for place in record.places}
        assert (counts["contents"].removed + counts["contents"].emptied, counts["contents"].resealed) == (3, 2)
        assert counts["run_deltas"].removed == (4 if mode == "delete" else 0)
        # Each act is told once, however often it was tried.
        types = store.rows("SELECT type FROM events WHERE run_id = ? ORDER BY leaf_index", record.run_id)
        assert [row[0].rpartition(".")[2] for row in types] == ["requested", "started", "completed"]


def _assert_erased(store: Store, mode: str) -> None:
    assert set(store.said()) == OTHERS
    assert store.count("events", "source <> 'collector'") == (6 if mode == "delete" else 14)
    keys = [row[0] for row in store.rows("SELECT key_id FROM erased_keys")]
    assert len(keys) == 3
    assert store.database.vault.keys.open(keys) == {}
    assert store.add(make_record(99, "alice-1")) == Receipt(0, 0, erased=1)


def test_the_places_to_be_killed_at_are_all_there_are(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
    done = _erase(tmp_path, "after", 0, "delete")
    assert (done.returncode, done.stdout.strip()) == (0, "11"), done.stderr
