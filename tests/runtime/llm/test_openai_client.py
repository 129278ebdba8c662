"""The OpenAI client against a server that speaks chat completions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tracehold.core.errors import LLMConfigError, LLMRequestError
from tracehold.llm import LLMResponse, OpenAIClient, StreamStats

ASK = [{"role": "user", "content": "What is the weather?"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}]
EVENT_SCHEMA = {
    "title": "Calendar Event",
    "type": "object",
    "properties": {"name": {"type": "string"}, "day": {"type": "string"}},
    "required": ["name", "day"],
}
Make = Callable[..., OpenAIClient]


async def drain(client: Any, messages: Any = ASK, **kwargs: Any) -> tuple[list[Any], list[StreamStats]]:
    stats: list[StreamStats] = []
    items = [item async for item in client.stream(messages, on_stats=stats.append, **kwargs)]
    return items, stats


def test_a_reply_becomes_a_response_with_all_token_counts(provider: Any, openai_client: Make) -> None:  # LLM-01, LLM-05
    provider.stored("openai_plain")
    response = asyncio.run(openai_client().chat(ASK, temperature=0.2))
    assert str(response) == "Hello! Grüße, 世界 🌍."
    assert (response.finish_reason, response.model) == ("stop", "gpt-4o-mini-2024-07-18")
    assert response.usage == {
        "prompt_tokens": 1419,
        "completion_tokens": 110,
        "total_tokens": 1529,
        "cached_tokens": 1024,
        "reasoning_tokens": 64,
    }
    assert response.raw.id.startswith("chatcmpl-")
    assert (response.tool_calls, response.assistant_message, response.reasoning_content) == (None, None, None)
    (request,) = provider.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {"model": "small", "messages": ASK, "temperature": 0.2}


def test_counts_that_were_not_told_are_absent(provider: Any, openai_client: Make) -> None:  # LLM-05
    provider.stored("openai_bare_usage")
    usage = asyncio.run(openai_client().chat(ASK)).usage
    assert usage == {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}


def test_parallel_tool_calls_keep_their_arguments_as_the_json_text_that_came(
    provider: Any, openai_client: Make
) -> None:  # LLM-04
    provider.stored("openai_parallel_tool_calls")
    response = asyncio.run(openai_client().chat(ASK, tools=TOOLS))
    assert provider.requests[0].body["tools"] == TOOLS
    assert response.finish_reason == "tool_calls"
    assert response.tool_calls == [
        {
            "id": "call_12xyz",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"location":"Paris, France"}'},
        },
        {
            "id": "call_67abc",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"location":"Bogotá, Colombia"}'},
        },
    ]


def test_a_refusal_is_the_content(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_refusal")
    response = asyncio.run(openai_client().chat(ASK))
    assert (response.content, response.finish_reason) == ("I'm sorry, I cannot assist with that request.", "stop")


def test_reasoning_beside_tool_calls_is_kept_for_the_next_turn(provider: Any, openai_client: Make) -> None:
    provider.stored("deepseek_reasoning_tool_call")
    provider.stored("openai_plain")
    client = openai_client()

    async def two_turns() -> LLMResponse:
        first = await client.chat(ASK, tools=TOOLS)
        result = {"role": "tool", "tool_call_id": "call_00_a1", "content": "2026-01-02"}
        await client.chat([*ASK, first.assistant_message, result], tools=TOOLS)
        return first

    first = asyncio.run(two_turns())
    assert first.reasoning_content == "The user wants the date first."
    assert first.usage == {
        "prompt_tokens": 340,
        "completion_tokens": 60,
        "total_tokens": 400,
        "cached_tokens": 320,
        "reasoning_tokens": 41,
    }
    sent_back = provider.requests[1].body["messages"][1]
    assert sent_back["reasoning_content"] == "The user wants the date first."
    assert sent_back["tool_calls"] == first.tool_calls


def test_a_stream_yields_its_pieces_and_tells_its_usage(provider: Any, openai_client: Make) -> None:  # LLM-02
    provider.stored("openai_stream")
    pieces, stats = asyncio.run(drain(openai_client()))
    assert pieces == ["Grüße", ", 世", "界 🌍!"]
    (told,) = stats
    assert (told.finish_reason, told.model) == ("stop", "gpt-4o-mini-2024-07-18")
    assert told.usage == {
        "prompt_tokens": 12,
        "completion_tokens": 7,
        "total_tokens": 19,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
    }
    assert provider.requests[0].body["stream_options"] == {"include_usage": True}


def test_a_stream_with_tools_ends_with_the_response_put_together(provider: Any, openai_client: Make) -> None:  # LLM-02
    provider.stored("openai_stream_tool_calls")
    (piece, response), stats = asyncio.run(drain(openai_client(), tools=TOOLS))
    assert piece == "Looking it up."
    assert isinstance(response, LLMResponse)
    assert (response.content, response.finish_reason) == ("Looking it up.", "tool_calls")
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in response.tool_calls or ()
    ]
    assert calls == [("call_a", "get_weather", '{"location":"Paris"}'), ("call_b", "get_time", '{"zone":"UTC"}')]
    assert response.usage == stats[0].usage == {"prompt_tokens": 80, "completion_tokens": 40, "total_tokens": 120}


def test_streamed_reasoning_is_no_text_of_the_reply(provider: Any, openai_client: Make) -> None:
    provider.stored("deepseek_stream_reasoning")
    (piece, response), _ = asyncio.run(drain(openai_client(), tools=TOOLS))
    assert (piece, response.content, response.reasoning_content) == ("9.8", "9.8", "9.8 is greater.")
    assert response.usage["reasoning_tokens"] == 25


def test_stream_options_can_be_left_out_for_servers_that_refuse_them(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_stream")
    asyncio.run(drain(openai_client(stream_usage=False)))
    assert "stream_options" not in provider.requests[0].body


def test_an_error_inside_a_stream_is_raised_where_it_came(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_stream_error")
    pieces: list[object] = []

    async def read() -> None:
        async for piece in openai_client().stream(ASK):
            pieces.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(LLMRequestError, match="server_error") as caught:
        asyncio.run(read())
    assert pieces == ["Half"]
    assert (caught.value.status_code, caught.value.retryable) == (None, True)
    assert "quoted" not in str(caught.value)


def test_a_schema_is_sent_natively_and_strict_when_it_allows(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_structured")
    response = asyncio.run(openai_client().chat(ASK, output_schema=EVENT_SCHEMA))
    assert json.loads(response.content) == {"name": "Science Fair", "day": "Friday"}
    assert provider.requests[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "Calendar_Event",
            "strict": True,
            "schema": {**EVENT_SCHEMA, "additionalProperties": False},
        },
    }


def test_a_schema_outside_the_strict_subset_is_sent_as_it_is(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_structured")
    schema = {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}
    asyncio.run(openai_client().chat(ASK, output_schema=schema))
    described = provider.requests[0].body["response_format"]["json_schema"]
    assert described == {"name": "output", "strict": False, "schema": schema}


@pytest.mark.parametrize(
    ("mode", "schema", "sent"),
    [
        ("json_object", EVENT_SCHEMA, {"type": "json_object"}),
        ("none", EVENT_SCHEMA, None),
        ("json_schema", {"type": "array", "items": {"type": "string"}}, None),
    ],
)
def test_servers_that_know_less_are_asked_for_less(
    provider: Any, openai_client: Make, mode: str, schema: Any, sent: Any
) -> None:
    provider.stored("openai_structured")
    asyncio.run(openai_client(structured_output=mode).chat(ASK, output_schema=schema))
    assert provider.requests[0].body.get("response_format") == sent


def test_parameters_of_other_servers_reach_the_body(provider: Any, openai_client: Make) -> None:  # LLM-01
    provider.stored("openai_plain")
    asyncio.run(openai_client().chat(ASK, top_k=5, extra_body={"min_p": 0.1}))
    body = provider.requests[0].body
    assert (body["top_k"], body["min_p"]) == (5, 0.1)


def test_message_keys_of_other_providers_stay_here(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_plain")
    asyncio.run(openai_client().chat([{"role": "user", "content": "hi", "anthropic_content": [], "metadata": {}}]))
    assert provider.requests[0].body["messages"] == [{"role": "user", "content": "hi"}]


def test_max_tokens_goes_to_openai_under_its_new_name_and_to_others_under_the_old(
    provider: Any, openai_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        provider.stored("openai_plain")
    asyncio.run(openai_client().chat(ASK, max_tokens=9))
    asyncio.run(openai_client(max_tokens_parameter="max_completion_tokens").chat(ASK, max_tokens=9))
    old, new = (request.body for request in provider.requests)
    assert (old["max_tokens"], new["max_completion_tokens"]) == (9, 9)
    assert "max_tokens" not in new
    assert OpenAIClient("small", api_key="sk-made-up")._max_tokens_parameter == "max_completion_tokens"


def test_an_exhausted_quota_is_not_worth_another_try(provider: Any, openai_client: Make) -> None:  # ERR-02
    provider.stored("openai_error_quota")
    with pytest.raises(LLMRequestError, match="insufficient_quota") as caught:
        asyncio.run(openai_client().chat(ASK))
    assert (caught.value.status_code, caught.value.retryable) == (429, False)


def test_an_error_in_an_answer_with_status_200_is_an_error(provider: Any, openai_client: Make) -> None:  # ERR-02
    provider.stored("openrouter_error_in_200")
    with pytest.raises(LLMRequestError, match="HTTP 502") as caught:
        asyncio.run(openai_client(provider="openrouter").chat(ASK))
    assert (caught.value.provider, caught.value.status_code, caught.value.retryable) == ("openrouter", 502, True)
    assert "quoted" not in str(caught.value)


def test_a_bad_request_names_code_and_parameter(provider: Any, openai_client: Make) -> None:  # ERR-02
    provider.stored("openai_error_400")
    with pytest.raises(LLMRequestError) as caught:
        asyncio.run(openai_client().chat(ASK))
    expected = (
        "openai, asked for model 'small', refused the request (HTTP 400, invalid_value, parameter messages[1].role, "
        "request req_0123456789abcdef): the request is not valid for this model"
    )
    assert str(caught.value) == expected


def test_a_missing_key_is_said_when_the_client_is_made(provider: Any) -> None:
    with pytest.raises(LLMConfigError, match="pass api_key or set OPENAI_API_KEY"):
        OpenAIClient("small")
    with pytest.raises(LLMConfigError, match="OPENAI_API_KEY"):
        OpenAIClient("small", base_url="https://models.example/v1")


def test_a_server_on_this_machine_needs_no_key(provider: Any, openai_client: Make) -> None:
    provider.stored("openai_plain")
    asyncio.run(openai_client(api_key=None).chat(ASK))
    assert provider.requests[0].headers["authorization"] == "Bearer none"


def test_a_missing_package_is_said_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(LLMConfigError, match=r"clone of Tracehold: pip install '\.\[openai\]'"):
        OpenAIClient("small", api_key="sk-made-up")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"model": ""}, "name of a model"), ({"structured_output": "xml"}, "json_schema, json_object, none, not 'xml'")],
)
def test_an_argument_that_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LLMConfigError, match=message):
        OpenAIClient(**{"model": "small", "api_key": "sk-made-up"} | options)


def test_another_client_of_the_sdk_can_be_used(provider: Any) -> None:
    import openai  # noqa: PLC0415 - an extra

    provider.stored("openai_plain")

    def azure() -> openai.AsyncAzureOpenAI:
        return openai.AsyncAzureOpenAI(
            api_key="sk-made-up", api_version="2025-01-01", azure_endpoint=provider.url, max_retries=0
        )

    response = asyncio.run(OpenAIClient("small", make_client=azure).chat(ASK))
    assert response.content.startswith("Hello!")
    assert provider.requests[0].path.startswith("/openai/deployments/small/chat/completions?api-version=")
