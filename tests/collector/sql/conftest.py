"""A store of two tenants, each event marked by whose it is, and statements run over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.records import make_record
from tracehold_collector.sql.desk import SqlDesk, SqlOptions
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access
from tracehold_collector.store.writer import Writer

OURS = "acme"
THEIRS = "other"
MARK = "theirmark"
"""Stands in every text of the other tenant, and in no other place."""
SAID = "saidmark"
"""Stands in every content, and in no envelope."""

Ask = Callable[..., pa.Table]


def two_tenants() -> list[Any]:
    """Twenty events a tenant; the other's numbers are 666."""
    ours = [
        make_record(n, run=f"run-{n % 3}", tenant=OURS, name=f"chat {n}", agent="ann", content={"said": SAID})
        for n in range(20)
    ]
    theirs = [
        make_record(
            100 + n, run=f"{MARK}-{n % 3}", tenant=THEIRS, name=MARK, agent=MARK, model=MARK, service=MARK,
            provider=MARK, rule=MARK, error_type=MARK, type=MARK, user_ref=MARK, session_id=MARK, trace_id=MARK,
            span_id=MARK, attributes={"k": MARK}, input_tokens=666, output_tokens=666, cost_usd=666.0,
            content={"said": SAID + MARK},
        )
        for n in range(20)
    ]  # fmt: skip
    return [record for pair in zip(theirs, ours, strict=True) for record in pair]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(tmp_path_factory.mktemp("store") / "tracehold.duckdb")
    writer = Writer(database)
    writer.submit(two_tenants()).result(10)
    yield database
    writer.close()
    database.close()


@pytest.fixture(scope="module")
def desk(store: Database) -> SqlDesk:
    return SqlDesk(store, SqlOptions(timeout_s=20, memory_bytes=128 * 2**20))


@pytest.fixture(scope="module")
def ask(desk: SqlDesk) -> Ask:
    def ask(text: str, tenants: tuple[str, ...] | None = (OURS,), **more: Any) -> pa.Table:
        return desk.statement(text, Access(tenants), **more).run().table

    return ask
