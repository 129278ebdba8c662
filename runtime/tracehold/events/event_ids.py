"""Ids for events that name none: they sort by the moment they were made, also within one millisecond (EVT-02)."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Final

from tracehold.core.clock import NS_PER_MS, now_ns

# A UUIDv7 (RFC 9562 section 5.7): 48 bits of milliseconds, then 74 bits that are ours: 36 of a counter (section 6.2,
# method 1), which makes the ids of this process rise, and 38 random ones, which keep those of two processes apart.
_CLOCK_BITS: Final = 48
_RANDOM_BITS: Final = 38
_START_BITS: Final = 35
_FORK_STEP_BITS: Final = 30
_VERSION_AND_VARIANT: Final = 7 << 76 | 2 << 62

_random = random.Random()  # noqa: S311 - uniqueness, not secrecy
# One `next` is one step of the interpreter: no lock, which a signal handler or a finaliser that makes an event while
# another one is being made in the same thread would wait for in vain.
_counter: Iterator[int] = itertools.count(_random.getrandbits(_START_BITS))
_latest_ms = 0


def new_id() -> str:
    """Return an id that sorts behind all ids this process made before: 32 lower-case hex digits.

    A clock that is set back does not disturb the order. (While it is, two threads may make ids out of order.)
    """
    global _latest_ms  # noqa: PLW0603 - the point of it: later calls must not fall behind
    now_ms = now_ns() // NS_PER_MS
    if now_ms > _latest_ms:
        _latest_ms = now_ms
    else:
        now_ms = _latest_ms
    count = next(_counter)
    own = (count >> 24 & 0xFFF) << 64 | (count & 0xFFFFFF) << _RANDOM_BITS | _random.getrandbits(_RANDOM_BITS)
    return ((now_ms & ((1 << _CLOCK_BITS) - 1)) << 80 | own | _VERSION_AND_VARIANT).to_bytes(16, "big").hex()


def _part_from_parent() -> None:
    """Go on elsewhere than the parent process does, and still behind what it made before the fork."""
    global _counter  # noqa: PLW0603 - of this process only
    _random.seed()
    _counter = itertools.count(next(_counter) + 1 + _random.getrandbits(_FORK_STEP_BITS))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_from_parent)
