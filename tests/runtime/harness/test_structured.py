"""`astructured`: a validated object, or an error after the last attempt."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from harness_parts import MESSAGES, HookLog, Model, in_run, of, reply, run
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel
from tracehold import Tracer
from tracehold.core.errors import LLMError, LLMResponseError, RunLimitExceeded
from tracehold.execution import RunPolicy
from tracehold.harness import Harness


class City(BaseModel):
    name: str
    people: int


class Numbers(RootModel[list[int]]):
    pass


class Anything(RootModel[Any]):
    pass


PARIS = '{"name": "Paris", "people": 2}'


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def ask(model: Model, schema: Any = City, **options: Any) -> Any:
    return run(Harness(model).astructured(MESSAGES, schema, **options))


def objects_in(text: str) -> list[Any]:
    found, decoder = [], json.JSONDecoder()
    for at, char in enumerate(text):
        if char == "{":
            try:
                found.append(decoder.raw_decode(text, at)[0])
            except ValueError:
                continue
    return found


def test_the_result_is_an_object_of_the_class() -> None:  # HAR-33
    city = ask(Model(PARIS))
    assert type(city) is City
    assert city == City(name="Paris", people=2)


def test_every_attempt_sends_the_schema_twice() -> None:  # HAR-34
    model = Model("no", "no again", PARIS)
    ask(model, retries=2)
    assert len(model.chats) == 3
    for asked in model.chats:
        assert asked.options["output_schema"] == City.model_json_schema()
        assert asked.messages[0]["role"] == "system"
        assert City.model_json_schema() in objects_in(asked.messages[0]["content"])


def test_the_callers_own_system_message_stays() -> None:  # HAR-34, HAR-38
    model = Model(PARIS)
    mine = [{"role": "system", "content": "Speak of France only."}, *MESSAGES]
    run(Harness(model).astructured(mine, City))
    sent = model.chats[0].messages
    assert any("Speak of France only." in message["content"] for message in sent if message["role"] == "system")
    assert sent[-1] == MESSAGES[-1]


def test_a_failed_reply_is_shown_to_the_model_with_what_was_wrong() -> None:  # HAR-35
    model = Model('{"name": "Paris"}', PARIS)
    assert ask(model).people == 2
    first, second = (asked.messages for asked in model.chats)
    *before, failed, note = second
    assert before == first
    assert failed == {"role": "assistant", "content": '{"name": "Paris"}'}
    assert note["role"] == "user"
    assert "people" in note["content"]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_at_most_one_call_more_than_the_retries(retries: int) -> None:  # HAR-36
    model = Model(*["nothing of the kind"] * 9)
    with pytest.raises(LLMResponseError) as raised:
        ask(model, retries=retries)
    assert isinstance(raised.value, LLMError)
    assert len(model.chats) == retries + 1


def test_one_retry_is_the_default() -> None:  # HAR-36
    model = Model(*["no"] * 9)
    with pytest.raises(LLMResponseError):
        ask(model)
    assert len(model.chats) == 2


def test_the_error_does_not_repeat_what_the_model_said() -> None:  # HAR-36: no content in an error
    said = "hunter2" + "Xy9"
    with pytest.raises(LLMResponseError) as raised:
        ask(Model(*[f'{{"name": 1, "people": "{said}"}}'] * 2))
    assert said not in str(raised.value)


def test_each_attempt_is_a_full_governed_call(tracer: Tracer) -> None:  # HAR-37
    hook = HookLog()
    run(Harness(Model("no", PARIS), hooks=[hook], tracer=tracer).astructured(MESSAGES, City))
    assert hook.names() == ["before_model", "after_model"] * 2
    assert len(of(tracer, "llm_call")) == 2


def test_limits_apply_to_each_attempt() -> None:  # HAR-37
    async def limited() -> int:
        model = Model("no", PARIS)
        with in_run(RunPolicy(max_llm_calls=1)), pytest.raises(RunLimitExceeded):
            await Harness(model).astructured(MESSAGES, City)
        return len(model.chats)

    assert run(limited()) == 1


def test_other_keywords_reach_each_attempt() -> None:  # HAR-12, HAR-37
    model = Model("no", PARIS)
    ask(model, temperature=0.1)
    assert [asked.options["temperature"] for asked in model.chats] == [0.1, 0.1]


def test_an_error_of_the_client_is_not_retried() -> None:  # HAR-19, HAR-37
    broken = LookupError("down")
    model = Model(broken, PARIS)
    with pytest.raises(LookupError) as raised:
        ask(model)
    assert raised.value is broken
    assert len(model.chats) == 1


def test_the_callers_messages_are_left_alone() -> None:  # HAR-38
    mine = [{"role": "system", "content": "s"}, *copy.deepcopy(MESSAGES)]
    before = copy.deepcopy(mine)
    run(Harness(Model("no", PARIS)).astructured(mine, City))
    assert mine == before


SHAPES = {
    "bare": PARIS,
    "bare with white space": f"\n\n  {PARIS}\n",
    "fenced": f"```json\n{PARIS}\n```",
    "fenced without a language": f"```\n{PARIS}\n```",
    "fenced in prose": f"Here you are:\n\n```json\n{PARIS}\n```\nAnything else?",
    "in prose": f"The city is {PARIS}, I think.",
    "after a brace that is no JSON": f"With {{name}} filled in: {PARIS}",
    "after another fence": f"```python\nprint(1)\n```\n\n```json\n{PARIS}\n```",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_json_is_found_wherever_models_put_it(shape: str) -> None:  # HAR-39
    model = Model(SHAPES[shape])
    assert ask(model, retries=0) == City(name="Paris", people=2)


@pytest.mark.parametrize("text", ["[1, 2]", "```json\n[1, 2]\n```", "They are [1, 2]."])
def test_a_root_array_is_allowed(text: str) -> None:  # HAR-39
    assert ask(Model(text), Numbers, retries=0).root == [1, 2]


@pytest.mark.parametrize("text", ["", "   \n", "```json\n```"])
def test_an_empty_reply_is_a_failed_one(text: str) -> None:  # HAR-39
    model = Model(text, PARIS)
    assert ask(model).name == "Paris"
    assert len(model.chats) == 2
    with pytest.raises(LLMResponseError):
        ask(Model(text), retries=0)


def test_a_response_without_any_content_is_a_failed_one() -> None:  # HAR-39
    assert ask(Model(reply(None), PARIS)).name == "Paris"  # type: ignore[arg-type]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CONTAINERS = st.lists(JSON, max_size=4) | st.dictionaries(st.text(), JSON, max_size=4)
PROSE = st.text("abc .,:\n'\"", max_size=20)


@given(value=CONTAINERS, before=PROSE, after=PROSE, ascii_only=st.booleans())
def test_what_json_holds_does_not_confuse_the_search(  # HAR-39
    value: Any, before: str, after: str, ascii_only: bool
) -> None:
    text = before + json.dumps(value, ensure_ascii=ascii_only) + after
    assume(not (before or after) or not _is_json(text))
    assert ask(Model(text), Anything, retries=0).root == value


@given(value=CONTAINERS)
def test_a_fence_inside_a_text_does_not_end_the_block(value: Any) -> None:  # HAR-39
    value = {"code": "```py\nx\n```", "value": value}
    text = f"So:\n```json\n{json.dumps(value, indent=1)}\n```\nDone."
    assert ask(Model(text), Anything, retries=0).root == value


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 20_000, '{"a":' * 20_000, "```" * 20_000, "```" + "\n" * 300_000]
)
def test_a_reply_built_to_hurt_is_a_failed_one(text: str) -> None:  # HAR-36, HAR-39
    with pytest.raises(LLMResponseError):
        ask(Model(text), retries=0)
