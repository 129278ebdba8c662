"""Removes lines of the access log that were kept long enough, a few at a time, and leaves a line that says so."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from typing import Final

from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.core.times import iso_utc

_BATCH: Final = 10_000
"""Lines of one transaction, 60 ms at most (measured): an answer that waits for its own line must not wait for more."""

_LOOK_S: Final = 3_600.0
_DAY_NS: Final = 86_400 * NS_PER_S

# The oldest lines have the smallest numbers, so that only a batch is ever looked at.
_OLD: Final = """
SELECT number FROM (SELECT number, at FROM access_log ORDER BY number LIMIT ?) WHERE at < ?
"""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Lines that were removed.

    Attributes:
        before: ISO 8601; all of them were from before.
        lines: how many.
    """

    before: str
    lines: int


class Trimmer:
    """Trims the log of one connection.

    Args:
        days: how many days a line is kept, 183 or more; `None` keeps all.
    """

    def __init__(self, days: int | None) -> None:
        self._keep_ns = None if days is None else days * _DAY_NS
        self._next = time.monotonic()

    def due_in_s(self) -> float | None:
        """Return the seconds until there may be something to do; `None` when there never is."""
        return None if self._keep_ns is None else max(0.0, self._next - time.monotonic())

    def trim(self, connection: sqlite3.Connection) -> Trimmed | None:
        """Remove one batch of lines, inside the caller's transaction; return what was removed, `None` for nothing.

        Raises:
            sqlite3.Error: nothing may be removed; roll back.
        """
        if self._keep_ns is None:
            return None
        now = now_ns()
        before = now - self._keep_ns
        numbers = connection.execute(_OLD, (_BATCH, before)).fetchall()
        if not numbers:
            return None
        connection.execute("INSERT INTO access_log_trims VALUES (?, ?, ?)", (now, before, len(numbers)))
        connection.executemany("DELETE FROM access_log WHERE number = ?", numbers)
        return Trimmed(iso_utc(before) or "", len(numbers))

    def done(self, trimmed: Trimmed | None) -> None:
        """Say when to look again: at once after a full batch, else in an hour."""
        full = trimmed is not None and trimmed.lines == _BATCH
        self._next = time.monotonic() + (0.0 if full else _LOOK_S)
