"""The two ends of an agent's run in the record: a run of its own, or an agent's part in an outer one (EXEC-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold.core.clock import NS_PER_MS, now_ns
from tracehold.core.ids import new_span_id
from tracehold.core.run_context import OpenSpan, RunContext, current_run, current_span, enter_span, leave_span
from tracehold.core.scope import Scope
from tracehold.execution.policy import RunPolicy
from tracehold.execution.recording import Place, Tracing
from tracehold.execution.running import lend_limits, reset_run, start_run, take_limits_back
from tracehold.observability.event_types import RUN_END, RUN_START, RUN_SUSPEND, SPAN

_NO_SCOPE: Final = Scope()


class RunRecord:
    """Makes a run current, opens its span, and records both ends.

    Args:
        tracer: where events go, or `None`.
        agent: the agent's name.
        run_id: of a new run; ignored inside an outer one.
        step: where a continued run stands.
        resumed: whether it continues one that was suspended or interrupted.
        began_at_ns: when that one began, UTC nanoseconds; its end tells the width of the whole, waiting included.
        policy: the run's limits; an outer run's hold instead.
        scope: whom the run is for.
        trace_carrier: an upstream W3C carrier.
    """

    def __init__(
        self,
        tracer: Tracing | None,
        agent: str,
        run_id: str,
        *,
        step: int = 0,
        resumed: bool = False,
        began_at_ns: int | None = None,
        policy: RunPolicy | None = None,
        scope: Scope | None = None,
        trace_carrier: Mapping[str, str] | None = None,
    ) -> None:
        self._tracer = tracer
        self.resumed = resumed
        self._agent = agent
        place = scope or _NO_SCOPE
        # A `Tracer.run` around an agent has no limits; the agent's own then hold for what it does (POL-10).
        self._lent = lend_limits(policy)
        self._token = start_run(
            run_id,
            step=step,
            policy=policy if self._lent is None else None,
            scope=scope,
            trace_carrier=trace_carrier,
            agent=agent,
            user=place.user,
            session=place.session,
        )
        run = current_run()
        assert run is not None  # noqa: S101 - start_run made one current, or found one
        self.run: RunContext = run
        outer = current_span()
        parent = outer if outer is not None and outer.run is run else None
        span_id = new_span_id() if self.joined else run.root_span_id
        self._span = OpenSpan(span_id, run, parent, agent if self.joined else None)
        self._span_token = enter_span(self._span)
        self._place = Place(run, parent)
        self._began_at_ns = began_at_ns
        if not self.joined:
            self._tell_tracer("run_opened")
            self._begin(resumed=resumed)

    @property
    def joined(self) -> bool:
        """Whether this is part of an outer run."""
        return self._token is None

    def _begin(self, *, resumed: bool) -> None:
        resumption = {"attributes": {"resumed": True}} if resumed else {}
        try:
            self._emit({"type": RUN_START, "started_at_ns": self._place.started_at_ns, **self._ids(), **resumption})
        except BaseException:
            leave_span(self._span, self._span_token)
            self._leave()
            raise

    def _leave(self) -> None:
        self._tell_tracer("run_closed")
        take_limits_back(self._lent)
        reset_run(self._token)

    def end(self, fields: Mapping[str, Any]) -> None:
        """Record how it ended and leave the run; a suspension is a point in a run that goes on."""
        if self._span.ended:
            return
        leave_span(self._span, self._span_token)
        timing = self._place.timing()
        try:
            if self.joined:
                self._emit({"type": SPAN, "kind": "agent", **timing, **self._ids(), **fields})
            elif fields.get("status") == "suspended":
                self._emit({"type": RUN_SUSPEND, **fields})
            else:
                self._emit({"type": RUN_END, **timing, **self._whole(), **self._ids(), **fields})
        finally:
            self._leave()

    def _whole(self) -> dict[str, int]:
        """The width of a run from its first start, when this process only continued it."""
        if self._began_at_ns is None:
            return {}
        duration_ns = max(0, now_ns() - self._began_at_ns)  # another machine's clock may be ahead
        return {
            "started_at_ns": self._began_at_ns,
            "duration_ns": duration_ns,
            "latency_ms": duration_ns // NS_PER_MS,
        }

    def _ids(self) -> dict[str, Any]:
        parent = self._span.parent.span_id if self._span.parent is not None else self.run.root_span_id
        return {"span_id": self._span.span_id, "parent_span_id": parent if self.joined else self.run.parent_span_id}

    def _emit(self, event: dict[str, Any]) -> None:
        if self._tracer is not None:
            self._place.emit(self._tracer, {"name": self._agent, "agent": self._agent, **event})

    def _tell_tracer(self, method: str) -> None:
        tell = getattr(self._tracer, method, None)
        if tell is not None and not self.joined:
            tell(self.run)
