"""What a search gives back, and the parts it is put together from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope


@dataclass
class RetrievalResult:
    """One hit (RTV-01).

    Attributes:
        content: the text found.
        score: the higher, the better; comparable within one search only.
        source: which search found it: "keyword", "vector", or "hybrid" when both did.
        id: the id it was added under.
        embedding: its vector, when the search by meaning found it.
        metadata: what was stored beside it.
        scope: the scope it was added under; `None` when the store does not tell.
    """

    content: str
    score: float
    source: str
    id: str = ""
    embedding: list[float] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class RetrievalConfig:
    """How a `HybridRetriever` searches.

    Attributes:
        top_k: results of a search that does not say how many.
        candidate_pool: how many hits of each kind of search are fused and reranked; `top_k` cannot exceed it.
        rrf_k: the constant of reciprocal rank fusion; the higher, the less the first places weigh.

    Raises:
        RetrievalError: a number below 1, or `top_k` above `candidate_pool` (RTV-02).
    """

    top_k: int = 5
    candidate_pool: int = 20
    rrf_k: int = 60

    def __post_init__(self) -> None:
        """Refuse numbers that no search could work with."""
        self.validate()

    def validate(self) -> None:
        """Check the numbers; the constructor has done so."""
        if type(self.rrf_k) is not int or self.rrf_k < 1:
            raise RetrievalError(f"rrf_k is an integer of at least 1, not {self.rrf_k!r}")
        check_top_k(self.top_k, self.candidate_pool)


def check_top_k(top_k: int, candidate_pool: int) -> None:
    """Refuse a number of results that cannot be served (RTV-02).

    Raises:
        RetrievalError: `top_k` is below 1 or above the candidate pool, or one of them is no integer.
    """
    for name, value in (("top_k", top_k), ("candidate_pool", candidate_pool)):
        if type(value) is not int or value < 1:
            raise RetrievalError(f"{name} is an integer of at least 1, not {value!r}")
    if top_k > candidate_pool:
        raise RetrievalError(
            f"top_k is {top_k}, but only {candidate_pool} candidates are looked at; lower it or raise candidate_pool"
        )


class Embedder(Protocol):
    """Turns texts into vectors of one length.

    A retriever also reads `model_id`, when present: content that was embedded under another one counts as changed
    (IDX-02).
    """

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector a text, in order."""


class KeywordIndex(Protocol):
    """Finds texts by their words.

    An entry is told apart by its id and its exact scope: the same id under two scopes is two entries. `search` and
    `delete` match scopes restrictively, `delete_exact` exactly, and `search` too when `exact` is set (SCP-03).
    """

    def add(
        self,
        ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add entries; one of the same id and scope is replaced."""

    def search(
        self, query: str, *, top_k: int = 5, scope: Scope | None = None, exact: bool = False
    ) -> list[RetrievalResult]:
        """Return the best entries, best first."""

    def delete(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete entries in whatever scope the set dimensions of `scope` leave open."""

    def delete_exact(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete entries of exactly this scope."""

    def entries(self, *, scope: Scope | None = None, exact: bool = False) -> dict[Scope, set[str]]:
        """Return the ids held, by their exact scope."""

    def close(self) -> None:
        """Release what it holds."""


class VectorStore(Protocol):
    """Finds texts by their vectors; matches scopes as `KeywordIndex` does."""

    def add(
        self,
        ids: Sequence[str],
        vectors: Sequence[Sequence[float]],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add entries; one of the same id and scope is replaced."""

    def search(
        self, query_vector: Sequence[float], *, top_k: int = 5, scope: Scope | None = None, exact: bool = False
    ) -> list[RetrievalResult]:
        """Return the nearest entries, nearest first."""

    def delete(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete entries in whatever scope the set dimensions of `scope` leave open."""

    def delete_exact(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete entries of exactly this scope."""

    def entries(self, *, scope: Scope | None = None, exact: bool = False) -> dict[Scope, set[str]]:
        """Return the ids held, by their exact scope."""

    def close(self) -> None:
        """Release what it holds."""


class Reranker(Protocol):
    """Puts the candidates of a search into a better order."""

    def rerank(self, query: str, results: list[RetrievalResult], *, top_k: int) -> list[RetrievalResult]:
        """Return at most `top_k` of `results`, best first, scores set anew."""


class FusionStrategy(Protocol):
    """Makes one ranking of several."""

    def fuse(self, rankings: Sequence[Sequence[RetrievalResult]], *, top_k: int) -> list[RetrievalResult]:
        """Return at most `top_k` results, each entry once, best first."""
