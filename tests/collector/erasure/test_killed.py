"""A process that is killed while it erases: at every place where something became durable, and just before."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from support.erasing import ALICE, OTHERS, Store, fill, opened
from support.erasing_killed import REWRITTEN, erase_and_die
from support.records import make_record
from tracehold_collector.store.committer import Receipt

_STEPS = 20


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that each test has a copy of: to make one takes longer than to erase from it."""
    folder = tmp_path_factory.mktemp("filled")
    with opened(folder) as store:
        fill(store)
    return folder


# Every third step in the fast profile; the long one kills at each.
@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n % 3 == 1 else pytest.mark.slow) for n in range(1, _STEPS + 1)]
)
@pytest.mark.parametrize(
    ("when", "mode"),
    [
        ("after", "delete"),
        pytest.param("before", "delete", marks=pytest.mark.slow),
        pytest.param("after", "scrub", marks=pytest.mark.slow),
    ],
)
def test_a_kill_at_any_step_loses_nothing_and_the_next_start_ends_it(
    filled: Path, tmp_path: Path, when: str, number: int, mode: str
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    if erase_and_die(tmp_path, when, number, mode) != -signal.SIGKILL:
        assert mode == "scrub"  # which has fewer steps
    with opened(tmp_path, parts=REWRITTEN) as store:
        records = store.erasures.records(None)
        if not records:  # killed before the request was durable: the one who asked was not told otherwise
            assert set(store.said()) == ALICE | OTHERS
            return
        store.erasures.apply_list()
        assert set(store.said()) >= OTHERS
        (record,) = [store.erasures.engine.finish(record.id) for record in records]
        _assert_erased(store, mode)
        assert record.status == "bytes gone"
        assert record.canaries is not None
        assert record.events == 8
        counts = {place.place: place for place in record.places}
        assert (counts["contents"].removed + counts["contents"].emptied, counts["contents"].resealed) == (3, 2)
        assert counts["run_deltas"].removed == (5 if mode == "delete" else 0)
        # Each act is told once, however often it was tried.
        types = store.rows("SELECT type FROM events WHERE run_id = ? ORDER BY leaf_index", record.run_id)
        assert [row[0].rpartition(".")[2] for row in types] == [
            "requested", "started", "completed", "bytes_gone", "scanned",
        ]  # fmt: skip


def _assert_erased(store: Store, mode: str) -> None:
    assert set(store.said()) == OTHERS
    assert store.count("events", "source <> 'collector'") == (6 if mode == "delete" else 14)
    keys = [row[0] for row in store.rows("SELECT key_id FROM erased_keys")]
    assert len(keys) == 3
    assert store.database.vault.keys.open(keys) == {}
    assert store.add(make_record(99, "alice-1")) == Receipt(0, 0, erased=1)


def test_the_places_to_be_killed_at_are_all_there_are(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    assert erase_and_die(tmp_path, "after", 0, "delete") == _STEPS
