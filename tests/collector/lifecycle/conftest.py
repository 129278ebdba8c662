"""A collector's story told with clocks that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tracehold_collector.lifecycle.clocks import Reading
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access, Reader

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, in nanoseconds."""


class SetClocks:
    """Clocks that move when they are told to."""

    def __init__(self) -> None:
        self.now = Reading(T0, 0, 0)

    def __call__(self) -> Reading:
        return self.now

    def move(self, wall_s: float, steady_s: float | None = None, boot_s: float | None = None) -> None:
        """Move the wall clock, and the two that nobody sets by as much unless told otherwise."""
        steady = wall_s if steady_s is None else steady_s
        boot = steady if boot_s is None else boot_s
        self.now = Reading(
            self.now.wall + round(wall_s * SECOND),
            self.now.steady + round(steady * SECOND),
            self.now.awake_or_asleep + round(boot * SECOND),
        )


@pytest.fixture
def clocks() -> SetClocks:
    return SetClocks()


@pytest.fixture
def gaps(database: Database) -> Callable[[], list[tuple[Any, ...]]]:
    """Gaps, the oldest first: type, cause, beginning and end in seconds after T0 (`None` before the store), refused."""

    def read() -> list[tuple[Any, ...]]:
        rows = Reader(database).query("gaps", {}, Access()).to_pylist()
        return [
            (row["type"], row["cause"], _seconds(row["started_at"]), _seconds(row["ended_at"]), row["refused"])
            for row in reversed(rows)
        ]

    return read


def _seconds(moment: Any) -> float | None:
    return None if moment is None else moment.timestamp() - T0 / SECOND
