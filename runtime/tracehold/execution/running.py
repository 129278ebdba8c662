"""Starting a run, asking its limits, counting its calls: the documented functions over the run context (EXEC-13)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any

from tracehold.core.run_context import RunContext, RunToken, current_run, enter_run, leave_run, make_run
from tracehold.core.scope import Scope
from tracehold.execution.limits import CallKind, Limits
from tracehold.execution.policy import RunPolicy

_Lent = tuple[RunContext, Limits]
LimitsToken = Token[_Lent | None]

_lent: ContextVar[_Lent | None] = ContextVar("tracehold_lent_limits", default=None)
_log = logging.getLogger(__name__)


def start_run(
    run_id: str,
    *,
    step: int = 0,
    policy: RunPolicy | None = None,
    scope: Scope | None = None,
    trace_carrier: Mapping[str, str] | None = None,
    agent: str | None = None,
    user: str | None = None,
    session: str | None = None,
) -> RunToken | None:
    """Make a run current and return the token for `reset_run`; `None` when an outer run was joined (EXEC-10).

    Args:
        run_id: the run's id; `new_run_id()` gives one.
        step: the last step number already taken, when a run is continued (EXEC-06).
        policy: its limits. Inside another run they are ignored with a warning: the outermost run's hold (POL-10).
        scope: what `current_scope()` returns.
        trace_carrier: an upstream W3C carrier, whose trace the run joins (EXEC-12).
        agent: who acts; stamped on the run's events.
        user: whom the run is about; stamped too.
        session: the conversation it belongs to; stamped too.
    """
    if current_run() is not None:
        if policy is not None:
            _log.warning("a run inside a run keeps the outer run's limits; the inner RunPolicy is ignored")
        return None
    run = make_run(
        run_id,
        step=step,
        scope=scope,
        limits=Limits(policy),
        trace_carrier=trace_carrier,
        agent=agent,
        user=user,
        session=session,
    )
    return enter_run(run)


def reset_run(token: RunToken | None) -> None:
    """End what `start_run` began; `None` does nothing."""
    leave_run(token)


def correlation(run: RunContext | None = None) -> dict[str, Any]:
    """Return `run_id` and the next `step_index` of `run`, default the current one; `{}` outside a run (EXEC-11)."""
    run = run or current_run()
    return {} if run is None else {"run_id": run.run_id, "step_index": run.take_step()}


def current_limits() -> Limits | None:
    """Return the counters of the current run; `None` outside a run, where no check has any effect (POL-11)."""
    run = current_run()
    lent = _lent.get()
    if lent is not None and lent[0] is run:
        return lent[1]
    return run.limits if run is not None and isinstance(run.limits, Limits) else None


def lend_limits(policy: RunPolicy | None) -> LimitsToken | None:
    """Put limits on what happens here inside a run that has none of its own, such as a `Tracer.run`.

    They hold in this context and those copied from it, not for others who joined the same run.

    Returns:
        The token for `take_limits_back`; `None` when there is no policy or limits hold already (POL-10).
    """
    run = current_run()
    if policy is None or run is None or current_limits() is not None:
        return None
    return _lent.set((run, Limits(policy)))


def take_limits_back(token: LimitsToken | None) -> None:
    """End what `lend_limits` began; `None` does nothing."""
    if token is not None:
        with contextlib.suppress(ValueError):  # ended in another context, which keeps its own value
            _lent.reset(token)


@contextlib.contextmanager
def limited(policy: RunPolicy) -> Iterator[None]:
    """Hold what happens inside to `policy`, within a run that has no limits of its own, such as a `Tracer.run`.

    Where limits hold already they go on holding, and `policy` is ignored with a warning (POL-10).
    """
    token = lend_limits(policy)
    if token is None:
        _log.warning("limits hold here already, or no run does; this RunPolicy is ignored")
    try:
        yield
    finally:
        take_limits_back(token)


def check_limits(kind: CallKind) -> None:
    """Say whether a call of `kind`, "llm" or "tool", may start now; counts nothing.

    Raises:
        RunCancelled: the cancel callback said stop.
        RunLimitExceeded: a limit is reached.
    """
    limits = current_limits()
    if limits is not None:
        limits.check(kind)


def record_llm(usage: object) -> None:
    """Count one model call and its tokens."""
    limits = current_limits()
    if limits is not None:
        limits.count("llm")
        limits.add_usage(usage)


def record_tool() -> None:
    """Count one tool call."""
    limits = current_limits()
    if limits is not None:
        limits.count("tool")
