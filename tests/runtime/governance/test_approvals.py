"""An approval holds for one call with one set of arguments, once, in time, and by somebody."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import CanonicalJsonError, ConfigurationError
from tracehold.governance import (
    PendingAction,
    Principal,
    action_digest,
    ambiguous_call_ids,
    as_principal,
    bind,
    normalise_decisions,
    verify,
)

NOW = 1_796_000_000_000_000_000
ARGUMENTS = {"to": ["ada@example.org"], "amount": 12.5}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
arguments = st.dictionaries(texts, scalars | st.lists(scalars, max_size=3), max_size=4)


def pending(**changes: Any) -> PendingAction:
    return replace(bind("pay", ARGUMENTS, "call-1", now_ns=NOW), **changes)


def test_binding_records_what_is_asked_when_and_until_when() -> None:  # DEC-02
    action = bind("pay", ARGUMENTS, "call-1", now_ns=NOW, ttl_s=90)
    assert action == PendingAction(
        "pay",
        ARGUMENTS,
        "call-1",
        digest=action_digest("pay", ARGUMENTS),
        requested_at_ns=NOW,
        expires_at_ns=NOW + 90_000_000_000,
    )


def test_without_a_time_to_live_an_approval_does_not_expire() -> None:  # DEC-02
    action = bind("pay", ARGUMENTS, "call-1", now_ns=NOW)
    assert action.expires_at_ns is None
    assert verify(action, tool_name="pay", arguments=ARGUMENTS, now_ns=NOW * 2) == "ok"


def test_what_a_person_is_shown_does_not_change_with_the_callers_arguments() -> None:
    mine = copy.deepcopy(ARGUMENTS)
    action = bind("pay", mine, "call-1", now_ns=NOW)
    mine["to"].append("eve@example.org")  # type: ignore[attr-defined]  # it is the list
    assert action.arguments == ARGUMENTS


@pytest.mark.parametrize("ttl_s", [0, -1, math.nan, math.inf, True, "60", 10**12])
def test_a_time_to_live_that_cannot_be_meant_is_refused(ttl_s: Any) -> None:
    with pytest.raises(ConfigurationError, match="ttl_s must be"):
        bind("pay", ARGUMENTS, "call-1", now_ns=NOW, ttl_s=ttl_s)


def test_arguments_without_a_digest_cannot_wait_for_approval() -> None:
    with pytest.raises(CanonicalJsonError):
        bind("pay", {"amount": math.nan}, "call-1", now_ns=NOW)


@given(texts, arguments)
def test_an_approval_holds_for_what_was_asked_also_after_it_was_stored(tool: str, given_: dict[str, Any]) -> None:
    action = bind(tool, given_, "c", now_ns=NOW)  # DEC-02
    stored = PendingAction(**json.loads(json.dumps(vars(action))))
    assert verify(stored, tool_name=tool, arguments=json.loads(json.dumps(given_)), now_ns=NOW) == "ok"


@given(texts, arguments, texts, arguments)
def test_an_approval_holds_for_nothing_else(tool, given_, other_tool, other) -> None:  # DEC-02
    action = bind(tool, given_, "c", now_ns=NOW)
    same = action_digest(tool, given_) == action_digest(other_tool, other)
    assert (verify(action, tool_name=other_tool, arguments=other, now_ns=NOW) == "ok") is same


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": ARGUMENTS | {"amount": 12.6}},
        {"tool_name": "refund"},
        {"digest": "sha256:" + "0" * 64},
        {"digest": None},
        {"arguments": {"amount": math.nan}},
    ],
)
def test_an_action_that_was_changed_in_the_store_is_a_mismatch(changes: dict[str, Any]) -> None:  # DEC-02
    assert verify(pending(**changes), tool_name="pay", arguments=ARGUMENTS, now_ns=NOW) == "mismatch"


def test_arguments_without_a_digest_are_a_mismatch() -> None:
    assert verify(pending(), tool_name="pay", arguments={"amount": math.nan}, now_ns=NOW) == "mismatch"


@pytest.mark.parametrize(("late_ns", "expected"), [(-1, "ok"), (0, "expired"), (1, "expired")])
def test_an_approval_is_refused_from_its_expiry_on(late_ns: int, expected: str) -> None:  # DEC-02
    action = bind("pay", ARGUMENTS, "call-1", now_ns=NOW, ttl_s=0.5)
    assert action.expires_at_ns is not None
    assert verify(action, tool_name="pay", arguments=ARGUMENTS, now_ns=action.expires_at_ns + late_ns) == expected


def test_a_change_is_told_even_when_it_is_also_too_late() -> None:
    action = bind("pay", ARGUMENTS, "call-1", now_ns=NOW, ttl_s=1)
    assert verify(action, tool_name="pay", arguments={}, now_ns=NOW * 2) == "mismatch"


ids = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=5)


def waiting(call_ids: list[str]) -> list[PendingAction]:
    return [PendingAction("pay", {}, call_id) for call_id in call_ids]


@given(ids, st.booleans())
def test_one_boolean_applies_to_every_pending_action(call_ids: list[str], decision: bool) -> None:  # HITL-07
    assert normalise_decisions(decision, waiting(call_ids)) == dict.fromkeys(call_ids, decision)


@given(ids, st.data())
def test_a_mapping_decides_by_call_id_and_leaves_the_rest_undecided(call_ids: list[str], data: st.DataObject) -> None:
    decided = data.draw(st.dictionaries(st.sampled_from(call_ids), st.booleans())) if call_ids else {}  # HITL-07
    assert normalise_decisions(decided, waiting(call_ids)) == decided


@pytest.mark.parametrize("value", [1, 0, "yes", None, [True]])
def test_a_decision_that_is_no_boolean_is_refused(value: object) -> None:  # HITL-08
    with pytest.raises(TypeError, match="'a' must be True or False"):
        normalise_decisions({"a": value}, waiting(["a"]))


@pytest.mark.parametrize("decision", [1, None, "yes", ["a"], [("a", True)]])
def test_a_decision_that_is_neither_boolean_nor_mapping_is_refused(decision: object) -> None:  # HITL-08
    with pytest.raises(TypeError, match="True, False or a mapping"):
        normalise_decisions(decision, waiting(["a"]))


def test_an_id_that_is_not_pending_is_refused_and_the_pending_ones_are_told() -> None:  # HITL-07
    with pytest.raises(ValueError, match=r"no pending action has the call id 'b'; pending: 'a'"):
        normalise_decisions({"a": True, "b": True}, waiting(["a"]))
    with pytest.raises(ValueError, match="pending: none"):
        normalise_decisions({"b": True}, [])


def test_a_decision_on_an_id_that_two_actions_share_is_refused() -> None:  # HITL-09
    with pytest.raises(ValueError, match="several pending actions"):
        normalise_decisions({"a": True}, waiting(["a", "a"]))


def test_decisions_are_a_copy() -> None:
    decided = {"a": True}
    normalised = normalise_decisions(decided, waiting(["a"]))
    decided["a"] = False
    assert normalised == {"a": True}


@pytest.mark.parametrize(
    ("calls", "ambiguous"),
    [
        ([], []),
        (["a", "b"], []),
        (["a", "b", "a"], ["a"]),
        (["", "b"], [""]),
        ([None, "  "], [""]),
        ([{"id": "a"}, {"id": "a"}, {"id": "b"}], ["a"]),
        ([{"id": None}, {}, {"id": 5}], [""]),
        (waiting(["a", "", "a"]), ["", "a"]),
    ],
)
def test_calls_that_cannot_be_told_apart_are_found(calls: list[Any], ambiguous: list[str]) -> None:  # HITL-09
    assert ambiguous_call_ids(calls) == ambiguous


def test_a_principal_says_who_and_how_that_is_known() -> None:  # DEC-02
    principal = Principal("ada", "user", via="oidc")
    assert (principal.id, principal.kind, principal.via) == ("ada", "user", "oidc")
    assert as_principal(principal) is principal
    assert as_principal("ada") == Principal("ada", kind="user", via=None)
    assert as_principal(None) is None


@pytest.mark.parametrize("name", ["", "  ", "ada\nroot", "ada\x00", "\ud800", "x" * 257])
def test_a_principal_that_names_nobody_is_refused(name: str) -> None:
    for make in (Principal, as_principal):
        with pytest.raises(ValueError, match="principal's id must be"):
            make(name)
    with pytest.raises(ValueError, match="principal's via must be"):
        Principal("ada", via=name)


def test_a_principal_of_another_type_or_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="principal's id must be a text, not int"):
        as_principal(5)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(ValueError, match="kind is one of user"):
        Principal("ada", kind="robot")  # type: ignore[arg-type]  # the mistake under test
