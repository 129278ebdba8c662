"""The tables a statement may read: the open envelope, and nothing that was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from tracehold_collector.store.database import Database

TABLES: Final[Mapping[str, str]] = {
    "events": "one row an event, as it was stored; times are UTC nanoseconds",
    "events_readable": "the same with times as timestamps: started_at_utc, duration_ms, received_at_utc",
    "priced_events": "events with what a call costs by what is known today",
    "runs": "one row a run: counts, tokens, cost, status",
    "costs": "what a call was found to cost after it was stored",
    "reviews": "one row a denial that somebody acted on: how its review stands; a denial without one is open",
    "review_acts": "one row an act on a denial: who, when, and what became of the review",
    "signed_days": "one row a day of receipt that was signed off: by whom, and with how many denials waiting",
    "spend_entries": "what sums of spend are made of: calls, what was changed later, and usage told above them",
}
"""By name, what is in it. A relation of the store that is not named here cannot be read."""

WITHHELD: Final = frozenset({"content_chunk", "content_pos"})
"""Columns that lead to contents."""

FIRST: Final = "tenant"
"""The column each table begins with: short, so that counting rows, which reads the first, is quick."""


def table_schemas(database: Database) -> dict[str, pa.Schema]:
    """Return the columns of each table as a statement sees them; an id is text there, and JSON is too."""
    with database.cursor() as cursor:
        return {name: _schema(cursor, name) for name in TABLES}


def _schema(cursor: Any, name: str) -> pa.Schema:
    columns = [row[0] for row in cursor.execute(f'DESCRIBE "{name}"').fetchall()]
    offered = [FIRST, *(column for column in columns if column not in WITHHELD | {FIRST})]
    schema: pa.Schema = cursor.execute(selection(name, offered, "false")).to_arrow_table().schema
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def selection(table: str, columns: list[str], condition: str) -> str:
    """Return the SQL that reads columns of a table; both were found among those on offer."""
    return f'SELECT {", ".join(_column(column) for column in columns)} FROM "{table}" WHERE {condition}'  # noqa: S608


def _column(name: str) -> str:
    return f'"{name}"::VARCHAR AS "{name}"' if name in {"event_id", "denial_id", "attributes"} else f'"{name}"'


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
