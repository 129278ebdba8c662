"""The literals that are not searched are those that cannot occur."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.privacy import DEFAULT_DETECTORS, plans
from tracehold.privacy.detection import Scanner
from tracehold.privacy.plans import SearchPlans

RANKED = list(enumerate(DEFAULT_DETECTORS))
HINTED = [(rank, d) for rank, d in RANKED if d.hints and not d.shapes]
LITERALS = sorted({literal for _, d in HINTED for literal in (*d.hints, *d.requires)})
SHAPES = sorted({shape for _, d in RANKED for shape in d.shapes})

texts = st.lists(st.one_of(st.sampled_from(LITERALS), st.text(max_size=4)), max_size=8).map("".join)


def possible(groups, text: str) -> set[tuple[int, str]]:
    """Return the hints, each with its detector, that occur in `text` and whose requirement is met."""
    found = set()
    for requires, anywhere, at_hint in groups:
        if requires and not any(literal in text for literal in requires):
            continue
        found |= {(rank, hint) for hint, rank, _ in at_hint if hint in text}
        found |= {(rank, hint) for rank, detector in anywhere for hint in detector.hints if hint in text}
    return found


@given(texts)
def test_a_plan_leaves_out_nothing_that_occurs_and_adds_nothing(text):
    low = text.lower()
    every = [((d.requires), [(rank, d)], []) for rank, d in HINTED]
    assert possible(SearchPlans(RANKED).for_text(text.encode("ascii", "replace")).groups, low) == possible(every, low)


@given(st.lists(st.one_of(st.sampled_from([*SHAPES, " ", "-", "."]), st.text(max_size=3)), max_size=8).map("".join))
def test_a_plan_leaves_out_no_shape_that_occurs(text):
    shapes = {
        shape
        for _, _, shapes, _ in SearchPlans(RANKED).for_text(text.encode("ascii", "replace")).shaped
        for shape in shapes
    }
    assert {shape for shape in SHAPES if shape in text} <= shapes


def test_a_text_without_punctuation_leaves_few_literals_to_search():
    plan = SearchPlans(RANKED).for_text(b"only words and 12 numbers").groups
    assert sum(len(at_hint) for _, _, at_hint in plan) < len(LITERALS) / 4


def test_plans_are_made_once_for_each_set_of_characters():
    kept = SearchPlans(RANKED)
    assert kept.for_text(b"a: b") is kept.for_text(b"another: one, longer")


def test_the_number_of_plans_is_bounded(monkeypatch):
    monkeypatch.setattr(plans, "_PLANS_MAX", 8)
    kept = SearchPlans(RANKED)
    for marks in itertools.combinations("@-=:/[('", 3):
        kept.for_text("".join(marks).encode())
        assert len(kept._unspaced) <= 8


@pytest.mark.parametrize("length", [100, plans._PLANNED_LEN + 100])
def test_short_and_long_texts_are_searched_alike(length):
    text = "w " * (length // 2) + "mail ana@example.com, password: hunter2hunter2 --token abc123def"
    assert [text[start:end] for start, end, _ in Scanner(DEFAULT_DETECTORS).find(text)] == [
        "ana@example.com",
        "hunter2hunter2",
        "abc123def",
    ]
