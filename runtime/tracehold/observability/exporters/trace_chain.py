"""The hash chain of a trace file: an edited, added, missing or moved row, or a cut tail, shows (DEC-08).

Beside the documented table `traces` stands `trace_chain`: a digest for each row, in order, and one last row with their
number and the hash that chains them. Both are written in the row's own transaction. Whoever can write to the file can
also compute all of it anew; against that, the head must be kept elsewhere.

Rows that were there before the chain may be an older version's, or those of somebody who removed the chain and changed
them: a first entry says how many they were, the chain begins with it, and `verify` tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from tracehold.events.chain import ROOT, ChainProblem, ChainReport

Row: TypeAlias = tuple[str, str | None, str, str]
"""Type, run id, event as JSON, time."""

_log = logging.getLogger(__name__)

TABLE: Final = "traces"
HEAD_NO: Final = 2**63 - 1
"""The head's key. The highest there is, so that it stands on the page that is written for the new row anyway."""

ADOPTED_NO: Final = 0
"""The key of the first entry: how many rows were there before the chain. A chain that began with none has none."""

MAX_PROBLEMS: Final = 100
"""`verify` stops looking for more rows that do not fit: telling where each one belongs takes a search."""

_COUNT_BYTES: Final = 8
_INSERT: Final = "INSERT INTO traces (type, run_id, event, created_at) VALUES (?, ?, ?, ?)"
_ENTRIES: Final = f"SELECT no, digest FROM trace_chain WHERE no <> {ADOPTED_NO} AND no < {HEAD_NO} ORDER BY no"  # noqa: S608 - numbers of our own
_ROWS: Final = "SELECT type, run_id, event, created_at FROM traces ORDER BY rowid"


