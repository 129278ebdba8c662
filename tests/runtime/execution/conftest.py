from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tracehold.core.run_context import enter_run, leave_run, make_run
from tracehold.execution import RunPolicy, new_run_id, reset_run, start_run
from tracehold.execution.limits import Limits


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def begin() -> Iterator[Callable[..., str]]:
    """Start a run that ends with the test; returns its id."""
    tokens: list[Any] = []

    def start(policy: RunPolicy | None = None, **options: Any) -> str:
        run_id = new_run_id()
        tokens.append(start_run(run_id, policy=policy, **options))
        return run_id

    yield start
    for token in reversed(tokens):
        reset_run(token)


@pytest.fixture
def begin_timed(clock: Clock) -> Iterator[Callable[[RunPolicy], None]]:
    """Start a run whose deadline goes by `clock`."""
    tokens: list[Any] = []

    def start(policy: RunPolicy) -> None:
        tokens.append(enter_run(make_run(new_run_id(), limits=Limits(policy, clock=clock))))

    yield start
    for token in reversed(tokens):
        leave_run(token)
