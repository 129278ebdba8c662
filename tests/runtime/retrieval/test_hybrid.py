"""The retriever: words and meaning together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval import (
    HybridRetriever,
    ReciprocalRankFusion,
    RetrievalConfig,
    RetrievalResult,
    SqliteKeywordIndex,
    SqliteVectorStore,
)

ADA = Scope(user="ada")
ADA_1 = Scope(user="ada", session="1")
BOB = Scope(user="bob")


@pytest.fixture
def words() -> Iterator[HybridRetriever]:
    made = HybridRetriever()
    yield made
    made.close()


@pytest.fixture
def both(embedder: Any) -> Iterator[HybridRetriever]:
    made = HybridRetriever(embedder)
    yield made
    made.close()


def ids(hits: list[RetrievalResult]) -> list[str]:
    return [hit.id for hit in hits]


def test_it_works_by_words_alone_and_in_memory_without_any_argument(words: HybridRetriever) -> None:  # RTV-01
    words.add(["1", "2"], ["green tea", "black coffee"], scope=ADA, metadatas=[{"n": 1}, {}])
    (hit,) = words.search("tea", scope=ADA)
    assert (hit.content, hit.id, hit.source, hit.metadata) == ("green tea", "1", "keyword", {"n": 1})
    assert hit.embedding is None
    assert hit.scope == ADA
    assert hit.score > 0


def test_results_of_both_searches_are_fused_best_first(both: HybridRetriever) -> None:  # RTV-01
    both.add(["word", "like", "far"], ["a silent cat", "listen, actas", "zzzz"], scope=ADA)
    hits = both.search("silent", scope=ADA)
    assert ids(hits)[:2] == ["word", "like"]
    assert [hit.source for hit in hits[:2]] == ["hybrid", "vector"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].embedding is not None
    assert len(hits[0].embedding) == 26


def test_the_documented_constructor_takes_backends_in_order(embedder: Any, path: Path) -> None:  # RTV-01
    class Last:
        def rerank(self, query: str, results: list[RetrievalResult], *, top_k: int) -> list[RetrievalResult]:
            return results[::-1][:top_k]

    retriever = HybridRetriever(
        embedder,
        SqliteVectorStore(path),
        SqliteKeywordIndex(path),
        Last(),
        config=RetrievalConfig(top_k=1),
        fusion=ReciprocalRankFusion(1),
    )
    retriever.add(["1", "2"], ["tea tea", "tea"], scope=ADA)
    best = retriever.search("tea", top_k=2, scope=ADA)
    assert ids(retriever.search("tea", scope=ADA)) == [best[0].id]
    assert [hit.score for hit in best] == sorted(hit.score for hit in best)
    retriever.close()


def test_a_file_keeps_words_and_vectors(embedder: Any, path: Path) -> None:
    first = HybridRetriever(embedder, db_path=path)
    first.add(["1"], ["green tea"], scope=ADA)
    first.close()
    second = HybridRetriever(embedder, db_path=path)
    assert [hit.source for hit in second.search("green tea", scope=ADA)] == ["hybrid"]
    second.close()


def test_replace_takes_the_old_entries_away_and_adds_the_new(both: HybridRetriever) -> None:  # RTV-01
    both.add(["1", "2"], ["green tea", "black tea"], scope=ADA)
    both.replace(["1"], ["3"], ["white tea"], scope=ADA, metadatas=[{"n": 3}])
    assert both.entries() == {ADA: {"2", "3"}}
    assert both.search("white", scope=ADA)[0].metadata == {"n": 3}


def test_deleted_entries_are_found_by_neither_search(both: HybridRetriever) -> None:  # RTV-01
    both.add(["1"], ["green tea"], scope=ADA_1)
    both.delete(["1"], scope=ADA)
    assert both.search("green tea", scope=ADA) == []
    both.add(["1"], ["green tea"], scope=ADA_1)
    both.delete_exact(["1"], scope=ADA)
    assert ids(both.search("green tea", scope=ADA)) == ["1"]
    both.delete_exact(["1"], scope=ADA_1)
    assert both.search("green tea", scope=ADA) == []


@pytest.mark.parametrize(
    ("top_k", "pool"), [(0, None), (-1, None), (21, None), (6, 5), (True, None), ("5", None), (1, 0)]
)
def test_a_top_k_below_1_or_above_the_pool_is_refused(words: HybridRetriever, top_k: Any, pool: Any) -> None:
    # RTV-02
    with pytest.raises(RetrievalError, match=r"top_k|candidate_pool"):
        words.search("tea", top_k=top_k, candidate_pool=pool, scope=ADA)


def test_a_top_k_as_large_as_the_pool_is_served(words: HybridRetriever) -> None:  # RTV-02
    words.add([str(number) for number in range(40)], ["tea"] * 40, scope=ADA)
    assert len(words.search("tea", scope=ADA)) == 5
    assert len(words.search("tea", top_k=20, scope=ADA)) == 20
    assert len(words.search("tea", top_k=30, candidate_pool=30, scope=ADA)) == 30


@pytest.mark.parametrize("numbers", [{"top_k": 0}, {"top_k": 21}, {"candidate_pool": 0}, {"rrf_k": 0}, {"rrf_k": 1.5}])
def test_a_configuration_that_cannot_work_is_refused(numbers: dict[str, Any]) -> None:  # RTV-02
    with pytest.raises(RetrievalError):
        RetrievalConfig(**numbers)


def test_set_dimensions_filter_and_unset_ones_do_not(words: HybridRetriever) -> None:  # SCP-03
    words.add(["1"], ["tea"], scope=ADA_1)
    words.add(["2"], ["tea"], scope=BOB)
    words.add(["3"], ["tea"])
    assert ids(words.search("tea", scope=ADA)) == ["1"]
    assert ids(words.search("tea", scope=Scope(session="1"))) == ["1"]
    assert words.search("tea", scope=ADA, exact=True) == []
    assert ids(words.search("tea", exact=True)) == ["3"]


@pytest.mark.parametrize("scope", [None, Scope(), Scope(user="")])
def test_searching_and_deleting_everything_must_be_asked_for(  # SCP-04
    words: HybridRetriever, scope: Scope | None
) -> None:
    words.add(["1"], ["tea"], scope=ADA)
    words.add(["1"], ["tea"], scope=BOB)
    with pytest.raises(RetrievalError, match="refused to search across all scopes"):
        words.search("tea", scope=scope)
    with pytest.raises(RetrievalError, match="refused to delete across all scopes"):
        words.delete(["1"], scope=scope)
    assert len(words.search("tea", scope=scope, all_scopes=True)) == 2
    words.delete(["1"], scope=scope, all_scopes=True)
    assert words.search("tea", scope=scope, all_scopes=True) == []


def test_all_scopes_lifts_the_refusal_but_not_the_filter(words: HybridRetriever) -> None:  # SCP-04
    words.add(["1"], ["tea"], scope=ADA)
    words.add(["2"], ["tea"], scope=BOB)
    assert ids(words.search("tea", scope=ADA, all_scopes=True)) == ["1"]


def test_an_empty_query_finds_nothing_and_asks_no_embedder(both: HybridRetriever, embedder: Any) -> None:
    assert both.search(" \n", scope=ADA) == []
    assert embedder.calls == []


def test_a_query_that_is_no_text_is_refused(words: HybridRetriever) -> None:
    with pytest.raises(RetrievalError, match="a query is a text, not bytes"):
        words.search(b"tea", scope=ADA)  # type: ignore[arg-type]  # what is tested


def test_a_failing_embedder_stops_a_write_before_anything_is_written(both: HybridRetriever, embedder: Any) -> None:
    embedder.error = OSError("green tea is secret")
    with pytest.raises(RetrievalError, match="embedder LetterEmbedder failed with OSError") as caught:
        both.add(["1"], ["green tea"], scope=ADA)
    assert "tea" not in str(caught.value)
    assert both.entries() == {}


def test_a_failing_embedder_leaves_search_with_words_and_says_so_once(
    both: HybridRetriever, embedder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    both.add(["1"], ["green tea"], scope=ADA)
    embedder.error = OSError("green tea is secret")
    with caplog.at_level(logging.WARNING):
        assert [hit.source for hit in both.search("tea", scope=ADA)] == ["keyword"]
        both.search("tea", scope=ADA)
    assert len(caplog.records) == 1
    assert "searching by words alone" in caplog.text
    assert "green" not in caplog.text
    embedder.error = None
    assert [hit.source for hit in both.search("tea", scope=ADA)] == ["hybrid"]


def test_an_embedder_that_gives_too_few_vectors_is_refused(embedder: Any) -> None:
    embedder.embed = lambda texts: [[1.0]]
    retriever = HybridRetriever(embedder)
    with pytest.raises(RetrievalError, match="gave 1 vectors for 2 texts"):
        retriever.add(["1", "2"], ["a", "b"], scope=ADA)
    retriever.close()


def test_a_vector_store_without_an_embedder_is_refused() -> None:
    store = SqliteVectorStore()
    with pytest.raises(RetrievalError, match="needs an embedder"):
        HybridRetriever(None, store)
    store.close()


def test_a_retriever_without_embedder_leaves_no_text_in_the_vectors_of_its_file(embedder: Any, path: Path) -> None:
    first = HybridRetriever(embedder, db_path=path)
    first.add(["1", "2"], ["green tea", "black tea"], scope=ADA)
    first.close()
    second = HybridRetriever(db_path=path)
    second.delete_exact(["1"], scope=ADA)
    second.add(["2"], ["coffee"], scope=ADA)
    second.close()
    store = SqliteVectorStore(path)
    assert store.entries() == {}
    store.close()


def test_backends_without_replace_are_deleted_from_and_added_to(embedder: Any) -> None:
    class Plain:
        """A keyword index that can do what the protocol says and no more."""

        def __init__(self) -> None:
            self.inner = SqliteKeywordIndex()
            for name in ("add", "search", "delete", "delete_exact", "entries", "close"):
                setattr(self, name, getattr(self.inner, name))

    retriever = HybridRetriever(embedder, None, Plain())  # type: ignore[arg-type]  # made of attributes
    retriever.add(["1"], ["green tea"], scope=ADA)
    retriever.replace(["1"], ["2"], ["black tea"], scope=ADA)
    assert retriever.entries() == {ADA: {"2"}}
    retriever.close()


def test_a_close_closes_every_backend_even_when_one_fails(embedder: Any) -> None:
    closed: list[str] = []

    def failing() -> None:
        closed.append("vectors")
        raise OSError("gone")

    store, index = SqliteVectorStore(), SqliteKeywordIndex()
    close_store, close_index = store.close, index.close
    store.close = failing  # type: ignore[method-assign]  # trouble
    index.close = lambda: closed.append("words")  # type: ignore[method-assign]  # a witness
    with pytest.raises(OSError, match="gone"):
        HybridRetriever(embedder, store, index).close()
    assert sorted(closed) == ["vectors", "words"]
    close_store()
    close_index()


def test_the_async_twins_do_the_same_off_the_loop(both: HybridRetriever) -> None:  # RTV-01
    async def scenario() -> list[list[str]]:
        await both.aadd(["1"], ["green tea"], scope=ADA)
        first = ids(await both.asearch("tea", scope=ADA))
        await both.areplace(["1"], ["2"], ["black tea"], scope=ADA)
        second = ids(await both.asearch("tea", scope=ADA))
        await both.adelete(["2"], scope=ADA)
        return [first, second, ids(await both.asearch("tea", scope=ADA))]

    assert asyncio.run(scenario()) == [["1"], ["2"], []]


def ranking(source: str, *names: str, scope: Scope = ADA) -> list[RetrievalResult]:
    return [RetrievalResult(name, 9.0, source, id=name, scope=scope) for name in names]


@pytest.mark.parametrize(
    ("rankings", "expected"),
    [
        ([["a", "b"], ["b", "c"]], ["b", "a", "c"]),
        ([["a"], []], ["a"]),
        ([], []),
    ],
)
def test_reciprocal_rank_fusion_sums_over_places(rankings: Sequence[Sequence[str]], expected: list[str]) -> None:
    fused = ReciprocalRankFusion(60).fuse([ranking("keyword", *names) for names in rankings], top_k=5)
    assert ids(fused) == expected
    for hit in fused:
        places = [names.index(hit.id) + 1 for names in rankings if hit.id in names]
        assert hit.score == pytest.approx(sum(1 / (60 + place) for place in places))


def test_fusion_keeps_one_id_of_two_scopes_apart() -> None:
    fused = ReciprocalRankFusion().fuse([ranking("keyword", "a"), ranking("vector", "a", scope=BOB)], top_k=5)
    assert [(hit.id, hit.scope, hit.source) for hit in fused] == [("a", ADA, "keyword"), ("a", BOB, "vector")]


def test_the_embedder_is_part_of_the_fingerprint(embedder: Any, make_trouble: Callable[..., Any]) -> None:
    plain, made = HybridRetriever(), HybridRetriever(embedder)
    assert plain.fingerprint == ""
    assert made.fingerprint == "letters-1"
    plain.close()
    made.close()
