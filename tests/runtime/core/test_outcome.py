"""How a run ended."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from tracehold.core.outcome import Outcome, OutcomeKind

KINDS = ["success", "no_solution", "timeout", "budget_exceeded", "invalid_input", "cancelled", "failed", "blocked"]


def test_there_are_eight_kinds() -> None:  # OUT-01
    assert [str(kind) for kind in OutcomeKind] == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_only_success_is_ok(kind: str) -> None:  # OUT-01
    assert Outcome(OutcomeKind(kind)).ok is (kind == "success")


def test_value_and_reason_are_none_unless_given() -> None:  # OUT-01
    assert dataclasses.astuple(Outcome(OutcomeKind.TIMEOUT)) == (OutcomeKind.TIMEOUT, None, None)
    made = Outcome(OutcomeKind.SUCCESS, {"answer": 42}, "done")
    assert (made.value, made.reason) == ({"answer": 42}, "done")


def test_a_kind_may_be_given_by_its_word() -> None:  # OUT-01
    made = Outcome[int]("failed")  # type: ignore[arg-type]  # what a log holds
    assert made.kind is OutcomeKind.FAILED
    assert made == Outcome(OutcomeKind.FAILED)


@pytest.mark.parametrize("kind", ["done", "", None, 1])
def test_another_kind_is_refused_with_those_there_are(kind: object) -> None:  # OUT-01
    with pytest.raises(ValueError, match="success, no_solution"):
        Outcome(kind)  # type: ignore[arg-type]


def test_a_reason_is_a_text() -> None:
    with pytest.raises(TypeError, match="reason"):
        Outcome(OutcomeKind.FAILED, None, ValueError("x"))  # type: ignore[arg-type]


def test_an_outcome_cannot_be_changed_and_can_be_pickled() -> None:
    made = Outcome(OutcomeKind.SUCCESS, [1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.value = [2]  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own bytes  # noqa: S301 - our own bytes
