"""The scripted model."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.llm import LLMClient, LLMResponse, StreamStats
from tracehold.testing import ScriptedLLM, ScriptExhausted, tool_call_reply, tool_calls_reply

ASK = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "add"}}]


async def drain(llm: ScriptedLLM, **kwargs: Any) -> list[Any]:
    return [item async for item in llm.stream(ASK, **kwargs)]


def test_it_is_a_model_client() -> None:  # LLM-03
    llm = ScriptedLLM([], model="m", context_window=10, max_output_tokens=5, protocol="anthropic")
    assert isinstance(llm, LLMClient)
    said = (llm.model, llm.context_window, llm.max_output_tokens, llm.protocol, llm.supports_function_calling)
    assert said == ("m", 10, 5, "anthropic", True)


def test_replies_come_in_order_and_a_response_is_given_back_as_it_is() -> None:  # LLM-06
    whole = LLMResponse("two", finish_reason="length")
    llm = ScriptedLLM(["one", whole], usage={"total_tokens": 3})

    async def ask_twice() -> list[LLMResponse]:
        return [await llm.chat(ASK), await llm.chat(ASK)]

    first, second = asyncio.run(ask_twice())
    assert (first.content, first.finish_reason, first.model) == ("one", "stop", "scripted")
    assert first.usage == {"total_tokens": 3}
    assert second is whole


def test_an_exhausted_script_says_so() -> None:  # LLM-06
    llm = ScriptedLLM(["one"])
    asyncio.run(llm.chat(ASK))
    with pytest.raises(ScriptExhausted, match="has 1 replies, and call 2 came"):
        asyncio.run(llm.chat(ASK))
    with pytest.raises(AssertionError, match="call 3 came"):
        asyncio.run(drain(llm))


def test_a_tool_call_reply_asks_for_the_call() -> None:  # LLM-06, LLM-04
    response = asyncio.run(ScriptedLLM([tool_call_reply("add", {"a": "ü"}, call_id="c1")]).chat(ASK, tools=TOOLS))
    assert response.finish_reason == "tool_calls"
    assert response.tool_calls == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": "ü"}'}}
    ]


def test_several_calls_of_one_turn_get_ids_of_their_own_and_broken_arguments_stay() -> None:  # LLM-06
    calls = tool_calls_reply(("add", {}), ("add", '{"a"'), ("add", {}, "mine"), content="two").tool_calls or []
    assert len({call["id"] for call in calls}) == 3
    assert calls[2]["id"] == "mine"
    assert [call["function"]["arguments"] for call in calls] == ["{}", '{"a"', "{}"]


@given(st.text(max_size=40), st.integers(1, 9))
def test_a_stream_cuts_a_reply_into_pieces_that_make_it_up_again(words: str, size: int) -> None:  # LLM-06
    pieces = asyncio.run(drain(ScriptedLLM([words], piece_chars=size)))
    assert "".join(pieces) == words
    assert all(0 < len(piece) <= size for piece in pieces)
    assert len(pieces) == -(-len(words) // size)


def test_a_stream_with_tools_ends_with_the_response_and_one_without_does_not() -> None:  # LLM-02
    reply = tool_call_reply("add", {}, content="adding")
    llm = ScriptedLLM([reply, reply])
    *pieces, last = asyncio.run(drain(llm, tools=TOOLS))
    assert "".join(pieces) == "adding"
    assert last is reply
    assert all(isinstance(piece, str) for piece in asyncio.run(drain(llm)))


def test_stats_come_before_the_last_item() -> None:  # LLM-02
    stats: list[StreamStats] = []

    async def read() -> list[int]:
        stream = ScriptedLLM(["abc"], usage={"total_tokens": 7}).stream(ASK, on_stats=stats.append, tools=TOOLS)
        return [len(stats) async for _ in stream]

    assert asyncio.run(read()) == [0, 1]
    assert (stats[0].usage, stats[0].finish_reason, stats[0].model) == ({"total_tokens": 7}, "stop", "scripted")
    assert type(stats[0].latency_ms) is int


@pytest.mark.parametrize("reply", [ConnectionError("gone"), ConnectionError])
def test_an_exception_is_raised(reply: Any) -> None:  # LLM-06
    llm = ScriptedLLM([reply, reply])
    with pytest.raises(ConnectionError):
        asyncio.run(llm.chat(ASK))
    stats: list[StreamStats] = []
    with pytest.raises(ConnectionError):
        asyncio.run(drain(llm, on_stats=stats.append))
    assert stats == []


def test_an_exception_among_pieces_breaks_the_stream_there() -> None:
    llm = ScriptedLLM([["He", "llo", ConnectionError("gone")], ["He", "llo"]])
    heard: list[object] = []
    stats: list[StreamStats] = []

    async def read() -> None:
        async for piece in llm.stream(ASK, on_stats=stats.append):
            heard.append(piece)  # noqa: PERF401 - what came before the failure counts

    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(read())
    assert heard == ["He", "llo"]
    assert [told.usage for told in stats] == [None]
    assert asyncio.run(llm.chat(ASK)).content == "Hello"


def test_a_stream_that_is_left_tells_its_stats() -> None:
    stats: list[StreamStats] = []

    async def leave() -> None:
        stream = ScriptedLLM(["a long reply"]).stream(ASK, on_stats=stats.append)
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())
    assert [told.finish_reason for told in stats] == [None]


def test_a_reply_may_depend_on_the_messages_also_asynchronously() -> None:  # LLM-06
    async def later(messages: list[dict[str, Any]]) -> str:
        await asyncio.sleep(0)
        return messages[-1]["content"] + "!"

    llm = ScriptedLLM([lambda messages: messages[0]["role"], later])
    assert asyncio.run(llm.chat(ASK)).content == "user"
    assert asyncio.run(llm.chat(ASK)).content == "hi!"


def test_calls_are_recorded_as_they_were() -> None:  # LLM-06
    llm = ScriptedLLM(["a", "b"])
    messages = [{"role": "user", "content": ["x"]}]
    asyncio.run(llm.chat(messages, tools=TOOLS, temperature=0))
    messages[0]["content"] = "changed since"
    asyncio.run(drain(llm))
    first, second = llm.calls
    assert first.messages == [{"role": "user", "content": ["x"]}]
    assert (first.kwargs, first.tools, first.streamed) == ({"tools": TOOLS, "temperature": 0}, TOOLS, False)
    assert (second.kwargs, second.tools, second.streamed) == ({}, None, True)


def test_replies_go_to_concurrent_calls_of_several_threads_once_each() -> None:  # LLM-06
    llm = ScriptedLLM(str(number) for number in range(400))
    heard: list[str] = []

    async def ask_many() -> None:
        replies = await asyncio.gather(*(llm.chat(ASK) for _ in range(50)))
        heard.extend(reply.content for reply in replies)

    threads = [threading.Thread(target=lambda: asyncio.run(ask_many())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard, key=int) == [str(number) for number in range(400)]
    assert len(llm.calls) == 400


def test_a_script_may_have_no_end() -> None:
    llm = ScriptedLLM(itertools.repeat("ok"))
    assert [asyncio.run(llm.chat(ASK)).content for _ in range(3)] == ["ok"] * 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScriptedLLM("one reply"), "not one text"),
        (lambda: asyncio.run(ScriptedLLM([7]).chat(ASK)), "not int"),  # type: ignore[list-item]
    ],
)
def test_a_script_that_is_none_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_pieces_have_at_least_one_character() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ScriptedLLM([], piece_chars=0)


def test_a_tool_call_reply_is_json_when_it_was_given_a_dictionary() -> None:  # LLM-04
    (call,) = tool_call_reply("add", {"nested": [1, {"b": None}]}).tool_calls or ()
    assert json.loads(call["function"]["arguments"]) == {"nested": [1, {"b": None}]}
