"""Which spans are one run, and its row and waterfall after each arrival: late, out of order, orphaned, skewed, huge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.world import START, TRACE, M, attributes, chat, span
from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer
from tracehold_queries import get

OTHER = "1" * 32
CONTEXT = NormaliseContext("default", Pseudonyms(b"k" * 32, "default"), Cleaner())
Row = dict[str, Any]


class Runs:
    """A store that is sent OTLP spans, a request at a time."""

    def __init__(self) -> None:
        self.database = Database(None)
        self.writer = Writer(self.database)

    def send(self, *spans: Row) -> None:
        body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        batch = decode_otlp_traces(json.dumps(body).encode(), encoding="json", context=CONTEXT)
        assert batch.rejected == []
        self.writer.submit(batch.records).result(60)

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        with self.database.cursor() as cursor:
            return get(query).rows(cursor, **parameters)

    def row(self, run: str = TRACE) -> Row:
        """The run's row, the same alone and in the list."""
        (alone,) = self.rows("run", run_id=run)
        (listed,) = [row for row in self.rows("runs", limit=1000) if row["run_id"] == run]
        assert alone | {"total": None, "received_at": None} == listed | {"total": None, "received_at": None}
        return alone

    def tree(self, run: str = TRACE) -> dict[int, tuple[int | None, int | None, bool]]:
        """Span -> its parent, its depth, and whether its parent is missing; spans by their number."""
        return {
            int(row["span_id"], 16) - 1: (
                None if row["parent_span_id"] is None else int(row["parent_span_id"], 16) - 1,
                row["depth"],
                row["parent_missing"],
            )
            for row in self.rows("waterfall", run_id=run, limit=10_000)
        }


@pytest.fixture
def runs() -> Iterator[Runs]:
    made = Runs()
    yield made
    made.writer.close()
    made.database.close()


