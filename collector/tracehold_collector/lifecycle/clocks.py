"""Compares the wall clock with clocks that nobody sets, and finds sleep, standstill and jumps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.store.collector_events import CollectorEvent

JUMP_NS: Final = 5 * NS_PER_S
"""By how much the wall clock must part from the others to be told: time servers correct less without a word."""

FROZEN_NS: Final = 15 * NS_PER_S
"""How much later than planned a look must come to be told: a busy machine is late by less."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The clocks at one moment, nanoseconds.

    Attributes:
        wall: UTC, since the epoch; may be set to anything at any time.
        steady: only ever goes on, and stands still while the machine sleeps.
        awake_or_asleep: goes on while the machine sleeps as well; equals `steady` where there is no such clock.
    """

    wall: int
    steady: int
    awake_or_asleep: int


def read_clocks() -> Reading:
    """Return what the clocks say now."""
    steady = time.monotonic_ns()
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return Reading(now_ns(), steady, steady if boot is None else time.clock_gettime_ns(boot))


def between(before: Reading, after: Reading, planned_ns: int) -> Iterator[CollectorEvent]:
    """Yield what happened between two looks at the clocks.

    Args:
        before: the look before.
        after: this look.
        planned_ns: how long after the look before this one was to come.
    """
    steady = after.steady - before.steady
    passed = after.awake_or_asleep - before.awake_or_asleep
    expected = before.wall + passed
    if passed - steady > JUMP_NS:
        yield CollectorEvent("gap", before.wall, expected, "asleep")
    if steady - planned_ns > FROZEN_NS:
        yield CollectorEvent("gap", before.wall, before.wall + steady, "frozen")
    jumped = after.wall - expected
    if jumped > JUMP_NS:
        yield CollectorEvent("clock", expected, after.wall, "clock_forward")
    elif jumped < -JUMP_NS:
        yield CollectorEvent("clock", after.wall, expected, "clock_backward")
