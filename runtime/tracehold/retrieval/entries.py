"""What the keyword index and the vector store have in common: a table of texts, each with an id, a scope, metadata."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tracehold.core import strictjson
from tracehold.core.database import require_columns, text_from_column, text_to_column
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.core.scope_columns import EXACT, SCOPE_COLUMNS, exact_values, restricting
from tracehold.retrieval.types import RetrievalResult

_IDS_PER_STATEMENT: Final = 500
"""Below the number of parameters that any SQLite takes (999 before 3.32)."""

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A text to be found, as it goes into a table.

    Attributes:
        id: told apart by exact scope; the same id in another scope is another entry.
        content: the text.
        metadata: JSON.
    """

    id: str
    content: str
    metadata: str = "{}"


def entries_of(
    ids: Sequence[str], contents: Sequence[str], metadatas: Sequence[dict[str, Any]] | None = None
) -> list[Entry]:
    """Return a batch as entries; of two with the same id, the later one.

    Raises:
        RetrievalError: lists of unequal length (IDX-02), an id or content that is no text, or metadata that is no
            dict or that JSON cannot hold.
    """
    if isinstance(ids, str) or isinstance(contents, str):
        raise RetrievalError("ids and contents are lists of texts, not one text; put it into a list")
    rows = list(metadatas) if metadatas is not None else [{}] * len(ids)
    if not len(ids) == len(contents) == len(rows):
        raise RetrievalError(
            f"a batch needs as many ids as contents and metadatas, not {len(ids)}, {len(contents)} and {len(rows)}"
        )
    found = {id_: _entry(id_, content, row) for id_, content, row in zip(ids, contents, rows, strict=True)}
    return list(found.values())


def check_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids without repetition.

    Raises:
        RetrievalError: one of them is no text or is empty.
    """
    if isinstance(ids, str):
        raise RetrievalError("ids is a list of texts, not one text; put it into a list")
    for id_ in ids:
        _check_id(id_)
    return list(dict.fromkeys(ids))


def _entry(id_: object, content: object, metadata: object) -> Entry:
    if not isinstance(content, str):
        raise RetrievalError(f"content is a text, not {type(content).__name__}")
    if metadata is not None and not isinstance(metadata, dict):
        raise RetrievalError(f"an entry's metadata is a dict, not {type(metadata).__name__}")
    try:
        return Entry(_check_id(id_), content, strictjson.dumps(metadata or {}, name="metadata", ascii_only=True))
    except ValueError as error:
        raise RetrievalError(f"nothing was indexed: {error}") from error


def _check_id(id_: object) -> str:
    if not isinstance(id_, str) or not id_:
        raise RetrievalError(f"an id is a text of at least one character, not {type(id_).__name__}")
    return id_


class EntryTable:
    """A table with a row an entry; every method works inside the caller's transaction.

    Args:
        name: the table, a constant of ours.
        extra: further columns with their types, each followed by a comma.
    """

    def __init__(self, name: str, *, extra: str = "") -> None:
        columns = ", ".join(f"{dimension} TEXT NOT NULL DEFAULT ''" for dimension in DIMENSIONS)
        extra_names = "".join(f"{part.split()[0]}, " for part in extra.split(",") if part.strip())
        extra_count = extra_names.count(",")
        self.name = name
        self._columns = f"id, {SCOPE_COLUMNS}, {extra_names}metadata, content"
        # AUTOINCREMENT: a row number is never given twice, so that whoever remembers one cannot get another's text.
        # The content comes last, where long texts do not slow down reading the columns before it.
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {name} (entry INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, {columns}, "
            f"{extra} metadata TEXT NOT NULL, content TEXT NOT NULL, UNIQUE (id, {SCOPE_COLUMNS}))"
        )
        marks = ", ".join("?" * (len(DIMENSIONS) + extra_count + 3))
        self._insert = f"INSERT INTO {name} ({self._columns}) VALUES ({marks})"  # noqa: S608 - constants
        self._select = f"SELECT entry, {self._columns} FROM {name} WHERE "  # noqa: S608 - constants
        self._find = f"SELECT entry FROM {name} WHERE "  # noqa: S608 - constants
        self._delete = f"DELETE FROM {name} WHERE entry = ?"  # noqa: S608 - constants
        self._list = f"SELECT id, {SCOPE_COLUMNS} FROM {name} WHERE "  # noqa: S608 - constants

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create the table, or check that it is ours."""
        connection.execute(self._create)
        require_columns(connection, self.name, ("entry", *self._columns.split(", ")))

    def insert(self, connection: sqlite3.Connection, entry: Entry, key: tuple[str, ...], *extra: Any) -> int:
        """Add an entry and return its row number."""
        values = (text_to_column(entry.id), *key, *extra, entry.metadata, text_to_column(entry.content))
        number = connection.execute(self._insert, values).lastrowid
        assert number is not None  # noqa: S101 - an INSERT has one
        return number

    def find(
        self, connection: sqlite3.Connection, ids: Sequence[str], scope: Scope | None, *, exact: bool
    ) -> list[int]:
        """Return the row numbers of these ids within a scope."""
        where, values = condition(scope, exact=exact)
        numbers: list[int] = []
        for batch in batches(ids, _IDS_PER_STATEMENT):
            marks = ", ".join("?" * len(batch))
            sql = f"{self._find} id IN ({marks}) AND {where}"
            numbers += [row[0] for row in connection.execute(sql, (*map(text_to_column, batch), *values))]
        return numbers

    def delete(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
        """Delete rows by number."""
        connection.executemany(self._delete, [(number,) for number in numbers])

    def fetch(
        self, connection: sqlite3.Connection, numbers: Sequence[int], scope: Scope | None, *, exact: bool
    ) -> dict[int, Row]:
        """Return rows by number; those that are gone, or outside the scope, are left out."""
        where, values = condition(scope, exact=exact)
        found: dict[int, Row] = {}
        for batch in batches(numbers, _IDS_PER_STATEMENT):
            sql = f"{self._select} entry IN ({', '.join('?' * len(batch))}) AND {where}"
            found.update((row[0], row[1:]) for row in connection.execute(sql, (*batch, *values)))
        return found

    def listing(self, connection: sqlite3.Connection, scope: Scope | None, *, exact: bool) -> dict[Scope, set[str]]:
        """Return the ids within a scope, by their exact scope."""
        where, values = condition(scope, exact=exact)
        found: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for id_, *key in connection.execute(self._list + where, values):
            found[tuple(key)].add(text_from_column(id_))
        return {Scope(*key): ids for key, ids in found.items()}


def result_of(row: Row, *, score: float, source: str, embedding: list[float] | None = None) -> RetrievalResult:
    """Return a row of `EntryTable.fetch` as a hit."""
    id_, *key = row[: len(DIMENSIONS) + 1]
    metadata, content = row[-2:]
    return RetrievalResult(
        content=text_from_column(content),
        score=score,
        source=source,
        id=text_from_column(id_),
        embedding=embedding,
        metadata=strictjson.loads(metadata),
        scope=Scope(*key),
    )


def condition(scope: Scope | None, *, exact: bool) -> tuple[str, tuple[str, ...]]:
    """Return an SQL condition and its parameters for one of the two rules of matching (SCP-03)."""
    if exact:
        return EXACT, exact_values(scope, error=RetrievalError)
    return restricting(scope, error=RetrievalError)


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield `items` in pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
