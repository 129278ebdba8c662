"""Which run is this code part of, and under which span does its next event belong?

The answer lives in context variables, so that it follows tasks, async generators and `copy_context()` and never
leaks between concurrent runs (EXEC-07, EXEC-08). A run started inside a run joins it (EXEC-10).
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id, run_root_span_id, run_trace_id
from tracehold.core.scope import Scope

_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)")


@dataclass(eq=False, slots=True)
class OpenSpan:
    """A span that may still be open: what an event's parent is looked up in.

    A generator that is closed from another context leaves its span current in the first one; `ended` lets later
    look-ups step over it (FR-07). `agent` names who acts below it when that is not the run's own agent.
    """

    span_id: str
    run: RunContext
    parent: OpenSpan | None = None
    agent: str | None = None
    ended: bool = False


@dataclass(eq=False, slots=True)
class RunContext:
    """One run as seen from inside: its ids, its step counter and who it is for.

    Attributes:
        run_id: the run's own id.
        trace_id: 32 hex digits; the upstream's when a W3C carrier was given, else derived from `run_id`.
        root_span_id: the span every event of the run hangs under, 16 hex digits.
        parent_span_id: the upstream's span, or `None` when the run is a root.
        scope: what `current_scope()` returns.
        limits: what the run's policy counts; opaque here, `execution` owns it.
        trace_carrier: the upstream W3C carrier, never stored (EXEC-12).
        agent, user, session: stamped on the run's events when set.
        left: it was ended from another context, so that the one which entered it still holds it; it is current no more.
    """

    run_id: str
    trace_id: str
    root_span_id: str
    parent_span_id: str | None = None
    scope: Scope | None = None
    limits: object = None
    trace_carrier: Mapping[str, str] | None = None
    agent: str | None = None
    user: str | None = None
    session: str | None = None
    next_step: Callable[[], int] = field(default=itertools.count(1).__next__, repr=False)
    last_step: int = 0
    left: bool = False

    def take_step(self) -> int:
        """Return the next step number; the first is 1 (EXEC-11). Safe across threads."""
        step = self.next_step()
        self.last_step = max(self.last_step, step)
        return step


@dataclass(frozen=True, slots=True)
class RunToken:
    """What `enter_run` gives and `leave_run` takes."""

    run: RunContext
    token: Token[RunContext | None]


_run: ContextVar[RunContext | None] = ContextVar("tracehold_run", default=None)
_span: ContextVar[OpenSpan | None] = ContextVar("tracehold_span", default=None)


def new_run_id() -> str:
    """Return a fresh run id: a UUIDv7 as 32 hex digits."""
    return new_event_id(now_ns())


def parse_traceparent(carrier: Mapping[str, str] | None) -> tuple[str, str] | None:
    """Return (trace id, span id) of a W3C carrier, or `None` when it holds no valid `traceparent`."""
    if not carrier:
        return None
    match = _TRACEPARENT.match(str(carrier.get("traceparent", "")).lower())
    if match is None or set(match[1]) == {"0"} or set(match[2]) == {"0"}:
        return None
    return match[1], match[2]


def make_run(
    run_id: str,
    *,
    step: int = 0,
    scope: Scope | None = None,
    limits: object = None,
    trace_carrier: Mapping[str, str] | None = None,
    agent: str | None = None,
    user: str | None = None,
    session: str | None = None,
) -> RunContext:
    """Build the context of a run without entering it. A valid upstream carrier decides trace and parent."""
    upstream = parse_traceparent(trace_carrier)
    return RunContext(
        run_id=run_id,
        trace_id=upstream[0] if upstream else run_trace_id(run_id),
        root_span_id=run_root_span_id(run_id),
        parent_span_id=upstream[1] if upstream else None,
        scope=scope,
        limits=limits,
        trace_carrier=trace_carrier,
        agent=agent,
        user=user,
        session=session,
        next_step=itertools.count(step + 1).__next__,
        last_step=step,
    )


def enter_run(run: RunContext) -> RunToken | None:
    """Make `run` current and return the token for `leave_run`; `None` when it joined an outer run (EXEC-10)."""
    return None if current_run() is not None else RunToken(run, _run.set(run))


def leave_run(token: RunToken | None) -> None:
    """Undo `enter_run`; `None` does nothing (EXEC-13)."""
    if token is not None and not _reset(_run, token.token):
        token.run.left = True


@contextlib.contextmanager
def inside(run: RunContext) -> Iterator[None]:
    """Make `run` current for a block, whatever run this code is part of."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def current_run() -> RunContext | None:
    """Return the run this code is part of, or `None` outside a run."""
    run = _run.get()
    return None if run is None or run.left else run


def current_run_id() -> str | None:
    """Return the current run's id, or `None` outside a run (EXEC-07)."""
    run = current_run()
    return run.run_id if run else None


def current_step() -> int:
    """Return the last step number the current run handed out, 0 outside a run (EXEC-07)."""
    run = current_run()
    return run.last_step if run else 0


def current_scope() -> Scope | None:
    """Return the current run's scope, or `None` outside a run (EXEC-07)."""
    run = current_run()
    return run.scope if run else None


def current_trace_carrier() -> Mapping[str, str] | None:
    """Return the current run's upstream W3C carrier, or `None` (EXEC-12)."""
    run = current_run()
    return run.trace_carrier if run else None


def current_span() -> OpenSpan | None:
    """Return the innermost span of this context that is still open, or `None`."""
    span = _span.get()
    while span is not None and span.ended:
        span = span.parent
    return span


def enter_span(span: OpenSpan) -> Token[OpenSpan | None]:
    """Make `span` current and return the token for `leave_span`."""
    return _span.set(span)


def leave_span(span: OpenSpan, token: Token[OpenSpan | None]) -> None:
    """End `span` and restore what was current before, if this is still the context that entered it."""
    span.ended = True
    _reset(_span, token)


def _reset(variable: ContextVar[Any], token: Token[Any]) -> bool:
    """Undo a `set`; false when it was another context's."""
    # Closed from another task or by the garbage collector: that context keeps its own value, and an ended span or a
    # run that was left is stepped over when it is read (FR-07).
    try:
        variable.reset(token)
    except ValueError:
        return False
    return True
