"""Many entries folded into one marked text that fits the room there is (CTX-18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracehold.context.prompts import Prompts, prompt
from tracehold.context.summaries import AsyncSummarize, adrive, condense
from tracehold.context.text import guess_chars, longest_prefix, quote
from tracehold.core.errors import ContextWindowExceeded
from tracehold.core.tokens import TokenCounter

MAX_SUMMARY_TOKENS: Final = 1_000
_MIN_SUMMARY_TOKENS: Final = 8
"""Below this a summary says nothing, and a model call is not spent on it."""


async def fold(
    entries: Sequence[str],
    *,
    topic: str,
    room: int,
    window_tokens: int,
    asummarize: AsyncSummarize,
    token_counter: TokenCounter,
    prompts: Prompts | None,
) -> str | None:
    """Return one text for `entries`, at most `room` tokens: a marker with a summary, or else a mark that they are gone.

    Args:
        entries: the record, oldest first; not empty.
        topic: "steps", "results" or "criticisms": which texts of `prompts` to use.
        room: tokens; `None` is returned when not even a mark fits.
        window_tokens: about what the model can hold; one call reads half of it, as counts are estimates.
        asummarize: makes the summary; `""` is none.
        token_counter: estimates tokens.
        prompts: texts instead of ours.
    """
    marker = prompt(prompts, f"{topic}_marker", count=len(entries))
    summary_room = min(MAX_SUMMARY_TOKENS, room - token_counter(marker))
    if summary_room >= _MIN_SUMMARY_TOKENS:
        steps = condense(
            entries,
            instructions=prompt(prompts, f"{topic}_instructions", max_tokens=summary_room),
            max_summary_tokens=MAX_SUMMARY_TOKENS,
            max_input_tokens=window_tokens // 2,
            token_counter=token_counter,
        )
        text = marked(marker, await adrive(steps, asummarize), room, token_counter)
        if text is not None:
            return text
    omitted = prompt(prompts, f"{topic}_omitted", count=len(entries))
    return omitted if token_counter(omitted) <= room else None


def marked(marker: str, body: str, room: int, token_counter: TokenCounter, *, cut: bool = True) -> str | None:
    """Return marker and quoted body within `room` tokens; `None` when there is no body, or no room for it.

    Args:
        marker: the first line.
        body: what follows, quoted.
        room: the most tokens of the whole.
        token_counter: estimates tokens.
        cut: whether a part of the body will do.
    """

    def fits(part: str) -> bool:
        return token_counter(_marked(marker, part)) <= room

    if not cut:
        return _marked(marker, body) if body and fits(body) else None
    kept = longest_prefix(body, fits, guess=guess_chars(min(room, len(body)))).rstrip()
    return _marked(marker, kept) if kept else None


def refuse_overflow(kept: int, budget: int, advice: str) -> None:
    """Raise when what must stay does not fit (HAR-82).

    Raises:
        ContextWindowExceeded: `kept` is above `budget`.
    """
    if kept > budget:
        raise ContextWindowExceeded(
            f"what must be kept takes {kept} tokens and {budget} are left for it; nothing was cut: {advice}"
        )


def _marked(marker: str, body: str) -> str:
    return f"{marker}\n{quote(body)}"
