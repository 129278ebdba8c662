"""The run list: filters, sorting, paging, and the fold it repeats from the view."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracehold_queries import get

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
ROOT = {"kind": "run", "type": "run_end", "name": "answer"}


def ids(store, **params):
    return [row["run_id"] for row in get("runs").rows(store.connection, **params)]


def test_the_newest_run_comes_first_and_every_row_knows_the_total(store):
    store.add(ROOT | {"run_id": "old"}, ROOT | {"run_id": "new", "started_at": T0 + SECOND})
    rows = get("runs").rows(store.connection, limit=1)
    assert [(row["run_id"], row["total"]) for row in rows] == [("new", 2)]


def test_a_range_is_half_open(store):
    store.add(*(ROOT | {"run_id": f"r{n}", "started_at": T0 + n * 3600 * SECOND} for n in range(3)))
    assert ids(store, since="2026-01-01T01:00:00Z", until="2026-01-01T02:00:00Z") == ["r1"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"status": "error"}, ["bad"]),
        ({"agent": "planner"}, ["good"]),
        ({"service": "desk"}, ["good"]),
        ({"session_id": "s1"}, ["good"]),
        ({"user_ref": "u1"}, ["good"]),
        ({"tenant": "beta"}, ["bad"]),
        ({"has_denials": True}, ["bad"]),
        ({"has_denials": False}, ["good"]),
        ({"search": "GOO"}, ["good"]),
        ({"search": "Lanne"}, ["good"]),
        ({"search": "nswer"}, ["bad", "good"]),
        ({"search": "%"}, []),
        ({"search": "_"}, []),
    ],
    ids=str,
)
def test_a_filter_keeps_what_it_names(store, params, expected):
    store.add(
        ROOT | {"run_id": "good", "agent": "planner", "service": "desk", "session_id": "s1", "user_ref": "u1"},
        ROOT | {"run_id": "bad", "tenant": "beta", "status": "error", "started_at": T0 + SECOND},
        {"run_id": "bad", "tenant": "beta", "kind": "gate", "decision": "denied", "status": "blocked"},
    )
    assert expected == ids(store, **params)


@pytest.mark.parametrize("sort", ["duration_ns", "events", "errors", "tokens", "cost_usd"])
def test_sorting_puts_the_unknown_last_in_both_directions(store, sort):
    call = {"kind": "llm", "type": "llm_call"}
    store.add(
        call | {"run_id": "small", "duration_ns": 1, "input_tokens": 1, "cost_usd": 0.1},
        *(
            call | {"run_id": "big", "duration_ns": 9, "output_tokens": 9, "cost_usd": 0.9, "status": "error"}
            for _ in range(2)
        ),
        call | {"run_id": "unknown", "started_at": None},
    )
    down, up = ids(store, sort=sort), ids(store, sort=sort, direction="asc")
    assert down[0] == "big"
    if sort in {"tokens", "cost_usd"}:
        assert down == ["big", "small", "unknown"]
        assert up == ["small", "big", "unknown"]


def test_an_unknown_cost_stays_unknown_and_the_known_part_is_a_lower_bound(store):
    call = {"kind": "llm", "type": "llm_call"}
    store.add(call | {"run_id": "a"}, call | {"run_id": "b", "cost_usd": 0.5}, call | {"run_id": "b"})
    rows = {row["run_id"]: row for row in get("runs").rows(store.connection)}
    assert (rows["a"]["cost_usd"], rows["a"]["unpriced_calls"]) == (None, 1)
    assert (rows["b"]["cost_usd"], rows["b"]["unpriced_calls"]) == (0.5, 1)


events = st.fixed_dictionaries(
    {
        "run_id": st.sampled_from(["r1", "r2", "r3", "r4", "r5"]),
        "tenant": st.sampled_from(["acme", "beta"]),
        "kind": st.sampled_from(["run", "llm", "tool"]),
        "status": st.sampled_from(["started", "ok", "error"]),
        "started_at": st.one_of(st.none(), st.integers(T0, T0 + 5)),
        "duration_ns": st.one_of(st.none(), st.integers(0, 5)),
        "name": st.sampled_from([None, "a", "b"]),
        "agent": st.sampled_from([None, "x", "y"]),
        "cost_usd": st.sampled_from([None, 0.25, 0.5]),
        "input_tokens": st.sampled_from([None, 3]),
    }
)


@settings(deadline=None, max_examples=25)
@given(
    commits=st.lists(st.lists(events, max_size=6), max_size=3),
    sort=st.sampled_from(["started_at", "duration_ns", "events", "tokens", "cost_usd"]),
    direction=st.sampled_from(["asc", "desc"]),
    size=st.integers(1, 4),
    folded=st.integers(0, 3),
)
def test_pages_put_together_are_the_whole_and_fold_as_the_view_does(new_store, commits, sort, direction, size, folded):
    store, plain = new_store(), new_store()
    for number, commit in enumerate(commits, 1):
        store.add(*commit)
        plain.add(*commit)
        if number == folded:
            store.fold()
    query = get("runs")
    assert query.rows(store.connection, limit=1000) == query.rows(plain.connection, limit=1000)
    plain.connection.close()
    whole = query.rows(store.connection, sort=sort, direction=direction, limit=1000)
    pages = [
        row
        for offset in range(0, len(whole), size)
        for row in query.rows(store.connection, sort=sort, direction=direction, limit=size, offset=offset)
    ]
    assert whole == pages
    view = store.connection.execute("SELECT * EXCLUDE (started_at, received_at), started_at AS started_at_ns FROM runs")
    names = [column[0] for column in view.description]
    for row in view.fetchall():
        expected = dict(zip(names, row, strict=True))
        (found,) = (item for item in whole if (item["tenant"], item["run_id"]) == row[:2])
        assert expected == {name: found[name] for name in names}
    store.connection.close()


def test_one_run_id_of_two_tenants_is_two_runs(store):
    store.add(ROOT, ROOT | {"tenant": "beta"})
    assert [row["tenant"] for row in get("run").rows(store.connection, run_id="run-1")] == ["acme", "beta"]
