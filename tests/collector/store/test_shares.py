"""What counts as spend: leaves, and whoever tells usage that nobody below tells; whatever came first (FR-27)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_record
from tracehold_collector.core.record import Record
from tracehold_collector.store.columns import Cost
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.writer import Writer
from tracehold_queries import get

Row = dict[str, Any]


class Store:
    """A store, and what it says a run used."""

    def __init__(self, path: Path | None = None) -> None:
        self.database = Database(path)
        self.writer = Writer(self.database)

    def add(self, *records: Record) -> Row:
        """One commit; the figures of the run after it."""
        assert self.writer.submit(records).result(30).accepted == len(records)
        return self.figures()

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        with self.database.cursor() as cursor:
            return get(query).rows(cursor, **parameters)

    def figures(self, run: str = "run-1") -> Row:
        """The same from every place that has it."""
        names = ("llm_calls", "input_tokens", "output_tokens", "cost_usd", "unpriced_calls")
        (row,) = [row for row in self.rows("runs", limit=1000) if row["run_id"] == run]
        (alone,) = self.rows("run", run_id=run)
        assert [alone[name] for name in names] == [row[name] for name in names]
        spent = next((each for each in self.rows("spend", by="run_id") if each["value"] == run), None)
        figures = {name: row[name] for name in names}
        told = {name: spent["calls" if name == "llm_calls" else name] if spent else None for name in names}
        assert {name: value or 0 for name, value in told.items()} == pytest.approx(
            {name: value or 0 for name, value in figures.items()}
        )
        return figures

    def close(self) -> None:
        self.writer.close()
        self.database.close()


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.close()


def span(n: int, parent: int | None = None, tokens: tuple[int, int] | None = None, **fields: Any) -> Record:
    """Span `n` below span `parent`; an agent, or what `kind` says."""
    given_tokens, made = tokens or (None, None)
    return make_record(
        n,
        kind=fields.pop("kind", "agent"),
        parent_span_id=None if parent is None else f"{parent + 1:016x}",
        input_tokens=given_tokens,
        output_tokens=made,
        cost_usd=fields.pop("cost_usd", None),
        **fields,
    )


def call(n: int, parent: int | None, tokens: tuple[int, int] | None, **fields: Any) -> Record:
    return span(n, parent, tokens, kind="llm", **fields)


def tokens_of(figures: Row) -> tuple[Any, Any]:
    return figures["input_tokens"], figures["output_tokens"]


ROOT_113 = (span(0, None, (113, 11)), call(1, 0, (56, 5)), call(2, 0, (57, 6)))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (1, 0, 2), (2, 1, 0)])
def test_an_agent_is_never_added_to_its_calls_whatever_came_first(store: Store, order: tuple[int, ...]) -> None:
    # FR-27: root agent 113/11, children 56/5 and 57/6
    for place in order:
        figures = store.add(ROOT_113[place])
    assert tokens_of(figures) == (113, 11)
    assert figures["llm_calls"] == 2
    assert store.rows("overview")[0]["input_tokens"] == 113


@pytest.mark.parametrize("backwards", [False, True])
def test_three_levels_count_their_calls_once(store: Store, *, backwards: bool) -> None:
    # FR-27
    spans = [
        span(0, None, (113, 11)),
        span(1, 0, (113, 11)),
        span(2, 1, (56, 5)),
        call(3, 2, (56, 5)),
        call(4, 1, (57, 6)),
    ]
    for each in reversed(spans) if backwards else spans:
        figures = store.add(each)
    assert tokens_of(figures) == (113, 11)


def test_an_agent_that_alone_tells_usage_counts(store: Store) -> None:
    # FR-27: an agent with usage and no LLM children
    figures = store.add(span(0, None, (113, 11), cost_usd=0.5), span(1, 0, kind="tool"))
    assert figures == {
        "llm_calls": 0, "input_tokens": 113, "output_tokens": 11, "cost_usd": 0.5, "unpriced_calls": 0,
    }  # fmt: skip
    (day,) = store.rows("spend_by_model_day")
    assert (day["calls"], day["input_tokens"], day["cost_usd"]) == (0, 113, 0.5)


def test_of_agents_that_alone_tell_usage_the_lowest_count(store: Store) -> None:
    figures = store.add(span(0, None, (113, 11)), span(1, 0, (56, 5)), span(2, 0, (57, 6)))
    assert tokens_of(figures) == (113, 11)


def test_one_agent_beside_calls_of_another_counts_too(store: Store) -> None:
    figures = store.add(span(0, None, (300, 30)), span(1, 0, (100, 10)), call(2, 1, (100, 10)), span(3, 0, (200, 20)))
    assert tokens_of(figures) == (300, 30)


def test_a_late_call_takes_its_agents_figure_out_again(store: Store) -> None:
    # FR-27
    first = store.add(span(0, None, (113, 11), cost_usd=0.5, model="a"))
    late = store.add(call(1, 0, (100, 10), cost_usd=0.4))
    assert (tokens_of(first), first["cost_usd"]) == ((113, 11), 0.5)
    assert (tokens_of(late), late["cost_usd"]) == ((100, 10), 0.4)
    assert [row["model"] for row in store.rows("spend_by_model_day")] == ["m1"]


def test_while_a_span_between_is_missing_nothing_is_counted_twice(store: Store) -> None:
    store.add(call(9, 8, (57, 6)))
    between = store.add(span(0, None, (113, 11)), call(1, 0, (56, 5)), span(5, 0, (7, 7)))
    assert tokens_of(between) == (113, 11)  # the call whose parent is not there yet may be span 5's
    assert tokens_of(store.add(span(8, 0))) == (120, 18)


def test_a_remote_parent_that_never_comes_hides_nothing(store: Store) -> None:
    figures = store.add(span(0, 77, (113, 11)), call(1, 0, (56, 5)), span(2, 0, (57, 6)))
    assert tokens_of(figures) == (113, 11)


def test_a_run_counts_only_when_nothing_in_it_tells_usage(store: Store) -> None:
    run = span(0, None, (122_612, 1369), kind="run", cost_usd=1.26719)
    alone = store.add(run, call(1, 0, None), call(2, 0, None))
    assert alone == {
        "llm_calls": 2, "input_tokens": 122_612, "output_tokens": 1369, "cost_usd": 1.26719, "unpriced_calls": 0,
    }  # fmt: skip
    assert store.rows("unpriced") == []
    beside = store.add(call(3, None, (5, 1)))
    assert (tokens_of(beside), beside["unpriced_calls"]) == ((5, 1), 3)


def test_usage_without_a_price_makes_the_sum_a_lower_bound_and_is_listed(store: Store) -> None:
    # FR-31
    figures = store.add(span(0, None, (113, 11), model="invented"))
    assert (figures["cost_usd"], figures["unpriced_calls"]) == (None, 1)
    (row,) = store.rows("unpriced")
    assert (row["model"], row["reason"], row["calls"], row["input_tokens"]) == ("invented", "price", 1, 113)


def test_a_later_price_of_an_agents_usage_is_in_every_sum_and_goes_with_it(store: Store) -> None:
    record = span(0, None, (113, 11), model="invented")
    store.add(record)
    store.writer.submit_costs([Cost(record.event_id, "default", "run-1", 0.75, "a list")]).result(30)
    priced = store.figures()
    assert (priced["cost_usd"], priced["unpriced_calls"]) == (0.75, 0)
    assert store.rows("overview")[0]["cost_usd"] == 0.75
    late = store.add(call(1, 0, (100, 10), cost_usd=0.25))
    assert (late["cost_usd"], tokens_of(late)) == (0.25, (100, 10))


def test_a_call_that_a_newer_instrumentation_traces_twice_counts_once(store: Store) -> None:
    outer = call(0, None, (10, 2), type="call_llm", cost_usd=0.1)
    assert store.add(outer)["llm_calls"] == 1
    figures = store.add(call(1, 0, (10, 2), cost_usd=0.1))
    assert (figures["llm_calls"], tokens_of(figures), figures["cost_usd"]) == (1, (10, 2), pytest.approx(0.1))


@pytest.mark.parametrize("span_first", [True, False])
def test_a_call_that_a_program_tells_by_a_span_and_by_an_event_counts_once(store: Store, *, span_first: bool) -> None:
    by_span = call(0, None, (10, 2), type="claude_code.llm_request")
    by_event = call(1, 0, (10, 2), type="claude_code.api_request", span_id=None, cost_usd=0.1)
    for each in (by_span, by_event) if span_first else (by_event, by_span):
        figures = store.add(each)
    assert (figures["llm_calls"], tokens_of(figures), figures["cost_usd"]) == (1, (10, 2), 0.1)
    assert figures["unpriced_calls"] == 0


def test_a_program_that_sends_no_events_is_counted_by_its_spans(store: Store) -> None:
    figures = store.add(call(0, None, (10, 2), type="claude_code.llm_request"))
    assert (figures["llm_calls"], tokens_of(figures)) == (1, (10, 2))


def test_it_holds_across_a_restart(tmp_path: Path) -> None:
    first = Store(tmp_path / FILE_NAME)
    assert tokens_of(first.add(span(0, None, (113, 11)))) == (113, 11)
    first.close()
    again = Store(tmp_path / FILE_NAME)
    assert tokens_of(again.add(span(5, 0))) == (113, 11)
    assert tokens_of(again.add(call(6, 5, (100, 10)))) == (100, 10)
    again.close()


def test_the_figures_are_the_same_after_run_deltas_are_folded(store: Store) -> None:
    store.add(span(0, None, (113, 11)))
    store.add(call(1, 0, (100, 10)))
    store.add(span(2, None, (7, 7)))
    before = store.figures()
    store.writer.close()
    store.writer.fold()
    assert before == store.figures()


def test_a_commit_that_fails_changes_no_figure(store: Store) -> None:
    store.add(span(0, None, (113, 11)))
    connection = store.database.connection
    connection.execute("ALTER TABLE usage_shares RENAME TO elsewhere")
    assert store.writer.submit([span(1, None, (7, 7))]).result(30).refused == 1
    connection.execute("ALTER TABLE elsewhere RENAME TO usage_shares")
    assert tokens_of(store.figures()) == (113, 11)
    assert tokens_of(store.add(span(1, None, (7, 7)))) == (120, 18)


def test_two_tenants_runs_of_one_id_are_apart(store: Store) -> None:
    store.add(span(0, None, (113, 11)))
    store.writer.submit([call(1, 0, (5, 5), tenant="other")]).result(30)
    spent = {row["tenant"]: row["input_tokens"] for row in store.rows("spend_by_model_day")}
    assert spent == {"default": 113, "other": 5}


kinds = st.sampled_from(["agent", "llm", "llm", "tool", "task", "run"])
figures = st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))


@st.composite
def forests(draw: st.DrawFn) -> list[Record]:
    """Spans whose parents are before them, missing, or none."""
    spans = []
    for n in range(draw(st.integers(1, 10))):
        parent = draw(st.none() | st.integers(0, n - 1) if n else st.none()) if draw(st.booleans()) else None
        parent = draw(st.sampled_from([parent, parent, parent, 90 + n % 2]))
        cost = draw(st.none() | st.just(0.25))
        spans.append(span(n, parent, draw(figures), kind=draw(kinds), cost_usd=cost))
    return spans


def expected(spans: list[Record]) -> tuple[int, int]:
    """Input and output that count, by climbing from every span that tells: slow, and plain to see."""
    by_id = {each.span_id: each for each in spans}

    def way_up(each: Record) -> list[str]:
        way = []
        while each.parent_span_id is not None:
            way.append(each.parent_span_id)
            if each.parent_span_id not in by_id:
                break
            each = by_id[each.parent_span_id]
        return way

    def tells(each: Record) -> bool:
        return each.input_tokens is not None or each.cost_usd is not None

    def size(each: Record) -> tuple[int, float, bytes]:
        return (each.input_tokens or 0) + (each.output_tokens or 0), each.cost_usd or 0.0, each.event_id

    telling = [each for each in spans if tells(each)]
    above = {step for each in telling for step in way_up(each)}
    missing = {step for step in above if step not in by_id}
    own = [each for each in telling if each.kind == "llm"]
    for each in telling:
        if each.kind in {"llm", "run"} or each.span_id in above:
            continue
        top = next((step for step in way_up(each)[-1:] if step not in by_id), None)
        if missing in (set(), {top}):
            own.append(each)
    if telling and all(each.kind == "run" for each in telling):
        own = [max(telling, key=size)]
    return sum(each.input_tokens or 0 for each in own), sum(each.output_tokens or 0 for each in own)


@given(data=st.data(), spans=forests())
def test_any_order_and_any_split_of_a_runs_spans_gives_the_same_run(data: st.DataObject, spans: list[Record]) -> None:
    at_once, bit_by_bit = Store(), Store()
    try:
        at_once.add(*spans)
        order = data.draw(st.permutations(spans))
        while order:
            size = data.draw(st.integers(1, len(order)))
            bit_by_bit.add(*order[:size])
            order = order[size:]
        whole, parts = (s.rows("run", run_id="run-1")[0] for s in (at_once, bit_by_bit))
        # In quarters of a dollar sums are exact, in whatever order.
        assert whole | {"received_at": None} == parts | {"received_at": None}
        figures = at_once.figures()
        assert expected(spans) == (figures["input_tokens"] or 0, figures["output_tokens"] or 0)
        waterfalls = [s.rows("waterfall", run_id="run-1") for s in (at_once, bit_by_bit)]
        assert waterfalls[0] == waterfalls[1]
    finally:
        at_once.close()
        bit_by_bit.close()


@pytest.fixture
def long_run() -> Callable[[int], list[Record]]:
    return lambda size: [span(n, n - 1 if n else None, (5, 5) if n % 2 else None) for n in range(size)]


def test_a_chain_of_agents_that_all_tell_usage_counts_its_last_one_however_it_comes(
    store: Store, long_run: Callable[[int], list[Record]]
) -> None:
    # FR-21
    spans = long_run(10_000)
    for start in range(0, len(spans), 500):
        figures = store.add(*spans[start : start + 500])
    assert tokens_of(figures) == (5, 5)
