"""How a block of retrieved material is shared out among its sources (CTX-06, CTX-07)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tracehold.context.checks import at_least, fraction, positive_fraction
from tracehold.core.errors import ConfigurationError

DEFAULT_SOURCE_RATIOS: Final = {"memory": 0.3, "rag": 0.5, "conversation": 0.2}
"""Shares for the sources most agents have."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class ContextConfig:
    """The knobs of a `ContextBuilder`.

    Attributes:
        max_tokens: the room for a prompt when the caller gives no budget; `None` when every caller does (CTX-10).
        output_reserve_ratio: the part of `max_tokens` that is left to the reply; 0 to 1. Not taken from a budget
            the caller gives.
        source_ratios: each source's share of the block by its name, 0 to 1, together at most 1.
        mmr_lambda: relevance (1) against diversity (0).
        dedup_threshold: from which similarity on (above 0, at most 1) a candidate repeats another.
        allow_borrow: whether a source may use what others leave.
        min_chunk_tokens: a chunk that does not fit whole is cut when so many tokens of it do, at least 1.

    Raises:
        ValueError: a value outside its bounds.
    """

    max_tokens: int | None = None
    output_reserve_ratio: float = 0.2
    source_ratios: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_SOURCE_RATIOS))
    mmr_lambda: float = 0.7
    dedup_threshold: float = 0.95
    allow_borrow: bool = True
    min_chunk_tokens: int = 64

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, here rather than in the middle of a run."""
        if self.max_tokens is not None:
            at_least("max_tokens", self.max_tokens, 1)
        fraction("output_reserve_ratio", self.output_reserve_ratio)
        at_least("min_chunk_tokens", self.min_chunk_tokens, 1)
        fraction("mmr_lambda", self.mmr_lambda)
        positive_fraction("dedup_threshold", self.dedup_threshold)
        for name, ratio in self.source_ratios.items():
            fraction(f"source_ratios[{name!r}]", ratio)
        total = sum(self.source_ratios.values())
        if total > 1 + _ROUNDING:
            raise ConfigurationError(f"source_ratios must add up to at most 1, not {total:g}")
        object.__setattr__(self, "source_ratios", dict(self.source_ratios))

    @property
    def block_tokens(self) -> int | None:
        """The block's budget when the caller gives none: `max_tokens` less the reply's part; `None` when not set."""
        return None if self.max_tokens is None else math.floor(self.max_tokens * (1 - self.output_reserve_ratio))


def allocate(budget: int, demands: Sequence[int], ratios: Sequence[float], *, lend: bool) -> list[int]:
    """Return each source's allowance in tokens, never more than it can use (CTX-08).

    Args:
        budget: tokens to share out.
        demands: what each source could use.
        ratios: each source's share of the budget.
        lend: whether what some leave is shared among the others, in proportion to their ratios.
    """
    allowed = [min(demand, math.floor(budget * ratio)) for demand, ratio in zip(demands, ratios, strict=True)]
    free = budget - sum(allowed)
    while lend and free > 0:
        hungry = [at for at, demand in enumerate(demands) if demand > allowed[at]]
        if not hungry:
            break
        weight = sum(ratios[at] for at in hungry)
        before = free
        pool = free
        for at in hungry:
            part = ratios[at] / weight if weight else 1 / len(hungry)
            grant = min(demands[at] - allowed[at], math.floor(pool * part), free)
            allowed[at] += grant
            free -= grant
        if free == before:  # less than a token each: the first one takes it
            grant = min(demands[hungry[0]] - allowed[hungry[0]], free)
            allowed[hungry[0]] += grant
            free -= grant
    return allowed
