"""The types of an approval: what waits, and the signal that it does."""

from __future__ import annotations

import dataclasses

import pytest
from tracehold.core.control import ControlSignal
from tracehold.core.errors import TraceholdError
from tracehold.core.scope import Scope
from tracehold.governance import ApprovalRequired, Interrupt, PendingAction

ONE = PendingAction("send_email", {"to": "ada@example.org"}, "call-1")
TWO = PendingAction("delete_file", {"path": "a.txt"}, call_id="call-2")


def test_a_pending_action_is_a_dataclass_with_tool_arguments_and_call() -> None:  # HITL-01
    assert dataclasses.is_dataclass(ONE)
    assert (ONE.tool_name, ONE.arguments, ONE.call_id) == ("send_email", {"to": "ada@example.org"}, "call-1")
    assert PendingAction(tool_name="send_email", arguments={"to": "ada@example.org"}, call_id="call-1") == ONE


def test_an_interrupt_holds_several_actions_in_order() -> None:  # HITL-02
    assert Interrupt([ONE, TWO]).pendings == [ONE, TWO]


def test_actions_given_as_a_tuple_are_a_list_afterwards() -> None:  # HITL-02
    assert Interrupt((ONE, TWO)).pendings == [ONE, TWO]  # type: ignore[arg-type]  # what callers do


def test_a_single_action_becomes_a_list_of_one() -> None:  # HITL-03
    assert Interrupt(ONE).pendings == [ONE]  # type: ignore[arg-type]  # documented


def test_pending_is_the_first_action_or_none() -> None:  # HITL-04
    assert Interrupt([TWO, ONE]).pending is TWO
    assert Interrupt([]).pending is None


def test_the_scope_says_where_the_state_is_and_may_be_none() -> None:  # HITL-05
    assert Interrupt([ONE]).scope is None
    assert Interrupt([ONE], Scope(user="ada")).scope == Scope(user="ada")


def test_approval_required_is_an_exception_that_carries_what_waits() -> None:  # HITL-06
    with pytest.raises(Exception, match="send_email waits for approval") as caught:
        raise ApprovalRequired(ONE)
    assert isinstance(caught.value, ApprovalRequired)
    assert caught.value.pending is ONE
    assert caught.value.pendings == [ONE]


def test_approval_required_is_a_control_signal_and_no_error_of_the_library() -> None:  # HITL-06
    assert issubclass(ApprovalRequired, ControlSignal)
    assert not issubclass(ApprovalRequired, TraceholdError)


def test_approval_required_does_not_tell_the_arguments() -> None:
    assert "ada@example.org" not in str(ApprovalRequired(ONE))
