"""Evidence after true erasures: what was erased is told as erased, and everything else still verifies."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from support.erasing import ALICE, PSEUDONYMS, Store, fill, opened
from support.evidence import Outcome, World
from tracehold_collector.audit.signing import Signer


def world_of(store: Store) -> World:
    world = World(store.database, store.writer, Signer(store.folder, 1_780_000_000_000_000_000), [])
    world.sign()
    return world


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        ({"scope": "subject", "value": "alice"}, ALICE),
        ({"scope": "run", "value": "bob-1"}, {20, 21, 22}),
        ({"scope": "event", "value": str(uuid.UUID(int=31))}, {31}),
    ],
    ids=["subject", "run", "event"],
)
@pytest.mark.parametrize("mode", ["scrub", "delete"])
def test_evidence_tells_what_was_erased_and_proves_the_rest(
    tmp_path: Path, check: Callable[..., Outcome], mode: str, asked: dict[str, str], gone: set[int]
) -> None:
    with opened(tmp_path) as store:
        fill(store)
        record = store.erase(**asked, mode=mode, basis="gdpr-17-1-b")
        world = world_of(store)
        path = world.bundle(tmp_path / "b.zip", "events", with_content=True, complete=True)
        found = check(path, "--key", world.key())
        assert (found.code, found.said["fails"]) == (0, [])
        states = {finding["event_id"]: finding["state"] for finding in found.said["records"]}
        erased = {uuid.UUID(event).int for event, state in states.items() if state == "erased"}
        told = next(line for line in found.said["holds"] if line.startswith("what was said"))
        if mode == "delete":
            assert erased == gone
            assert found.why("erased") == {f"erased under {record.id}; its leaf stays in the log"}
            assert " 0 erased" in told
        else:
            assert erased == set()
            assert f" {len(gone)} erased" in told
        # What the collector itself did is in the log as well, and in the evidence of its run.
        own = world.bundle(tmp_path / "own.zip", "run", given={"run_id": f"erasure:{record.id}"})
        proven = check(own, "--key", world.key())
        assert proven.code == 0
        assert proven.counts["verified"] >= 2


def test_subject_of_whom_all_was_deleted_answers_with_nothing_and_that_verifies(
    tmp_path: Path, check: Callable[..., Outcome]
) -> None:
    with opened(tmp_path) as store:
        fill(store)
        store.erase(scope="subject", value="alice", mode="delete")
        world = world_of(store)
        path = world.bundle(tmp_path / "b.zip", "subject", given={"user_ref": PSEUDONYMS.user("alice")})
        found = check(path, "--key", world.key())
        assert (found.code, found.said["population"]) == (0, 0)