def prepare(connection: sqlite3.Connection) -> None:
    """Create the chain where there is none; rows that are there already are taken into it as they are."""
    if _exists(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _exists(connection):  # else another process was faster
            connection.execute("CREATE TABLE trace_chain (no INTEGER PRIMARY KEY, digest BLOB NOT NULL)")
            (adopted,) = connection.execute("SELECT count(*) FROM traces").fetchone()
            head = ROOT
            if adopted:
                entry = _adopted(adopted)
                head = _link(head, entry)
                connection.execute("INSERT INTO trace_chain VALUES (?, ?)", (ADOPTED_NO, entry))
            for no, row in enumerate(connection.execute(_ROWS), start=1):
                digest = _digest(_as_text(row))
                head = _link(head, digest)
                connection.execute("INSERT INTO trace_chain VALUES (?, ?)", (no, digest))
            connection.execute("INSERT INTO trace_chain VALUES (?, ?)", (HEAD_NO, _head(adopted, head)))
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


class _DamagedError(Exception):
    """Somebody changed the chain."""


class TraceChain:
    """Inserts rows with their digests. One for each connection; remembers where the chain ended."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._count = 0
        self._head = ROOT
        self._told = False

    def insert(self, row: Row) -> None:
        """Insert a row, its digest and the new head; all or none.

        A chain that somebody has damaged must not cost an event: the row is inserted alone then, and `verify` tells.

        Raises:
            sqlite3.Error: nothing was inserted.
        """
        try:
            self._insert_linked(row)
        except (sqlite3.DatabaseError, _DamagedError) as error:
            if not _is_damage(error):
                raise
            self._connection.execute(_INSERT, row)
            if not self._told:
                self._told = True
                _log.warning("the chain of traces is damaged (%s); rows are recorded without it", error)

    def _insert_linked(self, row: Row) -> None:
        execute = self._connection.execute
        digest = _digest(row)
        execute("BEGIN IMMEDIATE")
        try:
            head = self._move_head(digest)
            execute(_INSERT, row)
            execute("INSERT INTO trace_chain VALUES (?, ?)", (self._count + 1, digest))
            execute("COMMIT")
        except BaseException:
            _roll_back(self._connection)
            raise
        self._count, self._head = self._count + 1, head

    def _move_head(self, digest: bytes) -> bytes:
        while True:
            head = _link(self._head, digest)
            moved = self._connection.execute(
                "UPDATE trace_chain SET digest = ? WHERE no = ? AND digest = ?",
                (_head(self._count + 1, head), HEAD_NO, _head(self._count, self._head)),
            )
            if moved.rowcount:
                return head
            # Another connection has written since.
            self._count, self._head = _read_head(self._connection)


def verify(connection: sqlite3.Connection) -> ChainReport | None:
    """Check a trace file's rows against their chain.

    Returns:
        What was found, the rows counted as one stream called `traces`, their places from 1; `None` for a file in
        which no `SqliteExporter` keeps a chain.
    """
    if not _exists(connection):
        return None
    if not _exists(connection, TABLE):
        gone = ChainProblem(None, None, f"table {TABLE} is missing")
        return ChainReport(streams=0, events=0, erased=0, deleted=0, heads={}, problems=(gone,))
    # A text that is no UTF-8 was not written by us; it must be reported, not end the check.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    connection.execute("BEGIN")  # one state of the file, whatever is written meanwhile
    adopted = 0
    try:
        problems = list(itertools.islice(_misfits(connection), MAX_PROBLEMS))
        (rows,) = connection.execute("SELECT count(*) FROM traces").fetchone()
        head, chain_problem = _check_chain(connection)
        with contextlib.suppress(_DamagedError):  # which is the problem of the chain, then
            adopted = _read_adopted(connection)
    finally:
        connection.execute("ROLLBACK")
        connection.text_factory = str
    if len(problems) == MAX_PROBLEMS:
        problems.append((None, "there may be more; the check of the rows ended here"))
    if chain_problem:
        problems.append((None, chain_problem))
    told = tuple(ChainProblem(TABLE, no, what) for no, what in problems)
    notes = (f"{adopted:,} rows were there before the chain was begun",) if adopted else ()
    return ChainReport(streams=1, events=rows, erased=0, deleted=0, heads={TABLE: head}, problems=told, notes=notes)


def _misfits(connection: sqlite3.Connection) -> Iterator[tuple[int | None, str]]:
    rows = (_digest(_as_text(row)) for row in connection.execute(_ROWS))
    entries = connection.execute(_ENTRIES)
    upcoming = next(rows, None)
    entry = next(entries, None)
    while upcoming is not None and entry is not None:
        digest, upcoming = upcoming, next(rows, None)
        no = entry[0]
        if digest != entry[1]:
            at = _find(connection, digest, no)
            if at is None and upcoming is not None and upcoming == entry[1]:
                yield no, "the row in front of this one is not on record: it was added"
                continue
            if at is None:
                yield no, "its content was changed"
            else:
                yield no, "it is missing" if at == no + 1 else f"rows {no} to {at - 1} are missing"
                while entry is not None and entry[0] < at:
                    entry = next(entries, None)
        entry = next(entries, None)
    if entry is not None:
        yield entry[0], "the rows end in front of it: the tail was cut"
    if upcoming is not None:
        yield None, f"{1 + sum(1 for _ in rows)} rows at the end are not on record: they were added"


def _find(connection: sqlite3.Connection, digest: bytes, after: int) -> int | None:
    found = connection.execute(
        "SELECT no FROM trace_chain WHERE no > ? AND no < ? AND digest = ? ORDER BY no LIMIT 1",
        (after, HEAD_NO, digest),
    ).fetchone()
    return int(found[0]) if found else None


def _check_chain(connection: sqlite3.Connection) -> tuple[str, str | None]:
    try:
        count, head = _read_head(connection)
    except _DamagedError as error:
        return "", str(error)
    try:
        adopted = _read_adopted(connection)
    except _DamagedError as error:
        return head.hex(), str(error)
    seen, made = 0, _link(ROOT, _adopted(adopted)) if adopted else ROOT
    for no, digest in connection.execute(_ENTRIES):
        seen += 1
        if no != seen or not isinstance(digest, bytes):
            return head.hex(), f"entry {seen} of the chain is missing or was changed"
        made = _link(made, digest)
    if seen != count:
        return head.hex(), f"the chain has {seen} entries and its head tells of {count}: it was cut or added to"
    if made != head:
        return head.hex(), "the entries of the chain do not lead to its head: one of them was changed"
    return head.hex(), None


def _is_damage(error: Exception) -> bool:
    """Whether the chain, not the file or its disk, is at fault: its table is gone, or an entry is there already."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}


def _exists(connection: sqlite3.Connection, table: str = "trace_chain") -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _digest(row: Row) -> bytes:
    """Return SHA-256 over the columns and how long each of them is."""
    kind, run_id, event, created_at = row
    sizes = f"{len(kind)} {-1 if run_id is None else len(run_id)} {len(event)} "
    return hashlib.sha256(f"{sizes}{kind}{run_id}{event}{created_at}".encode("utf-8", "surrogateescape")).digest()


def _as_text(row: tuple[object, ...]) -> Row:
    """Return a row from a file as it can be digested: what was altered may be of any type."""
    kind, run_id, event, created_at = row
    return str(kind), None if run_id is None else str(run_id), str(event), str(created_at)


def _link(before: bytes, digest: bytes) -> bytes:
    return hashlib.sha256(before + digest).digest()


def _adopted(rows: int) -> bytes:
    return b"adopted" + rows.to_bytes(_COUNT_BYTES)


def _read_adopted(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT digest FROM trace_chain WHERE no = ?", (ADOPTED_NO,)).fetchone()
    if row is None:
        return 0
    rows = int.from_bytes(row[0][-_COUNT_BYTES:]) if isinstance(row[0], bytes) else 0
    if not rows or row[0] != _adopted(rows):
        raise _DamagedError("the entry that tells how many rows were there before the chain was changed")
    return rows


def _head(count: int, head: bytes) -> bytes:
    return count.to_bytes(_COUNT_BYTES) + head


def _read_head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    row = connection.execute("SELECT digest FROM trace_chain WHERE no = ?", (HEAD_NO,)).fetchone()
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != _COUNT_BYTES + len(ROOT):
        raise _DamagedError("the head of the chain is missing or was changed")
    return int.from_bytes(row[0][:_COUNT_BYTES]), row[0][_COUNT_BYTES:]


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
