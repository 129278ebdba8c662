"""Drafts and what was criticized in them, shortened (CTX-17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from tracehold.context.prompts import Prompts, prompt
from tracehold.context.reducers.config import ReducerConfig
from tracehold.context.reducers.folding import fold, marked, refuse_overflow
from tracehold.context.summaries import AsyncSummarize
from tracehold.context.transcript import entry
from tracehold.core.tokens import TokenCounter

Reflection: TypeAlias = dict[str, Any]
"""`{"kind": ..., "text": ...}`."""

CRITICISMS: Final = frozenset({"criticism", "critique", "feedback", "reflection", "review"})
"""Kinds that are criticisms."""

ANSWERS: Final = frozenset({"answer", "attempt", "draft", "output", "response", "result", "revision", "solution"})
"""Kinds that are answers. Where a trajectory has none of them, the kind of its first entry is one: it begins with an
answer. What is neither is kept like a criticism, so that no word we do not know gets lost."""

_ADVICE: Final = "ask for a shorter answer, or use a model with a larger window"


async def reduce_reflection(
    data: list[Reflection],
    *,
    budget: int,
    config: ReducerConfig,  # noqa: ARG001 - all reducers are called alike; this kind has no knob
    asummarize: AsyncSummarize,
    token_counter: TokenCounter,
    prompts: Prompts | None = None,
) -> list[Reflection]:
    """Return `data` itself when within `budget`, else the newest answer and one entry for all criticisms.

    The entry stands on the side of the answer where the newest criticism stood, and has its kind. Criticisms that fit
    are joined word for word, without a model call; else they are summarized. Superseded drafts are dropped.

    Args:
        data: dicts with `kind` and `text`, oldest first; not changed.
        budget: the most tokens the result's texts may take.
        config: not read.
        asummarize: makes the summary (HAR-81).
        token_counter: estimates tokens.
        prompts: texts instead of ours.

    Raises:
        ContextWindowExceeded: the newest answer alone exceeds `budget` (HAR-82).
    """
    budget = max(0, budget)
    if sum(token_counter(_text(item)) for item in data) <= budget:
        return data  # HAR-77
    answers = _answer_kinds(data)
    answer_at = max((at for at, item in enumerate(data) if item.get("kind") in answers), default=None)
    criticism_at = [at for at, item in enumerate(data) if item.get("kind") not in answers]
    answer = [] if answer_at is None else [data[answer_at]]
    kept = sum(token_counter(_text(item)) for item in answer)
    refuse_overflow(kept, budget, _ADVICE)
    if not criticism_at:
        return answer
    text = await _folded(
        [_text(data[at]) for at in criticism_at], budget, budget - kept, asummarize, token_counter, prompts
    )
    if text is None:
        return answer
    criticism: Reflection = {"kind": data[criticism_at[-1]].get("kind"), "text": text}
    last = answer_at is None or criticism_at[-1] > answer_at
    return [*answer, criticism] if last else [criticism, *answer]


async def _folded(
    points: Sequence[str],
    budget: int,
    room: int,
    asummarize: AsyncSummarize,
    token_counter: TokenCounter,
    prompts: Prompts | None,
) -> str | None:
    everything = "\n".join(f"- {point.strip()}" for point in points)
    whole = marked(prompt(prompts, "criticisms_marker", count=len(points)), everything, room, token_counter, cut=False)
    if whole is not None:
        return whole
    return await fold(
        [entry("criticism", point) for point in points],
        topic="criticisms",
        room=room,
        window_tokens=budget,
        asummarize=asummarize,
        token_counter=token_counter,
        prompts=prompts,
    )


def _answer_kinds(data: Sequence[Reflection]) -> frozenset[object]:
    known = ANSWERS & {item.get("kind") for item in data if isinstance(item.get("kind"), str)}
    first = data[0].get("kind") if data else None
    if known or first in CRITICISMS:
        return frozenset(known)
    return frozenset({first})


def _text(item: Mapping[str, Any]) -> str:
    text = item.get("text")
    return text if isinstance(text, str) else "" if text is None else str(text)
