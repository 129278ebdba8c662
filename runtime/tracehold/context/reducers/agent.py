"""The messages of an agent at work, shortened (CTX-16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracehold.context.message_tokens import count_messages_tokens
from tracehold.context.prompts import Prompts, is_text_of
from tracehold.context.reducers.config import ReducerConfig
from tracehold.context.reducers.folding import fold, refuse_overflow
from tracehold.context.reducers.steps import split_steps
from tracehold.context.summaries import AsyncSummarize
from tracehold.context.transcript import message_entry
from tracehold.core.tokens import TokenCounter
from tracehold.llm.protocol import ChatMessage

_ADVICE: Final = (
    "shorten the prompt, the history or the tools' results, lower ReducerConfig.agent_keep_recent_steps, "
    "or use a model with a larger window"
)


async def reduce_agent(
    data: list[ChatMessage],
    *,
    budget: int,
    config: ReducerConfig,
    asummarize: AsyncSummarize,
    token_counter: TokenCounter,
    turn_start: int = 0,
    prompts: Prompts | None = None,
) -> list[ChatMessage]:
    """Return `data` itself when within `budget`, else a shorter list: older steps become one system message.

    Kept word for word: everything before the turn, the newest steps, and where it fits what the user said to open the
    turn. Tool calls and their results stay or go together, also across the turn's start.

    Args:
        data: messages in the function-calling shape; not changed.
        budget: the most tokens the result may take.
        config: `agent_keep_recent_steps` is read.
        asummarize: makes the summary (HAR-81).
        token_counter: estimates tokens.
        turn_start: index of the first message of this turn; with 0, system messages at the start are kept too.
        prompts: texts instead of ours.

    Raises:
        ContextWindowExceeded: what must be kept alone exceeds `budget` (HAR-82).
        ValueError: a negative `turn_start`.
    """
    if turn_start < 0:
        raise ValueError(f"turn_start is an index of at least 0, not {turn_start}")
    budget = max(0, budget)
    if count_messages_tokens(data, token_counter) <= budget:
        return data  # HAR-77
    for older in _choices(data, turn_start, config.agent_keep_recent_steps, prompts):
        before, after = data[: older.start], data[older.stop :]
        kept = count_messages_tokens([*before, *after], token_counter)
        if kept <= budget:
            break
    refuse_overflow(kept, budget, _ADVICE)
    text = await fold(
        [message_entry(data[at]) for at in older],
        topic="steps",
        room=budget - kept,
        window_tokens=budget,
        asummarize=asummarize,
        token_counter=token_counter,
        prompts=prompts,
    )
    recap: list[ChatMessage] = [] if text is None else [{"role": "system", "content": text}]
    return [*before, *recap, *after]


def _choices(data: Sequence[ChatMessage], turn_start: int, keep_recent: int, prompts: Prompts | None) -> list[range]:
    """What may be folded, the better choice first: with the words that open the turn left out, then with them."""
    steps = [step for step in split_steps(data) if step.start >= turn_start]
    if turn_start == 0:
        while steps and _is_prompt(data[steps[0].start], prompts):
            steps.pop(0)
    opening = bool(steps) and data[steps[0].start].get("role") == "user"
    return [_older(foldable, keep_recent, len(data)) for foldable in ([steps[1:], steps] if opening else [steps])]


def _older(steps: Sequence[range], keep_recent: int, end: int) -> range:
    older = steps[: max(0, len(steps) - keep_recent)]
    return range(older[0].start, older[-1].stop) if older else range(end, end)


def _is_prompt(message: ChatMessage, prompts: Prompts | None) -> bool:
    """Whether this is the agent's own system message, and not the recap an earlier reduction put there."""
    text = message.get("content")
    return message.get("role") == "system" and not (
        isinstance(text, str) and any(is_text_of(text, key, prompts) for key in ("steps_marker", "steps_omitted"))
    )
