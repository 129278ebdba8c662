"""How much of a trajectory stays as it is (CTX-15)."""

from __future__ import annotations

from dataclasses import dataclass

from tracehold.context.checks import at_least


@dataclass(frozen=True)
class ReducerConfig:
    """How many of the newest entries a reduction keeps word for word.

    Attributes:
        agent_keep_recent_steps: steps of an agent; a step is a message, or tool calls with their results.
        plan_keep_recent: results of a plan.

    Raises:
        ValueError: a negative number (CTX-15).
    """

    agent_keep_recent_steps: int = 3
    plan_keep_recent: int = 3

    def __post_init__(self) -> None:
        """Refuse negative numbers (CTX-15)."""
        at_least("agent_keep_recent_steps", self.agent_keep_recent_steps, 0)
        at_least("plan_keep_recent", self.plan_keep_recent, 0)
