"""Group commit: appends that wait together share one transaction, and each is still all or nothing (STO-01, STO-11).

Whether an append can be done is decided before anything of it is inserted, so one that cannot leaves no trace in the
transaction of its neighbours. Ids are first taken to be new, and looked up only when the index says one is not.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tracehold.core.database import is_busy
from tracehold.core.errors import StoreError
from tracehold.events.chain import ROOT, SALT_BYTES, content_digest, link
from tracehold.events.checks import wrong_seq
from tracehold.events.event import Event
from tracehold.events.rows import ENVELOPE_FIELDS, Envelope, build, decode_envelope
from tracehold.events.sqlite import counting
from tracehold.events.sqlite.heads import Head, Heads
from tracehold.events.sqlite.reading import find_ids
from tracehold.events.store import ANY_SEQ

Outcome: TypeAlias = tuple[Any, BaseException | None]

_COLUMNS: Final = ("stream_no", "seq", *ENVELOPE_FIELDS, "content", "salt", "digest", "chain")
_INSERT: Final = f"INSERT INTO log_events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - column names of our own
_MOVE_HEAD: Final = "UPDATE log_streams SET last_seq = ?, head = ? WHERE no = ?"
# Apart from the usual statement, which need not touch the index of open runs.
_NOTE_RUN: Final = "UPDATE log_streams SET started_seq = ?, completed_seq = ? WHERE no = ?"


@dataclass(frozen=True, slots=True)
class Append:
    """One call of `append`, encoded: `rows` are envelope and content of each of `events`."""

    stream: str
    events: Sequence[Event]
    rows: list[tuple[Envelope, str]]
    expected_seq: int


@dataclass(slots=True)
class _Transaction:
    """What a transaction is going to write."""

    connection: sqlite3.Connection
    heads: Heads
    look_up: bool
    touched: dict[str, Head] = field(default_factory=dict)
    runs: dict[str, Head] = field(default_factory=dict)
    made: list[tuple[int, str]] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    fresh: dict[tuple[int, str], tuple[int, Envelope, str]] = field(default_factory=dict)


def append_group(
    connection: sqlite3.Connection, heads: Heads, appends: Sequence[Append], committed: Callable[[str], None]
) -> list[Outcome]:
    """Do several appends in one transaction; return for each its stored events or its error.

    Args:
        connection: the only one of this store that writes.
        heads: where its streams end.
        appends: in the order they came.
        committed: told each stream that grew.
    """
    try:
        outcomes, grown = _transact(connection, heads, appends)
    except (sqlite3.Error, OverflowError) as error:
        if len(appends) == 1 or is_busy(error):
            return [(None, _in_words(copy.copy(error))) for _ in appends]
        # One of them is too large, or the disk is nearly full: those that can be stored shall be.
        return [append_group(connection, heads, [one], committed)[0] for one in appends]
    for stream in grown:
        committed(stream)
    return outcomes


def _transact(
    connection: sqlite3.Connection, heads: Heads, appends: Sequence[Append]
) -> tuple[list[Outcome], Sequence[str]]:
    for look_up in (False, True):
        connection.execute("BEGIN IMMEDIATE")
        try:
            heads.refresh(connection)
            work = _Transaction(connection, heads, look_up)
            outcomes = [_plan(work, append) for append in appends]
            _write(work)
            connection.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.IntegrityError) and not look_up:
                continue  # an id is there already: look each of them up
            raise
        heads.remember(work.touched)
        return outcomes, list(work.touched)
    raise AssertionError("unreachable")


def _plan(work: _Transaction, append: Append) -> Outcome:
    head = work.touched.get(append.stream)
    if head is None:
        known = work.heads.find(work.connection, append.stream)
        head = known.copy() if known else None
    last = head.last_seq if head else -1
    if append.expected_seq not in (ANY_SEQ, last):
        return None, wrong_seq(append.stream, append.expected_seq, last)
    if not append.rows:
        return [], None
    stored = _stored_already(work, append, head)
    if head is None:
        head = _new_stream(work, append.stream)
    made = [
        _place(work, append.stream, head, event, row, stored)
        for event, row in zip(append.events, append.rows, strict=True)
    ]
    if head.last_seq > last:
        work.touched[append.stream] = head
    return made, None


def _stored_already(work: _Transaction, append: Append, head: Head | None) -> dict[str, Event]:
    if not work.look_up or head is None:
        return {}
    return find_ids(work.connection, append.stream, head.no, [row[0][0] for row in append.rows])


def _place(
    work: _Transaction, stream: str, head: Head, event: Event, row: tuple[Envelope, str], stored: dict[str, Event]
) -> Event:
    envelope, content = row
    event_id = envelope[0]
    if event_id in stored:
        return stored[event_id]
    earlier = work.fresh.get((head.no, event_id))
    if earlier:
        seq, first_envelope, first_content = earlier
        return build(stream, seq, decode_envelope(first_envelope), first_content, erased=False, dup=True)
    seq = head.last_seq = head.last_seq + 1
    salt = os.urandom(SALT_BYTES)
    digest = content_digest(salt, content)
    head.chain = link(head.chain, digest, stream, seq, envelope)
    work.rows.append((head.no, seq, *envelope, content, salt, digest, head.chain))
    work.fresh[head.no, event_id] = (seq, envelope, content)
    if head.note_type(envelope[1], seq):
        work.runs[stream] = head
    return event.with_(stream=stream, seq=seq, dup=False)


def _new_stream(work: _Transaction, stream: str) -> Head:
    made = work.connection.execute("INSERT INTO log_streams (name, last_seq, head) VALUES (?, -1, ?)", (stream, ROOT))
    no = made.lastrowid
    if no is None:  # pragma: no cover - an insert has a row id
        raise StoreError("SQLite gave a new stream no number")
    work.made.append((no, stream))
    return Head(no, -1, ROOT, None, None)


def _write(work: _Transaction) -> None:
    if not work.rows:
        return
    work.connection.executemany(_INSERT, work.rows)
    work.connection.executemany(_MOVE_HEAD, [(head.last_seq, head.chain, head.no) for head in work.touched.values()])
    if work.made:
        counting.add(work.connection, work.made)
    if work.runs:
        work.connection.executemany(
            _NOTE_RUN, [(head.started_seq, head.completed_seq, head.no) for head in work.runs.values()]
        )


def _in_words(error: Exception) -> Exception:
    if isinstance(error, sqlite3.DataError | OverflowError):
        return StoreError("an append is larger than SQLite can hold; keep large payloads in a blob store")
    return error
