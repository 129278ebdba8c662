"""Erasing from a log file, so that the bytes are gone from it and from its write-ahead file (STO-08, STO-09, DEC-14).

`secure_delete` alone does not do it. When rows are removed, SQLite moves the rows of neighbouring pages together, and
what stood at their old place stays there as free space that no later erasure reaches (seen in SQLite 3.40). A row
that is only made smaller never moves another one. So rows of events and snapshots are emptied in place and stay as
stubs; the space comes back when enough of it is dead, by rewriting the whole file.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from tracehold.core.database import text_to_column
from tracehold.events.chain import ROOT, SALT_BYTES, Act, name_digest, remains_digest
from tracehold.events.event import Event
from tracehold.events.payload_json import decode_payload
from tracehold.events.rows import ENVELOPE_FIELDS, encode_content, encode_time
from tracehold.events.scrubbing import ERASED, is_marker, scrubbed
from tracehold.events.sqlite.heads import Head, read_head
from tracehold.events.sqlite.reading import COLUMN_LIST, SCRUBBED, to_event
from tracehold.events.store import StoredSnapshot

COMPACT_BYTES: Final = 64 * 1024 * 1024
"""Dead bytes below which a file is never rewritten by itself."""

REPLACED: Final = 2
"""In the column `erased`: the content stands for another one that is gone; 1 is a content that was scrubbed."""

_ROOM: Final = SALT_BYTES - 2
"""Bytes that a content may grow by when its salt goes: less what the row's header and the column `erased` may take."""

_DEAD_PART: Final = 3
"""Rewrite a file when more than one in this many of its bytes is dead: the work stays in proportion to the erasures."""

_EMPTY_EVENT: Final = ", ".join(
    f"{name} = NULL" for name in ("stream_no", "seq", *ENVELOPE_FIELDS, "content", "salt", "digest", "chain")
)
_EMPTY_SNAPSHOT: Final = "stream = NULL, name = NULL, seq = NULL, version = NULL, state = NULL"


@contextlib.contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Make one write transaction: committed at the end, rolled back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def scrub(connection: sqlite3.Connection, stream: str) -> int:
    """Empty every payload of a stream, drop its snapshots; return its number of events (STO-08).

    Raises:
        sqlite3.OperationalError: busy: the payload is erased, but somebody still reads an older state of the
            file, whose bytes cannot go yet; scrub again.
    """
    with writing(connection):
        _drop_snapshots(connection, stream)
        head = read_head(connection, stream)
        if head is not None and _empty_contents(connection, stream, head.no):
            _record(connection, "scrub", stream, head, _remains(connection, head.no))
    _reclaim(connection)
    return head.last_seq + 1 if head else 0


def replace_data(connection: sqlite3.Connection, stream: str, event_id: str, raw: bytes) -> bool:
    """Replace one event's payload and drop its blob references; say whether the stream holds that id (DEC-14).

    Args:
        connection: the one that writes.
        stream: whose event.
        event_id: which.
        raw: the new payload, by `encode_payload`.

    Raises:
        sqlite3.OperationalError: as `scrub`; replace again.
    """
    grown = False
    with writing(connection):
        head = read_head(connection, stream)
        query = f"SELECT {COLUMN_LIST}, salt IS NULL FROM log_events WHERE stream_no = ? AND id = ?"  # noqa: S608 - column names of our own
        row = connection.execute(query, (head.no, event_id)).fetchone() if head is not None else None
        if head is not None and row is not None:
            _drop_snapshots(connection, stream)
            *columns, emptied = row
            content = encode_content(to_event(stream, tuple(columns)).with_(data=decode_payload(raw), blobs=()))
            if (content, REPLACED) != (row[2], row[1]):
                growth = len(content.encode()) - len(row[2].encode())
                # The salt that goes makes room for a few bytes; a row that needs more would move others.
                grown = growth > (0 if emptied else _ROOM)
                connection.execute(
                    "UPDATE log_events SET content = ?, salt = NULL, erased = ? WHERE stream_no = ? AND seq = ?",
                    (content, REPLACED, head.no, row[0]),
                )
                connection.execute("UPDATE log_space SET dead_bytes = dead_bytes + ?", (max(-growth, 0),))
                _record(connection, "replace", stream, head, _remains(connection, head.no))
    if grown:
        compact(connection)
    else:
        _reclaim(connection)
    return row is not None


def delete_stream(connection: sqlite3.Connection, stream: str) -> int:
    """Remove a stream and its snapshots, leaving a tombstone; return how many events went (STO-09, DEC-08).

    Raises:
        sqlite3.OperationalError: as `scrub`; delete again.
    """
    with writing(connection):
        _drop_snapshots(connection, stream)
        head = read_head(connection, stream)
        if head is not None:
            _count_dead(connection, "log_events", "length(content) + 300", "stream_no = ?", (head.no,))
            connection.execute(f"UPDATE log_events SET {_EMPTY_EVENT}, erased = 0 WHERE stream_no = ?", (head.no,))  # noqa: S608 - column names of our own
            connection.execute("DELETE FROM log_streams WHERE no = ?", (head.no,))
            _record(connection, "delete", stream, head, b"")
    _reclaim(connection)
    return head.last_seq + 1 if head else 0


