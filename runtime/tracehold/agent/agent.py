"""A small tool-calling agent on the harness: enough to show the runtime whole, not a framework."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from tracehold.agent import decisions
from tracehold.agent.journal import BEGAN_AT_NS, INNER, Journal, began_at_ns
from tracehold.agent.loop import DurableMark, KeptResult, Suspended, forget_inside, run_turns
from tracehold.agent.run_record import RunRecord
from tracehold.core.clock import now_ns
from tracehold.core.errors import GuardrailTripwireError, RunCancelled, RunLimitExceeded, SessionError
from tracehold.core.message import Message
from tracehold.core.requirements import require_methods
from tracehold.core.run_context import current_run_id, current_step, new_run_id
from tracehold.core.scope import Scope
from tracehold.execution.checkpoints import CheckpointStore
from tracehold.execution.policy import RunPolicy
from tracehold.execution.recording import emit, failed, stopped
from tracehold.execution.state import ExecutionState
from tracehold.governance.approvals import Approver, as_principal, normalise_decisions
from tracehold.governance.decisions import Decisions
from tracehold.governance.guardrails import Guardrail, run_guardrails
from tracehold.governance.hitl import Interrupt, PendingAction
from tracehold.governance.hooks import fire
from tracehold.harness import Harness
from tracehold.harness.services import require_services
from tracehold.llm.protocol import ChatMessage, LLMClient
from tracehold.observability.event_types import GUARDRAIL_TRIP, RUN_ERROR
from tracehold.sessions.store import SessionStore
from tracehold.tools.base import Tool
from tracehold.tools.registry import ToolRegistry

Result = TypeVar("Result")
_log = logging.getLogger(__name__)

Decision = bool | Mapping[str, bool] | None


class Agent:
    """Asks a model, carries out the tool calls it wants, and gives back its answer or an `Interrupt`.

    With a `checkpoint_store` a tool that needs confirmation suspends the run: `run` returns an `Interrupt`, a person
    decides, and `resume`, in this process or another, goes on. The state is saved before a tool is entered and after it
    came back, so that no tool runs twice and none is lost, whatever process is killed when. Without one such a tool
    goes to `confirm`.

    Args:
        name: who acts; stamped on every event.
        llm: the model client.
        system_prompt: the first message of each run.
        tools: what the model may ask for: a list of tools, or a registry.
        max_turns: model calls a run may make, at least 1.
        run_policy: limits of a run. Inside another run that run's hold.
        session_store: keeps the conversation: earlier messages are shown, this turn's are added when it is done.
        checkpoint_store: keeps the state of a run that is going on or suspended.
        scope: whom runs are for, unless a call says.
        input_guardrails: check what the user wrote.
        output_guardrails: check what the model answers.
        services: further keyword arguments of `Harness`: `tracer`, `hooks`, `permissions`, `confirm`, `compactor`,
            `approval_ttl_s` and so on.

    Raises:
        ValueError: `max_turns` below 1, or what `Harness` refuses.
    """

    def __init__(
        self,
        name: str,
        llm: LLMClient,
        system_prompt: str | None = None,
        *,
        tools: Sequence[Tool] | ToolRegistry = (),
        max_turns: int = 10,
        run_policy: RunPolicy | None = None,
        session_store: SessionStore | None = None,
        checkpoint_store: CheckpointStore | None = None,
        scope: Scope | None = None,
        input_guardrails: Sequence[Guardrail] = (),
        output_guardrails: Sequence[Guardrail] = (),
        **services: Any,
    ) -> None:
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {max_turns!r}")
        require_services("Agent", services, Agent.__init__)
        _check_parts(session_store, checkpoint_store, scope, [*input_guardrails, *output_guardrails])
        self.name = name
        self.system_prompt = system_prompt
        self.max_turns = max_turns
        self.run_policy = run_policy
        self.session_store = session_store
        self.checkpoint_store = checkpoint_store
        self.scope = scope
        self.input_guardrails = list(input_guardrails)
        self.output_guardrails = list(output_guardrails)
        self.hooks = list(services.pop("hooks", None) or [])
        hooks = self.hooks
        if checkpoint_store is not None:
            _check_atomic(checkpoint_store)
            hooks = [KeptResult(), *hooks, DurableMark()]  # nobody's hook stands between a tool and its marks
        self.harness = Harness(llm, tool_registry=ToolRegistry.from_tools(tools), hooks=hooks, **services)

    def run(self, input_text: str, **options: Any) -> str | Interrupt:
        """Do what `arun` does, from code that is not async."""
        return _wait_for(self.arun(input_text, **options))

    def resume(self, decision: Decision = None, **options: Any) -> str | Interrupt:
        """Do what `aresume` does, from code that is not async."""
        return _wait_for(self.aresume(decision, **options))

    def pending(self, *, scope: Scope | None = None) -> Interrupt | None:
        """Do what `apending` does, from code that is not async."""
        return _wait_for(self.apending(scope=scope))

    async def arun(
        self,
        input_text: str,
        *,
        scope: Scope | None = None,
        run_id: str | None = None,
        trace_carrier: Mapping[str, str] | None = None,
    ) -> str | Interrupt:
        """Answer `input_text`.

        Args:
            input_text: what the user wrote.
            scope: whom this is for; default the agent's.
            run_id: default a fresh one. Inside another run, that run's.
            trace_carrier: an upstream W3C carrier whose trace the run joins.

        Returns:
            The answer, or an `Interrupt` when a person must decide first.

        Raises:
            GuardrailTripwireError: a guardrail stopped the run (GRD-12).
            RunLimitExceeded: a limit of the policy, or `max_turns`, is reached.
            RunCancelled: the cancel callback said stop.
            SessionError: a run of this scope is suspended or interrupted: resume it first.
        """
        scope = scope or self.scope
        await self._refuse_leftover(scope)
        return await self.start(input_text, scope, scope, run_id, trace_carrier)

    async def start(
        self,
        input_text: str,
        scope: Scope | None,
        place: Scope | None,
        run_id: str | None = None,
        trace_carrier: Mapping[str, str] | None = None,
        *,
        inner: bool = False,
    ) -> str | Interrupt:
        """Begin a run whose state is kept at `place`; an `inner` one belongs to a call of another agent's run."""
        run_id = current_run_id() or run_id or new_run_id()
        meta = {"agent": self.name, BEGAN_AT_NS: now_ns()} | ({INNER: True} if inner else {})
        state = ExecutionState([], input_text, remaining=self.max_turns, run_id=run_id, meta=meta)
        journal = Journal(self.checkpoint_store, place, state)
        record = self._record(state, scope, trace_carrier, resumed=False)
        return await self._finish(record, journal, scope, self._begin(journal, scope))

    async def aresume(
        self,
        decision: Decision = None,
        *,
        scope: Scope | None = None,
        approver: Approver | None = None,
        reason: str | None = None,
        seen: Mapping[str, str] | None = None,
        trace_carrier: Mapping[str, str] | None = None,
    ) -> str | Interrupt:
        """Go on with the run that is suspended, or was interrupted, in `scope`.

        Args:
            decision: one bool for every pending action, or `{call_id: bool}`; undecided ones go on waiting. `None` goes
                on with a run whose process ended in the middle; one that had its answer already gives it (EXEC-05).
            scope: the interrupt's; default the agent's.
            approver: who decided: a principal from the caller's credential, never from a payload (DEC-02).
            reason: in the approver's own words; recorded, and told to the model when the answer is no.
            seen: `{call_id: digest}` of the actions as the approver saw them. Where it does not fit, the action waits
                again.
            trace_carrier: this process's own upstream carrier (EXEC-12).

        Returns:
            The answer, or an `Interrupt` when something still waits.

        Raises:
            TypeError: a decision that is not a bool (HITL-08).
            ValueError: a decision about an action that does not wait.
            SessionError: there is nothing to resume; it is another agent's; another process resumed it meanwhile.
            GuardrailTripwireError, RunLimitExceeded, RunCancelled: as `arun`.
        """
        scope = scope or self.scope
        journal = await self.load(scope)
        if journal is None:
            raise SessionError(f"agent {self.name} has nothing to resume in this scope: no run is suspended there")
        if journal.inner:
            # Finished apart from its call, it would be gone when the outer run looks for it, and be done again.
            raise SessionError("this run is a part of another agent's run: resume that one, and it goes on with it")
        if journal.stuck and decision is None:
            raise ValueError(
                f"{len(journal.state.pending)} actions wait for a decision: resume(True), or one by call id"
            )
        if decision not in (None, {}) and not journal.state.pending and not journal.state.completed:
            raise SessionError(
                "nothing waits for a decision in this scope: it was given already, or the run was interrupted. "
                "resume() without a decision goes on with an interrupted run"
            )
        principal = as_principal(approver)
        table = Decisions(
            normalise_decisions(decision, journal.state.pending) if decision is not None else {},
            decided_by=principal.id if principal is not None else None,
            reason=reason,
        )
        again = decisions.rule(journal, table, seen)
        return await self.proceed(journal, scope, again, trace_carrier)

    async def apending(self, *, scope: Scope | None = None) -> Interrupt | None:
        """Return what waits for a decision in `scope`, in any process; `None` when nothing does.

        Raises:
            SessionError: the agent has no checkpoint store, or the run kept there is another agent's.
        """
        journal = await self.load(scope or self.scope)
        if journal is None or journal.state.completed or not journal.state.pending:
            return None
        return Interrupt(journal.state.pending, journal.scope)

    async def proceed(
        self,
        journal: Journal,
        scope: Scope | None,
        again: decisions.Again,
        trace_carrier: Mapping[str, str] | None = None,
    ) -> str | Interrupt:
        """Claim a run that decisions were applied to, record them, and go on; `again` are those that wait once more."""
        await journal.claim()  # of two processes one gets past it
        record = self._record(journal.state, scope, trace_carrier, resumed=True)
        return await self._finish(record, journal, scope, self._continue(journal, again))

    async def load(self, place: Scope | None) -> Journal | None:
        """Return the run whose state is kept at `place`, or `None`.

        Raises:
            SessionError: the agent has no checkpoint store, or the run is another agent's (FR-59).
        """
        if self.checkpoint_store is None:
            raise SessionError(f"agent {self.name} has no checkpoint_store: it cannot be suspended or resumed")
        saved = await self.checkpoint_store.aload(scope=place)
        if saved is None:
            return None
        state = ExecutionState.from_json(saved)
        owner = state.meta.get("agent")
        if owner != self.name:
            raise SessionError(
                f"the run kept in this scope was begun by agent {owner!r}, not by {self.name!r}: resume it with the "
                "agent that began it"
            )
        return Journal(self.checkpoint_store, place, state, saved)

    async def _begin(self, journal: Journal, scope: Scope | None) -> str:
        """The first part of a run: hooks, input guardrails, history, messages."""
        state, harness = journal.state, self.harness
        await fire(self.hooks, "on_run_start", state.input_text, scope=scope)
        await self._guard("input", self.input_guardrails, state.input_text)
        history = await self.session_store.aload(scope=scope) if self.session_store is not None else []
        shown = await harness.aassemble([*history, Message(state.input_text, "user")], state.input_text, scope)
        system: list[ChatMessage] = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        state.messages = [*system, *shown]
        state.meta["turn_start"] = len(state.messages)
        return await self._answer(journal)

    async def _continue(self, journal: Journal, again: decisions.Again) -> str:
        if journal.state.completed:
            return str(journal.state.meta.get("output", ""))
        decisions.record(journal, self.harness.tracer)
        decisions.record_mismatches(again, self.harness.tracer)
        return await self._answer(journal)

    async def _answer(self, journal: Journal) -> str:
        tools = await self.harness.atools_for(journal.state.input_text)
        output = await run_turns(self.harness, journal, tools)
        await self._guard("output", self.output_guardrails, output)
        return output

    async def _finish(
        self, record: RunRecord, journal: Journal, scope: Scope | None, work: Coroutine[Any, Any, str]
    ) -> str | Interrupt:
        """Do the work and see to it that however it ends, the hooks hear of it and the record says so once."""
        try:
            output = await work
            await self._keep(journal, output, scope, unless_there=record.resumed)
            await fire(self.hooks, "on_run_end", output, scope=scope)
        except Suspended as suspended:
            return await self._suspend(record, journal, suspended.pendings)
        except GuardrailTripwireError as tripped:
            try:
                await self._give_up(journal, tripped)
            finally:
                record.end({"status": "tripped", "reason": str(tripped)})
            raise
        except BaseException as error:
            await self._fail(record, journal, error)
            raise
        record.end({"status": "ok"} | ({"output": output} if getattr(self.harness.tracer, "content", False) else {}))
        return output

    async def _suspend(self, record: RunRecord, journal: Journal, pendings: list[PendingAction]) -> Interrupt:
        try:
            journal.state.pending = pendings
            await journal.save()
            await fire(self.hooks, "on_interrupt", pendings, scope=journal.scope)
            if current_step() > journal.state.step:
                await journal.save()  # a hook recorded something: a resume goes on after it (EXEC-06)
        except BaseException as error:
            await self._fail(record, journal, error, keep=True)
            raise
        record.end(
            {
                "status": "suspended",
                "reason": f"waiting for {len(pendings)} decisions" if len(pendings) > 1 else "waiting for a decision",
            }
        )
        return Interrupt(pendings, journal.scope)

    async def _fail(self, record: RunRecord, journal: Journal, error: BaseException, *, keep: bool = False) -> None:
        """Tell hooks and record of an error; a failing hook is itself the error that leaves (HOOK-03, HOOK-10).

        A run that fails is over, and its scope free for the next. One that people decided on, or that was torn off by
        a cancellation, is kept: `resume` goes on with what its tools have done, unless it has no turns left.
        """
        fields = _end_of(error)
        out_of_turns = isinstance(error, RunLimitExceeded) and error.rule == "max_turns"
        keep = keep or (record.resumed and not out_of_turns)
        try:
            if fields["status"] == "error":
                emit(self.harness.tracer, {"type": RUN_ERROR} | fields)
            if isinstance(error, Exception):
                if not keep:
                    await self._give_up(journal, error)
                await fire(self.hooks, "on_error", error)
        finally:
            record.end(fields)

    async def _guard(self, stage: str, guardrails: Sequence[Guardrail], text: str) -> None:
        try:
            await run_guardrails(guardrails, text)
        except GuardrailTripwireError as tripped:
            emit(
                self.harness.tracer,
                {
                    "type": GUARDRAIL_TRIP,
                    "name": f"{stage} guardrail",
                    "status": "tripped",
                    "decision": "tripped",
                    "decided_by": f"{stage}_guardrail",
                    "rule": tripped.rule,
                    "reason": str(tripped),
                },
            )
            await fire(self.hooks, "on_guardrail_trip", stage, str(tripped))
            raise

    async def _give_up(self, journal: Journal, error: Exception) -> None:
        try:
            await self._clear(journal)
        except SessionError as second:  # the first error is the one to know
            error.add_note(f"the run's checkpoint could not be cleared: {second}")

    async def _clear(self, journal: Journal) -> None:
        if not journal.inner:  # else the outer run may yet come back to it, or has it forgotten
            await forget_inside(self.harness, journal)
            await journal.clear()

    async def _keep(self, journal: Journal, output: str, scope: Scope | None, *, unless_there: bool) -> None:
        """Mark the run as done, add it to the conversation, clear its state: each step may be the last (EXEC-05)."""
        state = journal.state
        state.completed = True
        state.meta["output"] = output
        await journal.save()
        await self._add_to_session(journal, scope, unless_there=unless_there)
        if not journal.inner:  # else the outer run has it cleared once it holds the result
            await journal.clear()

    async def _add_to_session(self, journal: Journal, scope: Scope | None, *, unless_there: bool) -> None:
        if self.session_store is None:
            return
        state = journal.state
        mark = {"run_id": state.run_id}
        if journal.inner and journal.scope is not None:
            mark["call"] = journal.scope.session  # of one run, an inner agent may have several
        if unless_there and any(message.metadata == mark for message in await self.session_store.aload(scope=scope)):
            return
        turn = [
            Message(state.input_text, "user", metadata=dict(mark)),
            Message(state.meta["output"], "assistant", metadata=dict(mark)),
        ]
        await self.session_store.aappend_many(turn, scope=scope)

    async def _refuse_leftover(self, place: Scope | None) -> None:
        """Finish clearing up after a run that was done; refuse to start over one that was not (EXEC-05)."""
        journal = await self.load(place) if self.checkpoint_store is not None else None
        if journal is None:
            return
        if journal.state.completed:
            await self.proceed(journal, place, [])
            return
        waits = "waits for a decision" if journal.state.pending else "was interrupted"
        raise SessionError(
            f"run {journal.state.run_id} of this scope {waits}: resume it, or clear its checkpoint, first"
        )

    def _record(
        self,
        state: ExecutionState,
        scope: Scope | None,
        trace_carrier: Mapping[str, str] | None,
        *,
        resumed: bool,
    ) -> RunRecord:
        return RunRecord(
            self.harness.tracer,
            self.name,
            state.run_id or new_run_id(),
            step=state.step + 1 if resumed else 0,  # the suspension itself was recorded after the state was saved
            resumed=resumed,
            began_at_ns=began_at_ns(state) if resumed else None,
            policy=self.run_policy,
            scope=scope,
            trace_carrier=trace_carrier,
        )


