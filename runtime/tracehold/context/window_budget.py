"""One window, shared out: reply, fixed texts, retrieved material, conversation (CTX-13, CTX-14)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tracehold.context.checks import at_least, fraction, positive_fraction


@dataclass(frozen=True)
class WindowBudgetConfig:
    """How a model's window is shared out (CTX-13).

    Attributes:
        desired_output_tokens: what a reply should have room for; at least 1.
        max_output_fraction: the most of the window a reply may be given; above 0, at most 1.
        rag_ratio: the retrieved material's part of what is left; 0 to 1.

    Raises:
        ValueError: a value outside these bounds.
    """

    desired_output_tokens: int = 4096
    max_output_fraction: float = 0.5
    rag_ratio: float = 0.35

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, here rather than in the middle of a run."""
        at_least("desired_output_tokens", self.desired_output_tokens, 1)
        positive_fraction("max_output_fraction", self.max_output_fraction)
        fraction("rag_ratio", self.rag_ratio)

    def output_reserve(self, *, window: int, model_max_output: int | None) -> int:
        """Return the tokens kept free for the reply.

        The smallest of what is desired, what the model can give when that is known, and the fraction of the window.
        """
        bounds = [self.desired_output_tokens, math.floor(window * self.max_output_fraction)]
        if model_max_output is not None:
            bounds.append(model_max_output)
        return min(bounds)


@dataclass(frozen=True)
class WindowBudget:
    """The shares of one window, in tokens; none is ever negative (CTX-14).

    Attributes:
        window: all the model can hold.
        output_reserve: kept free for the reply.
        system_tokens: what the system prompt takes.
        tool_tokens: what the tool schemas take.
        rag_ratio: the retrieved material's part of what is left.
    """

    window: int
    output_reserve: int
    system_tokens: int = 0
    tool_tokens: int = 0
    rag_ratio: float = 0.0

    @classmethod
    def for_run(
        cls,
        *,
        llm: object,
        cfg: WindowBudgetConfig | None = None,
        system_tokens: int = 0,
        tool_tokens: int = 0,
        rag_ratio: float | None = None,
    ) -> WindowBudget | None:
        """Return the budget for a model, or `None` when its window is unknown (HAR-76).

        Args:
            llm: the client; its `context_window` and `max_output_tokens` are read when it has them.
            cfg: how to share; default `WindowBudgetConfig()`.
            system_tokens: what the system prompt takes.
            tool_tokens: what the tool schemas take.
            rag_ratio: instead of the configured one; 0 when there are no sources (CTX-14).

        Raises:
            ValueError: a `rag_ratio` outside 0 to 1.
        """
        window = known_window(llm)
        if window is None:
            return None
        if rag_ratio is not None:
            fraction("rag_ratio", rag_ratio)
        cfg = cfg or WindowBudgetConfig()
        return cls(
            window=window,
            output_reserve=cfg.output_reserve(window=window, model_max_output=_known(llm, "max_output_tokens")),
            system_tokens=system_tokens,
            tool_tokens=tool_tokens,
            rag_ratio=cfg.rag_ratio if rag_ratio is None else rag_ratio,
        )

    @property
    def fixed(self) -> int:
        """What is spoken for: the reply, the system prompt and the tool schemas."""
        return self.output_reserve + self.system_tokens + self.tool_tokens

    @property
    def spendable(self) -> int:
        """What retrieved material and the conversation may share."""
        return max(0, self.window - self.fixed)

    @property
    def rag_budget(self) -> int:
        """The retrieved material's share."""
        return math.floor(self.spendable * self.rag_ratio)

    def trajectory_budget(self, *, rag_in_scope: bool) -> int:
        """Return the conversation's share.

        Args:
            rag_in_scope: whether the messages to be measured hold the retrieval block, and with it the system prompt
                (HAR-79).
        """
        if rag_in_scope:
            return max(0, self.window - self.output_reserve - self.tool_tokens)
        return self.spendable - self.rag_budget


def known_window(llm: object) -> int | None:
    """Return a model's window in tokens, or `None` when it does not tell a usable one."""
    return _known(llm, "context_window")


def _known(llm: object, name: str) -> int | None:
    value = getattr(llm, name, None)
    return value if type(value) is int and value > 0 else None
