"""Lifecycle hooks: an application's own code that watches a run (HOOK)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from tracehold.core.scope import Scope
from tracehold.governance.hitl import PendingAction

if TYPE_CHECKING:
    from tracehold.llm.protocol import ChatMessage, LLMResponse
    from tracehold.tools.base import ToolResponse


class Hook:
    """Override what you need; everything else does nothing (HOOK-01).

    A hook only watches: what it returns is ignored (HOOK-02), what it raises reaches the caller (HOOK-03). A method may
    be `async def` (HOOK-11).
    """

    def on_run_start(self, input_text: str, *, scope: Scope | None = None) -> Awaitable[None] | None:
        """A run begins, before the input guardrails (HOOK-07)."""

    def before_model(self, messages: list[ChatMessage]) -> Awaitable[None] | None:
        """A model call, plain or streamed, is about to be made (HOOK-05)."""

    def after_model(self, response: LLMResponse) -> Awaitable[None] | None:
        """A model call gave one response object (HOOK-05)."""

    def before_tool(self, name: str, parameters: dict[str, Any]) -> Awaitable[None] | None:
        """A tool is about to run, past every gate (HOOK-06)."""

    def after_tool(self, name: str, parameters: dict[str, Any], result: ToolResponse) -> Awaitable[None] | None:
        """A tool has run (HAR-59)."""

    def on_guardrail_trip(self, stage: str, message: str) -> Awaitable[None] | None:
        """A guardrail stopped the run; `stage` is "input" or "output" (HOOK-08)."""

    def on_interrupt(self, pendings: list[PendingAction], *, scope: Scope | None = None) -> Awaitable[None] | None:
        """The run is suspended until a person decides (HOOK-09)."""

    def on_error(self, error: Exception) -> Awaitable[None] | None:
        """An exception, not a guardrail's, is about to leave the run (HOOK-10)."""

    def on_run_end(self, output: Any, *, scope: Scope | None = None) -> Awaitable[None] | None:
        """The run finished normally (HOOK-07)."""


async def fire(hooks: Sequence[Hook], method: str, *args: Any, **kwargs: Any) -> None:
    """Call `method` of each hook in list order, awaiting what is awaitable (HOOK-04, HOOK-11).

    What a hook returns is ignored (HOOK-02). What it raises ends the round and reaches the caller (HOOK-03). A hook
    that adds or removes hooks changes the next round, not this one.
    """
    for hook in tuple(hooks):
        waiting = getattr(hook, method)(*args, **kwargs)
        if inspect.isawaitable(waiting):
            await waiting
