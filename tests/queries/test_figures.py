"""Overview, latency, tools, unmapped, facets and the event list."""

from __future__ import annotations

import pytest
from tracehold_queries import get

MS = 1_000_000
T0 = 1_767_225_600_000 * MS


def test_the_overview_counts_runs_by_their_state_and_calls_once(filled):
    (row,) = get("overview").rows(filled.connection)
    assert {
        "runs": 2,
        "running": 0,
        "failed": 0,
        "events": 9,
        "llm_calls": 2,
        "tool_calls": 1,
        "denials": 2,
        "errors": 1,
        "cost_usd": 0.25,
        "unpriced_calls": 1,
        "unmapped": 1,
    }.items() <= row.items()


def test_a_run_without_an_end_is_running(store):
    store.add({"kind": "run", "type": "run_start", "status": "started", "name": "x"})
    assert [row["running"] for row in get("overview").rows(store.connection)] == [1]


def test_unknown_times_and_calls_that_never_ran_are_in_no_percentile(store):
    # FR-23
    call = {"name": "search"}
    store.add(
        *(call | {"duration_ns": n * MS} for n in range(1, 102)),
        call | {"duration_ns": None},
        call | {"duration_ns": 0, "status": "started"},
        call | {"duration_ns": 0, "status": "blocked"},
    )
    (row,) = get("latency").rows(store.connection)
    assert (
        row["count"],
        *(pytest.approx(row[name]) for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
    ) == (101, 51.0, 91.0, 100.0, 101.0)


def test_a_stopped_call_is_blocked_and_did_not_run(store):
    # DEC-01
    store.add(
        {"name": "search", "duration_ns": 2 * MS},
        {"name": "search", "status": "error", "duration_ns": 4 * MS},
        {"name": "search", "status": "started"},
        {"name": "search", "kind": "gate", "status": "blocked", "decision": "denied"},
        {"name": "search", "kind": "gate", "status": "ok", "decision": "allowed"},
        {"kind": "gate", "status": "blocked", "decision": "limited"},
    )
    rows = get("tools").rows(store.connection)
    assert [(row["tool"], row["calls"], row["errors"], row["blocked"], row["p50_ms"]) for row in rows] == [
        ("search", 2, 1, 1, 3.0)
    ]


def test_what_was_not_understood_is_grouped_by_where_it_came_from(store):
    odd = {"kind": "other", "type": "odd", "source": "otlp", "service": "svc"}
    store.add(odd, odd | {"run_id": "run-2"}, odd | {"type": "rare"}, {})
    rows = get("unmapped").rows(store.connection)
    assert [(row["type"], row["events"], row["runs"]) for row in rows] == [("odd", 2, 2), ("rare", 1, 1)]


def test_facets_list_what_runs_have(store):
    store.add({"agent": "a", "run_id": "1"}, {"agent": "a", "run_id": "2"}, {"agent": "b", "run_id": "3"})
    rows = get("facets").rows(store.connection)
    assert [(row["value"], row["runs"]) for row in rows if row["field"] == "agent"] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("text", ["TIMEOUT", "imeou", "no-mail", "plan", "gpt", "svc", "odd_type", "run-9"])
def test_a_word_is_found_in_names_errors_rules_agents_models_and_services_without_case(store, text):
    fields = {"error_type": "ConnectTimeout", "rule": "no-mail", "agent": "planner", "model": "GPT-5", "service": "Svc"}
    wanted, *_ = store.add(fields | {"type": "odd_type", "name": "send", "run_id": "run-9"}, {"name": "other"})
    assert [row["event_id"] for row in get("search").rows(store.connection, text=text)] == [wanted]


def test_a_search_takes_signs_of_patterns_as_they_are_and_shows_the_newest_first(store):
    store.add({"name": "a%b"}, {"name": "axb"}, {"name": "A%B", "started_at": T0 + 5}, {"name": "a_b"})
    assert [row["name"] for row in get("search").rows(store.connection, text="a%b")] == ["A%B", "a%b"]
    assert [row["name"] for row in get("search").rows(store.connection, text="a_b")] == ["a_b"]


def test_a_runs_events_come_in_order_and_pages_put_together_are_the_whole(store):
    store.add({"started_at": T0 + 5}, {"seq": 2}, {"seq": 1}, {"started_at": None, "seq": 0}, {})
    query = get("run_events")
    whole = query.rows(store.connection, run_id="run-1")
    assert [(row["offset_ns"], row["seq"]) for row in whole] == [
        (0, 1),
        (0, 2),
        (0, None),
        (5, None),
        (None, 0),
    ]
    pages = [query.rows(store.connection, run_id="run-1", limit=1, offset=n)[0] for n in range(5)]
    assert whole == pages
