"""The key store's file: what lies in it, what does not any more, and what survives a crash."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from support.erasing import opened
from support.records import make_record
from tracehold_collector.core.errors import StoreError, StoreTooNewError
from tracehold_collector.sealing import keys_file, wrapper
from tracehold_collector.sealing.keystore import ListedErasure
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore

_FILE = keys_file.FILE_NAME


def _bytes(folder: Path) -> bytes:
    """All that lies in the key store's file and those beside it."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(f"{_FILE}*")))


def _wrapped(folder: Path) -> dict[bytes, bytes]:
    with closing(sqlite3.connect(folder / _FILE)) as connection:
        return dict(connection.execute("SELECT id, wrapped FROM keys"))


def test_nothing_of_a_destroyed_key_is_left_in_the_files(tmp_path: Path) -> None:
    # DuckDB and SQLite keep what was deleted (docs/decisions/0034): overwriting has to be shown, byte by byte.
    store = SqliteKeyStore.open_in(tmp_path, may_create=True)
    keys = [key for tenant in ("acme", "globex", "initech") for key in store.take_many(tenant, 700)]
    random.Random(6).shuffle(keys)
    wrapped = _wrapped(tmp_path)
    before = _bytes(tmp_path)
    assert all(wrapped[key.id.bytes] in before for key in keys)
    gone, stay = keys[:900], keys[900:]
    for start in range(0, len(gone), 123):
        lot = [key.id for key in gone[start : start + 123]]
        assert store.destroy(lot, erasure_id=f"e{start}", at_ns=start) == len(lot)
        store.take_many("acme", 40)  # the file goes on being written
    after = _bytes(tmp_path)
    assert [key for key in gone if wrapped[key.id.bytes] in after] == []
    assert [key for key in gone if wrapped[key.id.bytes][12:44] in after] == []
    assert all(wrapped[key.id.bytes] in after for key in stay)
    assert store.open(key.id for key in keys) == {key.id: key.key for key in stay}
    store.close()
    assert all(wrapped[key.id.bytes] not in _bytes(tmp_path) for key in gone)


def test_no_key_lies_open_in_the_files(tmp_path: Path) -> None:
    store = SqliteKeyStore.open_in(tmp_path, may_create=True)
    keys = store.take_many("acme", 10)
    master = bytes.fromhex((tmp_path / wrapper.MASTER_KEY_FILE).read_text())
    written = _bytes(tmp_path)
    assert not any(key.key in written for key in keys)
    assert master not in written
    store.close()


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    store = SqliteKeyStore.open_in(tmp_path / "data", may_create=True)
    store.take("acme")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
    assert modes == dict.fromkeys([_FILE, f"{_FILE}-wal", f"{_FILE}-shm", wrapper.MASTER_KEY_FILE], 0o600)
    store.close()


def test_keys_and_list_are_there_after_a_restart(tmp_path: Path) -> None:
    with closing(SqliteKeyStore.open_in(tmp_path, may_create=True)) as store:
        key, gone = store.take_many("acme", 2)
        store.destroy([gone.id], erasure_id="e1", at_ns=1)
        store.list_erasure(ListedErasure("e1", "acme", "delete", 1, (b"r" * 16,)))
    with closing(SqliteKeyStore.open_in(tmp_path, may_create=False)) as again:
        assert again.open([key.id, gone.id]) == {key.id: key.key}
        assert [erasure.erasure_id for erasure in again.listed_erasures()] == ["e1"]
        assert again.take("acme").id not in {key.id, gone.id}


def test_a_pool_that_ran_low_is_filled_without_being_asked_again(tmp_path: Path) -> None:
    store = SqliteKeyStore.open_in(tmp_path, may_create=True)
    store.take("acme")
    store.close()  # ends after the lot that the pool was asked for
    first = len(_wrapped(tmp_path))
    store = SqliteKeyStore.open_in(tmp_path, may_create=False)
    store.take_many("acme", 50)
    store.take_many("acme", 40)  # more than half of the 64 that the first left
    store.close()
    assert len(_wrapped(tmp_path)) == first + 50 + 64 + 128


def test_a_lost_key_store_stops_the_start_and_says_why(tmp_path: Path) -> None:
    SqliteKeyStore.open_in(tmp_path, may_create=True).close()
    (tmp_path / _FILE).unlink()
    with pytest.raises(StoreError, match=r"keys\.db is missing.*Restore it from a backup"):
        SqliteKeyStore.open_in(tmp_path, may_create=False)
    assert not (tmp_path / _FILE).exists()


def test_a_lost_master_key_is_not_made_anew(tmp_path: Path) -> None:
    SqliteKeyStore.open_in(tmp_path, may_create=True).close()
    (tmp_path / wrapper.MASTER_KEY_FILE).unlink()
    with pytest.raises(StoreError, match="without it, no sealed content can be read"):
        SqliteKeyStore.open_in(tmp_path, may_create=True)
    assert not (tmp_path / wrapper.MASTER_KEY_FILE).exists()


