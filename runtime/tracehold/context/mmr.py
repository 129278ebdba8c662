"""Maximal marginal relevance: the best first, but not the same thing twice (CTX-08).

Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tracehold.context.checks import at_least, fraction, positive_fraction
from tracehold.retrieval.types import RetrievalResult

MAX_CANDIDATES: Final = 256
"""Only the best so many are compared with each other: the work grows with their square."""

_DENSE: Final = "぀-ヿ㐀-䶿一-鿿가-힣豈-﫿"
_WORD: Final = re.compile(rf"[{_DENSE}]|[^\W{_DENSE}]+")
"""Words; in scripts that are written without spaces, characters."""


_LARGEST: Final = 1e300
"""Where scores are cut off: the difference of two must not overflow."""


def mmr_select(
    candidates: Sequence[RetrievalResult],
    *,
    top_k: int | None = None,
    lambda_: float = 0.7,
    dedup_threshold: float = 0.95,
) -> list[RetrievalResult]:
    """Return candidates by relevance against diversity, near-duplicates left out.

    Two candidates are compared by the cosine of their embeddings when all have one of the same length, else by the
    words they share. Scores are compared within `candidates` only.

    Args:
        candidates: at most the 256 of the highest scores are looked at.
        top_k: how many to return; `None` for all.
        lambda_: 1 is relevance alone, 0 diversity alone.
        dedup_threshold: from which similarity on (above 0, at most 1) a candidate repeats one already chosen.

    Raises:
        ValueError: a number outside its bounds.
    """
    if top_k is not None:
        at_least("top_k", top_k, 0)
    fraction("lambda_", lambda_)
    positive_fraction("dedup_threshold", dedup_threshold)
    return list(itertools.islice(mmr_order(candidates, lambda_=lambda_, dedup_threshold=dedup_threshold), top_k))


def mmr_order(
    candidates: Sequence[RetrievalResult], *, lambda_: float, dedup_threshold: float
) -> Iterator[RetrievalResult]:
    """Yield what `mmr_select` returns, one at a time: who stops early saves the rest of the comparisons."""
    pool = _best_distinct(candidates)
    relevance = _relevance(pool)
    similarity = _similarity(pool)
    closest = [0.0] * len(pool)
    remaining = list(range(len(pool)))
    while remaining:
        chosen = max(remaining, key=lambda at: lambda_ * relevance[at] - (1 - lambda_) * closest[at])
        yield pool[chosen]
        remaining.remove(chosen)
        for at in remaining:
            closest[at] = max(closest[at], similarity(chosen, at))
        remaining = [at for at in remaining if closest[at] < dedup_threshold]


def _best_distinct(candidates: Sequence[RetrievalResult]) -> list[RetrievalResult]:
    """The candidates of the highest scores, best first, each content once; equal scores keep their order."""
    ranked = sorted(candidates, key=lambda candidate: _finite(candidate.score), reverse=True)
    distinct: dict[str, RetrievalResult] = {}
    for candidate in ranked:
        distinct.setdefault(" ".join(candidate.content.split()), candidate)
    return list(distinct.values())[:MAX_CANDIDATES]


def _finite(score: float) -> float:
    """A score that can be compared: one that is not a number is the worst, an endless one the best or worst."""
    if math.isnan(score):
        return -_LARGEST
    return min(max(float(score), -_LARGEST), _LARGEST)


def _relevance(pool: Sequence[RetrievalResult]) -> list[float]:
    """Scores brought to 0..1 in proportion, so that a close second stays close; moved up first if any is negative."""
    scores = [_finite(candidate.score) for candidate in pool]
    floor = min([0.0, *scores])
    span = max([0.0, *scores]) - floor
    return [(score - floor) / span if span else 1.0 for score in scores]


def _similarity(pool: Sequence[RetrievalResult]) -> Callable[[int, int], float]:
    units = _unit_vectors(pool)
    if units is not None:
        return lambda one, other: sum(map(operator.mul, units[one], units[other]))
    words = [frozenset(_WORD.findall(candidate.content.casefold())) for candidate in pool]
    return lambda one, other: _overlap(words[one], words[other])


def _unit_vectors(pool: Sequence[RetrievalResult]) -> list[list[float]] | None:
    """The embeddings at length 1; `None` unless every candidate has a usable one of the same dimension."""
    units: list[list[float]] = []
    for candidate in pool:
        vector = [float(number) for number in candidate.embedding] if candidate.embedding is not None else []
        length = math.hypot(*vector)
        if not 0 < length < math.inf or (units and len(units[0]) != len(vector)):
            return None
        units.append([number / length for number in vector])
    return units


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard index of two sets of words."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0
