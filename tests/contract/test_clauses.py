"""Every promise of the contract is checked by a test that names it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

import pytest
from contract import clause_tests as clauses

PART_A: Final = {
    "HAR": 91,
    "GRD": 12,
    "HITL": 9,
    "HOOK": 12,
    "SES": 43,
    "CKPT": 9,
    "EXEC": 17,
    "POL": 12,
    "TRC": 23,
    "EXP": 13,
    "ERR": 2,
    "LLM": 6,
    "REG": 12,
    "PERM": 4,
    "MSG": 2,
    "SCP": 4,
    "CTX": 19,
    "TRV": 2,
    "IDX": 3,
    "RTV": 2,
}
"""How many clauses each chapter of the contract's Part A (the agent runtime) has."""

PART_B: Final = {
    "EVT": 7,
    "STO": 14,
    "BUS": 9,
    "SCH": 2,
    "PRJ": 3,
    "BLB": 4,
    "RTY": 2,
    "OUT": 1,
    "ENG": 48,
    "HND": 8,
    "BUD": 6,
    "LED": 7,
    "CTXT": 5,
    "ALG": 5,
    "TEN": 15,
    "ERA": 13,
    "RET": 12,
    "RED": 21,
    "MEM": 4,
    "RCV": 9,
}
"""The same of Part B (the engine)."""


def test_every_clause_is_named_by_a_test_or_is_an_explained_exception() -> None:
    named = clauses.named_by_tests()
    exceptions = clauses.clause_list("exceptions")
    forgotten = [
        clause for clause in clauses.clause_list("clauses") if clause not in named and clause not in exceptions
    ]
    assert not forgotten, f"no test names {', '.join(forgotten)}: write one, or explain it under [exceptions]"


def test_an_exception_is_a_known_clause_without_a_test_and_has_a_reason() -> None:
    named = clauses.named_by_tests()
    for clause, reason in clauses.clause_list("exceptions").items():
        assert clause in clauses.clause_list("clauses")
        assert clause not in named, f"{clause} has a test now: take it off the exceptions"
        assert len(reason) > 20


def test_the_chapters_are_whole_and_in_the_order_of_the_contract() -> None:
    assert sum(PART_A.values()) == 297
    assert sum(PART_B.values()) == 195
    assert list(clauses.CHAPTERS) == [*PART_A, *PART_B, "DEC"]


@pytest.mark.parametrize("prefix", PART_A | PART_B)
def test_the_list_of_a_chapter_has_no_hole(prefix: str) -> None:
    numbers = [
        int(clause.partition("-")[2]) for clause in clauses.clause_list("clauses") if clause.startswith(f"{prefix}-")
    ]
    assert numbers == list(range(1, (PART_A | PART_B)[prefix] + 1))


def test_clauses_are_one_sentence_each() -> None:
    for clause, words in clauses.clause_list("clauses").items():
        assert re.fullmatch(r"[A-Z]{3,4}-\d{2}", clause)
        assert words.endswith("."), clause
        assert len(words) < 130, clause


def test_clauses_stand_in_the_contracts_order_with_decisions_last() -> None:
    ids = ["DEC-02", "AAA-01", "TRC-10", "TRC-09", "HAR-91", "RTV-02"]
    assert sorted(ids, key=clauses.contract_order) == ["HAR-91", "TRC-09", "TRC-10", "RTV-02", "AAA-01", "DEC-02"]


def test_a_range_names_each_of_its_clauses() -> None:
    assert list(clauses.ids_in("# HAR-10 to HAR-12, SES-01 to 02; EXP-13")) == [
        "HAR-10", "HAR-11", "HAR-12", "SES-01", "SES-02", "EXP-13",
    ]  # fmt: skip


def test_a_comment_speaks_for_the_function_it_stands_in_or_above(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        textwrap.dedent(
            """\
            # SES-01
            TEXT = "SES-99 in a text is no comment"

            # SES-02
            # and more
            @decorated(  # SES-03
                1,
            )
            def test_first():  # SES-04
                pass  # SES-05

            # SES-06

            class TestGroup:
                # SES-07
                async def test_second(self):
                    # SES-08, SES-05
                    ...

            def helper():
                pass  # SES-09
            """
        ),
        "utf-8",
    )
    first, second = "test_one.py::test_first", "test_one.py::TestGroup::test_second"
    assert clauses.named_by_tests(tmp_path) == {
        "SES-01": ["test_one.py"],
        "SES-02": [first],
        "SES-03": [first],
        "SES-04": [first],
        "SES-05": [second, first],
        "SES-06": ["test_one.py"],
        "SES-07": [second],
        "SES-08": [second],
        "SES-09": ["test_one.py"],
    }
