"""Puts a model client of your own under the harness. Needs `pip install .` and no model: this one only counts words.

A client needs no base class: `chat`, and `stream` if you stream. What `chat` returns has the fields of `LLMResponse`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from tracehold import Harness, Tracer
from tracehold.llm import LLMResponse, StreamStats

MESSAGES = [{"role": "user", "content": "How many words are these?"}]


class WordCounter:
    """Put the call of your own model server in the place of `_answer`."""

    model = "word-counter-1"
    context_window = 8_000  # None when unknown: then nothing is cut to fit

    def _answer(self, messages: list[dict[str, Any]]) -> tuple[str, dict[str, int]]:
        words = len(str(messages[-1]["content"]).split())
        return f"{words} words.", {"prompt_tokens": words, "completion_tokens": 2, "total_tokens": words + 2}

    async def chat(self, messages: list[dict[str, Any]], **_options: Any) -> LLMResponse:
        """Return the whole reply; `tools` and `output_schema` are among the options."""
        text, usage = self._answer(messages)
        return LLMResponse(text, finish_reason="stop", model=self.model, usage=usage)

    async def stream(
        self, messages: list[dict[str, Any]], *, on_stats: Callable[[StreamStats], None] | None = None, **_options: Any
    ) -> AsyncIterator[str]:
        """Yield the reply in pieces, then tell what it took."""
        text, usage = self._answer(messages)
        for piece in text.split(" "):
            yield piece + " "
        if on_stats is not None:
            on_stats(StreamStats(usage=usage, finish_reason="stop", model=self.model))


async def main() -> None:
    """Call the model once whole and once streamed, and print what was recorded."""
    tracer = Tracer()
    harness = Harness(WordCounter(), tracer=tracer)
    with tracer.run("count", agent="counter"):
        print(await harness.acall_llm(MESSAGES))
        print("".join([str(piece) async for piece in harness.astream_llm(MESSAGES)]))
    print(tracer)
    print(tracer.summary())


if __name__ == "__main__":
    asyncio.run(main())
