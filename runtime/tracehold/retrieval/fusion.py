"""Making one ranking of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from tracehold.core.scope import Scope
from tracehold.retrieval.types import RetrievalResult

_Entry: TypeAlias = tuple[str, Scope | None]

_BOTH: Final = "hybrid"


class ReciprocalRankFusion:
    """Scores an entry by its places, 1 / (k + place) summed over the rankings (Cormack and others, SIGIR 2009).

    Scores of different searches cannot be compared, places can.

    Args:
        k: the higher, the less the first places weigh.
    """

    def __init__(self, k: int = 60) -> None:
        self.k = k

    def fuse(self, rankings: Sequence[Sequence[RetrievalResult]], *, top_k: int) -> list[RetrievalResult]:
        """Return at most `top_k` results, each entry once, best first; equal ones in the order first met."""
        best: dict[_Entry, RetrievalResult] = {}
        scores: dict[_Entry, float] = {}
        for ranking in rankings:
            for place, result in enumerate(ranking, start=1):
                # The same id in two scopes is two entries.
                entry = (result.id, result.scope)
                best[entry] = _merged(best.get(entry), result)
                scores[entry] = scores.get(entry, 0.0) + 1 / (self.k + place)
        order = sorted(scores, key=lambda entry: -scores[entry])
        return [replace(best[entry], score=scores[entry]) for entry in order[:top_k]]


def _merged(known: RetrievalResult | None, found: RetrievalResult) -> RetrievalResult:
    if known is None:
        return found
    return replace(known, source=_BOTH, embedding=known.embedding or found.embedding)
