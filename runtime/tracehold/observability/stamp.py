"""Gives an event what a waterfall and a resend need: id, UTC time, run, step, span and parent.

Kept apart from the Tracer because it is the one rule about an event's place in its run; `Tracer.emit`, spans and
runs all go through it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from tracehold.core.clock import NS_PER_MS, now_ns
from tracehold.core.ids import new_event_id, new_span_id, run_root_span_id, run_trace_id
from tracehold.core.run_context import OpenSpan, RunContext

STRUCTURAL: Final = frozenset(
    {
        "type",
        "event_id",
        "run_id",
        "step_index",
        "trace_id",
        "span_id",
        "parent_span_id",
        "started_at_ns",
        "duration_ns",
        "latency_ms",
        "model",
        "provider",
        "tool",
        "call_id",
        "kind",
        "status",
        "decision",
        "decided_by",
        "rule",
        "digest",
        "approved_digest",
        "policy_digest",
    }
)
"""Top-level fields whose identifiers are never masked or cut (DEC-10, TRC-13)."""


def stamp(event: Mapping[str, Any], run: RunContext, parent: OpenSpan | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a copy of `event` with what its run says of it, and apart from it the ids and times made here.

    Those need no cleaning, and are put in when the rest is clean. Fields the event already carries win. An event that
    names another run than `run` gets that run's trace and hangs under that run's root.

    Args:
        event: a Tracer event; not modified (TRC-23).
        run: the run the caller is part of.
        parent: the innermost open span, or `None` for the run's root.
    """
    stamped = dict(event)
    own: dict[str, Any] = {}
    now = now_ns()
    if "event_id" not in stamped:
        own["event_id"] = new_event_id(now)
    own_run = stamped.get("run_id")
    if own_run is None or own_run == run.run_id:
        stamped["run_id"] = run.run_id
        trace_id, root = run.trace_id, run.root_span_id
        if parent is not None and parent.run is run:
            root = parent.span_id
        agent = (parent.agent if parent is not None else None) or run.agent
        if agent is not None and "agent" not in stamped:
            stamped["agent"] = agent
        if run.user is not None and "user" not in stamped:
            stamped["user"] = run.user
        if run.session is not None and "session" not in stamped:
            stamped["session"] = run.session
        if "step_index" not in stamped:
            stamped["step_index"] = run.take_step()
    else:
        trace_id, root = run_trace_id(str(own_run)), run_root_span_id(str(own_run))
    if "trace_id" not in stamped:
        own["trace_id"] = trace_id
    if "span_id" not in stamped:
        own["span_id"] = new_span_id()
        if "parent_span_id" not in stamped:
            own["parent_span_id"] = root
    if "started_at_ns" not in stamped:
        width = _latency_ns(stamped.get("latency_ms"))
        own["started_at_ns"] = now - (width or 0)
        if width is not None and "duration_ns" not in stamped:
            own["duration_ns"] = width
    return stamped, own


def _latency_ns(latency_ms: object) -> int | None:
    """Nanoseconds of a latency that is a finite, non-negative number; else `None`: unknown is not zero."""
    if type(latency_ms) is int:
        return latency_ms * NS_PER_MS if latency_ms >= 0 else None
    if type(latency_ms) is float and math.isfinite(latency_ms) and latency_ms >= 0:
        return int(latency_ms * NS_PER_MS)
    return None
