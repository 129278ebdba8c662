"""Puts rows into a bare DuckDB connection the way the collector's writer does, runs included."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import fields
from importlib import resources
from typing import Any

import duckdb
from tracehold_collector.core.record import Record
from tracehold_collector.store.migrate import migrations
from tracehold_collector.store.run_deltas import run_delta_batch
from tracehold_collector.store.tables import Table

FOLD = (resources.files("tracehold_collector.store.sql") / "fold_run_deltas.sql").read_text("utf-8")
MIGRATION = "\n".join(step.sql for step in migrations())

TRACE = "0" * 31 + "1"
"""The trace of events that name none, in stores that tests fill."""

_FIELDS = {item.name for item in fields(Record)}


def insert_commit(connection: duckdb.DuckDBPyConnection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows of `events`, with `event_id` as text, and the deltas of their runs, as one commit."""
    for row in rows:
        marks = ", ".join("?" for _ in row)
        connection.execute(f"INSERT INTO events ({', '.join(row)}) VALUES ({marks})", list(row.values()))  # noqa: S608
    records = [
        Record(
            **{key: value for key, value in row.items() if key in _FIELDS}
            | {"event_id": uuid.UUID(row["event_id"]).bytes}
        )
        for row in rows
    ]
    received_at = max((row["received_at"] for row in rows), default=0)
    Table(connection, "run_deltas").append([run_delta_batch(records)], received_at)
