"""Stored calls priced late or anew: figures are added, none is lost, and sums agree everywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.records import START, make_record
from tracehold_collector.core.errors import StoreError
from tracehold_collector.pricing import PriceBook, load_prices
from tracehold_collector.repricing import Repricer, Scope
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer
from tracehold_queries import get

PRICED = {"cost_usd": 5.0, "price_source": "an older list"}
TOLD = {"cost_usd": 9.0, "price_source": "recorded"}
UNPRICED = {"cost_usd": None, "input_tokens": 1_000_000, "output_tokens": 1_000_000}


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    made = Writer(database)
    yield made
    made.close()


@pytest.fixture
def book(tmp_path: Path) -> Callable[[float], PriceBook]:
    def at(rate: float) -> PriceBook:
        path = tmp_path / "prices.toml"
        path.write_text(f'[[price]]\nmodel = "m1"\ninput = {rate}\noutput = {rate}\n')
        return PriceBook([load_prices(path)])

    return at


def spent(database: Database) -> tuple[Any, Any, Any, int]:
    """The sum as the runs, the days and the events tell it, and how many calls have no price."""
    with database.cursor() as cursor:
        runs = get("runs").rows(cursor)
        days = get("spend_by_model_day").rows(cursor)
        (overview,) = get("overview").rows(cursor)
    sums = [
        sum(row["cost_usd"] or 0 for row in runs),
        sum(row["cost_usd"] or 0 for row in days),
        overview["cost_usd"] or 0,
    ]
    unpriced = {sum(row["unpriced_calls"] for row in runs), sum(row["unpriced_calls"] for row in days)}
    assert unpriced == {overview["unpriced_calls"]}
    return (*(pytest.approx(value) for value in sums), unpriced.pop())  # type: ignore[return-value]


def figures(database: Database) -> list[tuple[int, float]]:
    with database.cursor() as cursor:
        rows = cursor.execute("SELECT event_id, cost_usd FROM costs ORDER BY priced_at, event_id").fetchall()
    return [(row[0].int, row[1]) for row in rows]


def test_a_call_is_priced_when_a_price_appears(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(n, run=f"r-{n % 2}", **UNPRICED) for n in range(4)]).result(10)
    assert spent(database) == (0, 0, 0, 4)
    done = Repricer(database, writer, book(2.0)).run(Scope())
    assert (done.looked_at, done.priced, done.changed, done.unknown) == (4, 4, 0, {})
    assert spent(database) == (16, 16, 16, 0)
    again = Repricer(database, writer, book(2.0)).run(Scope())
    assert again.looked_at == 0


def test_what_no_list_knows_stays_unpriced_and_is_counted(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(0, **UNPRICED), make_record(1, **UNPRICED | {"model": "odd", "provider": "p"})]).result(
        10
    )
    done = Repricer(database, writer, book(2.0)).run(Scope())
    assert (done.priced, done.unknown) == (1, {("p", "odd"): 1})
    with database.cursor() as cursor:
        (row,) = get("unpriced").rows(cursor)
    assert (row["provider"], row["model"], row["reason"], row["calls"]) == ("p", "odd", "price", 1)


def test_pricing_anew_keeps_the_old_figure_and_what_was_told(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(0, **UNPRICED | PRICED), make_record(1, **UNPRICED | TOLD)]).result(10)
    assert Repricer(database, writer, book(1.0)).run(Scope()).looked_at == 0
    done = Repricer(database, writer, book(1.0)).run(Scope(again=True))
    assert (done.looked_at, done.changed, done.usd) == (1, 1, pytest.approx(-3))
    assert spent(database) == (11, 11, 11, 0)
    Repricer(database, writer, book(4.0)).run(Scope(again=True))
    assert spent(database) == (17, 17, 17, 0)
    assert figures(database) == [(0, pytest.approx(2)), (0, pytest.approx(8))]
    with database.cursor() as cursor:
        assert cursor.execute("SELECT cost_usd FROM events ORDER BY event_id").fetchall() == [(5.0,), (9.0,)]


def test_the_same_prices_again_change_nothing(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(0, **UNPRICED)]).result(10)
    for _ in range(2):
        Repricer(database, writer, book(2.0)).run(Scope(again=True))
    assert len(figures(database)) == 1


def test_a_scope_is_a_time_and_tenants(database: Database, writer: Writer, book: Any) -> None:
    records = [make_record(n, **UNPRICED, tenant="a" if n < 3 else "b") for n in range(4)]
    writer.submit(records).result(10)
    scope = Scope(since_ns=START + 1_000_000, until_ns=START + 2_000_000, tenants=("a",))
    assert Repricer(database, writer, book(2.0)).run(scope).priced == 1
    assert [event for event, _ in figures(database)] == [1]
    assert Repricer(database, writer, book(2.0)).run(Scope(tenants=("b",))).priced == 1


def test_folding_the_runs_changes_no_sum(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(n, **UNPRICED) for n in range(3)]).result(10)
    Repricer(database, writer, book(2.0)).run(Scope())
    before = spent(database)
    writer.close()
    writer.fold()
    assert spent(database) == before == (12, 12, 12, 0)


def test_two_at_once_price_each_call_once(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(n, **UNPRICED) for n in range(50)]).result(10)
    repricer = Repricer(database, writer, book(2.0))
    threads = [threading.Thread(target=repricer.run, args=(Scope(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spent(database) == (200, 200, 200, 0)
    assert len(figures(database)) == 50


def test_a_closed_writer_says_so_and_nobody_waits_for_ever(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(0, **UNPRICED)]).result(10)
    writer.close()
    with pytest.raises(StoreError, match="price again"):
        Repricer(database, writer, book(2.0)).run(Scope())


def test_costs_that_the_store_refuses_change_nothing(database: Database, writer: Writer, book: Any) -> None:
    writer.submit([make_record(0, **UNPRICED)]).result(10)
    with database.cursor() as cursor:
        cursor.execute("ALTER TABLE costs RENAME TO gone")
        with pytest.raises(StoreError):
            Repricer(database, writer, book(2.0)).run(Scope())
        cursor.execute("ALTER TABLE gone RENAME TO costs")
    assert spent(database) == (0, 0, 0, 1)
    assert Repricer(database, writer, book(2.0)).run(Scope()).priced == 1
