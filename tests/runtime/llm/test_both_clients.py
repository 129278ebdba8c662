"""What both clients promise alike: failures, retries, cut streams, event loops, secrets."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from tracehold import Agent, Tracer, tool
from tracehold.core.errors import LLMError, LLMRequestError, LLMResponseError
from tracehold.llm import LLMClient, StreamStats

ASK = [{"role": "user", "content": "a prompt nobody may read in a log"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
KEY = "sk-made-up-secret"
Either = tuple[str, Callable[..., Any]]


async def drain(client: Any, **kwargs: Any) -> list[Any]:
    return [item async for item in client.stream(ASK, **kwargs)]


def failure_of(awaitable: Any, kind: type[LLMError] = LLMRequestError) -> Any:
    with pytest.raises(kind, match="small") as caught:
        asyncio.run(awaitable)
    return caught.value


def test_both_are_model_clients_and_say_what_they_are(either: Either) -> None:  # LLM-03
    name, make = either
    client = make(context_window=200_000, max_output_tokens=8_000)
    assert isinstance(client, LLMClient)
    assert (client.model, client.protocol) == ("small", name)
    assert (client.context_window, client.max_output_tokens) == (200_000, 8_000)
    assert client.supports_function_calling is True


def test_what_is_not_known_of_a_model_is_none(either: Either) -> None:  # LLM-03
    client = either[1]()
    assert (client.context_window, client.max_output_tokens) == (None, None)


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (401, False), (429, True), (500, True)])
def test_a_refusal_tells_provider_model_status_and_whether_to_try_again(
    provider: Any, either: Either, status: int, retryable: bool
) -> None:  # ERR-02
    name, make = either
    provider.stored(f"{name}_error_{status}")
    error = failure_of(make().chat(ASK))
    assert (error.provider, error.model, error.retryable) == (name, "small", retryable)
    assert error.status_code == (529 if (name, status) == ("anthropic", 500) else status)


def test_a_429_is_tried_again_after_the_time_the_provider_named(provider: Any, either: Either) -> None:
    name, make = either
    provider.stored(f"{name}_error_429")
    provider.stored(f"{name}_plain")
    assert asyncio.run(make(max_retries=1).chat(ASK)).content
    first, second = provider.requests
    # The SDKs' own first pause is at most half a second.
    assert second.arrived_at - first.arrived_at >= 1.1


def test_retries_end(provider: Any, either: Either) -> None:
    name, make = either
    for _ in range(3):
        provider.stored(f"{name}_error_500")
    error = failure_of(make(max_retries=2).chat(ASK))
    assert (error.retryable, len(provider.requests)) == (True, 3)


def test_a_server_that_is_not_there_is_a_retryable_failure(either: Either) -> None:
    error = failure_of(either[1](base_url="http://127.0.0.1:9").chat(ASK))
    assert (error.status_code, error.retryable) == (None, True)


def test_a_server_that_does_not_answer_in_time_is_a_retryable_failure(provider: Any, either: Either) -> None:
    hold = threading.Event()
    provider.silence(hold)
    error = failure_of(either[1](timeout=0.2).chat(ASK))
    hold.set()
    assert "timeout" in str(error)
    assert (error.status_code, error.retryable) == (None, True)


@pytest.mark.parametrize("body", [b"<html>no such page</html>", b'{"choices": [', b"[1, 2]", b"{}", b'"text"', b""])
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
def test_an_answer_that_is_no_reply_is_told_from_a_failed_request(
    provider: Any, either: Either, body: bytes, content_type: str
) -> None:
    provider.raw(body, content_type)
    error = failure_of(either[1]().chat(ASK), LLMResponseError)
    assert "small" in str(error)
    assert "no such page" not in str(error)


def test_no_error_log_or_repr_shows_the_key_or_the_prompt(
    provider: Any, either: Either, caplog: pytest.LogCaptureFixture
) -> None:
    name, make = either
    caplog.set_level(logging.INFO)
    shown = [repr(make()), str(vars(make()))]
    for status in (400, 401, 429, 500):
        provider.json({"error": {"message": f"{KEY} {ASK}", "type": KEY, "code": KEY, "param": KEY}}, status=status)
        error = failure_of(make().chat(ASK))
        shown += [repr(error), "".join(traceback.format_exception(error)), str(vars(error))]
    provider.events([{"type": "error", "error": {"message": f"{KEY} {ASK}", "type": KEY}}], named=name == "anthropic")
    error = failure_of(drain(make()))
    shown += [repr(error), "".join(traceback.format_exception(error)), caplog.text]
    assert [text for text in shown if KEY in text or "nobody may read" in text] == []


def test_the_providers_own_words_stay_reachable_for_a_person(provider: Any, either: Either) -> None:
    name, make = either
    provider.stored(f"{name}_error_400")
    error = failure_of(make().chat(ASK))
    assert "the whole prompt, quoted" in str(error.__context__)
    assert error.__suppress_context__


def test_characters_split_between_packets_arrive_whole(provider: Any, either: Either) -> None:  # LLM-02
    name, make = either
    provider.stored(f"{name}_stream", split=True)
    assert "".join(asyncio.run(drain(make()))) == "Grüße, 世界 🌍!"


@pytest.mark.parametrize("cut", [True, False])
def test_a_stream_that_ends_before_its_reply_is_a_failure(provider: Any, either: Either, cut: bool) -> None:
    name, make = either
    provider.stored(f"{name}_stream", keep=4 if name == "anthropic" else 2, cut=cut)
    stats: list[StreamStats] = []
    pieces: list[str] = []

    async def read() -> None:
        async for piece in make().stream(ASK, on_stats=stats.append, tools=TOOLS):
            pieces.append(piece)  # noqa: PERF401 - what came before the failure counts

    error = failure_of(read())
    assert (error.retryable, error.status_code) == (True, None)
    assert pieces == ["Grüße"]
    (told,) = stats
    assert told.finish_reason is None
    assert "total_tokens" not in (told.usage or {})


def test_a_stream_is_not_opened_when_the_provider_refuses(provider: Any, either: Either) -> None:
    name, make = either
    provider.stored(f"{name}_error_429")
    stats: list[StreamStats] = []
    assert failure_of(drain(make(), on_stats=stats.append)).status_code == 429
    assert stats == []


def test_leaving_a_stream_closes_its_connection_and_tells_its_stats(provider: Any, either: Either) -> None:  # LLM-02
    name, make = either
    hold = threading.Event()
    answer = provider.stored(f"{name}_stream", keep=4 if name == "anthropic" else 2, hold=hold)
    stats: list[StreamStats] = []

    async def leave() -> None:
        stream = make().stream(ASK, on_stats=stats.append)
        assert await anext(stream) == "Grüße"
        await stream.aclose()
        assert await asyncio.to_thread(answer.gone.wait, 10)

    asyncio.run(leave())
    assert len(stats) == 1


def test_a_cancelled_stream_closes_its_connection(provider: Any, either: Either) -> None:
    name, make = either
    answer = provider.stored(f"{name}_stream", keep=4 if name == "anthropic" else 2, hold=threading.Event())
    stats: list[StreamStats] = []

    async def cancel() -> None:
        started = asyncio.Event()

        async def read() -> None:
            async for _ in make().stream(ASK, on_stats=stats.append):
                started.set()

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(answer.gone.wait, 10)

    asyncio.run(cancel())
    assert len(stats) == 1


def test_what_the_consumer_throws_in_comes_out_as_the_same_object(provider: Any, either: Either) -> None:
    name, make = either
    provider.stored(f"{name}_stream")
    thrown = RuntimeError("mine")

    async def throw() -> None:
        stream = make().stream(ASK)
        await anext(stream)
        await stream.athrow(thrown)

    with pytest.raises(RuntimeError, match="mine") as caught:
        asyncio.run(throw())
    assert caught.value is thrown


def test_one_client_serves_event_loops_one_after_another(provider: Any, either: Either) -> None:
    name, make = either
    client = make()
    for _ in range(3):
        provider.stored(f"{name}_plain")
        assert "Grüße" in asyncio.run(client.chat(ASK)).content
    # A connection left open with a dead loop would warn here, and warnings are errors.
    gc.collect()
    assert len(provider.connections) == 3


def test_one_client_serves_event_loops_of_several_threads_at_once(provider: Any, either: Either) -> None:
    name, make = either
    client = make()
    replies: list[str] = []
    for _ in range(4):
        provider.stored(f"{name}_plain")
    threads = [threading.Thread(target=lambda: replies.append(asyncio.run(client.chat(ASK)).content)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 4


def test_calls_of_one_loop_share_a_connection_until_it_is_closed(provider: Any, either: Either) -> None:
    name, make = either
    for _ in range(3):
        provider.stored(f"{name}_plain")

    async def three_calls() -> None:
        async with make() as client:
            await client.chat(ASK)
            await client.chat(ASK)
        assert len(provider.connections) == 1
        await client.chat(ASK)

    asyncio.run(three_calls())
    assert len(provider.connections) == 2


def test_text_that_utf8_does_not_have_is_sent_with_question_marks(provider: Any, either: Either) -> None:
    name, make = either
    provider.stored(f"{name}_plain")
    asyncio.run(make().chat([{"role": "user", "content": "a\ud800b\x00c"}]))
    content = provider.requests[0].body["messages"][0]["content"]
    assert (content if name == "openai" else content[0]["text"]) == "a?b\x00c"


def test_the_latency_is_in_whole_milliseconds(provider: Any, either: Either) -> None:  # LLM-04
    name, make = either
    provider.stored(f"{name}_plain")
    latency = asyncio.run(make().chat(ASK)).latency_ms
    assert type(latency) is int
    assert latency >= 0


def test_an_agent_calls_a_tool_and_answers_through_the_client(provider: Any, either: Either) -> None:  # LLM-04
    name, make = either
    provider.stored({"openai": "deepseek_reasoning_tool_call", "anthropic": "anthropic_thinking_tool_use"}[name])
    provider.stored(f"{name}_plain")

    def get_date() -> str:
        """Tell the date."""
        return "2026-01-02"

    def get_weather(location: str) -> str:
        """Tell the weather."""
        return f"rain in {location}"

    tracer = Tracer()
    agent = Agent("guide", make(context_window=100_000), tools=[tool(get_date), tool(get_weather)], tracer=tracer)
    assert "Grüße" in str(agent.run("What do I need?"))
    kinds = [event["type"] for event in tracer.events if event["type"] in {"llm_call", "tool_call"}]
    assert kinds == ["llm_call", "tool_call", "llm_call"]
    result, thought = ("2026-01-02", "reasoning_content") if name == "openai" else ("rain in Paris", "signature")
    assert result in str(provider.requests[1].body["messages"][-1])
    assert thought in str(provider.requests[1].body["messages"][-2])
