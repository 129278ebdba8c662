"""Retrieved material put together into one text that keeps to a budget (CTX-06 to CTX-10)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tracehold.context.block_config import ContextConfig, allocate
from tracehold.context.mmr import mmr_order
from tracehold.context.prompts import Prompts, prompt
from tracehold.context.sources import ContextSource
from tracehold.context.text import guess_chars, longest_prefix, quote
from tracehold.core.errors import ConfigurationError
from tracehold.core.scope import Scope
from tracehold.core.tokens import TokenCounter, count_tokens
from tracehold.retrieval.types import RetrievalResult

NO_CAP: Final = sys.maxsize
"""A budget that never binds: for a caller who does not know the model's window and wants no cap (DEC-20)."""

_BETWEEN: Final = "\n\n"
_CUT: Final = " […]"


@dataclass
class _Section:
    """What one source contributes."""

    header: str
    chunks: list[str] = field(default_factory=list)
    tokens: int = 0

    def text(self) -> str:
        return f"{self.header}\n" + _BETWEEN.join(self.chunks) if self.chunks else ""


class ContextBuilder:
    """Builds the retrieval block of a prompt: a heading per source, its chunks below, quoted line by line.

    The quoting is a guard: no line of a chunk can pass for a heading, for the end of its chunk or for text of ours.

    Args:
        config: shares and other knobs; default `ContextConfig()`.
        min_chunk_tokens: instead of the configuration's.
        prompts: texts instead of ours, see `tracehold.context.prompts`; `source_header` is read.
        token_counter: estimates the tokens of a text; must not count less for a text than for a part of it.

    Attributes:
        config: the configuration in force.

    Raises:
        ValueError: `min_chunk_tokens` below 1.
    """

    def __init__(
        self,
        config: ContextConfig | None = None,
        *,
        min_chunk_tokens: int | None = None,
        prompts: Prompts | None = None,
        token_counter: TokenCounter = count_tokens,
    ) -> None:
        self.config = config or ContextConfig()
        if min_chunk_tokens is not None:
            self.config = replace(self.config, min_chunk_tokens=min_chunk_tokens)
        self._prompts = prompts
        self._token_counter = token_counter

    def build_block(
        self,
        query: str,
        *,
        sources: Sequence[ContextSource],
        scope: Scope | None = None,
        budget: int | None = None,
    ) -> str:
        """Return the block, or `""` when nothing was found or nothing fits (CTX-09).

        Args:
            query: what to look for.
            sources: asked one after another; each name must have a share in the configuration.
            scope: handed to every source unchanged (HAR-68).
            budget: the most tokens the block may take, headings included; default the configuration's. At 0 or below
                no source is asked.

        Raises:
            ValueError: a source without a share, two sources of one name (CTX-07), or no budget at all (CTX-10);
                raised before anything is fetched.
            TypeError: a source that can only be awaited (CTX-12), or one that returned something else than results.
            Exception: whatever a source raises.
        """
        tokens = self._checked(sources, budget)
        if tokens <= 0:
            return ""
        return self._assemble(sources, [source.fetch(query, scope) for source in sources], tokens)

    async def abuild_block(
        self,
        query: str,
        *,
        sources: Sequence[ContextSource],
        scope: Scope | None = None,
        budget: int | None = None,
    ) -> str:
        """Return the same text as `build_block`; the sources are asked at the same time (HAR-74).

        When one fails or the call is cancelled, the others are cancelled and waited for; a function already running
        on a worker thread runs to its end, unheard.
        """
        tokens = self._checked(sources, budget)
        if tokens <= 0:
            return ""
        fetched = await _all(sources, query, scope)
        # Counting and comparing large results takes long enough to be felt on the event loop (HAR-69).
        return await asyncio.to_thread(self._assemble, sources, fetched, tokens)

    def _checked(self, sources: Sequence[ContextSource], budget: int | None) -> int:
        names = [source.name for source in sources]
        strange = [name for name in names if name not in self.config.source_ratios]
        if strange:
            raise ConfigurationError(
                f"no share is configured for the source {', '.join(map(repr, strange))}: add it to "
                f"ContextConfig.source_ratios, which has {', '.join(map(repr, self.config.source_ratios)) or 'none'}"
            )
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ConfigurationError(f"several sources are called {', '.join(map(repr, twice))}: names must differ")
        tokens = self.config.block_tokens if budget is None else budget
        if tokens is None:
            raise ConfigurationError("no budget for the block: pass budget=, or set ContextConfig.max_tokens")
        return tokens

    def _assemble(
        self, sources: Sequence[ContextSource], fetched: Sequence[Sequence[RetrievalResult]], budget: int
    ) -> str:
        found = [_usable(source, results) for source, results in zip(sources, fetched, strict=True)]
        headers = [prompt(self._prompts, "source_header", source=source.name) for source in sources]
        allowances = allocate(
            budget,
            [self._demand(header, results, budget) for header, results in zip(headers, found, strict=True)],
            [self.config.source_ratios[source.name] for source in sources],
            lend=self.config.allow_borrow,
        )
        sections: list[_Section] = []
        left_over = 0
        for header, results, allowance in zip(headers, found, allowances, strict=True):
            section = self._fill(header, results, allowance + left_over)
            sections.append(section)
            # What one source could not fill goes to the next, so that a share does not end as a gap (CTX-08).
            left_over = allowance + left_over - section.tokens if self.config.allow_borrow else 0
        return self._within(sections, budget)

    def _demand(self, header: str, results: Sequence[RetrievalResult], budget: int) -> int:
        if not results:
            return 0
        tokens = self._header_tokens(header)
        for content in {result.content for result in results}:
            if tokens >= budget:
                return budget
            tokens += self._token_counter(_chunk(content))
        return min(tokens, budget)

    def _fill(self, header: str, results: Sequence[RetrievalResult], allowance: int) -> _Section:
        """Take chunks in MMR order until the allowance is full; the one that no longer fits is cut, if worth it."""
        section = _Section(header)
        used = self._header_tokens(header)
        order = mmr_order(results, lambda_=self.config.mmr_lambda, dedup_threshold=self.config.dedup_threshold)
        for result in order:
            chunk = _chunk(result.content)
            if used + self._token_counter(chunk) > allowance:
                chunk = self._cut(result.content, allowance - used)
                if chunk:
                    section.chunks.append(chunk.removeprefix(_BETWEEN))
                    used += self._token_counter(chunk)
                break
            section.chunks.append(chunk.removeprefix(_BETWEEN))
            used += self._token_counter(chunk)
        section.tokens = used if section.chunks else 0
        return section

    def _cut(self, content: str, room: int) -> str:
        if room < self.config.min_chunk_tokens:
            return ""

        def fits(part: str) -> bool:
            return self._token_counter(_chunk(part + _CUT)) <= room

        kept = longest_prefix(content, fits, guess=guess_chars(min(room, len(content)))).rstrip()
        return _chunk(kept + _CUT) if kept and self._token_counter(kept) >= self.config.min_chunk_tokens else ""

    def _header_tokens(self, header: str) -> int:
        return self._token_counter(f"{_BETWEEN}{header}\n")

    def _within(self, sections: Sequence[_Section], budget: int) -> str:
        """Join the sections, and drop chunks while the whole takes more than its parts did (CTX-09)."""
        block = _joined(sections)
        while block and self._token_counter(block) > budget:
            longest = max(sections, key=lambda section: len(section.chunks))
            longest.chunks.pop()
            block = _joined(sections)
        return block


def _chunk(content: str) -> str:
    """A chunk as it stands in the block, with what parts it from the text before."""
    return _BETWEEN + quote(content)


def _joined(sections: Sequence[_Section]) -> str:
    return _BETWEEN.join(text for section in sections if (text := section.text()))


def _usable(source: ContextSource, results: Sequence[RetrievalResult]) -> list[RetrievalResult]:
    for result in results:
        if not isinstance(getattr(result, "content", None), str):
            raise TypeError(
                f"the source {source.name!r} must return RetrievalResults with a text as content, "
                f"not {type(result).__name__}"
            )
    return [result for result in results if result.content.strip()]


async def _all(sources: Sequence[ContextSource], query: str, scope: Scope | None) -> list[list[RetrievalResult]]:
    # Not a TaskGroup: callers handle the source's own exception, not a group of one.
    tasks: list[asyncio.Task[list[RetrievalResult]]] = []
    try:
        tasks.extend(asyncio.ensure_future(source.afetch(query, scope)) for source in sources)
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
