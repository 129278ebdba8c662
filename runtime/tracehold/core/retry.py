"""Riding out an outage: how often, how long, and which errors are worth it (RTY)."""

from __future__ import annotations

import asyncio
import errno
import math
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from tracehold.core.errors import (
    BlobIntegrityError,
    ConcurrencyError,
    SchemaError,
    StoreError,
    StoreUnavailable,
)

Result = TypeVar("Result")

# Of the system, not of a seed: processes that were forked from one must not all come back at the same moment.
_random: Final = random.SystemRandom()

_PASSING_SQLITE: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
)
# ValueError: a certificate that fails, a file opened for something else.
_LASTING: Final = (
    ValueError,
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
_LASTING_ERRNOS: Final = frozenset(
    {
        errno.EBADF,
        errno.EINVAL,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOSYS,
        errno.ENOTEMPTY,
        errno.EROFS,
        errno.EXDEV,
    }
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds on retrying; the first one reached ends it (RTY-01). Immutable.

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
        if self.max_elapsed_s is not None and not _above_zero(self.max_elapsed_s):
            raise ValueError(f"max_elapsed_s must be a number above 0 or None, not {self.max_elapsed_s!r}")
        for name in ("base_delay_s", "max_delay_s"):
            if not _above_zero(getattr(self, name)):
                raise ValueError(f"{name} must be a number above 0, not {getattr(self, name)!r}")
        if not _above_zero(self.multiplier) or self.multiplier < 1:
            raise ValueError(f"multiplier must be a number of at least 1, not {self.multiplier!r}")

    @classmethod
    def forever(cls, base_delay_s: float = 0.2, max_delay_s: float = 5.0) -> Self:
        """Return a policy that never gives up."""
        return cls(max_elapsed_s=None, base_delay_s=base_delay_s, max_delay_s=max_delay_s)

    def delay_s(self, failures: int) -> float:
        """Return the pause after the n-th failure, in seconds; with jitter another one each time."""
        # Capped before it is computed: the power of an outage that lasts all night is no float any more.
        steps = failures - 1
        ratio = self.max_delay_s / self.base_delay_s
        if ratio <= 1 or (self.multiplier > 1 and steps >= math.log(ratio) / math.log(self.multiplier)):
            computed = self.max_delay_s
        else:
            computed = min(self.max_delay_s, self.base_delay_s * self.multiplier**steps)
        return _random.uniform(0, computed) if self.jitter else computed

    def pause_s(self, failures: int, elapsed_s: float) -> float | None:
        """Return the pause after the n-th failure, or `None` when a bound is reached and there is to be none.

        The last pause ends where `max_elapsed_s` does, so that the time is used to its end.

        Args:
            failures: how often it has failed.
            elapsed_s: seconds since the first call.
        """
        if self.max_attempts is not None and failures >= self.max_attempts:
            return None
        if self.max_elapsed_s is None:
            return self.delay_s(failures)
        left = self.max_elapsed_s - elapsed_s
        return min(self.delay_s(failures), left) if left > 0 else None


def is_transient(error: BaseException) -> bool:
    """Whether an error may go away by itself (RTY-02).

    It may for resets, timeouts, most OS errors (a full disk too), and a SQLite database that is locked, busy, full or
    on a disk that fails. It may not for concurrency, schema and file-not-found errors, for missing rights and other
    conditions that last, and for plain bugs. A store's own error is judged by its cause.
    """
    if isinstance(error, ConcurrencyError | SchemaError | BlobIntegrityError | StoreUnavailable):
        return False
    if isinstance(error, StoreError):
        return error.__cause__ is not None and is_transient(error.__cause__)
    if isinstance(error, sqlite3.OperationalError):
        return _sqlite_may_pass(error)
    if isinstance(error, _LASTING):
        return False
    if isinstance(error, OSError):
        return error.errno not in _LASTING_ERRNOS
    return isinstance(error, TimeoutError | asyncio.IncompleteReadError)


async def retrying(
    fn: Callable[[], Awaitable[Result]],
    policy: RetryPolicy,
    *,
    classify: Callable[[BaseException], bool] = is_transient,
    what: str = "store operation",
    attempt_timeout_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[Result, int]:
    """Call `fn` until it works; return its result and how often it failed before.

    Args:
        fn: called anew for each attempt; safe to repeat.
        policy: the bounds.
        classify: which errors are worth another attempt.
        what: what messages call it.
        attempt_timeout_s: seconds after which an attempt that hangs counts as failed by a timeout; it is cancelled, and
            what it began may still happen. `None` waits.
        clock: seconds, monotonic.
        sleep: waits for so many seconds.

    Raises:
        StoreUnavailable: the policy is exhausted; the last error is its cause (ENG-37).
        Exception: any other error of `fn`, at once.
    """
    began, failures = clock(), 0
    while True:
        try:
            if attempt_timeout_s is None:
                return await fn(), failures
            return await _in_time(fn(), attempt_timeout_s), failures
        except Exception as error:
            if not (isinstance(error, _HangError) or classify(error)):
                raise
            failures += 1
            elapsed = clock() - began
            pause = policy.pause_s(failures, elapsed)
            if pause is None:
                raise StoreUnavailable(
                    f"{what} failed {failures} times in {elapsed:.1f} s, the last time with "
                    f"{'TimeoutError' if isinstance(error, _HangError) else type(error).__name__}; nothing was recorded"
                ) from error
        await sleep(pause)


class _HangError(TimeoutError):
    """An attempt took too long; that is ours to judge, whatever a user's `classify` thinks of timeouts."""


async def _in_time(attempt: Awaitable[Result], seconds: float) -> Result:
    """Wait for an attempt, at most so long; one that is done without waiting costs no timer."""
    steps = attempt.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        result: Result = done.value
        return result
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _Rest(waits_for, steps)
    except TimeoutError as error:
        if limit.expired():
            raise _HangError(f"no answer within {seconds:g} s") from error
        raise


class _Rest(Generic[Result]):
    """What is left of an awaitable that has taken its first step, and waits for `waits_for`."""

    def __init__(self, waits_for: Any, steps: Generator[Any, Any, Result]) -> None:
        self._waits_for = waits_for
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Result]:
        waits_for = self._waits_for
        while True:
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - cancelled meanwhile: the attempt's own to handle
                try:
                    waits_for = self._steps.throw(error)
                except StopIteration as done:
                    result: Result = done.value
                    return result
            else:
                return (yield from self._steps)


def _above_zero(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _sqlite_may_pass(error: sqlite3.OperationalError) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    text = str(error)
    return code in _PASSING_SQLITE or "is locked" in text or "is busy" in text
