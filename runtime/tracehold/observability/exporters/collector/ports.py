"""Where the exporter touches the world besides network and disk: clocks, chance and sleep."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Protocol, TypeVar

from tracehold.core.clock import NS_PER_S, now_ns

Item = TypeVar("Item")


class Wait(Protocol):
    """Waits for an item of a queue."""

    def __call__(self, queue: SimpleQueue[Item], timeout_s: float | None, /) -> Item:
        """Return the next item; raise `queue.Empty` after `timeout_s` seconds; 0 only looks, `None` is endless."""
        ...


def wait_on_queue(queue: SimpleQueue[Item], timeout_s: float | None, /) -> Item:
    """Wait with the real clock; see `Wait`."""
    return queue.get(block=timeout_s != 0, timeout=timeout_s)


def utc_now() -> datetime:
    """Return the local time, aware."""
    return datetime.fromtimestamp(now_ns() / NS_PER_S, tz=UTC)


@dataclass(frozen=True, slots=True)
class Ports:
    """The real world by default; a test puts in its own clock.

    Attributes:
        monotonic: seconds that only grow.
        wait: sleeps on a queue; must agree with `monotonic`.
        random: a float in [0, 1).
        now: the wall clock, for HTTP dates only.
    """

    monotonic: Callable[[], float] = time.monotonic
    wait: Wait = wait_on_queue
    # A generator of its own, seeded by the system: forked children must not come back in step.
    random: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)
    now: Callable[[], datetime] = utc_now
