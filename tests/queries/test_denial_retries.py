"""After a denial, did the agent try again another way? The definition, case by case. Issue 6, section 7."""

from __future__ import annotations

import pytest
from tracehold_queries import get

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
DENIED = {"kind": "gate", "type": "tool_call", "name": "send_mail", "status": "blocked", "decision": "denied"}
MODEL = {"kind": "llm", "type": "llm_call", "name": "chat"}


def at(step: int, event: dict) -> dict:
    return event | {"started_at": T0 + step * SECOND}


def ways(store, **params):
    rows = get("denial_retries").rows(store.connection, **params)
    return [(row["way"], row["retry_name"], row["outcome"], row["steps"]) for row in rows]


def queued(store):
    (row,) = get("review_queue").rows(store.connection, name="send_mail", first="oldest", limit=1)
    return row["retries"], row["got_through"]


@pytest.mark.parametrize(
    ("later", "outcome", "got_through"),
    [
        ({"status": "ok"}, "ran", True),
        ({"status": "error"}, "failed", True),
        ({"status": "cancelled"}, "cancelled", True),
        ({"kind": "gate", "status": "blocked", "decision": "denied"}, "stopped", False),
        ({"status": "blocked", "decision": "denied"}, "stopped", False),
        ({"kind": "approval", "type": "approval_request", "status": "suspended"}, "waiting", False),
        ({"status": "suspended"}, "waiting", False),
    ],
    ids=["ran", "failed", "cancelled", "gate", "blocked-span", "asked", "sub-agent-waits"],
)
def test_the_same_tool_again_is_a_retry_whatever_became_of_it(store, later, outcome, got_through):
    store.add(at(0, MODEL), at(1, DENIED), at(2, MODEL), at(3, {"name": "send_mail"} | later))
    first, *_ = get("denial_retries").rows(store.connection, event_id="00000000-0000-0000-0000-000000000002")
    assert (first["way"], first["outcome"], first["got_through"], first["steps"]) == (
        "same_tool",
        outcome,
        got_through,
        1,
    )
    assert queued(store) == (1, got_through)


def test_the_same_tool_much_later_or_by_another_agent_is_one_too(store):
    store.add(
        at(0, MODEL),
        at(1, DENIED | {"agent": "boss"}),
        at(2, MODEL | {"agent": "boss"}),
        at(3, {"name": "delegate", "agent": "boss"}),
        at(4, MODEL | {"agent": "helper"}),
        at(5, {"name": "send_mail", "agent": "helper"}),
    )
    assert ways(store, way="same_tool") == [("same_tool", "send_mail", "ran", 2)]
    assert queued(store) == (1, True)


def test_another_tool_is_one_when_the_next_reply_of_the_model_asked_for_it(store):
    store.add(
        at(0, MODEL),
        at(1, DENIED),
        at(2, {"name": "parallel"}),  # asked for together with the denied call
        at(3, MODEL),
        at(4, {"name": "shell"}),
        at(5, {"name": "http_post", "kind": "gate", "status": "blocked", "decision": "denied"}),
        at(6, MODEL),
        at(7, {"name": "search"}),  # a turn later: may be about anything
    )
    assert ways(store, name="send_mail") == [
        ("next_turn", "shell", "ran", 2),
        ("next_turn", "http_post", "stopped", 3),
    ]
    assert queued(store) == (0, None)


def test_a_call_of_the_same_reply_is_no_reaction(store):
    store.add(at(0, MODEL), at(1, DENIED), at(2, {"name": "send_mail"}))
    assert ways(store) == []
    assert queued(store) == (0, None)


def test_where_no_model_call_is_recorded_only_the_same_tool_counts(store):
    store.add(at(1, DENIED), at(2, {"name": "shell"}), at(3, {"name": "send_mail"}))
    assert ways(store) == [("same_tool", "send_mail", "ran", 2)]


def test_what_came_before_other_runs_and_other_tenants_are_none(store):
    again = {"name": "send_mail"}
    store.add(at(0, again), at(1, DENIED), at(2, again | {"run_id": "run-2"}), at(3, again | {"tenant": "beta"}))
    assert ways(store) == []


def test_the_start_of_a_call_and_the_answer_to_an_approval_are_no_attempts(store):
    store.add(
        at(1, DENIED),
        at(2, {"name": "send_mail", "status": "started"}),
        at(3, {"name": "send_mail", "kind": "approval", "type": "approval_decision", "decision": "allowed"}),
    )
    assert ways(store) == []


def test_at_one_moment_the_sources_own_order_decides(store):
    store.add(
        at(1, DENIED | {"seq": 5}), at(1, {"name": "send_mail", "seq": 4}), at(1, {"name": "send_mail", "seq": 6})
    )
    assert ways(store) == [("same_tool", "send_mail", "ran", 1)]


def test_two_denials_in_a_row_are_each_others_retry_and_the_last_try_is_of_both(store):
    store.add(at(1, DENIED), at(2, MODEL), at(3, DENIED), at(4, MODEL), at(5, {"name": "send_mail"}))
    assert ways(store) == [
        ("same_tool", "send_mail", "ran", 1),
        ("same_tool", "send_mail", "stopped", 1),
        ("same_tool", "send_mail", "ran", 2),
    ]


def test_a_denial_without_a_time_or_without_a_tool_has_none(store):
    store.add(
        DENIED | {"started_at": None},
        at(1, DENIED | {"name": None, "kind": "guardrail"}),
        at(2, {"name": "send_mail"}),
    )
    assert ways(store) == []


def test_filters_keep_what_they_name(store):
    store.add(at(1, DENIED), at(2, {"name": "send_mail"}), at(3, DENIED))
    assert [way[2] for way in ways(store, got_through=True)] == ["ran"]
    assert [way[2] for way in ways(store, got_through=False)] == ["stopped"]
    assert ways(store, way="next_turn") == []
    assert ways(store, since="2026-01-02") == []
    assert ways(store, limit=1, offset=1) == [("same_tool", "send_mail", "stopped", 2)]
