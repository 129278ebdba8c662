"""The rules of a review, by whatever people do in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.access.principal import Principal
from tracehold_collector.core.errors import ConflictError, NotAllowedError
from tracehold_collector.review.states import ACTS, STATES, VERDICTS, Review, Wish, after

PEOPLE = [Principal(f"k{n}", name, frozenset({"audit"}), ("t",), "t") for n, name in enumerate(("ann", "ben", "cyd"))]
NOBODY = Principal(None, "anyone on this machine", frozenset({"audit"}), ("t",), "t", owner=True)

STEPS = st.lists(
    st.tuples(st.sampled_from([*PEOPLE, NOBODY]), st.sampled_from(ACTS), st.sampled_from(VERDICTS)), max_size=20
)


def wish(act: Any, verdict: Any, revision: int) -> Wish:
    return Wish(act, revision, verdict=verdict if act == "verdict" else None, note="why")


@given(steps=STEPS)
def test_no_order_of_acts_closes_an_incident_with_one_login(steps: Any) -> None:
    review, signers = Review(), []
    for who, act, verdict in steps:
        try:
            following = after(review, wish(act, verdict, review.revision), who)
        except (ConflictError, NotAllowedError):
            continue
        assert following.revision == review.revision + 1
        assert following.state in STATES
        if act == "verdict":
            signers = [who.name]
        if following.state == "closed":
            assert (following.verdict, act) == ("incident", "sign_off")
            assert who.name not in signers
        assert (following.verdict is None) == (following.state in {"open", "assigned"})
        review = following


@given(steps=STEPS, seen=st.integers(0, 30))
def test_whoever_saw_another_revision_changes_nothing(steps: Any, seen: int) -> None:
    review = Review()
    for who, act, verdict in steps:
        try:
            following = after(review, wish(act, verdict, seen), who)
        except (ConflictError, NotAllowedError):
            continue
        assert seen == review.revision
        review = following
    assert review.revision in {0, seen + 1} or review == Review()
