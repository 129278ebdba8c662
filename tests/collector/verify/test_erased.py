"""What verifying says after an erasure: the log is intact, and the leaves of what went are erased."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.erasing import Store, fill, opened
from tracehold.core.clock import now_ns
from tracehold_collector.audit.signing import Signer
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.verify.findings import Report
from tracehold_collector.verify.run import verify_log
from tracehold_collector.verify.stored import StoredLog


def verified(store: Store) -> Report:
    signer = Signer(store.folder, now_ns())
    HeadKeeper(store.database, lambda: [store.writer.log], signer, []).look(all_of_it=True)
    return verify_log(
        StoredLog(store.database),
        "default",
        origin=signer.origin("default"),
        keys=signer.verifier_keys("default"),
    )


@pytest.mark.parametrize("mode", ["scrub", "delete"])
def test_after_an_erasure_the_log_is_intact_and_says_which_leaves_were_erased(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path) as store:
        fill(store)
        before = verified(store)
        assert (before.findings, set(before.counts)) == ([], {"verified"})
        record = store.erase(scope="subject", value="alice", mode=mode)
        after = verified(store)
        assert after.findings == []
        said = 8 if mode == "delete" else after.counts["erased"]
        assert after.counts["erased"] == said > 0
        assert sum(after.counts.values()) == before.counts["verified"] + 3  # the erasure's own acts
        assert after.covered == after.end
        assert record.leaves == 8


def test_a_leaf_that_two_erasures_took_is_erased_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        store.erase(scope="subject", value="alice", mode="scrub")
        store.erase(scope="subject", value="alice", mode="delete")
        report = verified(store)
        assert report.findings == []
        assert report.counts["erased"] == 8


def test_a_row_that_was_slipped_into_the_manifest_of_an_erasure_is_an_alarm(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        record = store.erase(scope="subject", value="alice", mode="delete")
        connection = store.database.connection
        connection.execute(
            "INSERT INTO erased_events SELECT ?, tenant, event_id, leaf_index, received_at FROM events "
            "WHERE source <> 'collector' LIMIT 1",
            [record.id],
        )
        connection.execute("DELETE FROM events WHERE event_id IN (SELECT event_id FROM erased_events)")
        assert any("the log does not say" in finding.what for finding in verified(store).findings)


def test_an_erasure_that_somebody_only_claims_is_under_way_is_an_alarm(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        store.database.connection.execute(
            "INSERT INTO erasures VALUES ('e1', 'default', 'requested', 1, '{\"basis\": \"operator\"}')"
        )
        store.database.connection.execute(
            "INSERT INTO erased_events SELECT 'e1', tenant, event_id, leaf_index, received_at FROM events LIMIT 3"
        )
        store.database.connection.execute("DELETE FROM events WHERE leaf_index < 3")
        assert any("the log does not say" in finding.what for finding in verified(store).findings)
