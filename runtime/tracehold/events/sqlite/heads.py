"""Where each stream ends, remembered from one transaction to the next."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Final

from tracehold.events.scrubbing import RUN_COMPLETED, RUN_STARTED

MAX_HEADS: Final = 4096
"""Streams remembered; the one that grew longest ago is read from the file again."""


@dataclass(slots=True)
class Head:
    """A stream's end: its number in the file, last seq, chain hash, and where its run started and completed."""

    no: int
    last_seq: int
    chain: bytes
    started_seq: int | None
    completed_seq: int | None

    def copy(self) -> Head:
        """Return one to change."""
        return replace(self)

    def note_type(self, type_: str, seq: int) -> bool:
        """Take note of a run's first started or completed event; say whether it is one (STO-07)."""
        if type_ == RUN_STARTED and self.started_seq is None:
            self.started_seq = seq
        elif type_ == RUN_COMPLETED and self.completed_seq is None:
            self.completed_seq = seq
        else:
            return False
        return True


class Heads:
    """A cache that is only as old as the file: another connection's commit empties it."""

    def __init__(self) -> None:
        self._known: dict[str, Head] = {}
        self._version = -1

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Forget everything if another connection has written; call it inside a write transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._known.clear()
            self._version = version

    def find(self, connection: sqlite3.Connection, stream: str) -> Head | None:
        """Return a stream's end, or `None` for an unknown stream."""
        return self._known.get(stream) or read_head(connection, stream)

    def remember(self, committed: dict[str, Head]) -> None:
        """Take what a committed transaction left."""
        for stream, head in committed.items():
            self._known.pop(stream, None)
            self._known[stream] = head
        while len(self._known) > MAX_HEADS:
            del self._known[next(iter(self._known))]

    def clear(self) -> None:
        """Forget everything, after a write of another kind."""
        self._known.clear()


def read_head(connection: sqlite3.Connection, stream: str) -> Head | None:
    """Return a stream's end from the file."""
    row = connection.execute(
        "SELECT no, last_seq, head, started_seq, completed_seq FROM log_streams WHERE name = ?", (stream,)
    ).fetchone()
    return Head(*row) if row else None
