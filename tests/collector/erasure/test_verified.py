"""After an erasure the log verifies as before, and says which leaves were erased, and which have expired."""

from __future__ import annotations

from typing import Any

import pytest
from support.erasing import ADMIN, Store, fill
from support.records import make_record
from tracehold.core.clock import now_ns
from tracehold_collector.audit.signing import Signer
from tracehold_collector.erasure import retention
from tracehold_collector.erasure.policies import Policy
from tracehold_collector.erasure.retention import Retention
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.verify.findings import Report
from tracehold_collector.verify.run import verify_log
from tracehold_collector.verify.stored import StoredLog


def _verified(store: Store) -> Report:
    signer = Signer(store.folder, now_ns())
    return verify_log(
        StoredLog(store.database), "default", origin=signer.origin("default"), keys=signer.verifier_keys("default")
    )


def _sign(store: Store) -> None:
    HeadKeeper(store.database, lambda: [store.writer.log], Signer(store.folder, now_ns()), []).look(all_of_it=True)


@pytest.mark.parametrize("mode", ["scrub", "delete"])
@pytest.mark.parametrize("scope", [("subject", "alice"), ("run", "both"), ("event", f"{31:032x}"), ("tenant", None)])
def test_erased_leaves_are_erased_and_all_others_verify(store: Store, mode: str, scope: tuple[str, Any]) -> None:
    fill(store)
    _sign(store)
    kind, value = scope
    record = store.erase(scope=kind, mode=mode, basis="gdpr-17-1-a", **({} if value is None else {"value": value}))
    _sign(store)
    report = _verified(store)
    assert report.findings == []
    assert report.counts["erased"] == record.events > 0
    assert report.counts["verified"] == 14 + 3 - record.events  # three acts of the erasure are leaves as well


@pytest.mark.parametrize("what", ["content", "all"])
def test_leaves_that_a_policy_took_have_expired(store: Store, monkeypatch: pytest.MonkeyPatch, what: Any) -> None:
    store.add(*(make_record(n, "old") for n in range(3)))
    _sign(store)
    # Time passes: when leaves were received stands in them, and no test can put that back.
    monkeypatch.setattr(retention, "now_ns", lambda: now_ns() + 400 * 86_400 * 1_000_000_000)
    (asked,) = Retention(store.database, store.erasures, [Policy(name="p", what=what, days=200)]).run(None)
    assert store.erasures.engine.finish(asked.id).events == 3
    assert store.said() == {}
    _sign(store)
    report = _verified(store)
    assert report.findings == []
    assert report.counts == {"expired": 3, "verified": 3}


def test_a_hold_and_a_refusal_leave_the_log_whole(store: Store) -> None:
    fill(store)
    store.erasures.place_hold({"scope": "tenant", "reason": "case"}, ADMIN)
    assert store.erase(scope="subject", value="alice").status == "refused"
    _sign(store)
    report = _verified(store)
    assert report.findings == []
    assert set(report.counts) == {"verified"}
