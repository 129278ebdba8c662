"""Relevance against diversity (CTX-08)."""

from __future__ import annotations

import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.context import mmr_select
from tracehold.context.mmr import MAX_CANDIDATES
from tracehold.retrieval.types import RetrievalResult


def hit(content: str, score: float = 1.0, embedding: list[float] | None = None) -> RetrievalResult:
    return RetrievalResult(content, score, "test", embedding=embedding)


def contents(results: list[RetrievalResult]) -> list[str]:
    return [result.content for result in results]


# CTX-08
def test_with_lambda_one_the_order_is_by_score() -> None:
    found = [hit("low", 0.1), hit("high", 0.9), hit("middle", 0.5)]
    assert contents(mmr_select(found, lambda_=1)) == ["high", "middle", "low"]


# CTX-08
def test_something_new_comes_before_more_of_the_same() -> None:
    found = [
        hit("the cat sat on the mat", 1.0),
        hit("the cat sat on the rug", 0.9),
        hit("interest rates rose", 0.6),
    ]
    assert contents(mmr_select(found, lambda_=0.5)) == [
        "the cat sat on the mat",
        "interest rates rose",
        "the cat sat on the rug",
    ]
    assert contents(mmr_select(found, lambda_=1.0))[1] == "the cat sat on the rug"


# CTX-08
def test_with_embeddings_for_all_meaning_decides_and_not_the_words() -> None:
    found = [hit("car", 1.0, [1.0, 0.0]), hit("automobile", 0.9, [0.999, 0.01]), hit("tree", 0.1, [0.0, 1.0])]
    assert contents(mmr_select(found)) == ["car", "tree"]


# CTX-08
@pytest.mark.parametrize("odd", [None, [], [0.0, 0.0], [1.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_one_unusable_embedding_and_the_words_decide(odd: list[float] | None) -> None:
    found = [hit("car", 1.0, [1.0, 0.0]), hit("automobile", 0.9, [1.0, 0.0]), hit("tree", 0.1, odd)]
    assert len(mmr_select(found)) == 3


# CTX-08
def test_repetitions_are_left_out_and_the_best_of_them_stays() -> None:
    found = [hit("same  words\nhere", 0.2), hit("same words here", 0.9), hit("Same words HERE", 0.5)]
    assert [result.score for result in mmr_select(found)] == [0.9]


# CTX-08
def test_the_threshold_says_what_a_repetition_is() -> None:
    found = [hit("a b c d", 1.0), hit("a b c e", 0.9)]  # 3 of 5 words are shared
    assert len(mmr_select(found, dedup_threshold=0.61)) == 2
    assert len(mmr_select(found, dedup_threshold=0.6)) == 1


# CTX-08
def test_text_without_spaces_is_compared_by_characters() -> None:
    assert len(mmr_select([hit("東京都は日本の首都"), hit("東京都は日本の首都だ")], dedup_threshold=0.8)) == 1
    assert len(mmr_select([hit("東京都は日本の首都"), hit("大阪の天気")], dedup_threshold=0.8)) == 2


# CTX-08
def test_top_k_is_the_beginning_of_the_whole_order() -> None:
    found = [hit(f"word{at} other{at}", at / 7) for at in range(20)]
    assert mmr_select(found, top_k=5) == mmr_select(found)[:5]
    assert mmr_select(found, top_k=0) == []


@pytest.mark.parametrize(
    "options", [{"top_k": -1}, {"lambda_": 1.1}, {"lambda_": math.nan}, {"dedup_threshold": 0}, {"dedup_threshold": 2}]
)
def test_a_number_outside_its_bounds_is_refused_by_name(options: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        mmr_select([], **options)


def test_a_flood_of_candidates_is_cut_to_the_best() -> None:
    found = [hit(f"unique{at}", at) for at in range(5000)]
    selected = mmr_select(found, lambda_=1)
    assert [result.score for result in selected] == [float(4999 - at) for at in range(MAX_CANDIDATES)]


# CTX-08
@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 90)), min_size=1, max_size=8, unique_by=lambda p: p[1]),
    st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
def test_each_choice_is_the_best_by_the_formula_of_the_paper(points: list[tuple[int, int]], lambda_: float) -> None:
    # Embeddings of length 1, no two near enough for the threshold; scores that begin at 0.
    found = [
        hit(f"t{at}", float(score), [math.cos(degree / 60), math.sin(degree / 60)])
        for at, (score, degree) in enumerate(points)
    ]
    best_score = max(result.score for result in found)
    chosen: list[RetrievalResult] = []

    def value(result: RetrievalResult) -> float:
        nearest = [sum(map(operator.mul, result.embedding, other.embedding)) for other in chosen]
        return lambda_ * result.score / best_score - (1 - lambda_) * max(0.0, *nearest, 0.0)

    for result in mmr_select(found, lambda_=lambda_, dedup_threshold=1.0):
        left = [other for other in found if other not in chosen]
        assert value(result) >= max(map(value, left)) - 1e-9  # equal values may come in either order
        chosen.append(result)
    assert len(chosen) == len(found)


# CTX-08
@given(
    st.lists(
        st.builds(
            hit,
            st.text(st.characters(codec=None, exclude_categories=()), max_size=20),
            st.floats(),
            st.none() | st.lists(st.floats(), max_size=3),
        ),
        max_size=10,
    ),
    st.floats(0, 1),
)
def test_hostile_scores_vectors_and_texts_never_fail_and_nothing_is_made_up(found: list, lambda_: float) -> None:
    selected = mmr_select(found, lambda_=lambda_)
    assert len({id(result) for result in selected}) == len(selected)
    assert all(any(result is candidate for candidate in found) for result in selected)
    assert bool(selected) == bool(found)
