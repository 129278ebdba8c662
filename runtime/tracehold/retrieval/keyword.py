"""Search by words: SQLite's FTS5 ranks with BM25, our own terms make it work for any script."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any, Final

from tracehold.core.database import IN_MEMORY, Database
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.core.scope_columns import exact_values
from tracehold.retrieval.entries import Entry, EntryTable, check_ids, entries_of, result_of
from tracehold.retrieval.terms import Wanted, terms_of, wanted_by
from tracehold.retrieval.types import RetrievalResult

_TABLE: Final = EntryTable("keyword_entries")

# The tokenizer "ascii" takes every character beyond ASCII for part of a word: it splits our terms at the spaces we
# put between them and nowhere else. "places" are terms as well, so that a search within one session reads the
# session's rows and not all that contain the word.
_CREATE_INDEX: Final = "CREATE VIRTUAL TABLE IF NOT EXISTS keyword_terms USING fts5(places, terms, tokenize = 'ascii')"
_INSERT: Final = "INSERT INTO keyword_terms (rowid, places, terms) VALUES (?, ?, ?)"
_DELETE: Final = "DELETE FROM keyword_terms WHERE rowid = ?"
_SEARCH: Final = (
    # Later rows first among equals: what was said last is what is meant, more often than not.
    "SELECT rowid, -bm25(keyword_terms, 0.0, 1.0) AS score FROM keyword_terms WHERE keyword_terms MATCH ? "
    "ORDER BY score DESC, rowid DESC LIMIT ?"
)

_MAX_TERMS_WITH_BEGINNINGS: Final = 12

_SECURE_DELETE_SINCE: Final = (3, 42)


class SqliteKeywordIndex:
    """A `KeywordIndex` in the tables `keyword_entries` and `keyword_terms` of a SQLite file.

    The file may be shared with other stores, threads and processes. A query is words and nothing else: it has no
    operators, and any text is a valid one. In a short query, a word of three characters or more also finds the words
    that begin with it.

    Deleted texts are overwritten in the file. Their single terms are as well with SQLite 3.42 or later; with an
    older one they stay in the index until `compact` is called.

    Args:
        db_path: the file; default `":memory:"`.

    Raises:
        RetrievalError: this Python's SQLite lacks FTS5, or the file cannot be used. Every method raises it when
            SQLite fails, and for arguments of the wrong type.
    """

    def __init__(self, db_path: str | os.PathLike[str] = IN_MEMORY) -> None:
        self._database = Database(db_path, error=RetrievalError, purpose="keywords", prepare=_prepare)
        self.db_path = self._database.db_path

    def add(
        self,
        ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add a batch, all of it or nothing; an entry of the same id and exact scope is replaced."""
        self._write([], entries_of(ids, contents, metadatas), scope)

    def replace(
        self,
        old_ids: Sequence[str],
        new_ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Delete `old_ids` of this exact scope and add the others, in one transaction."""
        self._write(check_ids(old_ids), entries_of(new_ids, contents, metadatas), scope)

    def search(
        self, query: str, *, top_k: int = 5, scope: Scope | None = None, exact: bool = False
    ) -> list[RetrievalResult]:
        """Return the entries that contain any word of the query, best first.

        Args:
            query: any text; without a letter, digit or symbol it finds nothing.
            top_k: how many at most.
            scope: only its set dimensions filter; an unset scope reaches everything.
            exact: match every dimension instead, unset ones included (SCP-03).
        """
        wanted = wanted_by(query)
        if not wanted:
            return []
        expression = f"terms : ({_any_of(wanted)})"
        place = _place(exact_values(scope, error=RetrievalError), exact=exact)
        if place:
            expression = f"places : {place} AND {expression}"
        with self._database.reading() as connection:
            scores: dict[int, float] = dict(connection.execute(_SEARCH, (expression, top_k)).fetchall())
            rows = _TABLE.fetch(connection, list(scores), scope, exact=exact)
        return [
            result_of(rows[number], score=score, source="keyword") for number, score in scores.items() if number in rows
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

    def compact(self) -> None:
        """Write the index anew, without what deleted entries left in it; takes seconds for 100,000 entries."""
        with self._database.transaction() as connection:
            connection.execute("INSERT INTO keyword_terms (keyword_terms) VALUES ('optimize')")

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        self._database.close()

    def _write(self, old_ids: list[str], entries: list[Entry], scope: Scope | None) -> None:
        key = exact_values(scope, error=RetrievalError)
        places = " ".join(_places(key))
        rows = [(entry, " ".join(terms_of(entry.content))) for entry in entries]
        replaced = list(dict.fromkeys([*old_ids, *(entry.id for entry in entries)]))
        with self._database.transaction() as connection:
            _remove(connection, _TABLE.find(connection, replaced, scope, exact=True))
            for entry, terms in rows:
                number = _TABLE.insert(connection, entry, key)
                connection.execute(_INSERT, (number, places, terms))

    def _delete(self, ids: list[str], scope: Scope | None, *, exact: bool) -> None:
        with self._database.transaction() as connection:
            _remove(connection, _TABLE.find(connection, ids, scope, exact=exact))


def _prepare(connection: sqlite3.Connection) -> None:
    try:
        connection.execute(_CREATE_INDEX)
    except sqlite3.OperationalError as error:
        if "no such module" not in str(error):
            raise
        raise RetrievalError(
            "this Python's SQLite was built without FTS5, which the keyword index needs; use a Python from python.org, "
            "your system's packages or conda, or hand HybridRetriever a keyword_index of your own"
        ) from error
    _TABLE.prepare(connection)
    if sqlite3.sqlite_version_info >= _SECURE_DELETE_SINCE:
        connection.execute("INSERT INTO keyword_terms (keyword_terms, rank) VALUES ('secure-delete', 1)")


def _remove(connection: sqlite3.Connection, numbers: list[int]) -> None:
    connection.executemany(_DELETE, [(number,) for number in numbers])
    _TABLE.delete(connection, numbers)


def _any_of(wanted: list[Wanted]) -> str:
    """Return what FTS5 shall look for; our terms hold no quote, and quoted text holds no operator."""
    # A long query says enough with whole words, and each beginning costs as much as a word.
    with_beginnings = len(wanted) <= _MAX_TERMS_WITH_BEGINNINGS
    return " OR ".join(_expression(item, with_beginnings=with_beginnings) for item in wanted)


def _expression(wanted: Wanted, *, with_beginnings: bool) -> str:
    exactly = f'"{" ".join(wanted.terms)}"'
    if wanted.is_fragment:
        return f"{exactly} *"
    # The whole word counts twice, so that it comes before words that only begin with it.
    return f"{exactly} * OR {exactly}" if wanted.is_beginning and with_beginnings else exactly


def _places(key: tuple[str, ...]) -> Iterator[str]:
    """Yield a term for each scope that a search within may name: every choice of the set dimensions, and all exactly.

    Ranking reads all rows of each term of a search, so one term that stands for just the rows in question is many
    times faster than one a dimension. Mostly two or three dimensions are set.
    """
    for unset in product((False, True), repeat=len(key)):
        if not any(skip and not value for skip, value in zip(unset, key, strict=True)):
            yield _place(tuple("" if skip else value for skip, value in zip(unset, key, strict=True)), exact=False)
    yield _place(key, exact=True)


def _place(key: tuple[str, ...], *, exact: bool) -> str:
    """Return the term of a scope, `""` for one that reaches everything: a digest, since a value may be any text."""
    if not exact and not any(key):
        return ""
    named = "\0".join([str(exact), *(f"{len(value)}:{value}" for value in key)])
    return f"p{blake2b(named.encode(), digest_size=8).hexdigest()}"
