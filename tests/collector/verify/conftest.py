"""A store with the logs of two tenants, signed twice, that tests alter with full write access to the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.records import make_record
from tracehold.core.clock import now_ns
from tracehold_collector.audit.signing import Signer
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer
from tracehold_collector.verify.findings import Report
from tracehold_collector.verify.run import verify_log
from tracehold_collector.verify.stored import StoredLog

TABLES = ("events", "contents", "run_deltas", "costs", "usage_shares", "log_hashes", "tree_heads", "erased_events")


@dataclass
class World:
    """A store, what signs it, and the tree heads that an auditor kept."""

    database: Database
    signer: Signer
    kept: list[str]

    def verify(self, tenant: str = "default", *, with_copies: bool = False, **more: Any) -> Report:
        return verify_log(
            StoredLog(self.database),
            tenant,
            origin=self.signer.origin(tenant),
            keys=self.signer.verifier_keys(tenant),
            notes=self.kept if with_copies else (),
            **more,
        )

    def sql(self, text: str, *bound: Any) -> list[tuple[Any, ...]]:
        return self.database.connection.execute(text, list(bound)).fetchall()


def record_run(n: int, run: str, **fields: Any) -> list[Any]:
    """A run of four events: its start, a model call, a denied tool, an agent that tells usage."""
    given = {
        "run": run,
        "trace_id": f"{n:032x}",
        "agent": "ann",
        "user_ref": "u_1",
        "session_id": "s_1",
        "service": "shop",
    }
    root = {"parent_span_id": None, "kind": "run", "type": "run", "name": "answer", "model": None, "input_tokens": None}
    gate = {
        "kind": "gate",
        "type": "gate",
        "name": "shell",
        "status": "blocked",
        "decision": "denied",
        "rule": "no-shell",
    }
    return [
        make_record(n, **(given | root | {"output_tokens": None, "cost_usd": None, "content": None} | fields)),
        make_record(n + 1, **(given | {"cached_tokens": 1, "cache_write_tokens": 1, "reasoning_tokens": 1} | fields)),
        make_record(n + 2, **(given | gate | {"decided_by": "permissions", "attributes": {"a": 1}, "seq": 3} | fields)),
        make_record(
            n + 3, **(given | {"kind": "tool", "error_type": "E", "price_source": "p", "provider": "x"} | fields)
        ),
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    database = Database(None)
    signer = Signer(tmp_path_factory.mktemp("keys"), now_ns())
    writer = Writer(database)
    keeper = HeadKeeper(database, lambda: [writer.log], signer, [])
    for n in range(0, 400, 4):
        writer.submit(record_run(n, f"run-{n // 4}")).result(20)
        if n in {40, 200}:
            writer.submit(record_run(n + 1000, "other", tenant="other")).result(20)
            keeper.look(all_of_it=True)
    keeper.look(all_of_it=True)
    writer.run(lambda committer: committer.fold()).result(20)
    kept = [
        row[0] for row in database.connection.execute("SELECT note FROM tree_heads WHERE tenant = 'default'").fetchall()
    ]
    yield World(database, signer, kept)
    writer.close()
    database.close()


@pytest.fixture
def world(made: World) -> Iterator[World]:
    """The store; what a test alters is put back."""
    connection = made.database.connection
    for table in TABLES:
        connection.execute(f"CREATE OR REPLACE TABLE was_{table} AS SELECT * FROM {table}")  # noqa: S608
    yield made
    for table in TABLES:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
        connection.execute(f"INSERT INTO {table} SELECT * FROM was_{table}")  # noqa: S608


@pytest.fixture
def append(world: World) -> Callable[..., None]:
    """Write a leaf hash behind the others, as an attacker would who knows the format."""

    def appended(tenant: str, leaf: bytes) -> None:
        (size,) = world.sql(
            "SELECT max(first_index + octet_length(hashes) // 32) FROM log_hashes WHERE tenant = ? AND level = 0",
            tenant,
        )[0]
        world.sql("INSERT INTO log_hashes VALUES (?, 0, ?, ?, ?)", tenant, size, leaf, now_ns())

    return appended


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