def test_the_master_key_of_another_store_is_noticed_at_the_start(tmp_path: Path) -> None:
    with closing(SqliteKeyStore.open_in(tmp_path, may_create=True)) as store:
        store.take("acme")
    (tmp_path / wrapper.MASTER_KEY_FILE).write_text("00" * 32)
    with pytest.raises(StoreError, match="is not the key that the key store was made with"):
        SqliteKeyStore.open_in(tmp_path, may_create=False)


def test_wrapped_keys_that_changed_places_open_nothing(tmp_path: Path) -> None:
    store = SqliteKeyStore.open_in(tmp_path, may_create=True)
    one, other = store.take_many("acme", 2)
    wrapped = _wrapped(tmp_path)
    with closing(sqlite3.connect(tmp_path / _FILE)) as connection, connection:
        connection.execute("UPDATE keys SET wrapped = ? WHERE id = ?", (wrapped[other.id.bytes], one.id.bytes))
    with pytest.raises(StoreError, match="was altered"):
        store.open([one.id])
    store.close()


def test_the_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    SqliteKeyStore.open_in(tmp_path, may_create=True).close()
    with closing(sqlite3.connect(tmp_path / _FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNewError, match="newer Tracehold"):
        SqliteKeyStore.open_in(tmp_path, may_create=False)


def test_a_backup_holds_the_keys_of_its_time_and_is_registered(tmp_path: Path) -> None:
    store = SqliteKeyStore.open_in(tmp_path, may_create=True)
    key = store.take("acme")
    made = store.backup(tmp_path / "copy.db", made_at=1, expires_at=2)
    assert store.backups() == [made]
    store.destroy([key.id], erasure_id="e1", at_ns=3)
    store.close()
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    restored = tmp_path / "restored"
    restored.mkdir()
    (tmp_path / "copy.db").rename(restored / _FILE)
    (tmp_path / wrapper.MASTER_KEY_FILE).rename(restored / wrapper.MASTER_KEY_FILE)
    with closing(SqliteKeyStore.open_in(restored, may_create=False)) as again:
        # The report of an erasure has to state this until the backup is gone: it holds the key still.
        assert again.open([key.id]) == {key.id: key.key}


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    store = SqliteKeyStore.open_in(tmp_path, may_create=True)
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        store.backup(tmp_path / "copy.db", made_at=1, expires_at=2)
    assert store.backups() == []
    store.close()


_KILLED = """
import os, signal, sys, uuid
from pathlib import Path
from tracehold_collector.sealing import sqlite_keys
folder, step = Path(sys.argv[1]), sys.argv[2]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store = sqlite_keys.SqliteKeyStore.open_in(folder, may_create=False)
if step == "overwritten":
    store._connection.set_trace_callback(lambda sql: die() if sql.startswith("COMMIT") else None)
elif step == "committed":
    sqlite_keys.empty_write_ahead_file = die
elif step == "taken":
    print(store.take("acme").id, flush=True)
    die()
ids = [uuid.UUID(text) for text in sys.argv[3:]]
store.destroy(ids, erasure_id="e1", at_ns=7)
die()
"""


def _killed(folder: Path, step: str, *ids: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder), step, *ids],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout


@pytest.mark.parametrize("step", ["overwritten", "committed", "emptied"])
def test_a_kill_while_keys_are_destroyed_leaves_all_or_none_and_the_second_call_ends_it(
    tmp_path: Path, step: str
) -> None:
    with closing(SqliteKeyStore.open_in(tmp_path, may_create=True)) as store:
        keys = store.take_many("acme", 60)
        gone, stay = keys[:40], keys[40:]
    wrapped = _wrapped(tmp_path)
    _killed(tmp_path, step, *(str(key.id) for key in gone))
    with closing(SqliteKeyStore.open_in(tmp_path, may_create=False)) as store:
        assert len(store.open(key.id for key in gone)) == (40 if step == "overwritten" else 0)
        assert store.destroy([key.id for key in gone], erasure_id="e1", at_ns=8) == (40 if step == "overwritten" else 0)
        assert store.open(key.id for key in keys) == {key.id: key.key for key in stay}
        written = _bytes(tmp_path)
        assert not any(wrapped[key.id.bytes] in written for key in gone)


def test_a_key_that_was_handed_out_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    SqliteKeyStore.open_in(tmp_path, may_create=True).close()
    taken = uuid.UUID(_killed(tmp_path, "taken").strip())
    with closing(SqliteKeyStore.open_in(tmp_path, may_create=False)) as store:
        assert list(store.open([taken])) == [taken]


def test_a_filled_store_without_its_keys_does_not_open_and_says_what_to_do(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.add(make_record(1))
    (tmp_path / _FILE).unlink()
    with pytest.raises(StoreError, match=r"keys\.db is missing.*Restore it"), opened(tmp_path):
        pass
    assert not (tmp_path / _FILE).exists()
