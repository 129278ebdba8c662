"""What an agent was allowed on a day, who changed it, and what changed. Issue 6, section 7."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.keys import bearer, make_key
from tracehold import (
    CollectorExporter,
    Condition,
    PolicyPermissions,
    PolicyRule,
    ToolPermissions,
    Tracer,
    record_policy,
)
from tracehold.governance import canonical_json
from tracehold_collector.core.settings import load_settings
from tracehold_collector.policies.diff import diff_policies
from tracehold_collector.serve import CollectorServer

SEARCH = PolicyRule("search", "allow", ["search"])
MAIL = PolicyRule("mail", "allow", ["send_mail"], when=[Condition("to", "glob", "*@corp.example")])
FIRST = PolicyPermissions([SEARCH], name="desk")
SECOND = PolicyPermissions([SEARCH, MAIL], name="desk")

TODAY = datetime.now(UTC).date().isoformat()


class Stage:
    def __init__(self, server: CollectorServer, keys: dict[str, str]) -> None:
        self.server = server
        self.keys = keys
        self.http = httpx.Client(base_url=server.url, trust_env=False, timeout=60)

    def record(self, key: str, policy: Any, agent: str, **more: Any) -> httpx.Response:
        document = policy.to_dict() if isinstance(policy, PolicyPermissions) else policy
        body = {"policy": document, "agent": agent, **more}
        return self.http.post("/api/v1/policies", json=body, headers=bearer(self.keys[key]))

    def rows(self, query: str, **params: Any) -> list[dict[str, Any]]:
        answer = self.http.get(f"/api/v1/queries/{query}", params=params, headers=bearer(self.keys["auditor"])).json()
        return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]

    def event(self, event_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/api/v1/events/{event_id}", headers=bearer(self.keys["auditor"])).json()
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("policies") / "data"
    keys = {
        "deployer": make_key(folder, "ingest", name="deployer"),
        "second": make_key(folder, "ingest", name="second deployer"),
        "auditor": make_key(folder, "read", "content", name="auditor"),
        "both": make_key(folder, "ingest", name="both", tenants=("default", "other")),
    }
    server = CollectorServer(load_settings(port=0, grpc=False, data_dir=folder))
    server.start()
    made = Stage(server, keys)
    yield made
    made.http.close()
    server.close()


def test_a_change_is_recorded_under_the_login_with_the_policy_before_it(stage: Stage) -> None:
    first = stage.record("deployer", FIRST, "one").json()
    assert (first["policy_digest"], first["previous_digest"]) == (FIRST.policy_digest, None)
    second = stage.record("second", SECOND, "one", note="mail inside the company").json()
    assert (second["policy_digest"], second["previous_digest"]) == (SECOND.policy_digest, FIRST.policy_digest)
    rows = stage.rows("policy_changes", agent="one")
    assert [(row["policy_digest"], row["author"], row["author_is"]) for row in rows] == [
        (SECOND.policy_digest, "second deployer", "login"),
        (FIRST.policy_digest, "deployer", "login"),
    ]
    event = stage.event(second["event_id"])
    assert (event["event"]["source"], event["event"]["type"]) == ("collector", "policy_changed")
    assert event["content"]["note"] == "mail inside the company"


def test_the_stored_text_is_what_the_digest_was_made_of(stage: Stage) -> None:
    told = stage.record("deployer", SECOND, "two").json()
    text = stage.event(told["event_id"])["content"]["policy"]
    assert text.encode() == canonical_json(SECOND.to_dict())
    assert "sha256:" + hashlib.sha256(text.encode()).hexdigest() == SECOND.policy_digest


def test_the_policy_that_is_in_force_already_adds_nothing(stage: Stage) -> None:
    assert stage.record("deployer", FIRST, "three").json()["event_id"] is not None
    again = stage.record("second", FIRST, "three").json()
    assert (again["event_id"], again["policy_digest"]) == (None, FIRST.policy_digest)
    assert len(stage.rows("policy_changes", agent="three")) == 1


def test_a_day_has_every_policy_that_was_in_force_and_how_many_calls_each_judged(stage: Stage) -> None:
    stage.record("deployer", FIRST, "four")
    stage.record("deployer", SECOND, "four")
    tracer = Tracer(exporters=[CollectorExporter(stage.server.url, api_key=stage.keys["deployer"])])
    with tracer.run("r", agent="four"):
        for decision in ("allowed", "denied"):
            tracer.emit(
                {"type": "tool_call", "tool": "search", "status": "ok" if decision == "allowed" else decision}
                | {"decision": decision, "decided_by": "permissions", "policy_digest": SECOND.policy_digest}
            )
        tracer.emit(
            {"type": "tool_call", "tool": "search", "decision": "allowed", "policy_digest": "sha256:" + "0" * 64}
        )
    tracer.close()
    rows = stage.rows("policies_on", day=TODAY, agent="four")
    told = {row["policy_digest"]: row for row in rows}
    assert len(rows) == 3
    replaced, current, unknown = (
        told[FIRST.policy_digest],
        told[SECOND.policy_digest],
        told["sha256:" + "0" * 64],
    )
    assert (replaced["until"], replaced["decisions"]) == (current["since"], 0)
    assert (current["author"], current["previous_digest"]) == ("deployer", FIRST.policy_digest)
    assert (current["decisions"], current["denials"], current["until"]) == (2, 1, None)
    assert (unknown["since"], unknown["author"], unknown["decisions"]) == (None, None, 1)
    assert stage.rows("policies_on", day="2020-01-01", agent="four") == []


def test_a_policy_that_was_replaced_and_still_judges_calls_stands_apart(stage: Stage) -> None:
    stage.record("deployer", FIRST, "nine")
    stage.record("deployer", SECOND, "nine")
    tracer = Tracer(exporters=[CollectorExporter(stage.server.url, api_key=stage.keys["deployer"])])
    tracer.emit(
        {"type": "tool_call", "tool": "search", "agent": "nine", "decision": "allowed"}
        | {"policy_digest": FIRST.policy_digest}
    )
    tracer.close()
    rows = stage.rows("policies_on", day=TODAY, agent="nine")
    told = [(row["policy_digest"], row["since"] is None, row["decisions"]) for row in rows]
    assert sorted(told) == sorted(
        [(FIRST.policy_digest, True, 1), (FIRST.policy_digest, False, 0), (SECOND.policy_digest, False, 0)]
    )


def test_what_a_program_claimed_is_recorded_under_a_login_all_the_same(stage: Stage) -> None:
    tracer = Tracer(exporters=[CollectorExporter(stage.server.url, api_key=stage.keys["deployer"])])
    record_policy(tracer, FIRST, agent="ten")
    tracer.close()
    assert stage.record("second", FIRST, "ten").json()["event_id"] is not None
    assert stage.record("second", FIRST, "ten").json()["event_id"] is None
    rows = stage.rows("policy_changes", agent="ten")
    assert [row["author_is"] for row in rows] == ["login", "claim"]


def test_a_policy_stays_in_force_on_later_days(stage: Stage) -> None:
    stage.record("deployer", FIRST, "five")
    (row,) = stage.rows("policies_on", day="2200-01-01", agent="five")
    assert (row["policy_digest"], row["until"], row["decisions"]) == (FIRST.policy_digest, None, 0)


@pytest.mark.parametrize("policy", [FIRST, ToolPermissions(allow=["search"])], ids=["rules", "lists"])
def test_an_agents_program_records_its_policy_itself_and_that_is_a_claim(stage: Stage, policy: Any) -> None:
    agent = f"six {type(policy).__name__}"
    tracer = Tracer(exporters=[CollectorExporter(stage.server.url, api_key=stage.keys["deployer"])])
    record_policy(tracer, policy, agent=agent, author="config of the desk")
    tracer.close()
    (row,) = stage.rows("policy_changes", agent=agent)
    assert (row["policy_digest"], row["author"], row["author_is"]) == (
        policy.policy_digest,
        "config of the desk",
        "claim",
    )
    assert stage.event(row["event_id"])["content"]["policy"] == policy.to_dict()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"policy": {"version": 2}}, 400),
        ({"policy": "text"}, 400),
        ({"policy": {"version": 1, "rules": [{"id": "x"}]}}, 400),
        ({"agent": ""}, 400),
        ({"agent": "x" * 129}, 400),
        ({"agent": "\x1b[31m"}, 400),
        ({"note": ""}, 400),
        ({"author": "somebody else"}, 400),
        ({"tenant": "other"}, 404),
    ],
    ids=str,
)
def test_what_is_no_policy_is_refused(stage: Stage, change: Any, status: int) -> None:
    body = {"policy": FIRST.to_dict(), "agent": "seven"} | change
    answer = stage.http.post("/api/v1/policies", json=body, headers=bearer(stage.keys["deployer"]))
    assert answer.status_code == status, answer.text
    assert stage.rows("policy_changes", agent="seven") == []


def test_recording_needs_the_role_ingest_and_a_tenant_where_the_key_has_several(stage: Stage) -> None:
    assert stage.record("auditor", FIRST, "eight").status_code == 403
    assert stage.record("both", FIRST, "eight").status_code == 400
    assert stage.record("both", FIRST, "eight", tenant="other").json()["tenant"] == "other"
    assert stage.rows("policy_changes", agent="eight") == []


def test_what_changed_is_told_rule_by_rule() -> None:
    wider = PolicyRule("mail", "allow", ["send_mail"], when=[Condition("to", "glob", "*@example.org")])
    before = PolicyPermissions([SEARCH, MAIL], name="desk").to_dict()
    after = PolicyPermissions([wider, PolicyRule("shell", "deny", ["shell"])], default="allow", name="desk").to_dict()
    assert diff_policies(before, after) == [
        '~ default: "deny" -> "allow"',
        '~ rule mail, when: [to glob "*@corp.example"] -> [to glob "*@example.org"]',
        '- rule search: allow, tools ["search"]',
        '+ rule shell: deny, tools ["shell"]',
    ]


RULES = st.lists(
    st.builds(
        PolicyRule,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["allow", "deny"]),
        st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2),
    ),
    max_size=3,
    unique_by=lambda rule: rule.id,
)


@given(one=RULES, other=RULES)
def test_two_policies_have_no_difference_exactly_when_their_digests_are_equal(one: Any, other: Any) -> None:
    before, after = PolicyPermissions(one), PolicyPermissions(other)
    lines = diff_policies(before.to_dict(), after.to_dict())
    assert (lines == []) == (before.policy_digest == after.policy_digest)


def test_lists_have_differences_too() -> None:
    before, after = ToolPermissions(allow=["a"]).to_dict(), ToolPermissions(allow=["a", "b"]).to_dict()
    assert diff_policies(before, after) == ['~ allow: ["a"] -> ["a", "b"]']
