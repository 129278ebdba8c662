"""The history of conversations in a SQLite file (SES-07..28)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tracehold.core.database import IN_MEMORY, Database, require_columns
from tracehold.core.errors import SessionError
from tracehold.core.message import Message
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.core.scope_columns import EXACT, SCOPE_COLUMNS, exact_values, restricting
from tracehold.sessions.rows import Row, message_from_row, message_to_row, time_from_text, time_to_text
from tracehold.sessions.store import ScopeSummary, SessionStore

_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS session_messages (
    id INTEGER PRIMARY KEY,
    {", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in DIMENSIONS)},
    timestamp TEXT NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{{}}'
)
"""

# Ends with the time, so that one index answers loading and pruning a session and, without a look at the messages
# themselves, listing the sessions of a user.
_INDEX: Final = """
CREATE INDEX IF NOT EXISTS session_messages_scope
ON session_messages (user, session, agent, app, base, timestamp)
"""

_COLUMNS: Final = (*DIMENSIONS, "id", "timestamp", "role", "content", "metadata")
_INSERT: Final = (
    f"INSERT INTO session_messages ({SCOPE_COLUMNS}, timestamp, role, content, metadata) "  # noqa: S608 - constants
    f"VALUES ({', '.join('?' * (len(DIMENSIONS) + 4))})"
)
_ROW_COUNT_MAX: Final = 2**63 - 1


