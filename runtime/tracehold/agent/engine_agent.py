"""The agent loop inside the engine: gated by the harness, and durable, budgeted, tenanted and erasable by the engine.

    run.started -> llm.requested -> llm.completed -> tool.requested -> [approval.requested -> granted | denied]
                        ^                             -> tool.started -> tool.completed | tool.failed -+
                        +------------------------------------------------------------------------------+
    a reply without calls -> run.completed

Every step is an event, what comes next follows from the log alone (ALG-02), and every event has an id that depends on
what it answers: a repeated delivery, a recovery or a second process adds nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeAlias, cast

from tracehold.agent.engine_calls import (
    Call,
    Entered,
    Host,
    Kept,
    NotOursError,
    Records,
    asked_for,
    may_go_on,
    result_of,
    verdict,
)
from tracehold.agent.engine_fold import (
    APPROVAL_EXPIRED,
    APPROVAL_REQUESTED,
    GUARD_VERDICT,
    LLM_COMPLETED,
    LLM_FAILED,
    LLM_REQUESTED,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_REQUESTED,
    Conversation,
    answers,
    believed,
    fold,
)
from tracehold.agent.turn import OUTCOME_UNKNOWN, TurnCall, assistant_message
from tracehold.core.clock import NS_PER_S, now_ns
from tracehold.core.errors import ConfigurationError, GuardrailTripwireError, StoreUnavailable
from tracehold.core.outcome import OutcomeKind
from tracehold.core.requirements import require_methods
from tracehold.core.retry import RetryPolicy
from tracehold.core.run_context import inside, make_run
from tracehold.engine.algorithm import Ctx
from tracehold.engine.event_types import RUN_COMPLETED, RUN_STARTED, completed_id
from tracehold.events.derived_ids import derived_id
from tracehold.events.event import Event
from tracehold.execution.recording import text_of
from tracehold.governance.guardrails import Guardrail, run_guardrails
from tracehold.governance.hitl import ApprovalRequired
from tracehold.harness import Harness
from tracehold.harness.services import require_services
from tracehold.llm.protocol import LLMClient, LLMResponse
from tracehold.tools.base import Tool
from tracehold.tools.registry import ToolRegistry

_log = logging.getLogger(__name__)

Price: TypeAlias = Callable[[LLMResponse], float | None]
"""What a model call cost in USD, `None` when unknown."""

_NESTED: Final = "something inside it waits for approval, and an EngineAgent asks about its own calls only"

_NO_TASK: Final = 'an EngineAgent is started with {"task": text}; this input has no task, or an empty one'
_PATIENT: Final = RetryPolicy.forever()

Work: TypeAlias = Callable[[Host, Event], Awaitable[None]]


class EngineAgent:
    """An `Algorithm`: asks a model and carries out the calls it wants, each step an event of the run.

    Start it with `{"task": text}`; the outcome's value is `{"text": answer, "turns": model calls}`. The engine's budget
    ends it, its redactor cleans what is stored, and so what the model and the tools are given.

    A tool is entered at most once: `aaa.tool.started` is in the log before it is. One that was entered when its process
    ended is reported as failed with an unknown outcome and is not run again. A model call may be repeated.

    A tool that needs confirmation waits for a signal, `aaa.approval.granted` or `aaa.approval.denied`, with
    `{"call_id": ...}` and, when known, `by`, `reason` and the `digest` that the approver saw (DEC-02). Any engine on
    the same store can send it. Put into `by` whom you have authenticated.

    The log is the record: attach an `Observer` to the engine instead of giving a tracer.

    Args:
        name: of the algorithm; the same wherever a run may be continued.
        llm: the model client.
        system_prompt: the first message.
        tools: what the model may ask for.
        max_turns: model calls a run may make, at least 1.
        price: what a call cost, for the run's budget; default unknown, which counts as nothing.
        input_guardrails: check the task; one that blocks ends the run as blocked.
        output_guardrails: check the answer, in the same way.
        services: further keyword arguments of `Harness`: `permissions`, `hooks`, `approval_ttl_s` and so on.

    Raises:
        ConfigurationError: `max_turns` below 1, a `tracer` or a `confirm` callback.
    """

    def __init__(
        self,
        name: str,
        llm: LLMClient,
        system_prompt: str | None = None,
        *,
        tools: Sequence[Tool] | ToolRegistry = (),
        max_turns: int = 10,
        price: Price | None = None,
        input_guardrails: Sequence[Guardrail] = (),
        output_guardrails: Sequence[Guardrail] = (),
        **services: Any,
    ) -> None:
        if max_turns < 1:
            raise ConfigurationError(f"max_turns must be at least 1, not {max_turns!r}")
        if services.get("tracer") is not None or services.get("confirm") is not None:
            raise ConfigurationError(
                "an EngineAgent takes no tracer and no confirm: its record is the engine's log, which an Observer "
                "hands to a Tracer, and people answer by signal"
            )
        require_services("EngineAgent", services, EngineAgent.__init__)
        for guardrail in (*input_guardrails, *output_guardrails):
            require_methods("a guardrail", guardrail, ("acheck",), "wrap a function in CallableGuardrail(function)")
        self.name = name
        self.system_prompt = system_prompt
        self.max_turns = max_turns
        self._price = price
        self.input_guardrails = list(input_guardrails)
        self.output_guardrails = list(output_guardrails)
        hooks = [Kept(), *(services.pop("hooks", None) or ()), Entered()]
        services |= {"tracer": Records(), "confirm": None, "hooks": hooks}
        self._harness = Harness(llm, tool_registry=ToolRegistry.from_tools(tools), **services)
        # What this process works on right now; a run's state is its log alone.
        self._busy: set[str] = set()
        self._inside: set[str] = set()

    def subscriptions(self) -> list[str]:
        """Return the event types it reacts to."""
        return [
            RUN_STARTED,
            LLM_REQUESTED,
            LLM_COMPLETED,
            LLM_FAILED,
            TOOL_REQUESTED,
            TOOL_COMPLETED,
            TOOL_FAILED,
            APPROVAL_REQUESTED,
            GUARD_VERDICT,
        ]

    async def on_event(self, event: Event, ctx: Ctx, /) -> Sequence[Event] | None:
        """Return what follows; calls go on in the background and never hold up the bus."""
        if not believed(event):
            return None
        host = cast("Host", ctx.engine)
        work = {LLM_REQUESTED: self._ask, TOOL_REQUESTED: self._act, APPROVAL_REQUESTED: self._wait}.get(event.type)
        if work is not None:
            self._spawn(host, event, work)
            return None
        if event.type == LLM_FAILED:
            reason = f"the model call failed: {_error_type(event)}; see {LLM_FAILED} in the run's log"
            return [_end(event, OutcomeKind.FAILED, None, reason)]
        if event.type == GUARD_VERDICT:
            return [_end(event, OutcomeKind.BLOCKED, None, event.data.get("reason"))]
        state = fold(await ctx.history())
        if event.type == RUN_STARTED and not state.task.strip():
            return [_end(event, OutcomeKind.FAILED, None, _NO_TASK)]
        made = self._next(event, state)
        if event.type == RUN_STARTED:
            return await _passed(self.input_guardrails, "input", state.task, event) or made
        if made and made[0].data.get("kind") == OutcomeKind.SUCCESS:
            return await _passed(self.output_guardrails, "output", state.turns[-1].text, event) or made
        return made

    # -- what comes next: decided on the log alone -----------------------------------------------------------------

    def _next(self, event: Event, state: Conversation) -> list[Event]:
        turn = state.turns[-1] if state.turns else None
        if turn is not None and not turn.calls:
            return [_end(event, OutcomeKind.SUCCESS, {"text": turn.text, "turns": len(state.turns)}, None)]
        if turn is not None and any(call.state != "done" for call in turn.calls):
            return self._requests(event, turn.answer, turn.calls)
        if len(state.turns) >= self.max_turns:
            reason = "the model asked for tools in its last turn; raise max_turns if it needs more"
            return [_end(event, OutcomeKind.FAILED, None, reason)]
        number = len(state.turns) + 1
        return [event.caused(LLM_REQUESTED, {"turn": number}, id=derived_id(event.stream, "turn", number))]

    def _requests(self, event: Event, answer: str, calls: Sequence[TurnCall]) -> list[Event]:
        """Request the next call, together with its neighbours when they may run at the same time (REG-02)."""
        if any(call.state in {"pending", "started"} for call in calls):
            return []
        made: list[Event] = []
        for index, call in enumerate(calls):
            if call.state == "done":
                continue
            if made and not self._parallel(call):
                break
            data: dict[str, Any] = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            made.append(event.caused(TOOL_REQUESTED, data | {"index": index}, id=derived_id(answer, "call", index)))
            if not self._parallel(call):
                break
        return made

    def _parallel(self, call: TurnCall) -> bool:
        registry = self._harness.tool_registry
        return bool(getattr(registry.get(call.name) if registry else None, "supports_parallel", False))

    # -- what takes its time: in the background --------------------------------------------------------------------

    def _spawn(self, host: Host, event: Event, work: Work) -> None:
        if event.id in self._busy:
            return  # delivered again while this process works on it
        self._busy.add(event.id)
        task = host.spawn(self._guarded(host, event, work))
        task.add_done_callback(lambda _: self._busy.discard(event.id))

    async def _guarded(self, host: Host, event: Event, work: Work) -> None:
        """Do the work, again after an outage: nobody else would take it up while this process lives (ENG-26)."""

        async def attempt() -> None:
            try:
                await work(host, event)
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - as the engine ends a run whose algorithm raises (ENG-24)
                await host.complete(event.stream, OutcomeKind.FAILED, None, f"{type(error).__name__}: {text_of(error)}")

        await self._patiently(event, attempt)

    async def _patiently(self, event: Event, attempt: Callable[[], Awaitable[object]]) -> None:
        """Make attempts until the store takes one; the engine ends the task that runs this."""
        failures = 0
        while True:
            try:
                await attempt()
            except StoreUnavailable:
                failures += 1
                if failures == 1:
                    _log.warning("run %s waits at %s: its store is away", event.stream, event.id)
                await asyncio.sleep(_PATIENT.delay_s(failures))
            else:
                return

    async def _tell(self, host: Host, made: Event) -> None:
        """Put what has happened into the log, however long it takes: a model's answer is paid for, a tool has run."""
        await self._patiently(made, lambda: host.emit(made))

    async def _ask(self, host: Host, request: Event) -> None:
        state = fold(await host.run_events(request.stream))
        if request.id in state.answered or not await may_go_on(host, request.stream):
            return
        reply = derived_id(request.id, "answer")
        harness = self._harness
        with Call(host, request).entered() as call, inside(make_run(request.stream, agent=self.name)):
            try:
                tools = await harness.atools_for(state.task)
                response = await harness.acall_llm(state.messages(self.system_prompt), tools=tools)
            except Exception as error:  # noqa: BLE001 - it is the run's outcome
                said = {"error": {"type": type(error).__name__, "message": text_of(error)}}
                await self._tell(host, request.caused(LLM_FAILED, said, id=reply))
                return
        told = {
            "message": assistant_message(response),
            "model": response.model or call.record.get("model"),
            "provider": call.record.get("provider"),
            "finish_reason": response.finish_reason,
        }
        cost = self._price(response) if self._price is not None else None
        await self._tell(
            host, request.caused(LLM_COMPLETED, {"response": told, "usage": response.usage, "cost": cost}, id=reply)
        )

    async def _act(self, host: Host, request: Event) -> None:
        if request.id in self._inside:
            return
        self._inside.add(request.id)
        try:
            made = await self._carry_out(host, request)
            if made is not None and made.type != APPROVAL_REQUESTED:
                await self._tell(host, made)
                return
        finally:
            self._inside.discard(request.id)
        if made is not None:
            await self._tell(host, made)

    async def _carry_out(self, host: Host, request: Event) -> Event | None:
        """Take a call through its gates and run it; return what became of it, `None` when that is not ours to say."""
        state = fold(await host.run_events(request.stream))
        call = state.requests.get(request.id)
        if call is None or call.state == "done" or not await may_go_on(host, request.stream):
            return None
        if call.state == "started":
            lost = {"type": "OutcomeUnknown", "message": OUTCOME_UNKNOWN}
            return result_of(request, call, OUTCOME_UNKNOWN, {"error": lost})
        if call.problem is not None:
            refused = {
                "status": "invalid_args",
                "decision": "invalid_args",
                "decided_by": "agent",
                "reason": call.problem,
            }
            return result_of(request, call, f"{call.name} was not run: {call.problem}", verdict(refused))
        run = make_run(request.stream, agent=self.name)
        with Call(host, request).entered() as current, inside(run):
            try:
                response = await self._harness.aexec_tool(
                    call.name, call.arguments, call_id=call.call_id, decisions=state.decisions(request.id)
                )
            except NotOursError:
                return None
            except ApprovalRequired as waiting:
                if waiting.pendings[0].call_id == call.call_id:
                    return asked_for(request, waiting)
                inside_it = {"type": "ApprovalRequired", "message": _NESTED}
                return result_of(request, call, f"{call.name} did not end: {_NESTED}", {"error": inside_it})
            except Exception:
                if current.kept is None:
                    raise
                return result_of(request, call, current.kept, {})  # a hook failed after the tool had come back
        return result_of(request, call, response.text, verdict(current.record))

    async def _wait(self, host: Host, asked: Event) -> None:
        """Wait for a person's answer, from whatever process it comes, and go on."""
        answer: Event | None = next(
            (event for event in await host.run_events(asked.stream) if _settles(asked, event)), None
        )
        expires = asked.data.get("expires_at_ns")
        left = None if expires is None else max(0.0, (expires - now_ns()) / NS_PER_S)
        try:
            answer = answer or await asyncio.wait_for(_answer_to_come(host, asked), left)
        except TimeoutError:
            data = {"call_id": asked.data.get("call_id"), "name": asked.data.get("name")}
            # It names no cause: what was asked has no answer until the call has its result (RCV-03).
            expired = asked.caused(APPROVAL_EXPIRED, data, id=derived_id(asked.id, "expired"), causation_id=None)
            answer = await host.emit(expired) or asked
        if answer is not None and answer.type != RUN_COMPLETED:
            request = next(e for e in await host.run_events(asked.stream) if e.id == asked.causation_id)
            await self._act(host, request)


