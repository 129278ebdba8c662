"""Summary functions that remember what they were asked, and material to retrieve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tracehold.context import CallableSource
from tracehold.retrieval.types import RetrievalResult


@dataclass
class Summaries:
    """A summary function in both forms; gives `answer`, and keeps what it was asked."""

    answer: str | Callable[[str, str], str] = "what happened before"
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, instructions: str, text: str) -> str:
        self.asked.append((instructions, text))
        return self.answer if isinstance(self.answer, str) else self.answer(instructions, text)

    async def awaited(self, instructions: str, text: str) -> str:
        return self(instructions, text)

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.asked]


@pytest.fixture
def summaries() -> Summaries:
    return Summaries()


@pytest.fixture
def new_summaries() -> type[Summaries]:
    return Summaries


@pytest.fixture
def source():
    """`source(name, *contents)`: a source that finds these texts, the first the best."""

    def make(name: str, *contents: str) -> CallableSource:
        found = [
            RetrievalResult(content, score=float(len(contents) - at), source=name)
            for at, content in enumerate(contents)
        ]
        return CallableSource(name, lambda query: found)

    return make
