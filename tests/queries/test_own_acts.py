"""What people do here stands in the same log, and in no figure about agents. Issue 6."""

from __future__ import annotations

from typing import Any

import pytest
from tracehold_queries import catalogue, get

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND

OURS = [
    {"kind": "score", "type": "tracehold.review.assigned", "run_id": "review:00000000-0000-0000-0000-000000000003"},
    {"kind": "erasure", "type": "tracehold.erasure.requested", "run_id": "erasure:1", "duration_ns": SECOND},
    {"kind": "erasure", "type": "tracehold.erasure.refused", "run_id": "erasure:1", "status": "error"},
    {"kind": "other", "type": "policy_changed", "run_id": "policy:x", "name": "planner"},
    {"kind": "tool", "name": "search", "run_id": "erasure:1", "status": "blocked", "decision": "denied"},
]
"""Acts of every kind, and one that no version writes: whatever it looks like, it is no agent's."""

ABOUT_OUR_ACTS = {"policy_changes", "policies_on", "review_queue", "review_days"}
NAMED: dict[str, Any] = {"run_id": "run-1", "service": "svc", "text": "e", "trace_ids": ["0" * 31 + "1"]}


@pytest.mark.parametrize("name", sorted(set(catalogue()) - ABOUT_OUR_ACTS))
def test_no_figure_about_agents_changes_by_what_people_do_here(filled, name):
    query = get(name)
    given = {item.name: NAMED[item.name] for item in query.parameters if item.required}
    before = query.rows(filled.connection, **given)
    filled.add(
        *(
            {"source": "collector", "trace_id": None, "started_at": T0 + 99 * SECOND, "status": "ok"} | event
            for event in OURS
        )
    )
    filled.fold()
    assert query.rows(filled.connection, **given) == before


def test_a_run_of_ours_can_still_be_looked_at_event_by_event(filled):
    filled.add({"source": "collector"} | OURS[0])
    rows = get("run_events").rows(filled.connection, run_id=OURS[0]["run_id"])
    assert [row["type"] for row in rows] == ["tracehold.review.assigned"]


def test_an_agent_cannot_hide_its_run_under_the_name_of_a_review(filled):
    run = "review:00000000-0000-0000-0000-000000000003"
    filled.add({"run_id": run, "name": "pay", "started_at": T0 + 100 * SECOND})
    filled.add({"source": "collector", "kind": "score", "type": "tracehold.review.assigned", "run_id": run})
    assert run in {row["run_id"] for row in get("runs").rows(filled.connection)}
