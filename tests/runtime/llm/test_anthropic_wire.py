"""From the function-calling shape to the Messages API and back."""

from __future__ import annotations

import itertools
import json
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import LLMError
from tracehold.llm.anthropic_reply import EventAssembler, read_message
from tracehold.llm.anthropic_request import convert_parameters, convert_tools, split_messages
from tracehold.llm.failures import Failures

FAILURES = Failures(anthropic, "anthropic", "small")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["text", "tool_use", "thinking", "redacted_thinking", "other"])
BLOCK = st.fixed_dictionaries(
    {}, optional={"type": TYPES, "text": JSON, "id": JSON, "name": JSON, "input": JSON, "thinking": JSON}
)
EVENT_TYPES = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
DELTA_TYPES = ["text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta"]
DELTA = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(DELTA_TYPES), "text": JSON, "partial_json": JSON, "stop_reason": JSON}
)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(EVENT_TYPES),
        "index": st.integers(0, 2) | JSON,
        "delta": DELTA | JSON,
        "content_block": BLOCK | JSON,
        "usage": JSON,
        "message": JSON,
    },
)


def call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_system_messages_move_to_the_system_parameter_in_their_order() -> None:
    system, turns = split_messages(
        [
            {"role": "system", "content": "one"},
            {"role": "user", "content": "hi"},
            {"role": "system", "content": [{**text("two"), "cache_control": {"type": "ephemeral"}}]},
        ]
    )
    assert system == [text("one"), {**text("two"), "cache_control": {"type": "ephemeral"}}]
    assert turns == [{"role": "user", "content": [text("hi")]}]


def test_results_of_parallel_calls_share_one_message_and_come_first() -> None:
    _, turns = split_messages(
        [
            {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b", arguments='{"x": 1}')]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "user", "content": "go on"},
            {"role": "tool", "tool_call_id": "b", "content": ""},
        ]
    )
    assert turns == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {"x": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("1")]},
                {"type": "tool_result", "tool_use_id": "b"},
                text("go on"),
            ],
        },
    ]


def test_images_are_converted_in_messages_and_in_tool_results() -> None:
    png = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    web = {"type": "image_url", "image_url": {"url": "https://pictures.example/a,b.png"}}
    native = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    _, turns = split_messages(
        [
            {"role": "user", "content": [text("see"), web, native]},
            {"role": "assistant", "content": None, "tool_calls": [call("a")]},
            {"role": "tool", "tool_call_id": "a", "content": [text("shot"), png]},
        ]
    )
    assert turns[0]["content"] == [
        text("see"),
        {"type": "image", "source": {"type": "url", "url": "https://pictures.example/a,b.png"}},
        native,
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert turns[2]["content"][0]["content"] == [text("shot"), {"type": "image", "source": source}]


def test_messages_and_texts_that_the_api_refuses_as_empty_are_left_out() -> None:
    _, turns = split_messages(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": " \n"},
            {"role": "user", "content": "you?"},
        ]
    )
    assert turns == [{"role": "user", "content": [text("hi"), text("you?")]}]


@pytest.mark.parametrize("arguments", ['{"cut', "[1]", "7", "[" * 100_000])
def test_arguments_that_are_no_object_go_back_inside_one(arguments: str) -> None:
    _, turns = split_messages([{"role": "assistant", "content": "", "tool_calls": [call("a", arguments=arguments)]}])
    sent = turns[0]["content"][0]["input"]
    assert list(sent) == ["invalid_arguments"]


def thinking_message(**changes: Any) -> dict[str, Any]:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        text("long words"),
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
    ]
    message = {"role": "assistant", "content": "long words", "tool_calls": [call("a")], "anthropic_content": blocks}
    return message | changes


def test_a_message_shortened_since_says_what_it_says_now_and_keeps_its_thinking() -> None:
    _, turns = split_messages([thinking_message(content="short")])
    assert [block["type"] for block in turns[0]["content"]] == ["thinking", "text", "tool_use"]
    assert turns[0]["content"][1] == text("short")


def test_a_call_dropped_since_does_not_come_back() -> None:
    _, turns = split_messages([thinking_message(tool_calls=[])])
    assert [block["type"] for block in turns[0]["content"]] == ["thinking", "text"]


def test_the_callers_messages_are_not_changed() -> None:
    messages = [
        thinking_message(),
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "user", "content": "x"},
    ]
    before = json.dumps(messages)
    split_messages(messages)
    assert json.dumps(messages) == before


@pytest.mark.parametrize(
    ("given_parameters", "sent"),
    [
        ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        ({"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "tool", "name": "f"}},
        ),
        ({"tool_choice": {"type": "tool", "name": "f"}}, {"tool_choice": {"type": "tool", "name": "f"}}),
        ({"parallel_tool_calls": False}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        ({"parallel_tool_calls": True}, {}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"max_completion_tokens": 5}, {"max_tokens": 5}),
        ({"top_k": 5}, {"top_k": 5}),
    ],
)
def test_parameters_get_the_apis_names(given_parameters: dict[str, Any], sent: dict[str, Any]) -> None:
    assert convert_parameters(given_parameters, has_tools=True) == sent


def test_server_tools_pass_as_they_are_and_functions_without_parameters_get_an_empty_object() -> None:
    server = {"type": "web_search_20250305", "name": "web_search"}
    function = {"type": "function", "function": {"name": "f"}}
    assert convert_tools([server, function]) == [server, {"name": "f", "input_schema": {"type": "object"}}]


def test_blocks_of_server_tools_go_back_as_they_came() -> None:
    blocks = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, text("found")]
    response = read_message({"content": blocks}, FAILURES)
    assert response.assistant_message is not None
    assert split_messages([response.assistant_message])[1] == [{"role": "assistant", "content": blocks}]


@given(st.lists(BLOCK, max_size=4) | JSON, JSON, JSON)
def test_any_answer_becomes_a_response_or_our_error(content: Any, usage: Any, reason: Any) -> None:  # LLM-04
    try:
        response = read_message({"content": content, "usage": usage, "stop_reason": reason}, FAILURES)
    except LLMError:
        return
    assert isinstance(response.content, str)
    assert all(isinstance(one["function"]["arguments"], str) for one in response.tool_calls or ())


@given(st.lists(EVENT, max_size=6))
def test_any_events_become_a_response(events: list[dict[str, Any]]) -> None:  # LLM-02
    assembler = EventAssembler()
    for event in events:
        assert isinstance(assembler.feed(event), str)
    response = assembler.response()
    assert all(type(number) is int and number >= 0 for number in (response.usage or {}).values())


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["system", "user", "assistant", "tool"]),
                "content": st.text(max_size=5) | st.none(),
            },
            optional={"tool_call_id": st.just("a"), "tool_calls": st.just([call("a")])},
        ),
        max_size=8,
    )
)
def test_roles_alternate_and_results_come_first(messages: list[dict[str, Any]]) -> None:
    _, turns = split_messages(messages)
    roles = [turn["role"] for turn in turns]
    assert all(one != other for one, other in itertools.pairwise(roles))
    for turn in turns:
        assert turn["content"]
        kinds = [block["type"] != "tool_result" for block in turn["content"]]
        assert kinds == sorted(kinds)