async def _answer_to_come(host: Host, asked: Event) -> Event:
    async with aclosing(host.follow(asked.stream, asked.seq + 1)) as events:
        async for stored in events:
            event = await host.hydrate(stored)  # an answer may be large, and says only whole what it answers
            if _settles(asked, event):
                return event
    raise AssertionError("unreachable: a subscription ends with an error only")


def _settles(asked: Event, event: Event) -> bool:
    return event.seq > asked.seq and (event.type == RUN_COMPLETED or answers(asked, event))


async def _passed(guardrails: Sequence[Guardrail], stage: str, text: str, event: Event) -> list[Event]:
    """Return the verdict that blocks, or nothing (GRD-12)."""
    try:
        await run_guardrails(guardrails, text)
    except GuardrailTripwireError as tripped:
        said = {"guard": tripped.rule, "stage": stage, "action": "block", "reason": str(tripped)}
        return [event.caused(GUARD_VERDICT, said, id=derived_id(event.id, "guard"))]
    return []


def _end(event: Event, kind: OutcomeKind, value: Any, reason: str | None) -> Event:
    data = {"kind": str(kind), "value": value, "reason": reason}
    return event.caused(RUN_COMPLETED, data, id=completed_id(event.stream))


def _error_type(event: Event) -> str:
    error = event.data.get("error")
    return str(error.get("type")) if isinstance(error, dict) else "unknown"
