"""Stand-ins for what lies outside: an embedder that needs no model, and a retriever that fails when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tracehold.retrieval import HybridRetriever

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class LetterEmbedder:
    """A text's vector counts its letters."""

    model_id = "letters-1"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.error: Exception | None = None

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        if self.error is not None:
            raise self.error
        return [[float(text.lower().count(letter)) for letter in LETTERS] for text in texts]


class Trouble(HybridRetriever):
    """A real retriever; before each call `trouble` may raise, and after it too, when the work is done."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.before: Callable[[str], None] = lambda _operation: None
        self.after: Callable[[str], None] = lambda _operation: None
        self.calls: list[tuple[str, int]] = []

    def add(self, ids: Any, contents: Any, **options: Any) -> None:
        self._do("add", len(ids), lambda: super(Trouble, self).replace([], ids, contents, **options))

    def replace(self, old_ids: Any, new_ids: Any, contents: Any, **options: Any) -> None:
        self._do("replace", len(new_ids), lambda: super(Trouble, self).replace(old_ids, new_ids, contents, **options))

    def delete_exact(self, ids: Any, **options: Any) -> None:
        self._do("delete_exact", len(ids), lambda: super(Trouble, self).delete_exact(ids, **options))

    def fail(self, *operations: str) -> None:
        """Raise before these operations from now on; without any, work again."""

        def before(operation: str) -> None:
            if operation in operations:
                raise OSError("secret words of a backend")

        self.before = before

    def _do(self, operation: str, count: int, work: Callable[[], None]) -> None:
        self.before(operation)
        self.calls.append((operation, count))
        work()
        self.after(operation)


@pytest.fixture
def embedder() -> LetterEmbedder:
    return LetterEmbedder()


@pytest.fixture
def trouble() -> Iterator[Trouble]:
    retriever = Trouble()
    yield retriever
    retriever.close()


@pytest.fixture
def make_trouble() -> Callable[..., Trouble]:
    return Trouble


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"
