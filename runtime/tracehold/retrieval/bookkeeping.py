"""What an index holds, and what it may hold wrongly: the notes that `SyncIndexSync` works by."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from tracehold.core.database import Database, require_columns, text_from_column, text_to_column
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.core.scope_columns import EXACT, SCOPE_COLUMNS, exact_values, restricting

_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")


class SyncBookkeeping(ABC):
    """Notes about entries, each told apart by id and exact scope. An entry is in one of three states:

    - noted with a hash: the index holds just the content that has this hash;
    - pending: a write or a deletion failed or is under way, so that nothing is known;
    - not noted: the index does not hold it, as far as this bookkeeping was told.

    Implementations MUST be safe for several threads. They MAY raise; `SyncIndexSync` then keeps what matters in memory.
    """  # noqa: D415 - ends with a list

    @abstractmethod
    def get_hash(self, scope: Scope, id: str) -> str | None:  # noqa: A002 - documented name
        """Return the hash an entry is noted with; `None` in the other two states."""

    @abstractmethod
    def set_hashes(self, scope: Scope, pairs: Iterable[tuple[str, str]]) -> None:
        """Note entries with a hash, given as pairs of id and hash; they are not pending any more."""

    @abstractmethod
    def delete_hashes(self, scope: Scope, ids: Iterable[str]) -> None:
        """Strike entries out, pending ones as well."""

    @abstractmethod
    def mark_pending(self, scope: Scope, ids: Iterable[str]) -> None:
        """Mark entries as pending; their hashes are forgotten."""

    @abstractmethod
    def tracked_ids(self, scope: Scope) -> set[str]:
        """Return the ids noted with a hash under exactly this scope."""

    @abstractmethod
    def pending_ids(self, scope: Scope) -> set[str]:
        """Return the ids pending under exactly this scope."""

    @abstractmethod
    def exact_scopes(self, scope: Scope | None = None, *, pending: bool = False) -> set[Scope]:
        """Return the exact scopes that hold any note, or any pending one, where the set dimensions of `scope` match."""

    def close(self) -> None:  # noqa: B027 - for overriding
        """Release what it holds; the base holds nothing."""


class InMemoryBookkeeping(SyncBookkeeping):
    """Notes that end with the process; reconcile after a restart."""

    def __init__(self) -> None:
        # A hash, or `None` for pending.
        self._notes: dict[Scope, dict[str, str | None]] = {}
        self._lock = threading.Lock()

    def get_hash(self, scope: Scope, id: str) -> str | None:  # noqa: A002 - documented name
        """Return the hash an entry is noted with; `None` in the other two states."""
        with self._lock:
            return self._notes.get(scope, {}).get(id)

    def set_hashes(self, scope: Scope, pairs: Iterable[tuple[str, str]]) -> None:
        """Note entries with a hash."""
        self._note(scope, dict(pairs))

    def delete_hashes(self, scope: Scope, ids: Iterable[str]) -> None:
        """Strike entries out."""
        with self._lock:
            notes = self._notes.get(scope, {})
            for id_ in ids:
                notes.pop(id_, None)
            if not notes:
                self._notes.pop(scope, None)

    def mark_pending(self, scope: Scope, ids: Iterable[str]) -> None:
        """Mark entries as pending."""
        self._note(scope, dict.fromkeys(ids))

    def tracked_ids(self, scope: Scope) -> set[str]:
        """Return the ids noted with a hash under exactly this scope."""
        with self._lock:
            return {id_ for id_, noted in self._notes.get(scope, {}).items() if noted is not None}

    def pending_ids(self, scope: Scope) -> set[str]:
        """Return the ids pending under exactly this scope."""
        with self._lock:
            return {id_ for id_, noted in self._notes.get(scope, {}).items() if noted is None}

    def exact_scopes(self, scope: Scope | None = None, *, pending: bool = False) -> set[Scope]:
        """Return the exact scopes with a note, where the set dimensions of `scope` match."""
        wanted = (scope or Scope()).restrictions().items()
        with self._lock:
            return {
                place
                for place, notes in self._notes.items()
                if wanted <= place.restrictions().items() and (not pending or None in notes.values())
            }

    def _note(self, scope: Scope, notes: dict[str, str | None] | dict[str, str]) -> None:
        if notes:
            with self._lock:
                self._notes.setdefault(scope, {}).update(notes)


class SqliteBookkeeping(SyncBookkeeping):
    """Notes in a table of a SQLite file, which may be the index's own; they outlive the process.

    Args:
        db_path: the file.
        table: the table's name: letters, digits and underscores, at most 63.

    Raises:
        RetrievalError: another name, or a file that cannot be used. Every method raises it when SQLite fails.
    """

    def __init__(self, db_path: str | os.PathLike[str], *, table: str = "index_sync_bookkeeping") -> None:
        if not isinstance(table, str) or not _TABLE_NAME.match(table) or table.lower().startswith("sqlite_"):
            raise RetrievalError(
                "the name of a bookkeeping table is made of letters, digits and underscores, at most 63, begins with "
                "none of the digits and not with sqlite_"
            )
        self._table = table
        self._where = f'FROM "{table}" WHERE '
        # Named, since the planner would rather read all notes of a scope to find out that none is pending.
        self._where_pending = f'FROM "{table}" INDEXED BY "{table}_pending" WHERE hash IS NULL AND '
        self._database = Database(db_path, error=RetrievalError, purpose="index bookkeeping", prepare=self._prepare)

    def get_hash(self, scope: Scope, id: str) -> str | None:  # noqa: A002 - documented name
        """Return the hash an entry is noted with; `None` in the other two states."""
        with self._database.reading() as connection:
            sql = f"SELECT hash {self._where} {EXACT} AND id = ?"
            row = connection.execute(sql, (*_values(scope), text_to_column(id))).fetchone()
        return None if row is None else row[0]

    def set_hashes(self, scope: Scope, pairs: Iterable[tuple[str, str]]) -> None:
        """Note entries with a hash."""
        self._note(scope, pairs)

    def delete_hashes(self, scope: Scope, ids: Iterable[str]) -> None:
        """Strike entries out."""
        key = _values(scope)
        with self._database.transaction() as connection:
            sql = f"DELETE {self._where} {EXACT} AND id = ?"
            connection.executemany(sql, [(*key, text_to_column(id_)) for id_ in ids])

    def mark_pending(self, scope: Scope, ids: Iterable[str]) -> None:
        """Mark entries as pending."""
        self._note(scope, ((id_, None) for id_ in ids))

    def tracked_ids(self, scope: Scope) -> set[str]:
        """Return the ids noted with a hash under exactly this scope."""
        return self._ids(scope, f"{self._where} hash IS NOT NULL AND")

    def pending_ids(self, scope: Scope) -> set[str]:
        """Return the ids pending under exactly this scope."""
        return self._ids(scope, self._where_pending)

    def exact_scopes(self, scope: Scope | None = None, *, pending: bool = False) -> set[Scope]:
        """Return the exact scopes with a note, where the set dimensions of `scope` match."""
        where, values = restricting(scope, error=RetrievalError)
        source = self._where_pending if pending else self._where
        with self._database.reading() as connection:
            sql = f"SELECT DISTINCT {SCOPE_COLUMNS} {source} {where}"
            return {Scope(*key) for key in connection.execute(sql, values)}

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        self._database.close()

    def _ids(self, scope: Scope, source: str) -> set[str]:
        with self._database.reading() as connection:
            sql = f"SELECT id {source} {EXACT}"
            return {text_from_column(id_) for (id_,) in connection.execute(sql, _values(scope))}

    def _note(self, scope: Scope, pairs: Iterable[tuple[str, str | None]]) -> None:
        key = _values(scope)
        marks = ", ".join("?" * (len(DIMENSIONS) + 2))
        sql = f'INSERT OR REPLACE INTO "{self._table}" ({SCOPE_COLUMNS}, id, hash) VALUES ({marks})'  # noqa: S608 - as above
        with self._database.transaction() as connection:
            connection.executemany(sql, [(*key, text_to_column(id_), hash_) for id_, hash_ in pairs])

    def _prepare(self, connection: sqlite3.Connection) -> None:
        columns = ", ".join(f"{dimension} TEXT NOT NULL" for dimension in DIMENSIONS)
        connection.execute(
            f'CREATE TABLE IF NOT EXISTS "{self._table}" ({columns}, id TEXT NOT NULL, hash TEXT, '
            f"PRIMARY KEY ({SCOPE_COLUMNS}, id)) WITHOUT ROWID"
        )
        require_columns(connection, self._table, (*DIMENSIONS, "id", "hash"))
        # Asked at every search of a conversation, and empty nearly always.
        index = f'CREATE INDEX IF NOT EXISTS "{self._table}_pending" ON "{self._table}"'
        connection.execute(f"{index} ({SCOPE_COLUMNS}) WHERE hash IS NULL")


def _values(scope: Scope) -> tuple[str, ...]:
    return exact_values(scope, error=RetrievalError)