def save_snapshot(connection: sqlite3.Connection, snap: StoredSnapshot) -> None:
    """Keep a snapshot, unless one of a later event is kept (STO-10)."""
    key = (snap.stream, snap.name)
    with writing(connection):
        if snap.event_id is not None and not _holds(connection, snap):
            return
        kept = connection.execute("SELECT seq FROM log_snapshots WHERE stream = ? AND name = ?", key).fetchone()
        if kept and kept[0] > snap.seq:
            return
        if kept:
            _empty_snapshots(connection, "stream = ? AND name = ?", key)
        connection.execute(
            "INSERT INTO log_snapshots (stream, name, seq, version, state) VALUES (?, ?, ?, ?, ?)",
            (*key, snap.seq, snap.version, text_to_column(snap.state)),
        )


def _holds(connection: sqlite3.Connection, snap: StoredSnapshot) -> bool:
    query = """SELECT 1 FROM log_events JOIN log_streams ON log_events.stream_no = log_streams.no
        WHERE log_streams.name = ? AND log_events.seq = ? AND log_events.id = ? AND log_events.erased = 0"""
    return connection.execute(query, (snap.stream, snap.seq, snap.event_id)).fetchone() is not None


def compact(connection: sqlite3.Connection) -> None:
    """Rewrite the file without what is dead in it. Takes a second for a few hundred megabytes; other writers wait."""
    with writing(connection):
        connection.execute("DELETE FROM log_events WHERE stream_no IS NULL")
        connection.execute("DELETE FROM log_snapshots WHERE stream IS NULL")
        connection.execute("UPDATE log_space SET dead_bytes = 0")
    connection.execute("PRAGMA temp_store = FILE")  # a copy of all that lives need not fit into memory
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
    _truncate_log(connection)


def _empty_contents(connection: sqlite3.Connection, stream: str, no: int) -> bool:
    """Empty what is not yet; say whether anything was."""
    query = f"SELECT {COLUMN_LIST} FROM log_events WHERE stream_no = ? AND erased <> {SCRUBBED} ORDER BY seq"  # noqa: S608 - column names of our own
    freed = 0
    changes: list[tuple[str, int, int]] = []
    for row in connection.execute(query, (no,)):
        left = _left_of(to_event(stream, row))
        if left is not None:
            freed += len(row[2]) - len(left)
            changes.append((left, no, row[0]))
    connection.executemany(
        f"UPDATE log_events SET content = ?, salt = NULL, erased = {SCRUBBED} WHERE stream_no = ? AND seq = ?",  # noqa: S608 - a number of our own
        changes,
    )
    connection.execute("UPDATE log_space SET dead_bytes = dead_bytes + ?", (max(freed, 0),))
    return bool(changes)


def _left_of(event: Event) -> str | None:
    """Return the content that a scrub leaves, never longer than it was, or `None` when the event stays as it is."""
    left = scrubbed(event)
    if is_marker(event.type, event.id, event.stream) and left == event:
        return None
    # The column `erased` says it; written out, a small event would grow, and a row that grows moves others.
    return encode_content(left.with_(data={key: value for key, value in left.data.items() if key != ERASED}))


def _remains(connection: sqlite3.Connection, no: int) -> bytes:
    return remains_digest(
        connection.execute(
            "SELECT seq, erased, content FROM log_events WHERE stream_no = ? AND erased <> 0 ORDER BY seq", (no,)
        )
    )


def _record(connection: sqlite3.Connection, kind: str, stream: str, head: Head, remains: bytes) -> None:
    last = connection.execute("SELECT chain FROM log_acts ORDER BY no DESC LIMIT 1").fetchone()
    act = Act(kind, head.no, name_digest(stream), head.last_seq, head.chain, remains, encode_time(datetime.now(UTC)))
    connection.execute(
        "INSERT INTO log_acts (kind, stream_no, name_digest, last_seq, head, remains, at, chain) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            act.kind,
            act.stream_no,
            act.name_digest,
            act.last_seq,
            act.head,
            act.remains,
            act.at,
            act.link(last[0] if last else ROOT),
        ),
    )


def _drop_snapshots(connection: sqlite3.Connection, stream: str) -> None:
    _empty_snapshots(connection, "stream = ?", (stream,))


def _empty_snapshots(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> None:
    _count_dead(connection, "log_snapshots", "length(state)", where, values)
    connection.execute(f"UPDATE log_snapshots SET {_EMPTY_SNAPSHOT} WHERE {where}", values)  # noqa: S608 - our own words


def _count_dead(connection: sqlite3.Connection, table: str, size: str, where: str, values: tuple[Any, ...]) -> None:
    connection.execute(
        f"UPDATE log_space SET dead_bytes = dead_bytes + (SELECT coalesce(sum({size}), 0) FROM {table} WHERE {where})",  # noqa: S608 - our own words
        values,
    )


def _reclaim(connection: sqlite3.Connection) -> None:
    (dead,) = connection.execute("SELECT dead_bytes FROM log_space").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if dead > max(COMPACT_BYTES, pages * page_bytes // _DEAD_PART):
        compact(connection)
    else:
        _truncate_log(connection)


def _truncate_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead file into the database and cut it to nothing: it holds what the pages were before."""
    (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        error = sqlite3.OperationalError(
            "database is locked: the payload is erased, but another connection still reads an older state, and so its "
            "bytes remain in the write-ahead file; erase again when that reader is done"
        )
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        error.sqlite_errorname = "SQLITE_BUSY"
        raise error
