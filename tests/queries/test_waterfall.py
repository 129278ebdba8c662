"""The waterfall: halves folded, parents linked, depth exact in deep chains and in loops."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracehold_queries import get

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND


def spans(store, **params):
    return get("waterfall").rows(store.connection, run_id="run-1", **params)


def test_a_started_half_and_an_ended_half_are_one_bar(store):
    store.add(
        {"span_id": "s", "status": "started", "name": "search", "started_at": T0},
        {"span_id": "s", "status": "error", "duration_ns": 3 * SECOND, "started_at": T0 + 3 * SECOND},
    )
    (span,) = spans(store)
    assert (
        span["name"],
        span["status"],
        span["started_at_ns"],
        span["duration_ns"],
        span["folded"],
    ) == ("search", "error", T0, 3 * SECOND, 2)


def test_an_end_without_a_duration_ends_where_it_stands(store):
    store.add({"span_id": "s", "status": "started"}, {"span_id": "s", "started_at": T0 + 2 * SECOND})
    assert [span["duration_ns"] for span in spans(store)] == [2 * SECOND]


def test_a_span_that_has_not_ended_has_no_duration(store):
    store.add({"span_id": "s", "status": "started", "duration_ns": 5})
    assert [(span["status"], span["duration_ns"]) for span in spans(store)] == [("started", None)]


def test_an_unknown_duration_stays_unknown(store):
    # FR-23
    store.add({"span_id": "s", "duration_ns": None})
    assert [span["duration_ns"] for span in spans(store)] == [None]


def test_an_event_without_a_span_stands_for_itself(store):
    (first, second) = store.add({}, {})
    assert [first, second] == [span["span_id"] for span in spans(store)]


def test_a_parent_that_is_not_in_the_run_makes_a_root_and_says_so(store):
    store.add({"span_id": "a", "parent_span_id": "gone"}, {"span_id": "b", "parent_span_id": "a"})
    found = {span["span_id"]: (span["parent_span_id"], span["parent_missing"], span["depth"]) for span in spans(store)}
    assert found == {"a": (None, True, 0), "b": ("a", False, 1)}


def test_a_span_that_names_itself_as_its_parent_is_a_root(store):
    store.add({"span_id": "a", "parent_span_id": "a"})
    assert [(s["parent_span_id"], s["parent_missing"], s["depth"]) for s in spans(store)] == [(None, False, 0)]


def test_parents_in_a_loop_have_no_depth_and_do_not_hang(store):
    store.add(
        {"span_id": "root"},
        {"span_id": "a", "parent_span_id": "b"},
        {"span_id": "b", "parent_span_id": "a"},
        {"span_id": "c", "parent_span_id": "b"},
    )
    assert {span["span_id"]: span["depth"] for span in spans(store)} == {
        "root": 0,
        "a": None,
        "b": None,
        "c": None,
    }


def test_two_tenants_with_the_same_ids_do_not_adopt_each_others_spans(store):
    store.add({"span_id": "a"}, {"span_id": "b", "parent_span_id": "a", "tenant": "beta", "started_at": T0 + 1})
    found = {span["span_id"]: (span["parent_missing"], span["offset_ns"]) for span in spans(store)}
    assert found == {"a": (False, 0), "b": (True, 0)}


@pytest.mark.parametrize("length", [1_200, 10_000])
def test_a_deep_chain_has_its_exact_depth(store, length):
    # FR-21
    store.connection.execute(
        """
        INSERT INTO events BY NAME
        SELECT uuid() AS event_id, 'acme' AS tenant, 'run-1' AS run_id, 'tool' AS kind, 'span' AS type,
               'ok' AS status, 'otlp' AS source, 0 AS received_at, $start + n AS started_at,
               n::VARCHAR AS span_id, CASE WHEN n > 0 THEN (n - 1)::VARCHAR END AS parent_span_id
        FROM range($length) numbers(n)
        """,
        {"length": length, "start": T0},
    )
    depths = get("waterfall").arrow(store.connection, run_id="run-1", limit=length).column("depth").to_pylist()
    assert list(range(length)) == depths


@pytest.mark.parametrize("folded", [False, True])
def test_a_run_is_whole_whatever_its_times_are(store, folded):  # FR-23
    starts = [T0, None, 5, T0 + 100 * SECOND, -7]
    steps = [{"span_id": f"{n:016x}", "started_at": start} for n, start in enumerate(starts, 1)]
    store.add(*steps[:2], {"run_id": "another", "span_id": "f" * 16})
    if folded:
        store.fold()
    store.add(*steps[2:], {"tenant": "beta", "span_id": "e" * 16, "started_at": 3})
    rows = get("waterfall").rows(store.connection, run_id="run-1")
    assert sorted((row["tenant"], row["span_id"][-1]) for row in rows) == [
        *(("acme", str(n)) for n in range(1, 6)),
        ("beta", "e"),
    ]


def test_a_call_that_was_priced_later_shows_its_latest_cost(store):
    (event_id,) = store.add({"kind": "llm", "span_id": "a" * 16, "cost_usd": 1.0})
    for number, (tenant, usd) in enumerate([("acme", 2.0), ("acme", 3.0), ("beta", 9.0)]):
        store.connection.execute(
            "INSERT INTO costs (event_id, tenant, run_id, cost_usd, price_source, priced_at, change_usd, newly_priced) "
            "VALUES (?, ?, 'run-1', ?, 'x', ?, 0, 0)",
            [event_id, tenant, usd, number],
        )
    (row,) = get("waterfall").rows(store.connection, run_id="run-1")
    assert row["cost_usd"] == 3.0


@settings(deadline=None, max_examples=25)
@given(
    parents=st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=12),
    size=st.integers(1, 5),
)
def test_depth_is_what_climbing_by_hand_gives_and_pages_are_the_whole(new_store, parents, size):
    store = new_store()
    store.add(
        *(
            {
                "span_id": str(n),
                "parent_span_id": None if parent is None else str(parent),
                "started_at": T0 + n,
            }
            for n, parent in enumerate(parents)
        )
    )
    whole = spans(store)
    pages = [row for offset in range(0, len(whole), size) for row in spans(store, limit=size, offset=offset)]
    assert whole == pages
    assert [climb(parents, int(span["span_id"])) for span in whole] == [span["depth"] for span in whole]
    store.connection.close()


def climb(parents, at):
    """Count the steps up, or give None after more steps than there are spans."""
    for depth in range(len(parents) + 1):
        parent = parents[at]
        if parent is None or parent == at or parent >= len(parents):
            return depth
        at = parent
    return None
