"""What a search gives back, and what it needs to compare meanings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass
class RetrievalResult:
    """One hit (RTV-01).

    Attributes:
        content: the text found.
        score: the higher, the better; comparable within one search only.
        source: which search found it, such as "keyword", "vector" or "hybrid".
        id: the id it was added under.
        embedding: its vector, when there is one.
        metadata: what was stored beside it.
    """

    content: str
    score: float
    source: str
    id: str = ""
    embedding: list[float] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class Embedder(Protocol):
    """Turns texts into vectors of one length."""

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector a text, in order."""
