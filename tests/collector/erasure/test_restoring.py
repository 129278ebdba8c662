"""A backup from before an erasure, put back: the erasure is applied before anything is served."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.erasing import ALICE, OTHER, OTHERS, Store, fill, opened
from support.records import make_record
from tracehold_collector.erasure.service import Rules
from tracehold_collector.store.committer import Receipt
from tracehold_collector.store.database import FILE_NAME

_KEYS = "keys.db"


def _back_up(folder: Path, name: str) -> None:
    shutil.copy(folder / name, folder / f"{name}.old")


def _put_back(folder: Path, name: str) -> None:
    for path in folder.glob(f"{name}*"):
        if path.suffix != ".old":
            path.unlink()
    shutil.copy(folder / f"{name}.old", folder / name)


def _erased(folder: Path, mode: str, back_up: str) -> str:
    """Fill a store, keep a copy of one of its files, erase Alice, put the copy back; return the erasure's id."""
    with opened(folder) as store:
        fill(store)
    _back_up(folder, back_up)
    with opened(folder) as store:
        record = store.erase(scope="subject", value="alice", mode=mode, basis="gdpr-17-1-a")
        store.erase(scope="event", value=f"{31:032x}", mode=mode)
    _put_back(folder, back_up)
    return str(record.id)


@pytest.mark.parametrize("mode", ["scrub", "delete"])
def test_a_database_from_before_an_erasure_has_it_applied(tmp_path: Path, mode: str) -> None:
    erasure_id = _erased(tmp_path, mode, FILE_NAME)
    with opened(tmp_path) as store:
        # The keys are gone already; the rows are there again.
        assert set(store.said()).isdisjoint(ALICE)
        assert store.count("events", "source <> 'collector'") == 14
        assert store.erasures.apply_list() == 2
        record = store.erasures.engine.record(erasure_id)
        assert (record.status, record.mode, record.requester) == ("completed", mode, "dpo")
        assert record.events == 8
        assert store.count("events", "source <> 'collector'") == (5 if mode == "delete" else 14)
        assert store.count("erased_events") == 9
        late = make_record(99, "alice-1"), make_record(98, "both")
        assert store.add(*late) == Receipt(1, 0, erased=1)
        assert store.erasures.apply_list() == 0
    with opened(tmp_path) as store:
        assert store.erasures.apply_list() == 0


def test_what_the_backup_and_the_erasure_share_stays_readable_as_far_as_keys_go(tmp_path: Path) -> None:
    _erased(tmp_path, "delete", FILE_NAME)
    with opened(tmp_path) as store:
        store.erasures.apply_list()
        # Bob's own run reads as before. What was sealed again after the backup is lost with it: its old key is gone.
        assert set(store.said()) == {20, 21, 22}


def test_a_key_store_from_before_an_erasure_has_the_keys_destroyed_again(tmp_path: Path) -> None:
    _erased(tmp_path, "scrub", _KEYS)
    with opened(tmp_path) as store:
        keys = [row[0] for row in store.rows("SELECT key_id FROM erased_keys")]
        before = store.database.vault.keys.open(keys)
        assert before
        assert store.erasures.apply_list() == 2
        assert store.database.vault.keys.open(keys) == {}
        assert len(store.database.vault.keys.listed_erasures()) == 2
        assert store.erasures.apply_list() == 0


def test_an_approved_erasure_is_applied_to_a_backup_from_before_its_approval(tmp_path: Path) -> None:
    with opened(tmp_path, Rules(strict=True)) as store:
        fill(store)
        record = store.erase(scope="subject", value="alice", mode="delete")
    _back_up(tmp_path, FILE_NAME)
    with opened(tmp_path, Rules(strict=True)) as store:
        store.erasures.approve(record.id, OTHER)
        store.erasures.engine.finish(record.id)
    _put_back(tmp_path, FILE_NAME)
    with opened(tmp_path, Rules(strict=True)) as store:
        assert store.erasures.apply_list() == 1
        assert store.erasures.engine.record(record.id).status == "completed"
        assert _runs(store) == {"bob-1", "both"}


def test_a_crash_between_manifest_and_keys_is_ended_before_anything_is_served(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        record = store.erase(scope="run", value="no-such-run")
        record = store.erasures.request({"scope": "subject", "value": "alice"}, OTHER)
        store.erasures.engine.advance(store.erasures.engine.record(record.id))
        assert store.erasures.engine.record(record.id).started_at is not None
    with opened(tmp_path) as store:
        store.erasures.apply_list()
        assert set(store.said()) == OTHERS


def _runs(store: Store) -> set[str]:
    return {row[0] for row in store.rows("SELECT run_id FROM runs WHERE source <> 'collector'")}
