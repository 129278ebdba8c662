"""Search by words and by meaning at once (RTV)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from typing import Any, Final

from tracehold.core.database import IN_MEMORY
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval.entries import check_ids, entries_of
from tracehold.retrieval.fusion import ReciprocalRankFusion
from tracehold.retrieval.keyword import SqliteKeywordIndex
from tracehold.retrieval.types import (
    Embedder,
    FusionStrategy,
    KeywordIndex,
    Reranker,
    RetrievalConfig,
    RetrievalResult,
    VectorStore,
    check_top_k,
)
from tracehold.retrieval.vectors import SqliteVectorStore, require_numpy

_log: Final = logging.getLogger(__name__)


class HybridRetriever:
    """Keeps short texts and finds them again by their words and, with an embedder, by their meaning (RTV-01).

    An entry is told apart by id and exact scope. Searching and deleting are restrictive: the set dimensions of the
    scope filter, unset ones reach everything beneath, and a scope with none is refused unless `all_scopes` says that
    everything is meant (SCP-03, SCP-04). `add`, `replace` and `delete_exact` take the scope as it stands.

        HybridRetriever()                                            # words only, in memory
        HybridRetriever(db_path="memory.db")                         # words only, in a file
        HybridRetriever(my_embedder, db_path="memory.db")            # words and meaning
        HybridRetriever(my_embedder, my_vector_store, my_index)      # backends of your own

    When the embedder fails, writing raises and nothing is written; searching goes on with words alone and logs a
    warning, since what the words find is still right.

    A write reaches the vectors first, then the words; when the second fails, the first has happened. `IndexSync`
    keeps count of that and mends it.

    Args:
        embedder: makes vectors; without one, search is by words.
        vector_store: default a `SqliteVectorStore` at `db_path`, when there is an embedder.
        keyword_index: default a `SqliteKeywordIndex` at `db_path`.
        reranker: orders the fused candidates anew.
        config: numbers of results and candidates.
        fusion: default `ReciprocalRankFusion(config.rrf_k)`.
        db_path: the SQLite file of the default backends; default in memory.

    Raises:
        RetrievalError: a vector store without an embedder, an embedder without numpy, SQLite without FTS5, or a file
            that cannot be used.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        vector_store: VectorStore | None = None,
        keyword_index: KeywordIndex | None = None,
        reranker: Reranker | None = None,
        *,
        config: RetrievalConfig | None = None,
        fusion: FusionStrategy | None = None,
        db_path: str | os.PathLike[str] | None = None,
    ) -> None:
        if vector_store is not None and embedder is None:
            raise RetrievalError("a vector_store needs an embedder to make its vectors; give one, or leave both out")
        self.config = config or RetrievalConfig()
        self.db_path: str | None = None if db_path is None else os.fspath(db_path)
        self._embedder = embedder
        self._reranker = reranker
        self._fusion = fusion or ReciprocalRankFusion(self.config.rrf_k)
        self._by_words_alone = False
        if vector_store is None and embedder is not None:
            require_numpy()
        path = self.db_path or IN_MEMORY
        self._keywords: KeywordIndex = SqliteKeywordIndex(path) if keyword_index is None else keyword_index
        self._vectors = vector_store
        # Without an embedder too: another program may keep vectors in the file, and what is deleted or replaced here
        # must not stay behind in them.
        if vector_store is None and (embedder is not None or self.db_path is not None):
            try:
                self._vectors = SqliteVectorStore(path)
            except RetrievalError:
                if keyword_index is None:
                    self._keywords.close()
                raise

    @property
    def fingerprint(self) -> str:
        """What content was indexed with: entries made under another one count as changed (IDX-02)."""
        if self._embedder is None:
            return ""
        return str(getattr(self._embedder, "model_id", None) or type(self._embedder).__qualname__)

    def add(
        self,
        ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add a batch; an entry of the same id and exact scope is replaced.

        Args:
            ids: texts, not empty; of two equal ones in a batch, the later counts.
            contents: a text each.
            scope: where they belong, unset dimensions included.
            metadatas: a JSON-encodable dict each, given back with every hit.

        Raises:
            RetrievalError: lists of unequal length, values of the wrong type, or a failing embedder or backend.
        """
        self.replace([], ids, contents, scope=scope, metadatas=metadatas)

    def replace(
        self,
        old_ids: Sequence[str],
        new_ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Delete `old_ids` of this exact scope and add the others in their place; in one transaction a backend.

        Raises:
            RetrievalError: as `add`.
        """
        entries_of(new_ids, contents, metadatas)
        old = check_ids(old_ids)
        if self._embedder is not None and self._vectors is not None:
            vectors = self._embed(list(contents))
            _replace(self._vectors, old, new_ids, vectors, contents, scope=scope, metadatas=metadatas)
        elif self._vectors is not None:
            self._vectors.delete_exact([*old, *new_ids], scope=scope)
        _replace(self._keywords, old, new_ids, contents, scope=scope, metadatas=metadatas)

    def delete(self, ids: Sequence[str], *, scope: Scope | None = None, all_scopes: bool = False) -> None:
        """Delete these ids wherever the set dimensions of `scope` match; unknown ids are ignored.

        Raises:
            RetrievalError: no dimension is set and `all_scopes` is not given (SCP-04), or a backend fails.
        """
        _refuse_unset(scope, all_scopes=all_scopes, verb="delete")
        checked = check_ids(ids)
        for store in self._stores:
            store.delete(checked, scope=scope)

    def delete_exact(self, ids: Sequence[str], *, scope: Scope | None = None) -> None:
        """Delete these ids of exactly this scope, unset dimensions included; unknown ids are ignored."""
        checked = check_ids(ids)
        for store in self._stores:
            store.delete_exact(checked, scope=scope)

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        candidate_pool: int | None = None,
        scope: Scope | None = None,
        all_scopes: bool = False,
        exact: bool = False,
    ) -> list[RetrievalResult]:
        """Return the best entries for a query, best first.

        Args:
            query: any text; an empty one finds nothing.
            top_k: how many at most; default `config.top_k`.
            candidate_pool: how many hits of each kind of search are considered; default `config.candidate_pool`.
            scope: its set dimensions filter.
            all_scopes: allow a scope without any, which reaches everything (SCP-04).
            exact: match every dimension instead, unset ones included; needs no `all_scopes`.

        Raises:
            RetrievalError: `top_k` below 1 or above the candidate pool (RTV-02), an unset scope, or a failing
                backend.
        """
        wanted = self.config.top_k if top_k is None else top_k
        pool = self.config.candidate_pool if candidate_pool is None else candidate_pool
        check_top_k(wanted, pool)
        if not exact:
            _refuse_unset(scope, all_scopes=all_scopes, verb="search")
        if not isinstance(query, str):
            raise RetrievalError(f"a query is a text, not {type(query).__name__}")
        if not query.strip():
            return []
        rankings = [self._keywords.search(query, top_k=pool, scope=scope, exact=exact)]
        vector = self._query_vector(query)
        if vector is not None and self._vectors is not None:
            rankings.append(self._vectors.search(vector, top_k=pool, scope=scope, exact=exact))
        found = rankings[0] if len(rankings) == 1 else self._fusion.fuse(rankings, top_k=pool)
        if self._reranker is not None and found:
            found = self._reranker.rerank(query, found, top_k=wanted)
        return found[:wanted]

    def entries(self, *, scope: Scope | None = None, exact: bool = False) -> dict[Scope, set[str]]:
        """Return the ids that any backend holds within a scope, by their exact scope; an unset scope means all."""
        found: dict[Scope, set[str]] = {}
        for store in self._stores:
            for place, ids in store.entries(scope=scope, exact=exact).items():
                found.setdefault(place, set()).update(ids)
        return found

    def close(self) -> None:
        """Close the backends, given ones included; a second call does nothing."""
        with contextlib.ExitStack() as closing:
            for store in self._stores:
                closing.callback(store.close)

    async def aadd(self, ids: Sequence[str], contents: Sequence[str], **options: Any) -> None:
        """`add` on a worker thread."""
        await asyncio.to_thread(self.add, ids, contents, **options)

    async def areplace(
        self, old_ids: Sequence[str], new_ids: Sequence[str], contents: Sequence[str], **options: Any
    ) -> None:
        """`replace` on a worker thread."""
        await asyncio.to_thread(self.replace, old_ids, new_ids, contents, **options)

    async def adelete(self, ids: Sequence[str], **options: Any) -> None:
        """`delete` on a worker thread."""
        await asyncio.to_thread(self.delete, ids, **options)

    async def asearch(self, query: str, **options: Any) -> list[RetrievalResult]:
        """`search` on a worker thread."""
        return await asyncio.to_thread(self.search, query, **options)

    @property
    def _stores(self) -> list[KeywordIndex | VectorStore]:
        return [self._keywords] if self._vectors is None else [self._vectors, self._keywords]

    def _embed(self, texts: list[str]) -> list[list[float]]:
        if self._embedder is None or not texts:
            return []
        try:
            vectors = list(self._embedder.embed(texts))
        except Exception as error:
            raise RetrievalError(
                f"the embedder {type(self._embedder).__qualname__} failed with {type(error).__name__} on a batch of "
                f"{len(texts)}"
            ) from error
        if len(vectors) != len(texts):
            raise RetrievalError(
                f"the embedder {type(self._embedder).__qualname__} gave {len(vectors)} vectors for {len(texts)} texts"
            )
        return vectors

    def _query_vector(self, query: str) -> list[float] | None:
        try:
            vector = next(iter(self._embed([query])), None)
        except RetrievalError as error:
            if not self._by_words_alone:  # said once, until it works again
                _log.warning("searching by words alone: %s", error)
            self._by_words_alone = True
            return None
        self._by_words_alone = False
        return vector


def _refuse_unset(scope: Scope | None, *, all_scopes: bool, verb: str) -> None:
    if not all_scopes and (scope or Scope()).is_unset:
        raise RetrievalError(
            f"refused to {verb} across all scopes: no dimension of the scope is set. Set one, such as user, or pass "
            "all_scopes=True if everything is meant"
        )


def _replace(store: Any, old_ids: list[str], new_ids: Sequence[str], *batch: Any, **options: Any) -> None:
    """Replace in one transaction where the backend can, else delete and add."""
    if hasattr(store, "replace"):
        store.replace(old_ids, new_ids, *batch, **options)
        return
    if old_ids:
        store.delete_exact(old_ids, scope=options["scope"])
    if new_ids:
        store.add(new_ids, *batch, **options)
