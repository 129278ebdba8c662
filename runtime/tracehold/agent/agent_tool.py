"""An agent as a tool of another (POL-10, EXEC-10)."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from tracehold.agent.agent import Agent
from tracehold.agent.decisions import hand_over
from tracehold.agent.journal import Journal, current_call
from tracehold.agent.loop import forget_inside
from tracehold.agent.turn import NESTED, TurnCall
from tracehold.core.errors import RunLimitExceeded, SessionError
from tracehold.core.run_context import current_scope
from tracehold.core.scope import Scope
from tracehold.governance.hitl import ApprovalRequired, Interrupt, PendingAction
from tracehold.tools.base import Tool, ToolParameter, ToolResponse


class AgentSuspended(ApprovalRequired):
    """A sub-agent waits for decisions, maybe several."""

    def __init__(self, pendings: list[PendingAction]) -> None:
        super().__init__(pendings[0])
        self._pendings = pendings

    @property
    def pendings(self) -> list[PendingAction]:
        """The actions that wait, under ids that begin with the outer call's."""
        return self._pendings


class AgentTool(Tool):
    """Runs an agent inside the calling agent's run: same id, limits and trace, a conversation of its own.

    When something inside must be approved, the outer run is suspended with it; give both agents a checkpoint store,
    the same one if you like. The inner state is kept under the outer call, so that a crash or a resume goes on where it
    was; without a store of its own, its outcome is unknown after a crash, like any tool's.

    Args:
        agent: the agent.
        name: default its name.
        description: for the calling model.
    """

    supports_parallel = True

    def __init__(self, agent: Agent, *, name: str | None = None, description: str | None = None) -> None:
        super().__init__(
            name or agent.name, description or f"Hand a task to the agent {agent.name}.", origin=f"agent:{agent.name}"
        )
        self.agent = agent

    @property
    def reentrant(self) -> bool:
        """Whether its run goes on after a crash; without a store of the agent's own, nobody knows how far it was."""
        return self.agent.checkpoint_store is not None

    def get_parameters(self) -> list[ToolParameter]:
        """Return the one parameter: the task, in words."""
        return [ToolParameter("task", "string", "What to do, with everything that is needed to do it.")]

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Run the agent, or go on with the run that this call had begun."""
        scope = self._scope()
        current = current_call.get()
        if current is None or current[1].name != self.name:
            # Called by hand, where nobody keeps the inner run for us: it is like any run of the agent.
            return _response(await self.agent.arun(parameters["task"], scope=scope), "")
        outer, call = current
        try:
            result = await self._run_inside(parameters["task"], scope, outer, call)
        except RunLimitExceeded as error:
            if error.rule != "max_turns":
                raise  # the whole run's limit
            return ToolResponse.error(f"{self.agent.name} used up its turns before it had an answer")
        return _response(result, call.call_id + NESTED)

    async def aforget(self, place: Scope) -> None:
        """Clear the state of the agent's run at `place`, and of those inside it."""
        if self.agent.checkpoint_store is None:
            return
        with contextlib.suppress(SessionError):  # another agent's, or damaged: cleared all the same
            journal = await self.agent.load(place)
            if journal is not None:
                await forget_inside(self.agent.harness, journal)
        await self.agent.checkpoint_store.aclear(scope=place)

    async def _run_inside(self, task: str, scope: Scope, outer: Journal, call: TurnCall) -> str | Interrupt:
        place = outer.place_of(call)
        journal = await self.agent.load(place) if self.agent.checkpoint_store is not None else None
        if journal is None and call.nested:
            raise SessionError(
                f"what agent {self.agent.name} had begun is gone from its checkpoint_store: not run again"
            )
        if journal is None:
            return await self.agent.start(task, scope, place, inner=True)
        return await self._go_on(journal, scope, outer, call)

    async def _go_on(self, journal: Journal, scope: Scope, outer: Journal, call: TurnCall) -> str | Interrupt:
        answered, again = hand_over(outer, call, journal)
        if not answered and journal.stuck:
            return Interrupt(journal.state.pending, journal.scope)
        return await self.agent.proceed(journal, scope, again)

    def _scope(self) -> Scope:
        """The caller's scope, with this agent as the one who acts: its conversation is apart from the caller's."""
        return (current_scope() or Scope()).with_(agent=self.agent.name)


def _response(result: str | Interrupt, prefix: str) -> ToolResponse:
    if isinstance(result, Interrupt):
        raise AgentSuspended([replace(action, call_id=prefix + action.call_id) for action in result.pendings])
    return ToolResponse.ok(result)
