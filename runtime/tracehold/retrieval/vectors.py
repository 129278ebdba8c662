"""Search by meaning: vectors in SQLite, compared in memory with numpy (the extra `vectors`)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tracehold.core.database import IN_MEMORY, Database
from tracehold.core.errors import RetrievalError
from tracehold.core.extras import install_hint
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.core.scope_columns import SCOPE_COLUMNS, exact_values
from tracehold.retrieval.entries import EntryTable, check_ids, entries_of, result_of
from tracehold.retrieval.types import RetrievalResult

if TYPE_CHECKING:
    from tracehold.retrieval.matrix import Matrix

_TABLE: Final = EntryTable("vector_entries", extra="vector BLOB NOT NULL,")
_VECTOR: Final = 1 + len(DIMENSIONS)
"""Where the vector stands in a fetched row."""

_CREATE_STATE: Final = "CREATE TABLE IF NOT EXISTS vector_state (deletions INTEGER NOT NULL)"
_START_STATE: Final = "INSERT INTO vector_state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM vector_state)"
_COUNT_DELETION: Final = "UPDATE vector_state SET deletions = deletions + 1"
_DELETIONS: Final = "SELECT deletions FROM vector_state"
_WIDTH: Final = "SELECT length(vector) / 4 FROM vector_entries LIMIT 1"
_LATER: Final = f"SELECT entry, vector, {SCOPE_COLUMNS} FROM vector_entries WHERE entry > ? ORDER BY entry"  # noqa: S608 - constants


class SqliteVectorStore:
    """A `VectorStore` in the tables `vector_entries` and `vector_state` of a SQLite file.

    Every search compares the query with every vector in its scope, by cosine: exact, and fast enough for some hundred
    thousand vectors, which it holds in memory. What another process adds or deletes is seen by the next search.

    All vectors of a file have one length, that of the first. A vector of zeros has no direction: it is stored, but
    never found, and as a query it finds nothing.

    Args:
        db_path: the file; default `":memory:"`.

    Raises:
        RetrievalError: the file cannot be used. Every method raises it when SQLite fails and for arguments of the
            wrong shape; `add` and `search` also when numpy is not installed.
    """

    def __init__(self, db_path: str | os.PathLike[str] = IN_MEMORY) -> None:
        self._database = Database(db_path, error=RetrievalError, purpose="vectors", prepare=_prepare)
        self.db_path = self._database.db_path
        # Guarded by the database's lock, and made from scratch after any deletion: `deletions` says up to which.
        self._matrix: Matrix | None = None
        self._deletions = -1

    def add(
        self,
        ids: Sequence[str],
        vectors: Sequence[Sequence[float]],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add a batch, all of it or nothing; an entry of the same id and exact scope is replaced.

        Raises:
            RetrievalError: vectors of another length than those stored, or with numbers that are not finite.
        """
        self.replace([], ids, vectors, contents, scope=scope, metadatas=metadatas)

    def replace(
        self,
        old_ids: Sequence[str],
        new_ids: Sequence[str],
        vectors: Sequence[Sequence[float]],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Delete `old_ids` of this exact scope and add the others, in one transaction."""
        entries = entries_of(new_ids, contents, metadatas)
        removed = list(dict.fromkeys([*check_ids(old_ids), *(entry.id for entry in entries)]))
        key = exact_values(scope, error=RetrievalError)
        blobs: dict[str, bytes] = {}
        width = None
        if entries:
            numeric = _numeric()
            matrix = numeric.as_vectors(vectors, count=len(new_ids))
            width = matrix.shape[1]
            blobs = {id_: numeric.to_blob(vector) for id_, vector in zip(new_ids, matrix, strict=True)}
        with self._database.transaction() as connection:
            _remove(connection, _TABLE.find(connection, removed, scope, exact=True))
            if width is not None:
                _check_width(connection, width)
            for entry in entries:
                _TABLE.insert(connection, entry, key, blobs[entry.id])

    def search(
        self, query_vector: Sequence[float], *, top_k: int = 5, scope: Scope | None = None, exact: bool = False
    ) -> list[RetrievalResult]:
        """Return the entries nearest to a vector, nearest first; the score is the cosine, from -1 to 1.

        Args:
            query_vector: as many numbers as those stored have.
            top_k: how many at most.
            scope: only its set dimensions filter; an unset scope reaches everything.
            exact: match every dimension instead, unset ones included (SCP-03).

        Raises:
            RetrievalError: a vector of another length, or with a number that is not finite.
        """
        numeric = _numeric()
        query = numeric.as_vectors([query_vector], count=1)[0]
        key = exact_values(scope, error=RetrievalError)
        with self._database.reading() as connection:
            matrix = self._refreshed(connection)
            if matrix is None:
                return []
            if len(query) != matrix.width:
                raise RetrievalError(_other_width(matrix.width, len(query)))
            scores = matrix.nearest(query, top_k=top_k, key=key, exact=exact)
            rows = _TABLE.fetch(connection, list(scores), scope, exact=exact)
        return [
            result_of(
                rows[number],
                score=score,
                source="vector",
                embedding=numeric.from_blob(rows[number][_VECTOR]).tolist(),
            )
            for number, score in scores.items()
            if number in rows  # else deleted by another process since the line before
        ]

    def delete(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete these ids wherever the set dimensions of `scope` match; unknown ids are ignored."""
        self._delete(check_ids(ids), scope, exact=False)

    def delete_exact(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete these ids of exactly this scope; unknown ids are ignored."""
        self._delete(check_ids(ids), scope, exact=True)

    def entries(self, *, scope: Scope | None = None, exact: bool = False) -> dict[Scope, set[str]]:
        """Return the ids held within a scope, by their exact scope."""
        with self._database.reading() as connection:
            return _TABLE.listing(connection, scope, exact=exact)

    def close(self) -> None:
        """Release the file and the memory; a second call does nothing."""
        self._database.close()
        self._matrix = None

    def _delete(self, ids: list[str], scope: Scope | None, *, exact: bool) -> None:
        with self._database.reading() as connection:
            if not _TABLE.find(connection, ids, scope, exact=exact):
                return  # mostly so, for a retriever that works by words alone
        with self._database.transaction() as connection:
            _remove(connection, _TABLE.find(connection, ids, scope, exact=exact))

    def _refreshed(self, connection: sqlite3.Connection) -> Matrix | None:
        # The count is read before the rows: a deletion in between makes the next search start afresh, and its row is
        # not found any more when the hits are fetched.
        deletions = connection.execute(_DELETIONS).fetchone()[0]
        if self._matrix is None or deletions != self._deletions:
            width = connection.execute(_WIDTH).fetchone()
            self._matrix = None if width is None else _numeric().Matrix(width[0])
            self._deletions = deletions
        if self._matrix is not None:
            self._matrix.extend(connection.execute(_LATER, (self._matrix.last_number,)))
        return self._matrix


def _prepare(connection: sqlite3.Connection) -> None:
    _TABLE.prepare(connection)
    connection.execute(_CREATE_STATE)
    connection.execute(_START_STATE)


def _remove(connection: sqlite3.Connection, numbers: list[int]) -> None:
    if numbers:
        _TABLE.delete(connection, numbers)
        connection.execute(_COUNT_DELETION)


def _check_width(connection: sqlite3.Connection, width: int) -> None:
    stored = connection.execute(_WIDTH).fetchone()
    if stored is not None and stored[0] != width:
        raise RetrievalError(_other_width(stored[0], width))


def _other_width(stored: int, given: int) -> str:
    return (
        f"the vector store holds vectors of {stored} numbers and was given one of {given}; index everything anew with "
        "one embedder, into a new file"
    )


def require_numpy() -> None:
    """Fail now, and not at the first search.

    Raises:
        RetrievalError: numpy is not installed.
    """
    _numeric()


def _numeric() -> Any:
    try:
        from tracehold.retrieval import matrix  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise RetrievalError(
            f"search by meaning needs numpy, which is not installed; {install_hint('vectors')}"
        ) from error
    return matrix