class SqliteSessionStore(SessionStore):
    """Keeps one row a message in the table `session_messages`.

    The file may be shared with other stores, other threads and other processes (SES-07). Rows are only ever added and
    deleted, never changed (SES-08). A call that meets another writer's lock waits up to 5 seconds.

    In SQL, `content` and `metadata` are JSON, `timestamp` is ISO 8601 in UTC, and an unset dimension is `''`.

    Args:
        db_path: the file; default `":memory:"`, for tests.

    Raises:
        SessionError: the file cannot be opened, is no SQLite database, or holds a table `session_messages` of another
            shape (SES-26, SES-28). Every method raises it when SQLite does.
    """

    def __init__(self, db_path: str | os.PathLike[str] = IN_MEMORY) -> None:
        self._database = Database(db_path, error=SessionError, purpose="sessions", prepare=_prepare)
        self.db_path = self._database.db_path

    def append(self, message: Message, *, scope: Scope | None = None) -> None:
        """Add one message at the end of the session `scope`.

        Raises:
            SessionError: content or metadata that JSON cannot hold (SES-11), a scope that is not valid Unicode, or a
                file that cannot be written. Nothing is stored (SES-14).
        """
        self._insert([message_to_row(message)], scope)

    def append_many(self, messages: Sequence[Message], *, scope: Scope | None = None) -> None:
        """Add messages in order, all of them or none (SES-13); an empty list does nothing.

        Raises:
            SessionError: as `append`.
        """
        self._insert([message_to_row(message) for message in messages], scope)

    def load(self, *, scope: Scope | None = None, all_scopes: bool = False) -> list[Message]:
        """Return the messages of the session `scope` in the order of insertion (SES-09).

        Args:
            scope: compared in every dimension, unset ones included (SES-02).
            all_scopes: return those of all sessions; `scope` is then ignored (SES-03).
        """
        where, values = _selection(scope, all_scopes=all_scopes)
        # The inner query stays within the index and hands over ids, so that the rows need not be sorted.
        chosen = "" if all_scopes else f"WHERE id IN (SELECT id FROM session_messages WHERE {where})"  # noqa: S608 - as below
        sql = f"SELECT id, timestamp, role, content, metadata FROM session_messages {chosen} ORDER BY id"  # noqa: S608 - constants
        with self._database.reading() as connection:
            rows = connection.execute(sql, values).fetchall()
        return [message_from_row(row_id, row) for row_id, *row in rows]

    def clear(self, *, scope: Scope | None = None, all_scopes: bool = False) -> None:
        """Delete exactly the messages of the session `scope`; with `all_scopes`, those of all sessions (SES-15).

        What is deleted is overwritten in the file. The write-ahead log beside it may hold a copy until the last
        store on the file is closed, and backups are not reached.
        """
        where, values = _selection(scope, all_scopes=all_scopes)
        with self._database.transaction() as connection:
            connection.execute(f"DELETE FROM session_messages WHERE {where}", values)  # noqa: S608 - constants

    def prune(
        self,
        *,
        scope: Scope | None = None,
        all_scopes: bool = False,
        keep_last: int | None = None,
        before: datetime | None = None,
    ) -> int:
        """Delete old messages of the session `scope` and return how many (SES-16).

        With both conditions, `before` comes first and `keep_last` counts what is left (SES-20).

        Args:
            scope: compared in every dimension, as in `load` (SES-21).
            all_scopes: prune over all sessions together: `keep_last` then counts across users (SES-21).
            keep_last: keep that many, the latest inserted; 0 deletes the whole session (SES-18).
            before: delete what is strictly earlier than this; a naive time is taken as UTC (SES-19).

        Raises:
            SessionError: neither condition, since `clear` is the way to delete everything (SES-17); or one of the
                wrong type or below 0. Nothing is deleted.
        """
        if keep_last is None and before is None:
            raise SessionError("prune needs keep_last or before; to delete a whole session, use clear")
        if keep_last is not None and (type(keep_last) is not int or keep_last < 0):
            raise SessionError(f"keep_last is an integer of at least 0 or None, not {keep_last!r}")
        limit = None if before is None else time_to_text(before, name="before")
        where, values = _selection(scope, all_scopes=all_scopes)
        deleted = 0
        with self._database.transaction() as connection:
            if limit is not None:
                sql = f"DELETE FROM session_messages WHERE {where} AND timestamp < ?"  # noqa: S608 - constants
                deleted += connection.execute(sql, (*values, limit)).rowcount
            if keep_last is not None:
                sql = (
                    f"DELETE FROM session_messages WHERE {where} AND id <= "  # noqa: S608 - constants
                    f"(SELECT id FROM session_messages WHERE {where} ORDER BY id DESC LIMIT 1 OFFSET ?)"
                )
                deleted += connection.execute(sql, (*values, *values, min(keep_last, _ROW_COUNT_MAX))).rowcount
        return deleted

    def list_scopes(self, *, along: str = "session", scope: Scope | None = None) -> list[ScopeSummary]:
        """List the values of one dimension, most recently active first (SES-22).

        Args:
            along: the dimension: "base", "user", "agent", "session" or "app".
            scope: its set dimensions restrict what is counted; unset ones, and `along` itself, do not (SES-23).

        Raises:
            ValueError: an unknown dimension (SES-24).
        """
        if along not in DIMENSIONS:
            raise ValueError(f"along is one of {', '.join(DIMENSIONS)}, not {along!r}")
        where, values = restricting(scope, error=SessionError, but=along)
        sql = (
            f"SELECT {along}, count(*), min(timestamp), max(timestamp) FROM session_messages "  # noqa: S608 - a known name
            f"WHERE {where} GROUP BY {along} ORDER BY max(timestamp) DESC, max(id) DESC"
        )
        with self._database.reading() as connection:
            rows = connection.execute(sql, values).fetchall()
        return [_summary(along, *row) for row in rows]

    def close(self) -> None:
        """Release the file; a second call does nothing, any other call then raises `SessionError` (SES-26)."""
        self._database.close()

    def _insert(self, rows: Iterable[Row], scope: Scope | None) -> None:
        key = exact_values(scope, error=SessionError)
        filled = [(*key, *row) for row in rows]
        if filled:
            with self._database.transaction() as connection:
                connection.executemany(_INSERT, filled)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(_TABLE)
    require_columns(connection, "session_messages", _COLUMNS)
    connection.execute(_INDEX)


def _selection(scope: Scope | None, *, all_scopes: bool) -> tuple[str, tuple[str, ...]]:
    return ("true", ()) if all_scopes else (EXACT, exact_values(scope, error=SessionError))


def _summary(dimension: str, value: str, count: int, first: str, last: str) -> ScopeSummary:
    try:
        return ScopeSummary(dimension, value, count, time_from_text(first), time_from_text(last))
    except ValueError as error:
        raise SessionError(
            "the table session_messages holds a time that is not ISO 8601; find and delete or mend that row"
        ) from error
