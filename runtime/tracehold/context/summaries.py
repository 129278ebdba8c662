"""Asking a model for a summary: what such a function looks like, and how a long record is summarized in rounds.

The rules are generators that yield (instructions, text) and are sent the answer, so that the same rules serve
blocking and awaiting callers; `drive` and `adrive` run them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from tracehold.context.text import cut_to_tokens, sendable
from tracehold.context.transcript import entry
from tracehold.core.tokens import TokenCounter
from tracehold.llm.protocol import LLMClient

Result = TypeVar("Result")

Summarize: TypeAlias = Callable[[str, str], str]
"""`summarize(instructions, text)` returns the summary, or `""` for none."""

Request: TypeAlias = tuple[str, str]
"""Instructions and text of one summary."""

Steps: TypeAlias = Generator[Request, str, Result]
"""Rules that ask for summaries and end with a result."""


class AsyncSummarize(Protocol):
    """Makes one summary without blocking; the harness passes its governed model call (HAR-64)."""

    def __call__(self, instructions: str, text: str, /) -> Awaitable[str]:
        """Return the summary of `text`; `""` when there is none, which changes nothing (CTX-04, HAR-65)."""


_SEPARATOR: Final = "\n\n"
_CUT: Final = "\n[the rest of this entry was too long to be read]"
_MIN_INPUT_TOKENS: Final = 1_000
"""No model's window is smaller; below it, rounds would cost more calls than they save."""


def drive(steps: Steps[Result], summarize: Summarize) -> Result:
    """Run `steps` with a blocking summary function."""
    result: Result
    request, result = _advance(steps, None)
    while request is not None:
        request, result = _advance(steps, _text(summarize(*request)))
    return result


async def adrive(steps: Steps[Result], asummarize: AsyncSummarize) -> Result:
    """Run `steps` with an awaitable summary function. When cancelled, nothing is left behind."""
    result: Result
    request, result = _advance(steps, None)
    while request is not None:
        request, result = _advance(steps, _text(await asummarize(*request)))
    return result


def summarizer(llm: LLMClient) -> AsyncSummarize:
    """Return a summary function that asks `llm` directly: no hooks, no trace, no limits."""

    async def asummarize(instructions: str, text: str, /) -> str:
        response = await llm.chat([{"role": "system", "content": instructions}, {"role": "user", "content": text}])
        return response.content

    return asummarize


def blocking_summarizer(llm: LLMClient) -> Summarize:
    """Return the blocking form of `summarizer`.

    The returned function raises `RuntimeError` when called on a running event loop, which it would block.
    """

    def summarize(instructions: str, text: str) -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(_awaited(summarizer(llm)(instructions, text)))
        raise RuntimeError("compact() would block the running event loop: await acompact(), or pass summarize=")

    return summarize


def condense(
    entries: Sequence[str],
    *,
    instructions: str,
    recap: str = "",
    max_summary_tokens: int,
    max_input_tokens: int | None,
    token_counter: TokenCounter,
) -> Steps[str]:
    """Ask for one summary of `entries`; in several rounds, each with the recap so far, when they are long.

    Args:
        entries: the record, oldest first.
        instructions: what the model is told.
        recap: the summary of what came before the entries, or `""`.
        max_summary_tokens: a longer answer is cut (CTX-04).
        max_input_tokens: the most one round may read; a single entry is cut to half of it. `None` is no bound.
        token_counter: estimates tokens.

    Returns:
        The summary, or `""` when any round gave none: half a record would pass for a whole one.
    """
    for batch in _batches(entries, max_input_tokens, token_counter):
        earlier = [entry("earlier recap", recap)] if recap else []
        answer = yield instructions, _SEPARATOR.join([*earlier, *batch])
        recap = cut_to_tokens(answer, max_summary_tokens, token_counter)
        if not recap:
            return ""
    return recap


def _batches(entries: Sequence[str], max_tokens: int | None, token_counter: TokenCounter) -> list[list[str]]:
    if max_tokens is None:
        return [list(entries)]
    max_tokens = max(max_tokens, _MIN_INPUT_TOKENS)
    batches: list[list[str]] = [[]]
    used = 0
    for text in entries:
        part = cut_to_tokens(text, max_tokens // 2, token_counter)
        part = part if len(part) == len(text) else part + _CUT
        cost = token_counter(part)
        if batches[-1] and used + cost > max_tokens:
            batches.append([])
            used = 0
        batches[-1].append(part)
        used += cost
    return batches


def _advance(steps: Steps[Result], answer: str | None) -> tuple[Request | None, Any]:
    # Only the generator's own end is an end: a StopIteration out of a summary function must not pass for one.
    try:
        return (next(steps) if answer is None else steps.send(answer)), None
    except StopIteration as ended:
        return None, ended.value


def _text(answer: object) -> str:
    return "" if answer is None else sendable(str(answer)).strip()


async def _awaited(answer: Awaitable[str]) -> str:
    return await answer
