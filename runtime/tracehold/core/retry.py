"""Riding out an outage: how often, how long, and which errors are worth it (RTY)."""

from __future__ import annotations

import asyncio
import math
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tracehold.core.errors import StoreUnavailable

Result = TypeVar("Result")

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_random = random.Random()  # noqa: S311 - spreads pauses, guards nothing


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds on retrying; the first one reached ends it (RTY-01).

    Attributes:
        max_attempts: calls in all, at least 1; `None` is no bound.
        max_elapsed_s: seconds from the first call, above 0; `None` is no bound.
        base_delay_s: seconds of the first pause.
        max_delay_s: longest pause.
        multiplier: what each pause grows by, at least 1.
        jitter: draw each pause between 0 and the computed one.

    Raises:
        ValueError: a value outside these bounds.
    """

    max_attempts: int | None = None
    max_elapsed_s: float | None = 30.0
    base_delay_s: float = 0.1
    max_delay_s: float = 2.0
    multiplier: float = 2.0
    jitter: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise ValueError(f"max_attempts must be an integer of at least 1 or None, not {self.max_attempts!r}")
        if self.max_elapsed_s is not None and not 0 < self.max_elapsed_s < math.inf:
            raise ValueError(f"max_elapsed_s must be above 0 or None, not {self.max_elapsed_s!r}")
        for name, least in (("base_delay_s", 0), ("max_delay_s", 0), ("multiplier", 1)):
            value = getattr(self, name)
            if not least <= value < math.inf or (least == 0 and value == 0):
                raise ValueError(f"{name} must be {'at least 1' if least else 'above 0'}, not {value!r}")

    def delay_s(self, failures: int) -> float:
        """Return the pause after the n-th failure, in seconds."""
        growth = min(self.multiplier ** (failures - 1), self.max_delay_s / self.base_delay_s)
        computed = min(self.max_delay_s, self.base_delay_s * growth)
        return _random.uniform(0, computed) if self.jitter else computed


def is_transient(error: BaseException) -> bool:
    """Whether an error may go away by itself: resets, timeouts, most OS errors, a busy SQLite (RTY-02)."""
    if isinstance(error, sqlite3.OperationalError):
        return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _BUSY or "locked" in str(error)
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return False
    return isinstance(error, OSError | TimeoutError)


async def retrying(
    fn: Callable[[], Awaitable[Result]],
    policy: RetryPolicy,
    *,
    classify: Callable[[BaseException], bool] = is_transient,
    what: str = "store operation",
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Result, int]:
    """Call `fn` until it works; return its result and how often it failed before.

    Raises:
        StoreUnavailable: the policy is exhausted; the last error is its cause (ENG-37).
    """
    began, failures = clock(), 0
    while True:
        try:
            return await fn(), failures
        except Exception as error:
            if not classify(error):
                raise
            failures += 1
            pause = policy.delay_s(failures)
            spent = policy.max_attempts is not None and failures >= policy.max_attempts
            late = policy.max_elapsed_s is not None and clock() - began + pause > policy.max_elapsed_s
            if spent or late:
                raise StoreUnavailable(
                    f"{what} failed {failures} times in {clock() - began:.1f} s, the last time with "
                    f"{type(error).__name__}; nothing was recorded"
                ) from error
            await asyncio.sleep(pause)
