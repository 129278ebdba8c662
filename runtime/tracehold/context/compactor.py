"""A long conversation shortened to a recap and its newest messages (CTX-01 to CTX-05)."""

from __future__ import annotations

from tracehold.context.checks import at_least
from tracehold.context.message_tokens import count_content_tokens
from tracehold.context.prompts import Prompts, prompt
from tracehold.context.recap_cache import RecapCache, digests
from tracehold.context.summaries import (
    AsyncSummarize,
    Steps,
    Summarize,
    adrive,
    blocking_summarizer,
    condense,
    drive,
    summarizer,
)
from tracehold.context.text import quote
from tracehold.context.transcript import message_entry
from tracehold.context.window_budget import known_window
from tracehold.core.message import Message
from tracehold.core.tokens import TokenCounter, count_tokens
from tracehold.llm.protocol import LLMClient


class HistoryCompactor:
    """Replaces the older part of a history by a recap when it has become long (CTX-01).

    One compactor may serve many conversations, from several threads. It keeps recaps in memory, at most 128.

    Args:
        llm: writes the recap when the caller brings no summary function; its `context_window` bounds what one call
            reads.
        keep_recent: how many of the newest messages stay as they are; at least 1.
        trigger_tokens: a history of at most so many tokens stays as it is; at least 0.
        max_summary_tokens: a longer recap is cut; at least 1.
        summary_prompt: instructions instead of ours; comes before `prompts["summary_instructions"]`.
        prompts: texts instead of ours, see `tracehold.context.prompts`; `summary_instructions` and `recap_marker` are
            read.
        token_counter: estimates the tokens of a text.

    Raises:
        ValueError: a number below its least.
    """

    def __init__(
        self,
        llm: LLMClient,
        *,
        keep_recent: int = 4,
        trigger_tokens: int = 2000,
        max_summary_tokens: int = 1000,
        summary_prompt: str | None = None,
        prompts: Prompts | None = None,
        token_counter: TokenCounter = count_tokens,
    ) -> None:
        at_least("keep_recent", keep_recent, 1)
        at_least("trigger_tokens", trigger_tokens, 0)
        at_least("max_summary_tokens", max_summary_tokens, 1)
        self._llm = llm
        self._keep_recent = keep_recent
        self._trigger_tokens = trigger_tokens
        self._max_summary_tokens = max_summary_tokens
        self._summary_prompt = summary_prompt
        self._prompts = prompts
        self._token_counter = token_counter
        self._recaps = RecapCache()

    def compact(self, history: list[Message], *, summarize: Summarize | None = None) -> list[Message]:
        """Return a recap and the newest messages, or `history` itself when there is nothing to do (CTX-02, CTX-03).

        Args:
            history: the conversation, oldest first; not changed.
            summarize: `summarize(instructions, text) -> summary`; default asks the model, which is not possible on a
                running event loop.

        Raises:
            RuntimeError: without `summarize`, on a running event loop.
            Exception: whatever the summary function raises; nothing is changed then.
        """
        return drive(self._compaction(history), summarize or blocking_summarizer(self._llm))

    async def acompact(self, history: list[Message], *, asummarize: AsyncSummarize | None = None) -> list[Message]:
        """Do what `compact` does without blocking (CTX-02).

        Args:
            history: the conversation, oldest first; not changed.
            asummarize: `await asummarize(instructions, text) -> summary`; default asks the model.

        Raises:
            Exception: whatever the summary function raises; nothing is changed then.
        """
        return await adrive(self._compaction(history), asummarize or summarizer(self._llm))

    def forget(self) -> None:
        """Drop every recap kept in memory, as after an erasure."""
        self._recaps.clear()

    def _compaction(self, history: list[Message]) -> Steps[list[Message]]:
        if len(history) <= self._keep_recent or self._tokens(history) <= self._trigger_tokens:
            return history  # CTX-02
        # Slices are copies: the caller may append to its list while a summary is under way.
        old, recent = history[: -self._keep_recent], history[-self._keep_recent :]
        recap = yield from self._recap(old)
        if not recap:
            return history  # CTX-04
        marker = prompt(self._prompts, "recap_marker", count=len(old))
        return [Message(f"{marker}\n{quote(recap)}", "system"), *recent]  # CTX-03

    def _recap(self, old: list[Message]) -> Steps[str]:
        chain = digests(old)
        known, recap = self._recaps.longest(chain)
        if known == len(old):
            return recap
        window = known_window(self._llm)
        recap = yield from condense(
            [message_entry(message.to_dict()) for message in old[known:]],  # CTX-05: only what is new
            instructions=self._instructions(),
            recap=recap,
            max_summary_tokens=self._max_summary_tokens,
            max_input_tokens=None if window is None else window // 2,
            token_counter=self._token_counter,
        )
        if recap:
            self._recaps.put(chain[-1], recap)
        return recap

    def _instructions(self) -> str:
        own = None if self._summary_prompt is None else {"summary_instructions": self._summary_prompt}
        return prompt(own or self._prompts, "summary_instructions", max_tokens=self._max_summary_tokens)

    def _tokens(self, history: list[Message]) -> int:
        return sum(count_content_tokens(message.content, self._token_counter) for message in history)
