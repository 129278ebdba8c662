"""The counters of one run and the checks against its policy (POL).

A call is counted when it starts, under a lock, so that calls issued together cannot pass a limit together (POL-04,
HAR-28). What it used is added when it ends.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.execution.policy import RunPolicy

CallKind: TypeAlias = Literal["llm", "tool"]


class Limits:
    """Counts what a run uses and says when its policy is exhausted. Safe across threads.

    Args:
        policy: the limits; default none.
        clock: seconds that only go forward.
    """

    def __init__(self, policy: RunPolicy | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.policy = policy or RunPolicy()
        self.llm_calls = 0
        self.tool_calls = 0
        self.total_tokens = 0
        self._clock = clock
        self._started_at = clock()
        self._lock = threading.Lock()

    def check(self, kind: CallKind) -> None:
        """Say whether a call may start now; counts nothing (POL-12).

        Raises:
            RunCancelled: the cancel callback said stop (POL-08).
            RunLimitExceeded: a limit is reached.
        """
        if self.policy.cancel is not None and self.policy.cancel():
            raise RunCancelled("the run's cancel callback said stop")
        self.check_deadline()
        with self._lock:
            self._check_counts(kind)

    def start(self, kind: CallKind) -> None:
        """Count one call, unless the limit was reached meanwhile: the check and the count are one step (POL-04).

        Raises:
            RunLimitExceeded: other calls took what was left.
        """
        with self._lock:
            self._check_counts(kind)
            self._count(kind)

    def take_back(self, kind: CallKind) -> None:
        """Uncount a call that was never made, because what stands before it failed."""
        with self._lock:
            self._count(kind, -1)

    def count(self, kind: CallKind) -> None:
        """Count one call that was made, without a check."""
        with self._lock:
            self._count(kind)

    def add_usage(self, usage: object) -> None:
        """Add a call's tokens; unknown usage leaves the sum as it is (HAR-29)."""
        tokens = total_tokens(usage)
        if tokens:
            with self._lock:
                self.total_tokens += tokens

    def check_tokens(self) -> None:
        """Raise `RunLimitExceeded` when the sum is beyond the limit: the check after a call (POL-06)."""
        limit = self.policy.max_tokens
        if limit is not None and self.total_tokens > limit:
            raise _exceeded("max_tokens", f"{self.total_tokens} tokens used, limit {limit}")

    def check_deadline(self) -> None:
        """Raise `RunLimitExceeded` when the deadline has passed (POL-07)."""
        seconds = self.policy.deadline_seconds
        if seconds is not None and self._clock() - self._started_at >= seconds:
            raise _exceeded("deadline_seconds", f"the run is older than {seconds:g} s")

    def _check_counts(self, kind: CallKind) -> None:
        policy = self.policy
        if policy.max_tokens is not None and self.total_tokens >= policy.max_tokens:
            raise _exceeded("max_tokens", f"{self.total_tokens} tokens used, limit {policy.max_tokens}")
        if kind == "llm" and policy.max_llm_calls is not None and self.llm_calls >= policy.max_llm_calls:
            raise _exceeded("max_llm_calls", f"{self.llm_calls} model calls made, limit {policy.max_llm_calls}")
        if kind == "tool" and policy.max_tool_calls is not None and self.tool_calls >= policy.max_tool_calls:
            raise _exceeded("max_tool_calls", f"{self.tool_calls} tool calls made, limit {policy.max_tool_calls}")

    def _count(self, kind: CallKind, calls: int = 1) -> None:
        if kind == "llm":
            self.llm_calls += calls
        else:
            self.tool_calls += calls


def total_tokens(usage: object) -> int:
    """Return the tokens of a usage that holds a credible count, else 0 (DEC-13: a limit cannot be lowered by one)."""
    total = _credible(_read(usage, "total_tokens"))
    if total is not None:
        return total
    # A provider that tells the parts only: their sum, so that a limit on tokens is not silently off.
    return sum(_credible(_read(usage, part)) or 0 for part in _PARTS)


_PARTS: Final = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens")
"""Both spellings of what goes in and what comes out; a usage holds one of each pair."""


def _read(usage: object, key: str) -> Any:
    return usage.get(key) if isinstance(usage, Mapping) else getattr(usage, key, None)


def _credible(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return int(value)


def _exceeded(rule: str, what: str) -> RunLimitExceeded:
    return RunLimitExceeded(f"run limit {rule} is reached: {what}", rule=rule)
