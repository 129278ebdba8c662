"""An agent as a tool of another (POL-10, EXEC-10)."""

from __future__ import annotations

import asyncio
from typing import Any

from tracehold.agent.agent import Agent
from tracehold.agent.decisions import decisions_of, rule
from tracehold.agent.journal import Journal, current_call
from tracehold.agent.loop import nested_pendings
from tracehold.agent.turn import NESTED
from tracehold.core.run_context import current_scope
from tracehold.core.scope import Scope
from tracehold.governance.decisions import Decisions, behind
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
    was.

    Args:
        agent: the agent.
        name: default its name.
        description: for the calling model.
    """

    supports_parallel = True
    reentrant = True

    def __init__(self, agent: Agent, *, name: str | None = None, description: str | None = None) -> None:
        super().__init__(
            name or agent.name, description or f"Hand a task to the agent {agent.name}.", origin=f"agent:{agent.name}"
        )
        self.agent = agent

    def get_parameters(self) -> list[ToolParameter]:
        """Return the one parameter: the task, in words."""
        return [ToolParameter("task", "string", "What to do, with everything that is needed to do it.")]

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        """Do what `arun` does, from code that is not async."""
        return asyncio.run(self.arun(parameters))

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Run the agent, or go on with the run that this call had begun."""
        current = current_call.get()
        call_id = current[1].call_id if current is not None else ""
        scope = self._scope()
        place = _below(scope, call_id)
        journal = await self.agent.load(place) if self.agent.checkpoint_store is not None else None
        if journal is None:
            result = await self.agent.start(parameters["task"], scope, place)
        elif journal.state.completed:
            result = journal.state.meta["output"]
        else:
            result = await self._go_on(journal, scope, call_id, current[0] if current is not None else None)
        if isinstance(result, Interrupt):
            raise AgentSuspended(nested_pendings(call_id, result.pendings))
        return ToolResponse.ok(result)

    async def aforget(self, call_id: str) -> None:
        """Clear the state of a call whose result the outer run holds."""
        if self.agent.checkpoint_store is not None:
            await self.agent.checkpoint_store.aclear(scope=_below(self._scope(), call_id))

    async def _go_on(
        self, journal: Journal, scope: Scope | None, call_id: str, outer: Journal | None
    ) -> str | Interrupt:
        waiting = {action.call_id for action in journal.state.pending}
        table = decisions_of(outer) if outer is not None else Decisions()
        prefix = call_id + NESTED
        decided = {
            known.removeprefix(prefix): approved
            for known, approved in table.items()
            if known.startswith(prefix) and known.removeprefix(prefix) in waiting
        }
        if waiting and not decided:
            return Interrupt(journal.state.pending, journal.scope)
        inner = Decisions(decided)
        inner.behind = {known: behind(table, prefix + known) for known in decided}
        return await self.agent.proceed(journal, scope, rule(journal, inner))

    def _scope(self) -> Scope:
        """The caller's scope, with this agent as the one who acts: its conversation is apart from the caller's."""
        return (current_scope() or Scope()).with_(agent=self.agent.name)


def _below(scope: Scope, call_id: str) -> Scope:
    """Where the state of one call is kept: several calls of one turn do not meet."""
    return scope.with_(session=f"{scope.session or ''}{NESTED}{call_id}")
