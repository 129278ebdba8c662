"""What an auditor reads: which attempts were stopped, by what, and what came next."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tracehold_queries import get

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
DENIED = {"kind": "gate", "type": "tool_call", "name": "send_mail", "status": "blocked", "decision": "denied"}


def denials(store, **params):
    return get("gate_denials").rows(store.connection, **params)


def test_allowed_and_suspended_are_no_denials(store):
    # DEC-01
    store.add(DENIED | {"decision": "allowed"}, DENIED | {"decision": "suspended"}, DENIED)
    assert [row["decision"] for row in denials(store)] == ["denied"]


def test_a_rejected_approval_is_one_denial_and_the_run_counts_it_once(store):
    # DEC-01: the answer and the call it stopped are two events that carry the same decision.
    store.add(
        DENIED | {"decision": "rejected"},
        {"kind": "approval", "type": "approval_decision", "status": "ok", "decision": "rejected"},
    )
    assert [row["kind"] for row in denials(store)] == ["gate"]
    assert [row["denials"] for row in get("runs").rows(store.connection)] == [1]
    assert [row["denials"] for row in get("overview").rows(store.connection)] == [1]


def test_the_next_event_of_the_same_run_is_named(store):
    store.add(
        DENIED,
        {"name": "other", "run_id": "run-2", "started_at": T0 + 1},
        {"name": "other", "tenant": "beta", "started_at": T0 + 1},
        {"kind": "llm", "type": "llm_call", "name": "chat", "started_at": T0 + 2},
        {"kind": "run", "type": "run_end", "started_at": T0 + 3},
    )
    assert [row["next_event"] for row in denials(store)] == ["llm_call chat ok"]


def test_events_at_the_same_moment_follow_in_the_order_of_the_source(store):
    store.add(DENIED | {"seq": 4}, {"seq": 3, "name": "before"}, {"seq": 5, "name": "after"})
    assert [row["next_event"] for row in denials(store)] == ["tool_call after ok"]


def test_a_denial_that_was_the_last_event_has_no_next(store):
    store.add({"name": "before"}, DENIED | {"started_at": T0 + 1})
    assert [(row["next_event_id"], row["next_event"]) for row in denials(store)] == [(None, None)]


def test_the_end_of_a_run_comes_after_what_happened_in_it(store):
    # The Tracer's run_end carries the run's start and its duration.
    store.add(DENIED | {"started_at": T0 + 5}, {"kind": "run", "type": "run_end", "duration_ns": 9, "status": "error"})
    assert [row["next_event"] for row in denials(store)] == ["run_end error"]
    events = get("run_events").rows(store.connection, run_id="run-1")
    assert [row["type"] for row in events] == ["tool_call", "run_end"]


def test_a_denial_of_unknown_time_is_listed_last(store):
    store.add(DENIED | {"started_at": None, "name": "when"}, DENIED)
    assert [row["name"] for row in denials(store)] == ["send_mail", "when"]


def test_filters_keep_what_they_name(store):
    store.add(
        DENIED | {"rule": "r1", "agent": "a1"},
        DENIED | {"decision": "rejected", "name": "pay", "run_id": "run-2", "started_at": T0 + 3600 * SECOND},
    )
    for params in (
        {"rule": "r1"},
        {"agent": "a1"},
        {"name": "send_mail"},
        {"decision": "denied"},
        {"run_id": "run-1"},
    ):
        assert [row["name"] for row in denials(store, **params)] == ["send_mail"]
    assert [row["name"] for row in denials(store, since="2026-01-01T01:00:00")] == ["pay"]
    assert [row["name"] for row in denials(store, until="2026-01-01T01:00:00")] == ["send_mail"]


@settings(deadline=None, max_examples=15)
@given(starts=st.lists(st.one_of(st.none(), st.integers(T0, T0 + 3)), max_size=9), size=st.integers(1, 4))
def test_pages_put_together_are_the_whole(new_store, starts, size):
    store = new_store()
    store.add(*(DENIED | {"started_at": start, "run_id": f"r{n % 2}"} for n, start in enumerate(starts)))
    whole = denials(store)
    pages = [row for offset in range(0, len(starts), size) for row in denials(store, limit=size, offset=offset)]
    assert whole == pages
    assert [len(starts)] * len(starts) == [row["total"] for row in whole]
    store.connection.close()