def _check_atomic(store: CheckpointStore) -> None:
    if type(store).replace is CheckpointStore.replace:
        _log.warning(
            "%s does not override CheckpointStore.replace: two processes that resume one run at the same time may both "
            "carry out what was approved once",
            type(store).__name__,
        )


def _end_of(error: BaseException) -> dict[str, Any]:
    """Return the fields of a run that ended with `error`. The call that a limit stopped holds the decision."""
    if isinstance(error, RunLimitExceeded | RunCancelled):
        told = stopped(error)
        return {"status": told["status"], "rule": told["rule"], "reason": told["reason"]}
    return failed(error)


def _check_parts(sessions: object, checkpoints: object, scope: object, guardrails: Sequence[object]) -> None:
    require_methods("session_store", sessions, ("aload", "aappend_many"), "give SqliteSessionStore('agent.db')")
    require_methods("checkpoint_store", checkpoints, ("aload", "asave"), "give SqliteCheckpointStore('agent.db')")
    if scope is not None and not isinstance(scope, Scope):
        raise TypeError(f"scope cannot be {type(scope).__name__}: give a Scope, as Scope(user='ada')")
    for guardrail in guardrails:
        require_methods("a guardrail", guardrail, ("acheck",), "wrap a function in CallableGuardrail(function)")


def _wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise RuntimeError("an event loop is running here: await arun or aresume instead of calling run or resume")
