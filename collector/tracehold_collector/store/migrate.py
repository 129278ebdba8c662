"""Brings a store's schema to this version, a step at a time, all or nothing each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

import duckdb

from tracehold_collector.core.errors import StoreError, StoreTooNewError

_FILE_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")

_REGISTER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    INTEGER   NOT NULL,
    name       VARCHAR   NOT NULL,
    applied_at TIMESTAMP NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """Return all steps in order."""
    return sorted(_read_migrations(), key=lambda step: step.version)


def migrate(connection: duckdb.DuckDBPyConnection) -> list[Migration]:
    """Apply what is missing and return what was applied.

    Raises:
        StoreTooNewError: a newer Tracehold wrote the store; nothing was changed.
        StoreError: a step failed; it left nothing behind.
    """
    steps = migrations()
    connection.execute(_REGISTER)
    done = {row[0] for row in connection.execute("SELECT version FROM schema_migrations").fetchall()}
    newest = max((step.version for step in steps), default=0)
    if done and max(done) > newest:
        raise StoreTooNewError(
            f"the store has schema version {max(done)}, this Tracehold knows {newest}; it was left untouched. "
            "Open it with the version that wrote it, or a newer one"
        )
    missing = [step for step in steps if step.version not in done]
    for step in missing:
        _apply(connection, step)
    return missing


def _apply(connection: duckdb.DuckDBPyConnection, step: Migration) -> None:
    connection.execute("BEGIN TRANSACTION")
    try:
        connection.execute(step.sql)
        connection.execute(
            "INSERT INTO schema_migrations VALUES (?, ?, now() AT TIME ZONE 'UTC')", [step.version, step.name]
        )
        connection.execute("COMMIT")
    except duckdb.Error as error:
        connection.execute("ROLLBACK")
        raise StoreError(f"migration {step.version:04d}_{step.name} failed and was undone: {error}") from error


def _read_migrations() -> Iterator[Migration]:
    for file in resources.files("tracehold_collector.store.migrations").iterdir():
        match = _FILE_NAME.match(file.name)
        if match:
            yield Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
