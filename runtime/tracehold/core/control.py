"""Signals that steer a run and are no failures: whoever turns errors into answers must let them through."""

from __future__ import annotations

from typing import Final

from tracehold.core.errors import RunCancelled, RunLimitExceeded


class ControlSignal(Exception):  # noqa: N818 - not an error: it says where the run goes next
    """Base of the exceptions that a tool call passes on instead of answering the model with them (HAR-60)."""


class Redeliver(Exception):  # noqa: N818 - not an error: it asks for the same event again
    """Raised by a bus handler to get the same event again after a pause (BUS-05)."""


STEERING: Final = (ControlSignal, RunLimitExceeded, RunCancelled)
"""What a tool call never turns into an error response (HAR-60)."""


def steering_signal(error: BaseException) -> BaseException | None:
    """Return `error`, or the first of the errors grouped in it, when it steers the run; else `None`.

    A tool that works with an `asyncio.TaskGroup` raises a signal of its children inside an exception group.
    """
    if isinstance(error, STEERING):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := steering_signal(inner)) is not None), None)
    return None
