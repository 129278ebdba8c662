"""Retention policies: what they take, what they leave, and below what they may not go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.erasing import ADMIN, OTHER, PSEUDONYMS, Store
from support.records import make_record
from tracehold.core.clock import now_ns
from tracehold.core.errors import ConfigurationError
from tracehold_collector.erasure.policies import Policy, load_policies, policies_of
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.retention import Retention
from tracehold_collector.store.committer import Committer

_DAY_NS = 86_400 * 1_000_000_000


def _days_ago(days: float) -> int:
    return now_ns() - int(days * _DAY_NS)


def _aged(store: Store, number: int, run: str, days: float, **fields: Any) -> None:
    """Store an event that was, and came in, some days ago."""
    at = _days_ago(days)
    store.add(make_record(number, run, **({"started_at": at, "content": {"text": f"said {number}"}} | fields)))

    def put_back(committer: Committer) -> None:  # times of receipt are the collector's own
        for table in ("contents", "events"):
            committer.connection.execute(
                f"UPDATE {table} SET received_at = ? WHERE run_id = ?",  # noqa: S608 - a name of ours
                [at, run],
            )

    store.writer.run(put_back).result(10)


def _pass(store: Store, *policies: Policy) -> list[ErasureRecord]:
    retention = Retention(store.database, store.erasures, policies)
    return [store.erasures.engine.finish(record.id) for record in retention.run(None)]


def test_old_sessions_go_and_open_ones_and_pending_approvals_stay(store: Store) -> None:  # FR-49
    session = {name: PSEUDONYMS.session(name) for name in ("open", "old", "waiting")}
    _aged(store, 1, "open-1", 40, session_id=session["open"])
    _aged(store, 2, "open-2", 0.0007, session_id=session["open"])
    _aged(store, 3, "old-1", 41, session_id=session["old"])
    _aged(store, 4, "old-2", 40, session_id=session["old"])
    _aged(store, 5, "waiting-1", 40, session_id=session["waiting"])
    _aged(store, 6, "waiting-1", 40, session_id=session["waiting"], kind="approval", status="suspended")
    (record,) = _pass(store, Policy(name="thirty", what="all", days=30))
    assert (record.basis, record.requester, record.policy) == ("retention", "policy thirty", "thirty")
    assert (record.runs, record.whole_runs, record.events) == (2, 2, 2)
    runs = {row[0] for row in store.rows("SELECT run_id FROM runs WHERE source <> 'collector'")}
    assert runs == {"open-1", "open-2", "waiting-1"}  # never half a run
    sessions = {row[0] for row in store.rows("SELECT DISTINCT session_id FROM runs WHERE session_id IS NOT NULL")}
    assert sessions == {session["open"], session["waiting"]}  # a session without runs is gone
    # Once the approval is answered it has waited long enough.
    store.add(make_record(7, "waiting-1", kind="approval", status="ok", started_at=_days_ago(40)))
    assert _pass(store, Policy(name="thirty", what="all", days=30)) == []  # answered just now
    _aged(store, 8, "waiting-1", 40)
    assert [record.runs for record in _pass(store, Policy(name="thirty", what="all", days=30))] == [1]


def test_an_agent_cannot_get_rid_of_a_record_by_dating_it_back(store: Store) -> None:
    store.add(make_record(1, "run-1", started_at=_days_ago(4000)))
    assert _pass(store, Policy(name="p", what="all", days=30)) == []


def test_content_goes_first_and_the_whole_later_and_no_pass_takes_it_twice(store: Store) -> None:
    _aged(store, 1, "run-1", 40)
    _aged(store, 2, "run-2", 400)
    policies = (Policy(name="words", days=30), Policy(name="all", what="all", days=365))
    assert {(record.policy, record.events) for record in _pass(store, *policies)} == {("words", 2), ("all", 1)}
    assert store.said() == {}
    assert {row[0] for row in store.rows("SELECT run_id FROM runs WHERE source <> 'collector'")} == {"run-1"}
    assert _pass(store, *policies) == []


def test_a_policy_may_be_for_one_agent_or_some_kinds_only(store: Store) -> None:
    _aged(store, 1, "run-1", 40, agent="mail")
    _aged(store, 2, "run-1", 40, agent="mail", kind="gate", type="tool_denied")
    _aged(store, 3, "run-3", 40, agent="shop")
    _aged(store, 4, "run-4", 40)
    mail, rest = Policy(name="mail", agent="mail", days=30, kinds=("llm",)), Policy(name="rest", days=300)
    (record,) = _pass(store, mail, rest)
    assert (record.policy, record.agent, record.kinds, record.whole_runs) == ("mail", "mail", ("llm",), 0)
    assert set(store.said()) == {2, 3, 4}
    # The agent with a policy of its own is left to it.
    rest = Policy(name="x", days=30)
    assert [record.events for record in _pass(store, Policy(name="mail", agent="mail", days=3000), rest)] == [2]
    assert set(store.said()) == {2}


def test_a_legal_hold_beats_a_policy(store: Store) -> None:
    _aged(store, 1, "run-1", 400)
    hold = store.erasures.place_hold({"scope": "run", "value": "run-1", "reason": "case 1"}, ADMIN)
    assert _pass(store, Policy(name="p", what="all", days=30)) == []
    store.erasures.release_hold(hold.id, OTHER)
    assert [record.runs for record in _pass(store, Policy(name="p", what="all", days=30))] == [1]


def test_a_dry_run_says_how_much_and_changes_nothing(store: Store) -> None:
    _aged(store, 1, "run-1", 40)
    retention = Retention(store.database, store.erasures, [Policy(name="p", days=30)])
    (due,) = retention.preview(None)
    assert (due.policy.name, due.preview.events, due.preview.runs) == ("p", 1, 1)
    assert retention.preview(("globex",)) == []
    assert set(store.said()) == {1}
    assert store.count("erasures") == 0


def test_a_tenants_own_policy_takes_the_place_of_the_common_one() -> None:
    own = Policy(name="own", tenant="acme", days=10)
    common = Policy(name="common", days=20)
    whole = Policy(name="whole", what="all", days=30)
    assert policies_of([own, common, whole], "acme") == [own, whole]
    assert policies_of([own, common, whole], "globex") == [common, whole]


_GOOD = '[[policy]]\nname = "words"\ndays = 200\n'


def test_a_file_of_policies_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(_GOOD)
    assert load_policies(tmp_path / "p.toml", 183) == [Policy(name="words", days=200)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_GOOD.replace("200", "30"), "'words' keeps less than 183 days"),
        (_GOOD + _GOOD, "same name"),
        (_GOOD + _GOOD.replace("words", "more"), "same tenant, agent, 'what' and kinds"),
        (_GOOD + 'what = "all"\nkinds = ["llm"]\n', "never taken away by halves"),
        (_GOOD + "hours = 3\n", "policy.0.hours"),
        ("[[policy]\n", "is no TOML"),
    ],
)
def test_a_file_of_policies_that_cannot_be_used_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_policies(tmp_path / "p.toml", 183)


def test_a_missing_file_of_policies_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the file of policies"):
        load_policies(tmp_path / "none.toml", 183)
