"""What `Tracer.span` and `Tracer.run` return: context managers that emit when they end (DEC-18)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tracehold.core.clock import NS_PER_MS, now_ns
from tracehold.core.ids import new_span_id
from tracehold.core.run_context import (
    OpenSpan,
    RunContext,
    RunToken,
    current_run,
    current_span,
    enter_run,
    enter_span,
    leave_run,
    leave_span,
)
from tracehold.observability.event_types import RUN_END, RUN_START, SPAN

FIELDS: Final = frozenset(
    {
        "agent",
        "call_id",
        "cost_usd",
        "decided_by",
        "decision",
        "input",
        "model",
        "output",
        "params",
        "provider",
        "reason",
        "result",
        "rule",
        "status",
        "tool",
        "usage",
    }
)
"""Attributes with a meaning of their own: they become fields of the event. All others stand under `attributes`."""


class Recorder(Protocol):
    """What a span needs of its Tracer."""

    def record(self, event: Mapping[str, Any], run: RunContext, parent: OpenSpan | None) -> None:
        """Record an event of `run` under `parent`, or under the run's root."""

    def run_without_context(self) -> RunContext:
        """Return the run that code outside any run context belongs to."""

    def run_opened(self, run: RunContext) -> None:
        """Note that `run` began."""

    def run_closed(self, run: RunContext) -> None:
        """Note that `run` ended."""


class _Timed:
    """Enter, measure, exit; what the two kinds of span share."""

    def __init__(self, tracer: Recorder, name: str, attributes: Mapping[str, Any]) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes: dict[str, Any] = dict(attributes)
        self._started_at_ns = 0
        self._open: OpenSpan | None = None
        self._token: Token[OpenSpan | None] | None = None

    def set(self, **attributes: Any) -> None:
        """Add attributes to the event this span emits when it ends; later values win."""
        self._attributes.update(attributes)

    def _enter(self, span: OpenSpan) -> None:
        self._open = span
        self._token = enter_span(span)
        self._started_at_ns = now_ns()

    def _leave(self, error: BaseException | None) -> tuple[OpenSpan, dict[str, Any]] | None:
        """Restore the context and return the span and its timing fields; `None` when it had ended already."""
        span, token = self._open, self._token
        if span is None or token is None or span.ended:
            return None
        leave_span(span, token)
        duration_ns = max(0, now_ns() - self._started_at_ns)
        fields: dict[str, Any] = {
            "name": self._name,
            "latency_ms": duration_ns // NS_PER_MS,
            "started_at_ns": self._started_at_ns,
            "duration_ns": duration_ns,
            "span_id": span.span_id,
            "status": _status(error),
        }
        if error is not None and fields["status"] == "error":
            fields["error_type"] = type(error).__name__
            fields["error"] = str(error)
        return span, fields


class Span(_Timed):
    """One timed piece of work; everything recorded inside it becomes its child.

    Ends exactly once, also when a generator that holds it is closed from another task (FR-07). Closing or cancelling
    gives status "cancelled", an exception "error" with its type and text.
    """

    def __init__(self, tracer: Recorder, name: str, kind: str, attributes: Mapping[str, Any]) -> None:
        super().__init__(tracer, name, attributes)
        self._kind = kind

    def __enter__(self) -> Self:
        """Make this the current span."""
        run = current_run() or self._tracer.run_without_context()
        outer = current_span()
        parent = outer if outer is not None and outer.run is run else None
        agent = self._attributes.get("agent") if self._kind == "agent" else None
        self._enter(OpenSpan(new_span_id(), run, parent, agent or (parent.agent if parent else None)))
        return self

    def __exit__(self, _type: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        """End the span and emit its event; an exception passes through."""
        left = self._leave(error)
        if left is None:
            return
        span, fields = left
        parent = span.parent.span_id if span.parent else span.run.root_span_id
        event = {"type": SPAN, "kind": self._kind, **fields, "parent_span_id": parent}
        self._tracer.record(_with_attributes(event, self._attributes), span.run, span.parent)

    async def __aenter__(self) -> Self:
        """As `__enter__`."""
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """As `__exit__`."""
        self.__exit__(kind, error, trace)


class Run(_Timed):
    """One run of an agent: `run_start` when it begins, `run_end` with its width and status when it ends.

    Inside another run it joins that run and is a span of kind "agent" instead (EXEC-10).
    """

    def __init__(self, tracer: Recorder, name: str, context: RunContext, attributes: Mapping[str, Any]) -> None:
        super().__init__(tracer, name, attributes)
        self._context = context
        self._run_token: RunToken | None = None
        self._joined: Span | None = None

    @property
    def run_id(self) -> str:
        """The id of the run this code is part of: its own, or the outer run's when it joined one."""
        joined = self._joined and self._joined._open  # noqa: SLF001
        return joined.run.run_id if joined else self._context.run_id

    def set(self, **attributes: Any) -> None:
        """Add attributes to the event this run emits when it ends; later values win."""
        (self._joined._attributes if self._joined else self._attributes).update(attributes)  # noqa: SLF001

    def __enter__(self) -> Self:
        """Begin the run, or join the one this code is part of."""
        self._run_token = enter_run(self._context)
        if self._run_token is None:
            agent = {"agent": self._context.agent} if self._context.agent else {}
            self._joined = Span(self._tracer, self._name, "agent", agent | self._attributes)
            self._joined.__enter__()
            return self
        run = self._context
        self._enter(OpenSpan(run.root_span_id, run))
        self._tracer.run_opened(run)
        start = {"type": RUN_START, "name": self._name, "started_at_ns": self._started_at_ns, **self._place()}
        self._tracer.record(_with_attributes(start, self._attributes), run, None)
        self._attributes = {}
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the run and emit `run_end`; an exception passes through."""
        if self._joined is not None:
            self._joined.__exit__(kind, error, trace)
            return
        left = self._leave(error)
        if left is None:
            return
        _, fields = left
        end = {"type": RUN_END, **fields, **self._place()}
        self._tracer.record(_with_attributes(end, self._attributes), self._context, None)
        self._tracer.run_closed(self._context)
        leave_run(self._run_token)

    async def __aenter__(self) -> Self:
        """As `__enter__`."""
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """As `__exit__`."""
        self.__exit__(kind, error, trace)

    def _place(self) -> dict[str, str | None]:
        return {"span_id": self._context.root_span_id, "parent_span_id": self._context.parent_span_id}


def _status(error: BaseException | None) -> str:
    if error is None:
        return "ok"
    return "cancelled" if isinstance(error, GeneratorExit | asyncio.CancelledError) else "error"


def _with_attributes(event: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    other = {}
    for key, value in attributes.items():
        if key in FIELDS:
            event[key] = value
        else:
            other[key] = value
    if other:
        event["attributes"] = other
    return event
