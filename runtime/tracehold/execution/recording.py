"""Where the events of a call go: which run, under which span, with which timing.

The place is taken when a call begins. A stream may end in another task, or when the garbage collector finds it; its
event still belongs where it began (FR-07).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tracehold.core.clock import NS_PER_MS, now_ns
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.core.run_context import OpenSpan, RunContext, current_run, current_span
from tracehold.execution.running import correlation


class Tracing(Protocol):
    """All that a harness needs of a tracer (HAR-07)."""

    def emit(self, event: dict[str, Any]) -> None:
        """Record one event."""


@dataclass(slots=True)
class Place:
    """The run and the open span that a call belongs to, and when it began."""

    run: RunContext | None = field(default_factory=current_run)
    parent: OpenSpan | None = field(default_factory=current_span)
    started_at_ns: int = field(default_factory=now_ns)
    _clock_ns: int = field(default_factory=time.perf_counter_ns)

    def timing(self) -> dict[str, int]:
        """Return how long the call took: whole milliseconds as documented, and nanoseconds (DEC-15)."""
        duration_ns = time.perf_counter_ns() - self._clock_ns
        return {
            "latency_ms": duration_ns // NS_PER_MS,
            "started_at_ns": self.started_at_ns,
            "duration_ns": duration_ns,
        }

    def emit(self, tracer: Tracing, event: Mapping[str, Any]) -> None:
        """Record `event` here, with the run's correlation fields (HAR-16, HAR-89)."""
        stamped = {**event, **correlation(self.run)} if self.run is not None else dict(event)
        record = getattr(tracer, "record", None)
        elsewhere = current_run() is not self.run or current_span() is not self.parent
        if self.run is not None and record is not None and elsewhere:
            record(stamped, self.run, self.parent)
        else:
            tracer.emit(stamped)


def emit(tracer: Tracing | None, event: Mapping[str, Any]) -> None:
    """Record `event` at this moment's place; without a tracer do nothing."""
    if tracer is not None:
        tracer.emit({**event, **correlation()})


def stopped(error: RunLimitExceeded | RunCancelled) -> dict[str, Any]:
    """Return the fields of a call that the run's policy stopped: decision, rule and reason (DEC-01)."""
    cancelled = isinstance(error, RunCancelled)
    decision = "cancelled" if cancelled else "limited"
    return {
        "status": decision,
        "decision": decision,
        "decided_by": "run_policy",
        "rule": "cancel" if cancelled else getattr(error, "rule", None),
        "reason": str(error),
    }


def failed(error: BaseException) -> dict[str, Any]:
    """Return the fields of a call that ended with `error`: status "cancelled" or "error" (DEC-01)."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return {"status": "cancelled", "reason": type(error).__name__}
    return {"status": "error", "error_type": type(error).__name__, "error": text_of(error)}


def ended(error: BaseException) -> dict[str, Any]:
    """Return the fields of a call that was never made: stopped by the run's policy, or by an error before it."""
    return stopped(error) if isinstance(error, RunLimitExceeded | RunCancelled) else failed(error)


def text_of(error: BaseException) -> str:
    """Return the error's text; one that cannot be printed must not become another error."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - somebody else's __str__
        return "its text cannot be read"


def attach(error: BaseException, second: BaseException) -> None:
    """Add to `error` that `second` happened while it was on its way out (HAR-32)."""
    error.add_note(
        f"while this was on its way out, recording it failed too: {type(second).__name__}: {text_of(second)}"
    )
