"""The state of a suspended run: written, read back, and never taken on trust."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import SessionError
from tracehold.core.run_context import current_run_id, current_step
from tracehold.execution.policy import RunPolicy
from tracehold.execution.running import check_limits, correlation, record_llm, reset_run, start_run
from tracehold.execution.state import ExecutionState
from tracehold.execution.state_fields import ACTION, STATE
from tracehold.governance.hitl import PendingAction

texts = st.text(st.characters() | st.sampled_from("\x00\ud800"), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(texts, plain, max_size=4)
actions = st.builds(
    PendingAction,
    tool_name=texts,
    arguments=objects,
    call_id=texts,
    digest=st.none() | texts,
    requested_at_ns=st.none() | st.integers(0, 2**63),
    expires_at_ns=st.none() | st.integers(0, 2**63),
)
states = st.builds(
    ExecutionState,
    messages=st.lists(objects, max_size=3),
    input_text=texts,
    remaining=st.integers(),
    decisions=st.dictionaries(texts, st.booleans(), max_size=3),
    pending=st.lists(actions, max_size=3),
    meta=objects,
    run_id=st.none() | texts,
    step=st.integers(0),
    completed=st.booleans(),
)


@given(states)
def test_a_state_comes_back_with_every_field(state: ExecutionState) -> None:  # EXEC-01
    back = ExecutionState.from_json(state.to_json())
    assert back == state
    assert all(type(action) is PendingAction for action in back.pending)


@given(states)
def test_the_json_is_ascii_so_that_any_store_can_keep_it(state: ExecutionState) -> None:  # EXEC-01
    text = state.to_json()
    assert text.isascii()
    assert "\x00" not in text


def test_the_fields_and_defaults_are_the_documented_ones() -> None:  # EXEC-01
    state = ExecutionState([{"role": "user", "content": "hi"}], "hi")
    assert {item.name: getattr(state, item.name) for item in fields(state)} == {
        "messages": [{"role": "user", "content": "hi"}],
        "input_text": "hi",
        "remaining": 0,
        "decisions": {},
        "pending": [],
        "meta": {},
        "run_id": None,
        "step": 0,
        "completed": False,
    }
    other = ExecutionState([], "")
    assert other.decisions is not state.decisions
    assert other.meta is not state.meta


def test_the_table_of_checks_names_every_field_there_is() -> None:  # EXEC-01
    assert set(STATE) == {item.name for item in fields(ExecutionState)}
    assert set(ACTION) == {item.name for item in fields(PendingAction)}


def test_two_halves_of_one_character_come_back_as_that_character() -> None:  # EXEC-01
    state = ExecutionState([{"content": "\ud83d" + "\ude00"}], "\ud83d")
    back = ExecutionState.from_json(state.to_json())
    assert back.messages == [{"content": "😀"}]
    assert back.input_text == "\ud83d"


def circle() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["again"] = [made]
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(10_000):
        made = [made]
    return made


UNHOLDABLE = {
    "an object": object(),
    "bytes": b"my secret",
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "a set": {"my secret"},
    "a circle": circle(),
    "very deep": deep(),
    "a class": RunPolicy,
}


@pytest.mark.parametrize("value", UNHOLDABLE.values(), ids=UNHOLDABLE)
@pytest.mark.parametrize("place", ["messages", "meta", "pending"])
def test_what_json_cannot_hold_is_refused_with_its_place(place: str, value: Any) -> None:  # EXEC-02
    state = ExecutionState([], "my secret question")
    if place == "messages":
        state.messages = [{"role": "user", "content": "ok"}, {"role": "tool", "content": value}]
        words = r"state\.messages\[1\]\.content"
    elif place == "meta":
        state.meta = {"cursor": value}
        words = r"state\.meta\.cursor"
    else:
        state.pending = [PendingAction("pay", {"sum": value}, "c1")]
        words = r"state\.pending\[0\]\.arguments\.sum"
    with pytest.raises(SessionError, match=rf"the run cannot be suspended: {words}") as caught:
        state.to_json()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": [object()]}, "messages must be a list of dicts"),
        ({"messages": None}, "messages must be a list of dicts"),
        ({"input_text": None}, "input_text must be a text"),
        ({"decisions": {"c1": "yes"}}, "decisions must be a dict of call id to true or false"),
        ({"decisions": {1: True}}, "decisions must be"),
        ({"pending": ["pay"]}, "pending is not a list of PendingAction"),
        ({"pending": [PendingAction("pay", "all", "c1")]}, r"pending\[0\]\.arguments must be a dict"),  # type: ignore[arg-type]
        ({"meta": []}, "meta must be a dict"),
        ({"step": -1}, "step must be an integer of at least 0"),
        ({"step": 1.0}, "step must be"),
        ({"completed": 1}, "completed must be true or false"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_field_of_the_wrong_type_is_refused_before_it_is_stored(
    change: dict[str, Any], words: str
) -> None:  # EXEC-02
    state = ExecutionState([], "")
    for name, value in change.items():
        setattr(state, name, value)
    with pytest.raises(SessionError, match=words):
        state.to_json()


def test_the_json_carries_its_format_version() -> None:  # EXEC-03
    assert json.loads(ExecutionState([], "").to_json())["v"] == 1


def test_a_newer_format_is_refused_with_what_to_do() -> None:  # EXEC-03
    text = json.dumps({"v": 2, "messages": [], "input_text": "", "news": 1})
    with pytest.raises(SessionError, match=r"has format 2, .* reads up to 1: resume the run with the newer version"):
        ExecutionState.from_json(text)


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None, [1]], ids=repr)
def test_a_version_that_is_none_is_refused(version: Any) -> None:  # EXEC-03
    with pytest.raises(SessionError, match="v is no format version"):
        ExecutionState.from_json(json.dumps({"v": version, "messages": [], "input_text": ""}))


def test_missing_optional_fields_take_their_defaults() -> None:  # EXEC-04
    assert ExecutionState.from_json('{"messages": [], "input_text": "hi"}') == ExecutionState([], "hi")
    action = '{"tool_name": "pay", "arguments": {}, "call_id": "c1"}'
    state = ExecutionState.from_json('{"v": 1, "messages": [], "input_text": "hi", "pending": [' + action + "]}")
    assert state.pending == [PendingAction("pay", {}, "c1")]


@pytest.mark.parametrize("missing", ["messages", "input_text"])
def test_messages_and_input_text_are_required(missing: str) -> None:  # EXEC-04
    whole = {"v": 1, "messages": [], "input_text": "hi"}
    del whole[missing]
    with pytest.raises(SessionError, match=f"{missing} must be .*, and is missing"):
        ExecutionState.from_json(json.dumps(whole))


@pytest.mark.parametrize("missing", ["tool_name", "arguments", "call_id"])
def test_an_action_needs_its_tool_its_arguments_and_its_id(missing: str) -> None:  # EXEC-04
    action: dict[str, Any] = {"tool_name": "pay", "arguments": {}, "call_id": "c1"}
    del action[missing]
    with pytest.raises(SessionError, match=rf"pending\[0\]\.{missing} must be .*, and is missing"):
        ExecutionState.from_json(json.dumps({"messages": [], "input_text": "", "pending": [action]}))


def test_an_unknown_field_of_the_same_version_is_left_out() -> None:  # EXEC-04
    action = {"tool_name": "pay", "arguments": {}, "call_id": "c1", "colour": "red"}
    text = json.dumps({"v": 1, "messages": [], "input_text": "", "pending": [action], "colour": "red"})
    assert ExecutionState.from_json(text) == ExecutionState([], "", pending=[PendingAction("pay", {}, "c1")])


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", '"x"', "5", '{"messages": [NaN], "input_text": ""}', "[" * 100_000, "\x00", "{" * 9]
)
def test_broken_json_is_a_session_error_that_shows_none_of_it(text: str) -> None:  # EXEC-04
    with pytest.raises(SessionError, match=r"the stored run state is damaged: .* Clear this checkpoint"):
        ExecutionState.from_json(text)


@pytest.mark.parametrize("raw", [None, b"{}", {}, 5], ids=repr)
def test_what_is_no_text_is_a_session_error(raw: Any) -> None:  # EXEC-04
    with pytest.raises(SessionError, match="is a text, not"):
        ExecutionState.from_json(raw)


@pytest.mark.parametrize("yes", ["false", "true", 1, 0, None, [True]], ids=repr)
def test_only_true_and_false_are_decisions(yes: Any) -> None:  # EXEC-04, DEC-02
    text = json.dumps({"messages": [], "input_text": "", "decisions": {"c1": yes}})
    with pytest.raises(SessionError, match="decisions must be a dict of call id to true or false"):
        ExecutionState.from_json(text)


def test_all_faults_of_a_stored_state_are_named_at_once_and_no_value() -> None:  # EXEC-04
    text = json.dumps({"messages": "my secret", "step": "my secret", "pending": [{"arguments": "my secret"}]})
    with pytest.raises(SessionError) as caught:
        ExecutionState.from_json(text)
    words = str(caught.value)
    assert all(
        name in words for name in ("messages", "input_text", "step", "pending[0].tool_name", "pending[0].arguments")
    )
    assert "secret" not in words


@given(st.recursive(plain, lambda inner: st.dictionaries(st.sampled_from([*STATE, "v"]), inner)))
def test_hostile_json_gives_a_state_or_a_session_error_and_nothing_else(value: Any) -> None:  # EXEC-04
    try:
        state = ExecutionState.from_json(json.dumps(value))
    except SessionError:
        return
    assert ExecutionState.from_json(state.to_json()) == state


def test_completed_survives_so_that_a_left_over_is_recognised() -> None:  # EXEC-05
    assert ExecutionState.from_json(ExecutionState([], "", completed=True).to_json()).completed is True
    assert ExecutionState.from_json(ExecutionState([], "").to_json()).completed is False


def test_run_id_and_step_continue_after_a_resume_and_limits_do_not() -> None:  # EXEC-06
    token = start_run("r1", policy=RunPolicy(max_llm_calls=1))
    correlation()
    record_llm({"total_tokens": 5})
    text = ExecutionState([], "hi", run_id=current_run_id(), step=current_step()).to_json()
    reset_run(token)
    assert "policy" not in text
    assert "limit" not in text

    state = ExecutionState.from_json(text)
    assert state.run_id is not None
    token = start_run(state.run_id, step=state.step, policy=RunPolicy(max_llm_calls=1))
    try:
        check_limits("llm")  # a new count: nothing is used up
        assert correlation() == {"run_id": "r1", "step_index": 2}
    finally:
        reset_run(token)
