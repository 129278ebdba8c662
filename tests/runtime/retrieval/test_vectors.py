"""The vector store, against numpy on the side."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval import SqliteVectorStore

ADA = Scope(user="ada")
BOB = Scope(user="bob")


@pytest.fixture
def store() -> Iterator[SqliteVectorStore]:
    made = SqliteVectorStore()
    yield made
    made.close()


def found(store: SqliteVectorStore, query: list[float], **options: Any) -> list[str]:
    return [hit.id for hit in store.search(query, **options)]


def cosine(one: list[float], other: list[float]) -> float:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


numbers = st.integers(-50, 50).map(lambda number: number / 8)
vectors = st.lists(numbers, min_size=3, max_size=3)
rows = st.lists(st.tuples(vectors, st.sampled_from([Scope(), ADA, BOB, Scope(user="ada", session="1")])), max_size=20)


@given(rows, vectors, st.sampled_from([Scope(), ADA, BOB]), st.booleans(), st.integers(1, 6), st.data())
def test_search_finds_what_comparing_with_every_vector_finds(
    entries: list[tuple[list[float], Scope]],
    query: list[float],
    scope: Scope,
    exact: bool,
    top_k: int,
    data: st.DataObject,
) -> None:
    gone = data.draw(st.sets(st.integers(0, 20)))
    searched = data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries)))
    with contextlib.closing(SqliteVectorStore()) as store:
        for number, (vector, place) in enumerate(entries):
            store.add([str(number)], [vector], [""], scope=place)
            if searched[number]:  # so that the vectors in memory are filled bit by bit
                store.search(query)
        for number in gone:
            store.delete([str(number)])
        hits = store.search(query, top_k=top_k, scope=scope, exact=exact)
    matching = [
        cosine(query, vector)
        for number, (vector, place) in enumerate(entries)
        if number not in gone
        and any(vector)
        and any(query)
        and (place == scope if exact else scope.restrictions().items() <= place.restrictions().items())
    ]
    assert [hit.score for hit in hits] == pytest.approx(sorted(matching, reverse=True)[:top_k], abs=1e-5)
    for hit in hits:
        assert hit.embedding == entries[int(hit.id)][0]
        assert hit.score == pytest.approx(cosine(query, hit.embedding or []), abs=1e-5)


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        ([[1.0, float("nan")]], "NaN"),
        ([[1.0, float("inf")]], "infinite"),
        ([[1.0, 1e300]], "too large"),
        ([[]], "of one length"),
        ([], "of one length"),
        ([[1.0], [2.0]], "of one length"),
        ([["a", "b"]], "of one length"),
        ([None], "of one length"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(store: SqliteVectorStore, vectors: Any, words: str) -> None:
    with pytest.raises(RetrievalError, match=words):
        store.add(["1"], vectors, ["a"])
    assert store.entries() == {}


def test_a_vector_of_another_length_is_refused_when_added_and_when_searched(store: SqliteVectorStore) -> None:
    store.add(["1"], [[1.0, 0.0]], ["a"])
    with pytest.raises(RetrievalError, match="holds vectors of 2 numbers and was given one of 3"):
        store.add(["2"], [[1.0, 0.0, 0.0]], ["a"])
    with pytest.raises(RetrievalError, match="holds vectors of 2 numbers and was given one of 1"):
        store.search([1.0])


def test_when_every_vector_is_replaced_the_length_may_change(store: SqliteVectorStore) -> None:
    store.add(["1"], [[1.0, 0.0]], ["a"])
    store.search([1.0, 0.0])
    store.add(["1"], [[1.0, 0.0, 0.0]], ["a"])
    assert found(store, [1.0, 0.0, 0.0]) == ["1"]


def test_a_vector_of_zeros_is_kept_but_never_found_and_finds_nothing(store: SqliteVectorStore) -> None:
    store.add(["zero", "one"], [[0.0, 0.0], [0.0, 1.0]], ["a", "b"])
    assert found(store, [0.0, 1.0]) == ["one"]
    assert found(store, [0.0, 0.0]) == []
    assert store.entries() == {Scope(): {"zero", "one"}}


def test_huge_and_tiny_vectors_have_a_direction_too(store: SqliteVectorStore) -> None:
    store.add(["huge", "tiny"], [[3e38, 3e38], [1e-40, 0.0]], ["a", "b"])
    assert [hit.score for hit in store.search([1.0, 1.0])] == pytest.approx([1, 0.5**0.5])


def test_what_another_store_on_the_file_writes_and_deletes_is_seen(path: Path) -> None:
    one, other = SqliteVectorStore(path), SqliteVectorStore(path)
    one.add(["1"], [[1.0, 0.0]], ["a"], scope=ADA)
    assert found(other, [1.0, 0.0]) == ["1"]
    one.add(["2"], [[1.0, 0.0]], ["a"], scope=ADA)
    assert found(other, [1.0, 0.0]) == ["2", "1"]
    one.delete_exact(["1"], scope=ADA)
    assert found(other, [1.0, 0.0]) == ["2"]
    one.add(["2"], [[0.0, 1.0]], ["b"], scope=ADA)
    assert [(hit.content, hit.score) for hit in other.search([0.0, 1.0])] == [("b", 1.0)]
    one.close()
    other.close()


def test_an_empty_store_finds_nothing(store: SqliteVectorStore) -> None:
    assert found(store, [1.0]) == []


def test_delete_is_restrictive_and_delete_exact_is_not(store: SqliteVectorStore) -> None:  # SCP-03
    place = Scope(user="ada", session="1")
    store.add(["1"], [[1.0]], ["a"], scope=place)
    store.delete_exact(["1"], scope=ADA)
    assert store.entries() == {place: {"1"}}
    store.delete(["1"], scope=ADA)
    assert store.entries() == {}


def test_a_closed_store_says_so(store: SqliteVectorStore) -> None:
    store.close()
    store.close()
    with pytest.raises(RetrievalError, match="closed"):
        store.search([1.0])


_WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from tracehold.core.errors import RetrievalError
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.retrieval import HybridRetriever, SqliteVectorStore
from tracehold.sessions.search import ConversationSearch
from tracehold.sessions.sqlite import SqliteSessionStore

path = sys.argv[1]
search = ConversationSearch(SqliteSessionStore(path), HybridRetriever(db_path=path))
search.append(Message("green tea", "user"), scope=Scope(user="ada"))
print(len(search.search("tea", scope=Scope(user="ada"))))
search.clear(scope=Scope(user="ada"))
for broken in (lambda: HybridRetriever(object()), lambda: SqliteVectorStore().add(["1"], [[1.0]], ["a"])):
    try:
        broken()
    except RetrievalError as error:
        print(error)
"""


def test_all_but_search_by_meaning_works_without_numpy(path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NUMPY, str(path)], capture_output=True, text=True, check=False
    )
    assert told.stderr == ""
    assert told.stdout.splitlines()[0] == "1"
    assert told.stdout.count("pip install '.[vectors]'") == 2
