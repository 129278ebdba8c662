"""One tool call: gates, the tool itself, and the one event it leaves (HAR-40 to HAR-60, DEC-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracehold.core.copying import copy_json
from tracehold.core.ids import new_span_id
from tracehold.core.run_context import OpenSpan, current_run, current_span, enter_span, leave_span
from tracehold.execution.limits import Limits
from tracehold.execution.recording import Place, Tracing, attach, emit, ended, failed
from tracehold.execution.running import current_limits
from tracehold.governance.hitl import ApprovalRequired
from tracehold.governance.hooks import fire
from tracehold.governance.permissions import shown
from tracehold.harness.registry_seam import NotEnteredError
from tracehold.harness.services import Services
from tracehold.harness.tool_gates import Passed, Stopped, pass_gates
from tracehold.observability.event_types import APPROVAL_REQUEST, TOOL_CALL
from tracehold.tools.base import ToolResponse
from tracehold.tools.response import as_response


async def exec_tool(
    services: Services,
    name: str,
    parameters: dict[str, Any],
    call_id: str | None,
    decisions: Mapping[str, Any] | None,
) -> ToolResponse:
    """Take one call through its gates and run it; `Harness.aexec_tool` documents it."""
    call = _Call(services.tracer, name, parameters, call_id)
    limits = current_limits()
    try:
        if limits is not None:
            limits.check("tool")
        call.parameters = _snapshot(parameters)
        passed = await pass_gates(services, name, call.parameters, call_id, decisions)
        if limits is not None:
            _enter(limits, passed)
    except Stopped as verdict:
        call.record(_verdict_fields(verdict))
        return ToolResponse.error(f"{shown(str(name))} was not run: {verdict.reason}")
    except ApprovalRequired as waiting:
        call.suspend(waiting)
        raise
    except BaseException as error:
        call.record(ended(error), error)
        raise
    return await _run(services, call, passed, limits)


def _snapshot(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return our own copy: what the gates judge is what the tool gets and the record shows, whoever changes what."""
    try:
        copy: dict[str, Any] = copy_json(parameters)
    except (RecursionError, ValueError) as error:
        raise Stopped("invalid_args", "its arguments are nested too deeply or too many", "harness") from error
    return copy


def _enter(limits: Limits, passed: Passed) -> None:
    """Count the call, in one step with other calls (HAR-57, POL-04)."""
    if passed.waited:
        limits.check("tool")  # a person took their time: cancelled or late by now?
    limits.start("tool")


async def _run(services: Services, call: _Call, passed: Passed, limits: Limits | None) -> ToolResponse:
    registry = services.tools
    assert registry is not None  # noqa: S101 - the gates let nothing pass without one
    if services.hooks:
        try:
            await fire(services.hooks, "before_tool", call.name, copy_json(call.parameters))
        except BaseException as error:
            if limits is not None:
                limits.take_back("tool")  # it never entered the tool (HAR-57)
            call.record(ended(error), error)
            raise
    call.begin()
    try:
        response = as_response(call.name, await registry.run(passed.tool, copy_json(call.parameters)))
    except NotEnteredError as refused:
        if limits is not None:
            limits.take_back("tool")
        call.end(
            {"status": "invalid_args", "decision": "invalid_args", "decided_by": "registry", "reason": str(refused)}
        )
        return ToolResponse.error(str(refused))
    except BaseException as error:
        call.end(passed.fields | _unfinished(error), error)
        raise
    call.end(passed.fields | {"status": response.status, "result": response.text})
    if services.hooks:
        await fire(services.hooks, "after_tool", call.name, copy_json(call.parameters), response)
    return response


class _Call:
    """What the record of one call needs to know."""

    def __init__(self, tracer: Tracing | None, name: str, parameters: dict[str, Any], call_id: str | None) -> None:
        self.name = name
        self.parameters = parameters
        self._tracer = tracer
        self._call_id = call_id
        self._place: Place | None = None
        self._span: OpenSpan | None = None
        self._token: Any = None

    def begin(self) -> None:
        """Open the call's span, so that what happens inside the tool stands below it, and start the clock."""
        if self._tracer is None:
            return
        run, parent = current_run(), current_span()
        if run is not None:
            outer = parent if parent is not None and parent.run is run else None
            self._span = OpenSpan(new_span_id(), run, outer, outer.agent if outer else None)
            self._token = enter_span(self._span)
        self._place = Place(run, parent)

    def end(self, fields: Mapping[str, Any], error: BaseException | None = None) -> None:
        """Close the span and record the call; when that fails, an `error` on its way out still wins."""
        if self._tracer is None or self._place is None:
            return
        event = self._event(fields) | self._place.timing()
        if self._span is not None:
            leave_span(self._span, self._token)
            parent = self._span.parent
            event["span_id"] = self._span.span_id
            event["parent_span_id"] = parent.span_id if parent is not None else self._span.run.root_span_id
        try:
            self._place.emit(self._tracer, event)
        except Exception as second:
            if error is None:
                raise
            attach(error, second)

    def record(self, fields: Mapping[str, Any], error: BaseException | None = None) -> None:
        """Record a call that never ran: no latency (HAR-44). When that fails, an `error` on its way out still wins."""
        try:
            emit(self._tracer, self._event(fields))
        except Exception as second:
            if error is None:
                raise
            attach(error, second)

    def suspend(self, waiting: ApprovalRequired) -> None:
        """Record that the call waits for a person (DEC-01)."""
        fields = {
            "type": APPROVAL_REQUEST,
            "status": "suspended",
            "decision": "suspended",
            "digest": waiting.pending.digest,
            "reason": "this call needs a person's approval",
        }
        self.record(fields, waiting)

    def _event(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        event: dict[str, Any] = {"type": TOOL_CALL, "tool": self.name, "params": self.parameters, **fields}
        if self._call_id is not None:
            event["call_id"] = self._call_id
        return event


def _verdict_fields(verdict: Stopped) -> dict[str, Any]:
    fields = {
        "status": verdict.decision,
        "decision": verdict.decision,
        "decided_by": verdict.decided_by,
        "reason": verdict.reason,
        **verdict.fields,
    }
    if verdict.rule is not None:
        fields["rule"] = verdict.rule
    return fields


def _unfinished(error: BaseException) -> dict[str, Any]:
    """A call that entered its tool and did not come back: suspended inside, cancelled, or broken."""
    if isinstance(error, ApprovalRequired):
        return {"status": "suspended", "decision": "suspended", "reason": "something inside this call waits"}
    return failed(error)
