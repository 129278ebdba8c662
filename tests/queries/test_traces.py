"""Traces found, summed up and joined into a graph of services."""

from __future__ import annotations

from support.stores import TRACE
from tracehold_queries import catalogue

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
OTHER = "2" * 32


def ask(store, name, **params):
    return catalogue()[name].rows(store.connection, **params)


def found(store, **params):
    return [row["trace_id"] for row in ask(store, "trace_search", **params)]


def test_the_newest_trace_comes_first_and_each_once(store):
    store.add({}, {"started_at": T0 + SECOND}, {"trace_id": OTHER, "started_at": T0 + 2 * SECOND}, {"trace_id": None})
    assert found(store) == [OTHER, TRACE]
    assert found(store, limit=1) == [OTHER]
    assert [(row["spans"], row["newest_ns"]) for row in ask(store, "trace_search")] == [
        (1, T0 + 2 * SECOND),
        (2, T0 + SECOND),
    ]


def test_each_gives_the_spans_themselves(store):
    first, second = store.add({"name": "a"}, {"name": "b", "started_at": T0 + SECOND})
    assert [row["event_id"] for row in ask(store, "trace_search", each=True)] == [second, first]
    assert [row["event_id"] for row in ask(store, "trace_search", each=True, operation="a")] == [first]


def test_all_must_hold_of_one_span(store):
    store.add({"kind": "gate", "rule": "r1"}, {"kind": "tool", "rule": "r2"})
    assert found(store, kind="gate", rule="r1") == [TRACE]
    assert found(store, kind="gate", rule="r2") == []


def test_an_opening_half_has_no_duration_to_be_asked_for(store):
    store.add({"status": "started"}, {"duration_ns": 5 * SECOND})
    assert found(store, max_duration_ns=SECOND) == []
    assert found(store, min_duration_ns=SECOND) == [TRACE]


def test_allow_listed_attributes_are_compared_as_text(store):
    store.add({"attributes": '{"finish_reason": "stop", "streamed": true}'}, {"attributes": None})
    stop = {"attribute_paths": ["$.finish_reason", "$.streamed"], "attribute_values": ["stop", "true"]}
    assert found(store, **stop) == [TRACE]
    assert found(store, attribute_paths=["$.finish_reason"], attribute_values=["length"]) == []
    assert found(store, attribute_paths=["$.nothing"], attribute_values=["x"]) == []


def test_a_summary_counts_a_start_and_its_end_once(store):
    root = {"span_id": "a" * 16, "service": "shop", "name": "order"}
    store.add(
        root | {"status": "started"},
        root | {"duration_ns": 9 * SECOND},
        {"span_id": "b" * 16, "parent_span_id": "a" * 16, "service": "stock", "status": "error", "name": "pick"},
        {"span_id": "c" * 16, "parent_span_id": "f" * 16, "service": "stock", "name": "count"},
    )
    shop, stock = ask(store, "trace_summaries", trace_ids=[TRACE, OTHER])
    assert (shop["service"], shop["spans"], shop["errors"], shop["orphans"]) == ("shop", 1, 0, 0)
    assert (stock["service"], stock["spans"], stock["errors"], stock["orphans"]) == ("stock", 2, 1, 1)
    assert (shop["started_ns"], shop["ended_ns"]) == (T0, T0 + 9 * SECOND)
    assert shop["root_operation"] == "order"
    assert shop["root_rank"] < stock["root_rank"]


def test_the_root_of_a_trace_without_one_is_its_first_orphan(store):
    store.add(
        {"span_id": "b" * 16, "parent_span_id": "f" * 16, "service": "x", "name": "late", "started_at": T0 + SECOND},
        {"span_id": "c" * 16, "parent_span_id": "f" * 16, "service": "x", "name": "early"},
        {"span_id": "d" * 16, "parent_span_id": "c" * 16, "service": "x", "name": "child", "started_at": T0 - SECOND},
    )
    (row,) = ask(store, "trace_summaries", trace_ids=[TRACE])
    assert (row["root_operation"], row["orphans"]) == ("early", 2)


def test_a_call_is_a_span_below_one_of_another_service(store):
    store.add(
        {"span_id": "a" * 16, "agent": "planner", "status": "started"},
        {"span_id": "a" * 16, "agent": "planner"},
        {"span_id": "b" * 16, "parent_span_id": "a" * 16, "service": "stock"},
        {"span_id": "c" * 16, "parent_span_id": "a" * 16, "service": "stock"},
        {"span_id": "d" * 16, "parent_span_id": "c" * 16, "service": "stock"},
        {"span_id": "e" * 16, "parent_span_id": "e" * 16},
    )
    links = ask(store, "trace_dependencies")
    assert [(row["parent"], row["child"], row["calls"]) for row in links] == [("planner", "stock", 2)]
    assert ask(store, "trace_dependencies", service="planner") == links
    assert ask(store, "trace_dependencies", service="tracehold") == []
    assert ask(store, "trace_dependencies", until_ns=T0 - 1) == []


def test_spans_of_two_tenants_are_never_joined(store):
    store.add({"span_id": "a" * 16, "service": "x"})
    store.add({"span_id": "b" * 16, "parent_span_id": "a" * 16, "service": "y", "tenant": "beta"})
    assert ask(store, "trace_dependencies") == []
    assert [row["orphans"] for row in ask(store, "trace_summaries", trace_ids=[TRACE])] == [0, 1]


def test_services_and_operations_have_names_when_nobody_gave_any(store):
    store.add({"service": "x", "agent": "a"}, {"agent": "a"}, {"name": None, "type": "odd"}, {"trace_id": None})
    assert [row["service"] for row in ask(store, "trace_services")] == ["a", "tracehold", "x"]
    (row,) = ask(store, "trace_operations", service="tracehold")
    assert (row["operation"], row["events"]) == ("odd", 1)
