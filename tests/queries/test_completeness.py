"""Is anything missing of what agents recorded? Each producer numbers its events, run by run."""

from __future__ import annotations

from typing import Any

import pytest
from tracehold_queries import catalogue

T0 = 1_767_225_600 * 1_000_000_000


def ask(store: Any, **parameters: Any) -> list[dict[str, Any]]:
    query = catalogue()["completeness"]
    return query.arrow(store.connection, **query.bind(parameters)).to_pylist()


def numbered(store: Any, numbers: list[int], run: str = "run-1", *, ended: bool = True, **fields: Any) -> None:
    events = [{"run_id": run, "seq": number, "started_at": T0 + number, **fields} for number in numbers]
    if ended:
        events[-1] |= {"kind": "run", "type": "run_end", "status": "ok"}
    store.add(*events)


def test_a_run_whose_numbers_are_all_there_is_complete(store: Any) -> None:
    numbered(store, [1, 2, 3, 4])
    assert ask(store) == []
    (row,) = ask(store, only_gaps=False)
    assert (row["last_number"], row["present"], row["missing"], row["first_missing"]) == (4, 4, 0, None)
    assert row["ended_at"] is not None


@pytest.mark.parametrize(
    ("numbers", "missing", "first"), [([2, 3], 1, 1), ([1, 2, 4, 6], 2, 3), ([1, 5], 3, 2), ([3], 2, 1)]
)
def test_what_is_missing_is_counted_and_its_beginning_named(
    store: Any, numbers: list[int], missing: int, first: int
) -> None:
    numbered(store, numbers)
    (row,) = ask(store)
    assert (row["missing"], row["first_missing"], row["explained_by"]) == (missing, first, None)


def test_the_log_of_an_engine_counts_from_nought(store: Any) -> None:
    numbered(store, [1, 2], source="engine")
    (row,) = ask(store)
    assert (row["missing"], row["first_missing"]) == (1, 0)


def test_a_number_that_came_twice_is_no_number_more(store: Any) -> None:
    numbered(store, [1, 2, 2, 4])
    (row,) = ask(store)
    assert row["missing"] == 1


def test_a_run_that_has_not_ended_says_so(store: Any) -> None:
    numbered(store, [1, 3], ended=False)
    (row,) = ask(store)
    assert row["ended_at"] is None


def test_a_gap_of_the_collector_during_the_run_explains(store: Any) -> None:
    numbered(store, [1, 2, 900])
    store.connection.execute(
        "INSERT INTO collector_events (event_id, type, cause, started_at, ended_at, version, recorded_at) "
        "VALUES (uuid(), 'gap', 'killed_or_crashed', ?, ?, '1', 0)",
        [T0 + 5, T0 + 800],
    )
    (row,) = ask(store)
    assert row["explained_by"] == "killed_or_crashed"


def test_a_gap_at_another_time_does_not_explain(store: Any) -> None:
    numbered(store, [1, 2, 9])
    store.connection.execute(
        "INSERT INTO collector_events (event_id, type, cause, started_at, ended_at, version, recorded_at) "
        "VALUES (uuid(), 'gap', 'stopped', ?, ?, '1', 0)",
        [T0 + 50, T0 + 800],
    )
    (row,) = ask(store)
    assert row["explained_by"] is None
