"""Keeps a run's state in the checkpoint store while it goes on, so that another process can take over.

Each save replaces exactly what this process saved or loaded before. When it does not stand there any more, another
process has taken the run over, and this one stops: one approval is used once (DEC-02), no tool runs twice.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from tracehold.agent.turn import OUTCOME_UNKNOWN, TurnCall
from tracehold.core.errors import SessionError
from tracehold.core.run_context import current_step
from tracehold.core.scope import Scope
from tracehold.execution.checkpoints import CheckpointStore
from tracehold.execution.state import ExecutionState

_CALLS = "calls"


class Journal:
    """One run's state, and the calls of its current turn.

    Args:
        store: where the state is kept; without one nothing is saved.
        scope: under which scope.
        state: the run's state.
        saved: the text that stands in the store now, or `None`.
    """

    def __init__(
        self, store: CheckpointStore | None, scope: Scope | None, state: ExecutionState, saved: str | None = None
    ) -> None:
        self.state = state
        self.scope = scope
        self.calls = [TurnCall(**call) for call in state.meta.get(_CALLS, ())]
        self._store = store
        self._saved = saved
        self._lock = asyncio.Lock()

    @property
    def durable(self) -> bool:
        """Whether another process can continue the run."""
        return self._store is not None

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
