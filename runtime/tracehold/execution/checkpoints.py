"""Where the state of suspended runs is kept (CKPT)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from abc import ABC, abstractmethod
from typing import Final

from tracehold.core.database import IN_MEMORY, Database, require_columns, text_from_column, text_to_column
from tracehold.core.errors import SessionError
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.core.scope_columns import EXACT, SCOPE_COLUMNS, exact_values


class CheckpointStore(ABC):
    """Keeps at most one checkpoint, a text, for each exact scope (CKPT-01, CKPT-02).

    Every implementation MUST compare all dimensions of a scope, unset ones included: a parent scope never touches a
    narrower one (CKPT-05). No scope is the one whose dimensions are all unset.

    The async twins run the sync method on a worker thread. A cancelled call does not stop that thread.
    """

    @abstractmethod
    def save(self, state_json: str, *, scope: Scope | None = None) -> None:
        """Keep `state_json` as the checkpoint of `scope`, in place of the one before."""

    @abstractmethod
    def load(self, *, scope: Scope | None = None) -> str | None:
        """Return the text last saved for `scope`, unchanged, or `None` (CKPT-03)."""

    @abstractmethod
    def clear(self, *, scope: Scope | None = None) -> None:
        """Delete the checkpoint of `scope`; without one do nothing (CKPT-06)."""

    def replace(self, expected: str | None, state_json: str | None, *, scope: Scope | None = None) -> bool:
        """Change the checkpoint of `scope` only if it still is what the caller has seen, and say whether it was.

        Of several that resume one suspended run, the one that gets `True` may go on: an approval is used once
        (DEC-02). This default loads, compares and saves. It is NOT atomic: two callers may both get `True`. A store
        that several threads or processes use must override it.

        Args:
            expected: what `load` returned; `None`: there was none.
            state_json: what to keep instead; `None` deletes.
            scope: compared exactly.
        """
        if self.load(scope=scope) != expected:
            return False
        if state_json is not None:
            self.save(state_json, scope=scope)
        elif expected is not None:
            self.clear(scope=scope)
        return True

    def close(self) -> None:  # noqa: B027 - overriding it is a choice: not every store holds something
        """Release what the store holds; the base holds nothing."""

    async def asave(self, state_json: str, *, scope: Scope | None = None) -> None:
        """`save` on a worker thread."""
        await asyncio.to_thread(self.save, state_json, scope=scope)

    async def aload(self, *, scope: Scope | None = None) -> str | None:
        """`load` on a worker thread."""
        return await asyncio.to_thread(self.load, scope=scope)

    async def aclear(self, *, scope: Scope | None = None) -> None:
        """`clear` on a worker thread."""
        await asyncio.to_thread(self.clear, scope=scope)

    async def areplace(self, expected: str | None, state_json: str | None, *, scope: Scope | None = None) -> bool:
        """`replace` on a worker thread."""
        return await asyncio.to_thread(self.replace, expected, state_json, scope=scope)


_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS run_checkpoints (
    id INTEGER PRIMARY KEY,
    {", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in DIMENSIONS)},
    state TEXT NOT NULL
)
"""
_INDEX: Final = f"CREATE UNIQUE INDEX IF NOT EXISTS run_checkpoints_scope ON run_checkpoints ({SCOPE_COLUMNS})"
_COLLAPSE: Final = (
    f"DELETE FROM run_checkpoints WHERE id NOT IN "  # noqa: S608 - constants
    f"(SELECT max(id) FROM run_checkpoints GROUP BY {SCOPE_COLUMNS})"
)
_SAVE: Final = (
    f"INSERT INTO run_checkpoints ({SCOPE_COLUMNS}, state) "  # noqa: S608 - constants
    f"VALUES ({', '.join('?' * (len(DIMENSIONS) + 1))}) "
    f"ON CONFLICT ({SCOPE_COLUMNS}) DO UPDATE SET state = excluded.state"
)
_LOAD: Final = f"SELECT state FROM run_checkpoints WHERE {EXACT}"  # noqa: S608 - constants
_CLEAR: Final = f"DELETE FROM run_checkpoints WHERE {EXACT}"  # noqa: S608 - constants


class SqliteCheckpointStore(CheckpointStore):
    """Keeps one row a scope in the table `run_checkpoints`.

    The file may be shared with other stores, threads and processes (CKPT-07). What `save` has returned from survives
    a power cut: what a person approved must not be asked, or done, twice. A call that meets another writer's lock waits
    up to 5 seconds.

    Args:
        db_path: the file; default `":memory:"`, for tests.

    Raises:
        SessionError: the file cannot be opened, is no SQLite database, or holds a table `run_checkpoints` of another
            shape (CKPT-08, CKPT-09). Every method raises it when SQLite does.
    """

    def __init__(self, db_path: str | os.PathLike[str] = IN_MEMORY) -> None:
        self._database = Database(
            db_path, error=SessionError, purpose="checkpoints", prepare=_prepare, synchronous="FULL"
        )
        self.db_path = self._database.db_path

    def save(self, state_json: str, *, scope: Scope | None = None) -> None:
        """Keep `state_json` as the checkpoint of `scope`: one statement replaces the one before (CKPT-04).

        Raises:
            SessionError: no text, a scope that is not valid Unicode, or a file that cannot be written.
        """
        key, column = exact_values(scope, error=SessionError), _column(state_json)
        with self._database.transaction() as connection:
            connection.execute(_SAVE, (*key, column))

    def load(self, *, scope: Scope | None = None) -> str | None:
        """Return the text last saved for `scope`, unchanged, or `None` (CKPT-03)."""
        key = exact_values(scope, error=SessionError)
        with self._database.reading() as connection:
            return _read(connection, key)

    def clear(self, *, scope: Scope | None = None) -> None:
        """Delete the checkpoint of `scope`; without one do nothing (CKPT-06)."""
        key = exact_values(scope, error=SessionError)
        with self._database.transaction() as connection:
            connection.execute(_CLEAR, key)

    def replace(self, expected: str | None, state_json: str | None, *, scope: Scope | None = None) -> bool:
        """Compare and change in one transaction: of several callers with one `expected`, one gets `True` (DEC-02)."""
        key = exact_values(scope, error=SessionError)
        column = None if state_json is None else _column(state_json)
        with self._database.transaction() as connection:
            if _read(connection, key) != expected:
                return False
            if column is None:
                connection.execute(_CLEAR, key)
            else:
                connection.execute(_SAVE, (*key, column))
            return True

    def close(self) -> None:
        """Release the file; a second call does nothing, any other call then raises `SessionError` (CKPT-08)."""
        self._database.close()


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(_TABLE)
    require_columns(connection, "run_checkpoints", (*DIMENSIONS, "id", "state"))
    if not _has_unique_index(connection):
        connection.execute(_COLLAPSE)  # CKPT-09: what a version without the index left behind
        connection.execute(_INDEX)


def _has_unique_index(connection: sqlite3.Connection) -> bool:
    names = {row[0] for row in connection.execute("SELECT name FROM pragma_index_list('run_checkpoints')")}
    return "run_checkpoints_scope" in names


def _read(connection: sqlite3.Connection, key: tuple[str, ...]) -> str | None:
    row = connection.execute(_LOAD, key).fetchone()
    try:
        return None if row is None else text_from_column(row[0])
    except ValueError as error:
        raise SessionError("the checkpoint of this scope is damaged; clear it and start the run again") from error


def _column(state_json: str) -> str | bytes:
    if not isinstance(state_json, str):
        raise SessionError(f"a checkpoint is a text, not {type(state_json).__name__}; give it ExecutionState.to_json()")
    return text_to_column(state_json)
