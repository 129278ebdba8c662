"""The Anthropic client against a server that speaks the Messages API."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from tracehold.core.errors import LLMConfigError, LLMRequestError
from tracehold.llm import AnthropicClient, LLMResponse, StreamStats

ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the weather?"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather now.",
            "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
        },
    }
]
EVENT_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "day": {"type": "string"}},
    "required": ["name", "day"],
}
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"
Make = Callable[..., AnthropicClient]


async def drain(client: Any, messages: Any = ASK, **kwargs: Any) -> tuple[list[Any], list[StreamStats]]:
    stats: list[StreamStats] = []
    items = [item async for item in client.stream(messages, on_stats=stats.append, **kwargs)]
    return items, stats


def test_a_reply_becomes_a_response_and_the_prompt_counts_what_the_cache_held(
    provider: Any, anthropic_client: Make
) -> None:  # LLM-01, LLM-05
    provider.stored("anthropic_plain")
    response = asyncio.run(anthropic_client().chat(ASK, temperature=0.2))
    assert str(response) == "Hi! Grüße, 世界 🌍."
    assert (response.finish_reason, response.model) == ("end_turn", "claude-sonnet-4-5-20250929")
    assert response.usage == {
        "prompt_tokens": 50 + 1000 + 248,
        "completion_tokens": 503,
        "total_tokens": 50 + 1000 + 248 + 503,
        "cached_tokens": 1000,
        "cache_write_tokens": 248,
    }
    assert response.raw.id.startswith("msg_")
    assert response.assistant_message is None
    (request,) = provider.requests
    assert request.path == "/v1/messages"
    assert request.body == {
        "model": "small",
        "max_tokens": 4096,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]}],
        "temperature": 0.2,
    }


def test_counts_that_were_not_told_are_absent(provider: Any, anthropic_client: Make) -> None:  # LLM-05
    provider.stored("anthropic_bare_usage")
    usage = asyncio.run(anthropic_client().chat(ASK)).usage
    assert usage == {"prompt_tokens": 10, "completion_tokens": 25, "total_tokens": 35}


@pytest.mark.parametrize(
    ("options", "kwargs", "sent"),
    [
        ({}, {}, 4096),
        ({"max_output_tokens": 64_000}, {}, 64_000),
        ({"max_output_tokens": 64_000}, {"max_tokens": 7}, 7),
    ],
)
def test_max_tokens_is_the_callers_else_the_models_else_what_every_model_takes(
    provider: Any, anthropic_client: Make, options: Any, kwargs: Any, sent: int
) -> None:
    provider.stored("anthropic_plain")
    asyncio.run(anthropic_client(**options).chat(ASK, **kwargs))
    assert provider.requests[0].body["max_tokens"] == sent


def test_tool_calls_come_in_the_function_calling_shape(provider: Any, anthropic_client: Make) -> None:  # LLM-04
    provider.stored("anthropic_parallel_tool_use")
    response = asyncio.run(anthropic_client().chat(ASK, tools=TOOLS))
    assert provider.requests[0].body["tools"] == [
        {
            "name": "get_weather",
            "description": "Weather now.",
            "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}},
        }
    ]
    assert (response.content, response.finish_reason) == ("I'll look up both.", "tool_use")
    assert response.tool_calls == [
        {
            "id": "toolu_01",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"location": "Bogotá"}'},
        },
        {"id": "toolu_02", "type": "function", "function": {"name": "get_time", "arguments": "{}"}},
    ]


def test_thinking_goes_back_signed_and_untouched(provider: Any, anthropic_client: Make) -> None:
    provider.stored("anthropic_thinking_tool_use")
    provider.stored("anthropic_plain")
    client = anthropic_client()

    async def two_turns() -> LLMResponse:
        first = await client.chat(ASK, tools=TOOLS, thinking={"type": "enabled", "budget_tokens": 1024})
        # A session keeps messages as JSON.
        kept = json.loads(json.dumps(first.assistant_message))
        result = {"role": "tool", "tool_call_id": "toolu_01", "content": "18 C"}
        await client.chat([*ASK, kept, result], tools=TOOLS)
        return first

    first = asyncio.run(two_turns())
    assert first.reasoning_content == "First the weather."
    assert first.usage is not None
    assert first.usage["reasoning_tokens"] == 80
    assert first.assistant_message is not None
    assert (first.assistant_message["content"], first.assistant_message["tool_calls"]) == (
        "Let me see.",
        first.tool_calls,
    )
    asked, answered = provider.requests
    assert asked.body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert answered.body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "First the weather.", "signature": SIGNATURE},
                {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_01", "name": "get_weather", "input": {"location": "Paris"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01", "content": [{"type": "text", "text": "18 C"}]}
            ],
        },
    ]


def test_a_stream_yields_its_pieces_and_tells_its_usage(provider: Any, anthropic_client: Make) -> None:  # LLM-02
    provider.stored("anthropic_stream")
    pieces, (told,) = asyncio.run(drain(anthropic_client()))
    assert pieces == ["Grüße", ", 世", "界 🌍!"]
    assert (told.finish_reason, told.model) == ("end_turn", "claude-sonnet-4-5-20250929")
    assert told.usage == {
        "prompt_tokens": 125,
        "completion_tokens": 15,
        "total_tokens": 140,
        "cached_tokens": 100,
        "cache_write_tokens": 0,
    }


def test_a_stream_with_tools_ends_with_the_response_and_its_signed_thinking(
    provider: Any, anthropic_client: Make
) -> None:  # LLM-02
    provider.stored("anthropic_stream_thinking_tool_use")
    (piece, response), (told,) = asyncio.run(drain(anthropic_client(), tools=TOOLS))
    assert piece == response.content == "Let me see."
    calls = [(call["id"], call["function"]["arguments"]) for call in response.tool_calls]
    assert calls == [("toolu_01", '{"location": "Paris"}'), ("toolu_02", "{}")]
    assert response.reasoning_content == "First the weather."
    assert response.assistant_message["anthropic_content"] == [
        {"type": "thinking", "thinking": "First the weather.", "signature": SIGNATURE},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "toolu_01", "name": "get_weather", "input": {"location": "Paris"}},
        {"type": "tool_use", "id": "toolu_02", "name": "get_time", "input": {}},
    ]
    assert response.usage == told.usage == {"prompt_tokens": 25, "completion_tokens": 89, "total_tokens": 114}


def test_a_tool_call_cut_off_by_the_limit_keeps_what_was_written(provider: Any, anthropic_client: Make) -> None:
    events = [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "a", "input": {}},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"te'}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    provider.events(events, named=True)
    (response,), _ = asyncio.run(drain(anthropic_client(), tools=TOOLS))
    assert response.tool_calls[0]["function"]["arguments"] == '{"te'
    assert (response.finish_reason, response.usage) == ("max_tokens", {"completion_tokens": 5})


def test_an_overload_inside_a_stream_is_raised_where_it_came(provider: Any, anthropic_client: Make) -> None:  # ERR-02
    provider.stored("anthropic_stream_overloaded")
    pieces: list[object] = []
    stats: list[StreamStats] = []

    async def read() -> None:
        async for piece in anthropic_client().stream(ASK, on_stats=stats.append):
            pieces.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(LLMRequestError, match="overloaded_error") as caught:
        asyncio.run(read())
    assert pieces == ["Half"]
    assert (caught.value.status_code, caught.value.retryable) == (529, True)
    assert "quoted" not in str(caught.value)
    # What the reply took is unknown: it never ended.
    assert [told.usage for told in stats] == [{"prompt_tokens": 25}]


@pytest.mark.skipif(not hasattr(anthropic, "transform_schema"), reason="this SDK has no converter of schemas")
def test_a_schema_is_sent_natively_with_closed_objects(provider: Any, anthropic_client: Make) -> None:
    provider.stored("anthropic_structured")
    response = asyncio.run(anthropic_client().chat(ASK, output_schema=EVENT_SCHEMA))
    assert json.loads(response.content) == {"name": "Science Fair", "day": "Friday"}
    sent = provider.requests[0].body["output_config"]["format"]
    assert (sent["type"], sent["schema"]["additionalProperties"]) == ("json_schema", False)
    assert "minLength" not in sent["schema"]["properties"]["name"]


def test_a_schema_can_be_sent_as_a_tool_the_model_must_call(provider: Any, anthropic_client: Make) -> None:
    provider.stored("anthropic_structured_tool")
    response = asyncio.run(anthropic_client(structured_output="tool").chat(ASK, output_schema=EVENT_SCHEMA))
    assert json.loads(response.content) == {"name": "Science Fair", "day": "Friday"}
    assert response.tool_calls is None
    body = provider.requests[0].body
    assert body["tools"][0]["input_schema"] == EVENT_SCHEMA
    assert body["tool_choice"] == {"type": "tool", "name": "tracehold_output"}


def test_an_answer_given_as_a_tool_streams_as_text(provider: Any, anthropic_client: Make) -> None:
    provider.stored("anthropic_stream_structured_tool")
    pieces, _ = asyncio.run(drain(anthropic_client(structured_output="tool"), output_schema=EVENT_SCHEMA))
    assert len(pieces) == 2
    assert json.loads("".join(pieces)) == {"name": "Science Fair", "day": "Friday"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"name": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"name": {}}},
    ],
)
def test_what_the_native_format_cannot_hold_is_asked_for_by_a_tool(
    provider: Any, anthropic_client: Make, schema: Any
) -> None:
    provider.stored("anthropic_structured_tool")
    asyncio.run(anthropic_client().chat(ASK, output_schema=schema))
    body = provider.requests[0].body
    assert "output_config" not in body
    assert body["tools"][0]["input_schema"] == schema


@pytest.mark.parametrize(
    ("kwargs", "choice"),
    [
        ({"tools": TOOLS}, {"type": "any"}),
        ({"tools": TOOLS, "tool_choice": "auto"}, {"type": "auto"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
    ],
)
def test_the_answer_is_forced_only_as_far_as_other_tools_and_thinking_allow(
    provider: Any, anthropic_client: Make, kwargs: Any, choice: Any
) -> None:
    provider.stored("anthropic_structured_tool")
    asyncio.run(anthropic_client(structured_output="tool").chat(ASK, output_schema=EVENT_SCHEMA, **kwargs))
    assert provider.requests[0].body.get("tool_choice") == choice


@pytest.mark.parametrize(
    ("options", "schema"),
    [({"structured_output": "none"}, EVENT_SCHEMA), ({}, {"type": "array", "items": {"type": "string"}})],
)
def test_a_schema_that_cannot_or_must_not_be_sent_is_left_to_the_messages(
    provider: Any, anthropic_client: Make, options: Any, schema: Any
) -> None:
    provider.stored("anthropic_structured")
    asyncio.run(anthropic_client(**options).chat(ASK, output_schema=schema))
    assert not provider.requests[0].body.keys() & {"tools", "output_config"}


def test_a_missing_key_is_said_when_the_client_is_made(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LLMConfigError, match="pass api_key or set ANTHROPIC_API_KEY"):
        AnthropicClient("small")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "made-up")
    assert AnthropicClient("small").model == "small"


def test_a_missing_package_is_said_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(LLMConfigError, match=r"pip install '\.\[anthropic\]'"):
        AnthropicClient("small", api_key="sk-made-up")


def test_an_unknown_way_to_send_schemas_is_refused() -> None:
    with pytest.raises(LLMConfigError, match="native, tool, none, not 'json_schema'"):
        AnthropicClient("small", api_key="sk-made-up", structured_output="json_schema")  # type: ignore[arg-type]
