"""Checks the hash chains of a log file: an edit, a cut tail, a removed run shows (DEC-08)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracehold.events.chain import (
    ROOT,
    Act,
    ChainProblem,
    ChainReport,
    content_digest,
    link,
    remains_digest,
)
from tracehold.events.rows import ENVELOPE_FIELDS
from tracehold.events.scrubbing import RUN_COMPLETED, RUN_STARTED
from tracehold.events.sqlite import counting
from tracehold.events.sqlite.layout import COUNTED, missing_tables, version_of

_EVENTS = f"""SELECT seq, erased, content, salt, digest, chain, {", ".join(ENVELOPE_FIELDS)}
    FROM log_events WHERE stream_no = ? ORDER BY seq"""  # noqa: S608 - column names of our own


@dataclass(slots=True)
class _Findings:
    problems: list[ChainProblem] = field(default_factory=list)
    heads: dict[str, str] = field(default_factory=dict)
    streams: int = 0
    events: int = 0
    erased: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, stream: str | None, seq: int | None, what: str) -> None:
        self.problems.append(ChainProblem(stream, seq, what))


def verify(connection: sqlite3.Connection, stream: str | None) -> ChainReport:
    """Check one stream, or the whole file when `stream` is `None`."""
    found = _Findings()
    # A text that is no UTF-8 was not written by us; it must be reported, not end the check.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    connection.execute("BEGIN")  # one state of the file, whatever is appended meanwhile
    try:
        if missing := missing_tables(connection):
            gone = tuple(ChainProblem(None, None, f"table {name} is missing") for name in missing)
            return ChainReport(0, 0, 0, 0, {}, gone)
        acts = _read_acts(connection, found)
        scrubs = {act.stream_no: act for act in acts if act.kind in {"scrub", "replace"}}  # the last of each
        query = "SELECT no, name, last_seq, head, started_seq, completed_seq FROM log_streams"
        if stream is None:
            rows = connection.execute(f"{query} ORDER BY no")
        else:
            rows = connection.execute(f"{query} WHERE name = ?", (stream,))
        for row in rows:
            _check_stream(connection, found, scrubs, row)
        if stream is None:
            _check_whole(connection, found)
    finally:
        connection.execute("ROLLBACK")
        connection.text_factory = str
    deleted = sum(act.kind == "delete" for act in acts)
    return ChainReport(
        found.streams, found.events, found.erased, deleted, found.heads, tuple(found.problems), tuple(found.notes)
    )


def _read_acts(connection: sqlite3.Connection, found: _Findings) -> list[Act]:
    acts = []
    before = ROOT
    query = "SELECT chain, kind, stream_no, name_digest, last_seq, head, remains, at FROM log_acts ORDER BY no"
    for chain, *fields in connection.execute(query):
        act = Act(*fields)
        if _link_act(act, before) != chain:
            found.note(None, None, f"the record of an erasure at {act.at} was changed, or one before it is missing")
        before = chain
        acts.append(act)
    return acts


def _link_act(act: Act, before: bytes) -> bytes | None:
    try:
        return act.link(before)
    except (TypeError, AttributeError):  # a column of another type than was ever written
        return None


def _check_stream(
    connection: sqlite3.Connection, found: _Findings, scrubs: dict[int, Act], row: tuple[Any, ...]
) -> None:
    no, name, last_seq, head, started_seq, completed_seq = row
    if not isinstance(name, str):
        found.note(None, None, f"the name of stream number {no} was changed")
        return
    scrub = scrubs.get(no)
    scrubbed_to = scrub.last_seq if scrub else -1
    chain: bytes | None = ROOT
    seq = -1
    remains: list[tuple[int, int, str]] = []
    first: dict[str, int] = {}
    for number, erased, content, salt, digest, stored_chain, *envelope in connection.execute(_EVENTS, (no,)):
        if not isinstance(number, int):
            found.note(name, seq, "an event after this one has no number")
            continue
        seq += 1
        if number != seq:
            found.note(name, seq, f"events {seq} to {number - 1} are missing")
            seq = number
        chain = _link(chain, digest, name, number, tuple(envelope))
        if chain != stored_chain:
            found.note(name, number, "its envelope or hash was changed, or an event before it was")
            chain = stored_chain
        if erased:
            remains.append((number, erased, content))
            if number > scrubbed_to:
                found.note(name, number, "its content was emptied, and no erasure is on record")
        elif _digest(salt, content) != digest:
            found.note(name, number, "its content was changed")
        first.setdefault(envelope[1], number)
    if (seq, chain) != (last_seq, head):
        found.note(
            name,
            seq,
            f"the stream ends here, but event {last_seq} is on record as its last: the tail was cut or changed",
        )
    if (first.get(RUN_STARTED), first.get(RUN_COMPLETED)) != (started_seq, completed_seq):
        found.note(name, None, "its entry in the index of runs was changed")
    if scrub and _remains(remains) != scrub.remains:
        found.note(name, None, "what its erasure left was changed")
    found.streams += 1
    found.events += seq + 1
    found.erased += len(remains)
    found.heads[name] = head.hex() if isinstance(head, bytes) else ""


def _link(before: bytes | None, digest: bytes, stream: str, seq: int, envelope: tuple[Any, ...]) -> bytes | None:
    if before is None:
        return None
    try:
        return link(before, digest, stream, seq, envelope)
    except TypeError:
        return None


def _digest(salt: bytes, content: str) -> bytes | None:
    try:
        return content_digest(salt, content)
    except (TypeError, AttributeError, UnicodeEncodeError):
        return None


def _remains(left: list[tuple[int, int, str]]) -> bytes | None:
    try:
        return remains_digest(left)
    except TypeError:
        return None


def _check_whole(connection: sqlite3.Connection, found: _Findings) -> None:
    digests = counting.name_digests(connection)
    given = counting.sequence(connection)
    count = None
    if version_of(connection) < COUNTED:
        found.notes.append(
            "this log is of an older layout, which keeps no count of its streams: that the newest of them were removed "
            "would not show. An engine that opens it begins one"
        )
    elif (count := counting.read(connection)) is None:
        found.note(None, None, "the count of streams is missing or was changed")
    elif given != count.made:
        found.note(
            None, None, f"{count.made} streams were made, but SQLite's own count says {given}: one of them was changed"
        )
    missing = list(_gaps(sorted(digests), max(given, *digests, count.made if count else 0)))
    for what in missing:
        found.note(None, None, what)
    if count is not None and not missing and counting.chain_of(count.adopted, digests) != count.chain:
        found.note(None, None, "the count of streams does not fit their names and numbers: one of them was changed")
    if count is not None and count.adopted:
        found.notes.append(f"{count.adopted:,} streams were there before the count of streams was begun")
    strays = connection.execute(
        "SELECT DISTINCT stream_no FROM log_events WHERE stream_no IS NOT NULL "
        "AND stream_no NOT IN (SELECT no FROM log_streams)"
    )
    for (no,) in strays:
        found.note(None, None, f"events of stream number {no} are there, and the stream is not")


def _gaps(numbers: list[int], last: int) -> Iterator[str]:
    before = 0
    for no in (*numbers, last + 1):
        if no == before + 2:
            yield f"stream number {before + 1} is missing, and no deletion is on record"
        elif no > before + 2:
            yield f"stream numbers {before + 1} to {no - 1} are missing, and no deletion is on record"
        before = max(before, no)
