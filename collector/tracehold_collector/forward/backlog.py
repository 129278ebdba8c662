"""Records that wait to be forwarded, bounded in number and in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from tracehold_collector.core.record import Record

_ENVELOPE_BYTES: Final = 1024
"""What a record without content weighs about, in memory."""


class Backlog:
    """A first-in, first-out queue of records. Not thread-safe: its owner holds a lock.

    What does not fit is turned away, the newest first: a run's beginning is worth more than a tail alone.

    Args:
        max_records: how many records may wait.
        max_bytes: how much their content may weigh together, as counted by `weight`.
    """

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._records: deque[tuple[Record, int]] = deque()
        self._max_records = max_records
        self._max_bytes = max_bytes
        self.bytes = 0

    def __len__(self) -> int:
        """Records that wait."""
        return len(self._records)

    def add(self, records: Sequence[Record]) -> int:
        """Take in what fits and return how many were turned away."""
        for taken, record in enumerate(records):
            size = weight(record)
            if len(self._records) >= self._max_records or self.bytes + size > self._max_bytes:
                return len(records) - taken
            self._records.append((record, size))
            self.bytes += size
        return 0

    def take(self, max_records: int, max_bytes: int) -> list[Record]:
        """Remove and return the oldest records within both bounds; one that is over them goes alone."""
        taken: list[Record] = []
        size = 0
        while self._records and len(taken) < max_records:
            record, record_size = self._records[0]
            if taken and size + record_size > max_bytes:
                break
            self._records.popleft()
            self.bytes -= record_size
            size += record_size
            taken.append(record)
        return taken

    def clear(self) -> int:
        """Drop everything and return how many records that were."""
        dropped = len(self._records)
        self._records.clear()
        self.bytes = 0
        return dropped


def weight(record: Record) -> int:
    """Return about how many bytes a record holds: an envelope, and the texts of its content."""
    total = _ENVELOPE_BYTES
    pending: list[Any] = [record.content]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            total += len(value) + 64
        elif isinstance(value, dict):
            total += 64 * len(value)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        else:
            total += 16
    return total
