"""What holds for each file: columns as declared, nobody else's rows, nothing from an empty store."""

from __future__ import annotations

import pytest
from support.stores import TRACE
from tracehold.observability.event_types import DENIALS
from tracehold_queries import catalogue

QUERIES = sorted(catalogue().values(), key=lambda query: query.name)
OF_THE_COLLECTOR = {"gaps"}
"""About no tenant: whoever may see any tenant sees them."""

every_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)


NAMED = {"run_id": "run-1", "service": "svc", "text": "e", "trace_ids": [TRACE], "day": "2026-01-01"}
"""A value for every parameter that must be given."""


def required(query):
    return {parameter.name: NAMED[parameter.name] for parameter in query.parameters if parameter.required}


def described(store, query):
    description = store.connection.execute(query.sql, query.bind(required(query))).description
    return [(column[0], str(column[1])) for column in description]


@every_query
def test_columns_and_types_are_the_declared_ones_on_an_empty_store(store, query):
    assert [(column.name, column.type) for column in query.columns] == described(store, query)


@every_query
def test_columns_and_types_are_the_declared_ones_on_a_filled_store(filled, query):
    assert [(column.name, column.type) for column in query.columns] == described(filled, query)


@every_query
def test_an_empty_store_gives_no_rows(store, query):
    rows = query.rows(store.connection, **required(query))
    if query.name == "overview":
        assert [(row["runs"], row["events"], row["cost_usd"]) for row in rows] == [(0, 0, None)]
    else:
        assert rows == []


@every_query
def test_a_filled_store_gives_rows(filled, query):
    assert query.rows(filled.connection, **required(query))


@every_query
@pytest.mark.parametrize("params", [{"tenants": []}, {"tenants": ["other"]}, {"tenant": "other"}], ids=str)
def test_rows_of_other_tenants_are_never_seen(filled, query, params):
    if query.name in OF_THE_COLLECTOR and params != {"tenants": []}:
        pytest.skip("about every tenant")
    rows = query.rows(filled.connection, **required(query), **params)
    assert [0] if query.name == "overview" else [row.get("events") for row in rows] == []


@every_query
def test_seeing_all_tenants_by_name_is_seeing_all(filled, query):
    whole = query.rows(filled.connection, **required(query))
    assert whole == query.rows(filled.connection, **required(query), tenants=["beta", "acme"])


@every_query
def test_arrow_and_pandas_hold_the_same_rows(filled, query):
    names, rows = query.columns_and_rows(filled.connection, **required(query))
    table = query.arrow(filled.connection, **required(query))
    frame = query.df(filled.connection, **required(query))
    assert names == table.column_names == list(frame.columns)
    assert len(rows) == table.num_rows == len(frame)


def test_nanoseconds_stay_exact_in_pandas_beside_an_unknown_time(store):
    exact = 1_767_225_600_123_456_789
    store.add({"started_at": exact}, {"started_at": None})
    frame = catalogue()["run_events"].df(store.connection, run_id="run-1")
    assert exact == frame["started_at_ns"].iloc[0]


@pytest.mark.parametrize("name", ["gate_denials", "overview", "review_queue"])
def test_the_denials_counted_are_those_of_dec_01(name, store):
    # DEC-01
    store.add(
        *(
            {"decision": decision, "kind": "gate", "status": "blocked"}
            for decision in [*sorted(DENIALS), "allowed", "suspended"]
        )
    )
    rows = catalogue()[name].rows(store.connection)
    found = rows[0]["denials"] if name == "overview" else len({row["decision"] for row in rows})
    assert len(DENIALS) == found


def test_the_decisions_that_can_be_asked_for_are_those_of_dec_01():
    # DEC-01
    for name in ("gate_denials", "review_queue"):
        (decision,) = (item for item in catalogue()[name].parameters if item.name == "decision")
        assert set(decision.choices) == DENIALS
