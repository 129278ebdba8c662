"""Keeps a run's state in the checkpoint store while it goes on, so that another process can take over.

Each save replaces exactly what this process saved or loaded before. When it does not stand there any more, another
process has taken the run over, and this one stops: one approval is used once (DEC-02), no tool runs twice.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, Final

from tracehold.agent.turn import NESTED, OUTCOME_UNKNOWN, TurnCall
from tracehold.core.clock import now_ns
from tracehold.core.errors import SessionError
from tracehold.core.run_context import current_step
from tracehold.core.scope import Scope
from tracehold.execution.checkpoints import CheckpointStore
from tracehold.execution.state import ExecutionState

_CALLS = "calls"
_CLAIMS = "claims"
INNER: Final = "inner"
"""Set in the meta of a run that belongs to a call of another one."""
BEGAN_AT_NS: Final = "began_at_ns"
"""In the meta of a run: when it began, UTC nanoseconds."""


def began_at_ns(state: ExecutionState) -> int | None:
    """Return when a stored run began; `None` when its state does not say, or not as a time."""
    told = state.meta.get(BEGAN_AT_NS)
    return told if type(told) is int and told > 0 else None


class Journal:
    """One run's state, and the calls of its current turn.

    Args:
        store: where the state is kept; without one nothing is saved.
        scope: under which scope.
        state: the run's state.
        saved: the text that stands in the store now, or `None`.

    Raises:
        SessionError: the stored calls are damaged.
    """

    def __init__(
        self,
        store: CheckpointStore | None,
        scope: Scope | None,
        state: ExecutionState,
        saved: str | None = None,
    ) -> None:
        self.state = state
        self.scope = scope
        try:
            self.calls = [TurnCall(**call) for call in state.meta.get(_CALLS, ())]
        except TypeError as error:
            raise SessionError(
                f"the stored calls of run {state.run_id} are damaged: clear its checkpoint and start the run again"
            ) from error
        self._store = store
        self._saved = saved
        self._lock = asyncio.Lock()

    @property
    def durable(self) -> bool:
        """Whether another process can continue the run."""
        return self._store is not None

    @property
    def inner(self) -> bool:
        """Whether the run belongs to a call of another one, which clears the state once it holds the result."""
        return bool(self.meta.get(INNER))

    @property
    def stuck(self) -> bool:
        """Whether nothing can be done before a person has decided."""
        return bool(self.state.pending) and all(
            call.state == "done" or (call.state == "pending" and self.waits_for(call)) for call in self.calls
        )

    def waits_for(self, call: TurnCall) -> bool:
        """Whether a person is being asked about a call, or about something inside it."""
        return any(call.owns(action.call_id) for action in self.state.pending)

    @property
    def meta(self) -> dict[str, Any]:
        """What the agent keeps beside the documented fields; JSON only."""
        return self.state.meta

    async def save(self) -> None:
        """Put the state down.

        Raises:
            SessionError: another process has taken the run over, or the state cannot be stored.
        """
        if self._store is None:
            return
        async with self._lock:
            self.state.meta[_CALLS] = [call.to_dict() for call in self.calls]
            self.state.step = current_step() or self.state.step
            text = self.state.to_json()
            if not await self._store.areplace(self._saved, text, scope=self.scope):
                raise SessionError(
                    f"run {self.state.run_id} stops here: another run or process holds the checkpoint of its scope"
                )
            self._saved = text

    async def claim(self) -> None:
        """Take over the run as loaded. The text changes even if nothing else does: of several claims one holds.

        Raises:
            SessionError: another process was faster.
        """
        claims = self.meta.get(_CLAIMS)
        self.meta[_CLAIMS] = claims + 1 if isinstance(claims, int) else 1
        await self.save()

    async def enter(self, call: TurnCall) -> None:
        """Save that a call is about to enter its tool."""
        call.state, call.started_at_ns = "started", now_ns()
        await self.save()

    def place_of(self, call: TurnCall) -> Scope:
        """Return the scope under which a call keeps a state of its own.

        Made of the run, the turn and the call's position, so that no two calls ever meet there: some models number
        their calls from 0 in each reply.
        """
        scope = self.scope or Scope()
        position = next(index for index, known in enumerate(self.calls) if known is call)
        name = f"{self.state.run_id}.{self.state.remaining}.{position}"
        return scope.with_(session=f"{scope.session or ''}{NESTED}{name}")

    async def clear(self) -> None:
        """Remove the state; the run is over."""
        if self._store is not None and self._saved is not None:
            await self._store.areplace(self._saved, None, scope=self.scope)
            self._saved = None

    def lost_calls(self) -> list[TurnCall]:
        """Return the calls that had entered their tool when the process ended."""
        return [call for call in self.calls if call.state == "started"]

    def give_up(self, call: TurnCall) -> None:
        """Tell the model that a lost call's outcome is unknown: it is not run again."""
        call.finish(OUTCOME_UNKNOWN)


current_call: ContextVar[tuple[Journal, TurnCall] | None] = ContextVar("tracehold_current_call", default=None)
"""The call that is being carried out here, and the run it belongs to: what a sub-agent keeps its own state under."""
