"""A real, empty DuckDB store from the collector's own migration, and a way to put events into it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from support.stores import FOLD, MIGRATION, TRACE, insert_commit

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, in nanoseconds."""


class Store:
    """An in-memory store. Each `add` is one commit: its events, and one delta a run."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:")
        self.connection.execute(MIGRATION)
        self._numbers = iter(range(1, 10_000_000))

    def add(self, *events: dict[str, Any]) -> list[str]:
        """Insert events, plain defaults in unnamed columns; give the ids, which count upwards, as text."""
        ids: list[str] = []
        rows: list[dict[str, Any]] = []
        for event in events:
            row = {
                "event_id": str(uuid.UUID(int=next(self._numbers))),
                "tenant": "acme",
                "run_id": "run-1",
                "trace_id": TRACE,
                "kind": "tool",
                "type": "tool_call",
                "status": "ok",
                "source": "tracer",
                "started_at": T0,
                "received_at": T0,
            } | event
            rows.append(row)
            ids.append(row["event_id"])
        insert_commit(self.connection, rows)
        return ids

    def fold(self) -> None:
        """Fold the sums of runs, as the collector does when nobody sends."""
        self.connection.execute(FOLD)


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.connection.close()


@pytest.fixture(scope="module")
def new_store() -> Callable[[], Store]:
    """For properties, where each example needs a store of its own."""
    return Store


@pytest.fixture
def filled(store: Store) -> Store:
    """A small store that has something for every query."""
    llm = {"kind": "llm", "type": "llm_call", "model": "m1", "provider": "p1"}
    root = {"kind": "run", "span_id": "a" * 16, "name": "answer", "agent": "planner"}
    stopped = {
        "kind": "gate",
        "name": "send_mail",
        "status": "blocked",
        "decision": "denied",
        "rule": "no-mail",
    }
    store.add(
        root | {"type": "run_start", "status": "started", "seq": 2},  # number 1 is missing
        llm
        | {"span_id": "b" * 16, "parent_span_id": "a" * 16, "started_at": T0 + SECOND, "duration_ns": SECOND}
        | {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.25},
        stopped | {"span_id": "c" * 16, "parent_span_id": "a" * 16, "started_at": T0 + 2 * SECOND},
        {"name": "search", "span_id": "d" * 16, "parent_span_id": "a" * 16, "started_at": T0 + 3 * SECOND}
        | {"duration_ns": 2 * SECOND, "status": "error", "error_type": "Timeout"},
        {
            "kind": "other",
            "type": "odd",
            "name": "x",
            "source": "otlp",
            "service": "svc",
            "span_id": "e" * 16,
            "parent_span_id": "d" * 16,
            "started_at": T0 + 4 * SECOND,
        },
    )
    store.add(root | {"type": "run_end", "started_at": T0 + 6 * SECOND, "duration_ns": 6 * SECOND})
    store.add(llm | {"run_id": "run-2", "tenant": "beta", "model": None, "started_at": T0 + 60 * SECOND})
    digest = "sha256:" + "1" * 64
    store.add(
        {
            "type": "policy_changed",
            "kind": "gate",
            "agent": "planner",
            "attributes": f'{{"policy_digest": "{digest}"}}',
        },
        stopped | {"started_at": T0 + 4 * SECOND, "agent": "helper"},  # the second try
    )
    store.connection.execute(
        "INSERT INTO collector_events (event_id, type, cause, started_at, ended_at, version, recorded_at) "
        "VALUES (uuid(), 'gap', 'stopped', ?, ?, '0', ?)",
        [T0, T0 + SECOND, T0 + SECOND],
    )
    return store
