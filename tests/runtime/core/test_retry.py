"""Riding out outages, on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import io
import sqlite3
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import (
    BlobIntegrityError,
    ConcurrencyError,
    SchemaError,
    StoreError,
    StoreUnavailable,
)
from tracehold.core.retry import RetryPolicy, is_transient, retrying

policies = st.builds(
    RetryPolicy,
    max_attempts=st.none() | st.integers(1, 20),
    max_elapsed_s=st.floats(0.01, 100),
    base_delay_s=st.floats(0.01, 10),
    max_delay_s=st.floats(0.01, 10),
    multiplier=st.floats(1, 10),
    jitter=st.booleans(),
)


class Clock:
    """Time that passes only while somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class Failing:
    """Fails with some errors in turn, then works; each call takes a while."""

    def __init__(self, clock: Clock, errors: list[BaseException] | BaseException, took_s: float = 0.0) -> None:
        self._clock = clock
        self._errors = errors
        self._took_s = took_s
        self.calls = 0

    async def __call__(self) -> str:
        self._clock.now += self._took_s
        self.calls += 1
        if isinstance(self._errors, BaseException):
            raise self._errors
        if self._errors:
            raise self._errors.pop(0)
        return "done"


def attempt(fn: Callable[[], Awaitable[str]], policy: RetryPolicy, clock: Clock, **kw: Any) -> tuple[str, int]:
    return asyncio.run(retrying(fn, policy, clock=clock.read, sleep=clock.sleep, **kw))


def test_the_defaults_are_those_documented() -> None:  # RTY-01
    assert dataclasses.astuple(RetryPolicy()) == (None, 30.0, 0.1, 2.0, 2.0, True)


def test_a_policy_cannot_be_changed() -> None:  # RTY-01
    with pytest.raises(dataclasses.FrozenInstanceError):
        RetryPolicy().jitter = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("max_attempts", value) for value in (0, -1, 1.5, True, "3")],
        *[("max_elapsed_s", value) for value in (0, -1, float("nan"), float("inf"), "30", True)],
        *[("base_delay_s", value) for value in (0, -1, float("nan"), None)],
        *[("max_delay_s", value) for value in (0, float("inf"), "2")],
        *[("multiplier", value) for value in (0.5, 0, float("nan"), None)],
    ],
)
def test_a_bound_that_cannot_be_meant_is_refused_by_name(field: str, value: object) -> None:  # RTY-01
    with pytest.raises(ValueError, match=field):
        RetryPolicy(**{field: value})  # type: ignore[arg-type]


def test_pauses_grow_by_the_multiplier_up_to_the_longest() -> None:  # RTY-01
    policy = RetryPolicy(jitter=False)
    assert [policy.delay_s(failures) for failures in range(1, 8)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2, 2])


@given(policies, st.integers(1, 10**6))
def test_a_pause_lies_between_0_and_the_computed_delay(policy: RetryPolicy, failures: int) -> None:  # RTY-01
    computed = dataclasses.replace(policy, jitter=False).delay_s(failures)
    assert 0 <= policy.delay_s(failures) <= computed <= policy.max_delay_s
    assert policy.jitter or policy.delay_s(failures) == computed


def test_jitter_draws_another_pause_each_time() -> None:  # RTY-01
    assert len({RetryPolicy().delay_s(5) for _ in range(20)}) > 1


def test_the_number_of_attempts_ends_the_retrying() -> None:  # RTY-01
    clock = Clock()
    fn = Failing(clock, ConnectionResetError())
    with pytest.raises(StoreUnavailable, match="failed 3 times") as caught:
        attempt(fn, RetryPolicy(max_attempts=3), clock)
    assert fn.calls == 3
    assert len(clock.pauses) == 2
    assert isinstance(caught.value.__cause__, ConnectionResetError)


def test_the_time_ends_the_retrying_and_is_used_to_its_end() -> None:  # RTY-01
    clock = Clock()
    fn = Failing(clock, ConnectionResetError())
    with pytest.raises(StoreUnavailable):
        attempt(fn, RetryPolicy(max_elapsed_s=5.0, jitter=False), clock)
    assert clock.now == pytest.approx(1005.0)
    assert clock.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 1.9])


@given(policies, st.floats(0, 3))
def test_the_first_bound_reached_ends_it(policy: RetryPolicy, took_s: float) -> None:  # RTY-01
    clock = Clock()
    fn = Failing(clock, TimeoutError(), took_s)
    policy = dataclasses.replace(policy, max_attempts=policy.max_attempts or 50)
    with pytest.raises(StoreUnavailable):
        attempt(fn, policy, clock)
    assert policy.max_attempts is not None
    assert policy.max_elapsed_s is not None
    assert fn.calls <= policy.max_attempts
    # No attempt begins after the time is up, and neither bound was left unused.
    assert clock.now - 1000.0 - took_s <= policy.max_elapsed_s + 1e-6
    assert fn.calls == policy.max_attempts or clock.now - 1000.0 >= policy.max_elapsed_s - 1e-6


def test_a_policy_for_ever_rides_out_a_night() -> None:  # RTY-01
    clock = Clock()
    fn = Failing(clock, [ConnectionResetError() for _ in range(3000)])
    assert attempt(fn, RetryPolicy.forever(), clock) == ("done", 3000)
    assert max(clock.pauses) <= 5.0