def facts(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def root(**fields: Any) -> Row:
    """A root that is 100 ms wide, fails, and names itself."""
    given = {"name": "answer", "endTimeUnixNano": str(START + 100 * M), "status": {"code": 2}} | fields
    return span(0, None, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner"}, **given)


def test_children_before_their_root_are_a_run_that_the_root_then_names(runs: Runs) -> None:
    runs.send(span(2, 1, chat((5, 1)), name="ask"))
    assert facts(runs.row(), "name", "status", "events", "started_at_ns") == ("ask", "unset", 1, START + 2 * M)
    assert runs.tree() == {2: (None, 0, True)}
    runs.send(span(1, 0, name="step"))
    assert facts(runs.row(), "name", "status", "events", "started_at_ns") == ("step", "unset", 2, START + M)
    assert runs.tree() == {1: (None, 0, True), 2: (1, 1, False)}
    runs.send(root())
    assert facts(runs.row(), "name", "agent", "status", "events") == ("answer", "planner", "error", 3)
    assert facts(runs.row(), "started_at_ns", "duration_ns", "input_tokens") == (START, 100 * M, 5)
    assert runs.tree() == {0: (None, 0, False), 1: (0, 1, False), 2: (1, 2, False)}


def test_a_span_that_comes_long_after_its_root_is_counted_and_hung_in_its_place(runs: Runs) -> None:
    runs.send(root(), span(1, 0))
    runs.send(span(7, 1, chat((5, 1)), endTimeUnixNano=str(START + 500 * M)))
    assert facts(runs.row(), "name", "status", "events", "llm_calls") == ("answer", "error", 3, 1)
    assert runs.row()["duration_ns"] == 500 * M
    assert runs.tree()[7] == (1, 2, False)


def test_an_orphan_is_drawn_at_the_top_until_its_parent_comes(runs: Runs) -> None:
    runs.send(root(), span(5, 4, name="orphan"))
    assert runs.tree()[5] == (None, 0, True)
    assert facts(runs.row(), "name", "events") == ("answer", 2)
    runs.send(span(4, 0))
    assert runs.tree()[5] == (4, 2, False)


def test_a_run_whose_root_never_comes_has_the_name_of_its_first_span_and_no_end(runs: Runs) -> None:
    runs.send(span(1, 77, chat((5, 1)), name="first"), span(2, 1, name="second"))
    assert facts(runs.row(), "name", "status", "input_tokens") == ("first", "unset", 5)
    assert runs.tree() == {1: (None, 0, True), 2: (1, 1, False)}


def test_a_skewed_clock_widens_the_run_and_changes_no_parent(runs: Runs) -> None:
    skewed = {"startTimeUnixNano": str(START - 3_000 * M), "endTimeUnixNano": str(START - 2_999 * M)}
    runs.send(root(), span(1, 0, None, **skewed), span(2, 0, None, startTimeUnixNano=str(START + 900 * M),
              endTimeUnixNano=str(START + 901 * M)))  # fmt: skip
    assert facts(runs.row(), "started_at_ns", "duration_ns", "name") == (START - 3_000 * M, 3_901 * M, "answer")
    assert runs.tree() == {1: (0, 1, False), 0: (None, 0, False), 2: (0, 1, False)}
    offsets = {row["span_id"]: row["offset_ns"] for row in runs.rows("waterfall", run_id=TRACE)}
    assert list(offsets.values()) == [0, 3_000 * M, 3_900 * M]


def test_an_end_before_its_start_is_no_width_and_takes_none_from_the_run(runs: Runs) -> None:
    # FR-23
    runs.send(root(), span(1, 0, None, endTimeUnixNano=str(START - 50 * M)))
    assert facts(runs.row(), "started_at_ns", "duration_ns") == (START, 100 * M)
    widths = {row["span_id"]: row["duration_ns"] for row in runs.rows("waterfall", run_id=TRACE)}
    assert widths == {f"{1:016x}": 100 * M, f"{2:016x}": None}


def test_sub_agents_of_one_trace_are_one_run_told_apart_by_agent(runs: Runs) -> None:
    for n, name in enumerate(("researcher", "writer"), start=1):
        runs.send(span(n, 0, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}))
    runs.send(root())
    assert facts(runs.row(), "agent", "events") == ("planner", 3)
    assert [row["agent"] for row in runs.rows("waterfall", run_id=TRACE)] == ["planner", "researcher", "writer"]


@pytest.mark.parametrize("key", ["session.id", "gen_ai.conversation.id", "mcp.session.id"])
def test_a_session_groups_runs_and_is_none(key: str, runs: Runs) -> None:
    runs.send(root(attributes=attributes({key: "s-1"})))
    runs.send(span(9, None, {key: "s-1"}, traceId=OTHER))
    rows = runs.rows("runs")
    assert {row["run_id"] for row in rows} == {TRACE, OTHER}
    assert len({row["session_id"] for row in rows}) == 1
    assert len(runs.rows("runs", session_id=rows[0]["session_id"])) == 2


def test_two_traces_that_name_one_run_are_one_run(runs: Runs) -> None:
    named = {"tracehold.run.id": "r-1"}
    runs.send(span(0, None, named | chat((5, 1))))
    runs.send(span(9, 0, named | chat((7, 1)), traceId=OTHER))
    assert facts(runs.row("r-1"), "events", "input_tokens") == (2, 12)
    assert runs.tree("r-1") == {0: (None, 0, False), 9: (0, 1, False)}


@pytest.mark.parametrize("depth", [1_000, 10_000])
def test_a_deep_chain_that_comes_from_its_end_is_right_after_each_part(depth: int, runs: Runs) -> None:
    # FR-21
    spans = [span(n, n - 1 if n else None, chat((2, 1)) if n % 2 else None, name=f"s{n}") for n in range(depth)]
    step = depth // 4
    for upper in range(depth, 0, -step):
        runs.send(*spans[upper - step : upper])
        first = upper - step
        row = runs.row()
        assert facts(row, "events", "name") == (depth - first, f"s{first}")
        assert row["input_tokens"] == 2 * ((depth - first) // 2)
        tree = runs.tree()
        assert tree[first] == (None, 0, bool(first))
        assert tree[depth - 1] == (depth - 2, depth - 1 - first, False)


def test_a_run_of_100_000_spans_is_right_after_each_part_and_pages_are_the_whole(runs: Runs) -> None:
    # FR-55: agents of 100 spans each under one root; every agent repeats what its calls used
    size, part = 100_000, 20_000
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 50}
    calls = 0
    for start in range(0, size, part):
        spans = []
        for n in range(start, start + part):
            if n == 0:
                spans.append(root(endTimeUnixNano=str(START + (size + 1) * M)))
            elif n % 100 == 0:
                spans.append(span(n, 0, agent))
            else:
                spans.append(span(n, n - n % 100, chat((1, 1)) if n % 2 else None))
        calls += sum(n % 2 for n in range(start, start + part))
        runs.send(*spans)
        row = runs.row()
        assert facts(row, "events", "llm_calls", "name", "status") == (start + part, calls, "answer", "error")
        assert facts(row, "input_tokens", "output_tokens", "duration_ns") == (calls, calls, (size + 1) * M)
    last = runs.rows("waterfall", run_id=TRACE, limit=10_000, offset=size - 10_000)
    assert {row["total"] for row in last} == {size}
    assert [row["depth"] for row in last] == [1 if n % 100 == 0 else 2 for n in range(size - 10_000, size)]
    assert runs.rows("spend", by="run_id")[0]["input_tokens"] == calls
