"""Every promise of the contract is checked by a test that names it."""

from __future__ import annotations

import re

import generate_docs as made
import pytest


def test_every_clause_is_named_by_a_test_or_is_an_explained_exception() -> None:
    named = made.tests_by_clause()
    exceptions = made.clause_list("exceptions")
    forgotten = [clause for clause in made.clause_list("clauses") if clause not in named and clause not in exceptions]
    assert not forgotten, f"no test names {', '.join(forgotten)}: write one, or explain it under [exceptions]"


def test_an_exception_is_a_known_clause_without_a_test_and_has_a_reason() -> None:
    named = made.tests_by_clause()
    for clause, reason in made.clause_list("exceptions").items():
        assert clause in made.clause_list("clauses")
        assert clause not in named, f"{clause} has a test now: take it off the exceptions"
        assert len(reason) > 20


CHAPTERS = {
    "TRC": 23,
    "EXP": 13,
    "ERR": 2,
}
"""How many clauses each chapter of the contract has."""


@pytest.mark.parametrize("prefix", CHAPTERS)
def test_the_list_of_a_chapter_has_no_hole(prefix: str) -> None:
    numbers = [
        int(clause.partition("-")[2]) for clause in made.clause_list("clauses") if clause.startswith(f"{prefix}-")
    ]
    assert numbers == list(range(1, CHAPTERS[prefix] + 1))


def test_clauses_are_one_sentence_each() -> None:
    for clause, words in made.clause_list("clauses").items():
        assert re.fullmatch(r"[A-Z]{3,4}-\d{2}", clause)
        assert words.endswith(".")
        assert len(words) < 130