def test_the_result_says_how_often_it_failed_before() -> None:
    clock = Clock()
    assert attempt(Failing(clock, []), RetryPolicy(), clock) == ("done", 0)
    assert attempt(Failing(clock, [TimeoutError(), TimeoutError()]), RetryPolicy(), clock) == ("done", 2)


def test_another_error_passes_at_once() -> None:  # RTY-02
    clock = Clock()
    fn = Failing(clock, [KeyError("x")])
    with pytest.raises(KeyError):
        attempt(fn, RetryPolicy(), clock)
    assert (fn.calls, clock.pauses) == (1, [])


def test_whoever_calls_may_judge_errors_otherwise() -> None:
    clock = Clock()
    fn = Failing(clock, [KeyError("x")])
    assert attempt(fn, RetryPolicy(), clock, classify=lambda error: isinstance(error, KeyError)) == ("done", 1)


def test_an_attempt_that_hangs_counts_as_failed() -> None:
    clock = Clock()
    calls = 0

    async def hang_once() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return "done"

    assert attempt(hang_once, RetryPolicy(), clock, attempt_timeout_s=0.001) == ("done", 1)


def test_an_attempt_that_waits_several_times_is_waited_for() -> None:
    clock = Clock()

    async def patient() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    assert attempt(patient, RetryPolicy(), clock, attempt_timeout_s=60) == ("done", 0)


def test_an_attempt_that_waits_and_fails_is_repeated() -> None:
    clock = Clock()
    errors = [TimeoutError(), ConnectionResetError()]

    async def fails_twice() -> str:
        await asyncio.sleep(0)
        if errors:
            raise errors.pop()
        return "done"

    assert attempt(fails_twice, RetryPolicy(), clock, attempt_timeout_s=60) == ("done", 2)


def test_an_attempt_may_clean_up_when_its_time_is_over() -> None:
    clock = Clock()
    cleaned: list[str] = []

    async def hangs_once() -> str:
        if cleaned:
            return "done"
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")
        raise AssertionError("unreachable")

    assert attempt(hangs_once, RetryPolicy(), clock, attempt_timeout_s=0.001) == ("done", 1)
    assert cleaned == ["up"]


def test_a_cancelled_caller_cancels_an_attempt_that_waits() -> None:
    ended: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(retrying(hangs, RetryPolicy(), attempt_timeout_s=60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_a_cancelled_call_is_not_repeated() -> None:
    clock = Clock()
    fn = Failing(clock, [asyncio.CancelledError()])
    with pytest.raises(asyncio.CancelledError):
        attempt(fn, RetryPolicy(), clock)
    assert fn.calls == 1


def test_the_error_says_what_failed_and_not_with_which_words() -> None:
    clock = Clock()
    with pytest.raises(StoreUnavailable, match=r"appending to r-1 failed 1 times in 0\.0 s.*TimeoutError") as caught:
        attempt(Failing(clock, TimeoutError("ann")), RetryPolicy(max_attempts=1), clock, what="appending to r-1")
    assert "ann" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        ConnectionRefusedError(),
        BrokenPipeError(),
        TimeoutError(),
        asyncio.IncompleteReadError(b"", 4),
        OSError(errno.ENOSPC, "no space"),
        OSError(errno.EIO, "disk"),
        OSError(errno.EMFILE, "files"),
        OSError("unknown"),
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("database table is locked: events"),
    ],
    ids=repr,
)
def test_resets_timeouts_and_most_os_errors_are_transient(error: BaseException) -> None:  # RTY-02
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        ConcurrencyError(),
        SchemaError(),
        BlobIntegrityError(),
        StoreUnavailable(),
        StoreError("closed"),
        FileNotFoundError(errno.ENOENT, "x"),
        FileExistsError(),
        PermissionError(),
        IsADirectoryError(),
        OSError(errno.EROFS, "read-only"),
        OSError(errno.EBADF, "closed"),
        io.UnsupportedOperation(),
        ssl.SSLCertVerificationError(),
        sqlite3.OperationalError("no such table: events"),
        sqlite3.IntegrityError("unique"),
        sqlite3.DatabaseError("malformed"),
        ValueError(),
        KeyError(),
        TypeError(),
        RuntimeError(),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_lasting_conditions_and_bugs_are_not(error: BaseException) -> None:  # RTY-02
    assert not is_transient(error)


def test_a_store_s_own_error_is_judged_by_its_cause() -> None:  # RTY-02
    def caused_by(error: type[StoreError], cause: BaseException) -> StoreError:
        made = error("x")
        made.__cause__ = cause
        return made

    assert is_transient(caused_by(StoreError, sqlite3.OperationalError("database is locked")))
    assert not is_transient(caused_by(StoreError, KeyError()))
    # Retried already: an outer retry would wait as long again.
    assert not is_transient(caused_by(StoreUnavailable, TimeoutError()))
    assert not is_transient(caused_by(ConcurrencyError, TimeoutError()))


def test_a_really_locked_and_a_really_full_database_are_transient(tmp_path: Path) -> None:  # RTY-02
    first = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    second = sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)
    first.execute("CREATE TABLE t (x)")
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as busy:
        second.execute("BEGIN IMMEDIATE")
    first.execute("ROLLBACK")
    first.execute("PRAGMA max_page_count = 4")
    with pytest.raises(sqlite3.OperationalError) as full:
        first.execute("INSERT INTO t VALUES (randomblob(100000))")
    first.close()
    second.close()
    assert is_transient(busy.value)
    assert is_transient(full.value)
