"""A store of two tenants, each event marked by whose it is, and statements run over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.records import make_record
from support.two_tenants import MARK, OURS, THEIRS, statements, two_tenants
from tracehold_collector.core.record import Record
from tracehold_collector.sql.bounds import bounds_of
from tracehold_collector.sql.desk import SqlDesk, SqlOptions
from tracehold_collector.sql.engine import open_engine
from tracehold_collector.sql.scans import Scans
from tracehold_collector.sql.tables import table_schemas
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access
from tracehold_collector.store.writer import Writer


def acts() -> list[Record]:
    """A review and a signed day of each tenant."""
    runs = ("review:00000000-0000-0000-0000-000000000001", "review-day:2026-05-01")
    common: dict[str, Any] = {"kind": "score", "source": "collector", "seq": 1}
    return [
        make_record(200 + 2 * place + n, run, tenant=tenant, decided_by=who, agent=who, name=name, **common)
        for place, (tenant, who, name) in enumerate(((OURS, "ann", None), (THEIRS, MARK, MARK)))
        for n, run in enumerate(runs)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(tmp_path_factory.mktemp("store") / "tracehold.duckdb")
    writer = Writer(database)
    writer.submit([*two_tenants(), *acts()]).result(10)
    yield database
    writer.close()
    database.close()


@pytest.fixture(scope="module")
def desk(store: Database) -> SqlDesk:
    return SqlDesk(store, SqlOptions(timeout_s=20, memory_bytes=128 * 2**20))


@pytest.fixture(scope="module")
def ask(desk: SqlDesk) -> Callable[..., pa.Table]:
    def ask(text: str, tenants: tuple[str, ...] | None = (OURS,), **more: Any) -> pa.Table:
        return desk.statement(text, Access(tenants), **more).run().table

    return ask


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `hostile` and `ordinary` to the tests that ask for them."""
    for name in ("hostile", "ordinary"):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, statements(f"{name}.sql"))


class LocalSource:
    """Rows of the store, without a socket between: what a confined process gets, for tests of many statements."""

    def __init__(self, scans: Scans) -> None:
        self._scans = scans
        self._numbers = count()

    def rows(self, table: str, schema: pa.Schema, condition: Any) -> Iterator[pa.RecordBatch]:
        number = next(self._numbers)
        bounds = [] if condition is None else [list(bound) for bound in bounds_of(str(condition))]
        self._scans.open({"scan": number, "table": table, "columns": schema.names, "bounds": bounds})
        while message := self._scans.next(number):
            yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)


@pytest.fixture(scope="module")
def engine(store: Database) -> Iterator[duckdb.DuckDBPyConnection]:
    """The engine that a process has, in this one, over the rows of `acme`."""
    tables = table_schemas(store)
    scans = Scans(store, tables, Access((OURS,)))
    connection = open_engine(tables, LocalSource(scans), memory_bytes=128 * 2**20)
    yield connection
    connection.close()
    scans.close()


@pytest.fixture(scope="module")
def outcome(engine: duckdb.DuckDBPyConnection) -> Callable[[str], str]:
    """Rows of a statement as text, or its error: all that somebody would see of it."""

    def outcome(text: str) -> str:
        try:
            return str(engine.execute(text).to_arrow_table().to_pylist())
        except (duckdb.Error, ValueError) as error:
            return str(error)

    return outcome
