"""The results of a plan's steps, shortened (CTX-17)."""

from __future__ import annotations

from typing import Final

from tracehold.context.prompts import Prompts
from tracehold.context.reducers.config import ReducerConfig
from tracehold.context.reducers.folding import fold, refuse_overflow
from tracehold.context.summaries import AsyncSummarize
from tracehold.context.transcript import entry
from tracehold.core.tokens import TokenCounter

_ADVICE: Final = "let steps return less, lower ReducerConfig.plan_keep_recent, or use a model with a larger window"


async def reduce_plan(
    data: list[str],
    *,
    budget: int,
    config: ReducerConfig,
    asummarize: AsyncSummarize,
    token_counter: TokenCounter,
    prompts: Prompts | None = None,
) -> list[str]:
    """Return `data` itself when within `budget`, else one marked entry for the older results, then the newest.

    Args:
        data: results in the order of their steps; not changed.
        budget: the most tokens the result may take.
        config: `plan_keep_recent` is read.
        asummarize: makes the summary (HAR-81).
        token_counter: estimates tokens.
        prompts: texts instead of ours.

    Raises:
        ContextWindowExceeded: the newest results alone exceed `budget` (HAR-82).
    """
    budget = max(0, budget)
    if sum(map(token_counter, data)) <= budget:
        return data  # HAR-77
    boundary = max(0, len(data) - config.plan_keep_recent)
    older, recent = data[:boundary], data[boundary:]
    kept = sum(map(token_counter, recent))
    refuse_overflow(kept, budget, _ADVICE)
    text = await fold(
        [entry("result", result) for result in older],
        topic="results",
        room=budget - kept,
        window_tokens=budget,
        asummarize=asummarize,
        token_counter=token_counter,
        prompts=prompts,
    )
    return [*([] if text is None else [text]), *recent]
