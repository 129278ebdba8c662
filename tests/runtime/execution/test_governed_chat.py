"""`governed_chat`: a model call beside the harness, under the same policy."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tracehold import Tracer
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy, check_limits, governed_chat
from tracehold.llm.protocol import LLMResponse

Begin = Callable[..., Any]
MESSAGES = [{"role": "user", "content": "hello"}]


class Model:
    """A duck-typed client (LLM-03)."""

    model = "client-model"

    def __init__(self, reply: Any = None, tokens: int | None = 10) -> None:
        usage = None if tokens is None else {"total_tokens": tokens}
        self.reply = reply or LLMResponse("hi", finish_reason="stop", model="m-1", usage=usage)
        self.calls: list[Any] = []

    async def chat(self, messages: Any, **options: Any) -> Any:
        self.calls.append((messages, options))
        await asyncio.sleep(0)
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply(messages) if callable(self.reply) else self.reply


def chat(model: Model, **options: Any) -> Any:
    return asyncio.run(governed_chat(model, MESSAGES, **options))


def test_outside_a_run_it_calls_and_returns() -> None:  # EXEC-16
    model = Model()
    assert chat(model) is model.reply
    assert model.calls == [(MESSAGES, {})]


def test_keywords_reach_the_client_unchanged() -> None:  # EXEC-17
    model, schema = Model(), {"type": "object"}
    chat(model, temperature=0, output_schema=schema, tools=[])
    assert model.calls[0][1] == {"temperature": 0, "output_schema": schema, "tools": []}
    assert model.calls[0][1]["output_schema"] is schema


def test_tracer_and_origin_are_keywords_of_its_own() -> None:  # EXEC-15, EXEC-17
    model = Model()
    chat(model, tracer=Tracer(), origin="memory")
    assert model.calls[0][1] == {}
    assert inspect.signature(governed_chat).parameters["origin"].default == ""


def test_one_event_says_what_it_was() -> None:  # EXEC-15
    tracer = Tracer()
    chat(Model(), tracer=tracer, origin="memory.summary")
    (event,) = tracer.events
    assert (event["type"], event["origin"], event["model"]) == ("llm_call", "memory.summary", "m-1")
    assert event["usage"] == {"total_tokens": 10}
    assert type(event["latency_ms"]) is int
    assert event["has_tool_calls"] is False
    assert event["finish_reason"] == "stop"


def test_the_event_falls_back_to_the_clients_model() -> None:  # EXEC-15
    tracer = Tracer()
    chat(Model(LLMResponse("hi")), tracer=tracer)
    assert tracer.events[0]["model"] == "client-model"


def test_inside_a_run_the_event_is_its_next_step(begin: Begin) -> None:  # EXEC-15, EXEC-11
    run_id, tracer = begin(), Tracer()
    chat(Model(), tracer=tracer)
    chat(Model(), tracer=tracer)
    assert [(event["run_id"], event["step_index"]) for event in tracer.events] == [(run_id, 1), (run_id, 2)]


def test_it_counts_against_the_run(begin: Begin) -> None:  # EXEC-16, POL-03
    begin(RunPolicy(max_llm_calls=2))
    model = Model()
    chat(model)
    chat(model)
    with pytest.raises(RunLimitExceeded):
        chat(model)
    assert len(model.calls) == 2


def test_the_order_is_check_call_usage_event_token_check(begin: Begin) -> None:  # EXEC-14
    order: list[str] = []

    def answer(_: Any) -> LLMResponse:
        order.append("chat")
        return LLMResponse("hi", usage={"total_tokens": 9})

    class Recording:
        def emit(self, event: dict[str, Any]) -> None:
            with pytest.raises(RunLimitExceeded):  # its tokens are in the sum already
                check_limits("llm")
            order.append("event")

    begin(RunPolicy(max_tokens=8, cancel=lambda: order.append("check") and False))
    with pytest.raises(RunLimitExceeded) as stopped:
        chat(Model(answer), tracer=Recording())
    assert stopped.value.rule == "max_tokens"
    assert order[:2] == ["check", "chat"]
    assert [word for word in order if word != "check"] == ["chat", "event"]


def test_the_deadline_is_looked_at_after_the_call(clock: Any, begin_timed: Begin) -> None:  # EXEC-14, POL-07
    begin_timed(RunPolicy(deadline_seconds=5))
    tracer = Tracer()

    def late(_: Any) -> LLMResponse:
        clock.now += 6
        return LLMResponse("hi")

    with pytest.raises(RunLimitExceeded) as stopped:
        chat(Model(late), tracer=tracer)
    assert stopped.value.rule == "deadline_seconds"
    assert len(tracer.events) == 1


def test_tokens_that_meet_the_limit_exactly_are_fine(begin: Begin) -> None:  # EXEC-14, POL-06
    begin(RunPolicy(max_tokens=10))
    assert chat(Model()).content == "hi"
    with pytest.raises(RunLimitExceeded):
        chat(Model())


def test_a_stopped_call_is_not_made_and_is_recorded(begin: Begin) -> None:  # EXEC-14, DEC-01
    tracer, model = Tracer(), Model()
    begin(RunPolicy(cancel=lambda: True))
    with pytest.raises(RunCancelled):
        chat(model, tracer=tracer, origin="memory")
    assert model.calls == []
    (event,) = tracer.events
    assert (event["type"], event["status"], event["origin"]) == ("llm_call", "cancelled", "memory")
    assert event["reason"]


def test_calls_issued_together_do_not_pass_the_limit(begin: Begin) -> None:  # EXEC-16, POL-03
    begin(RunPolicy(max_llm_calls=2))
    model = Model()

    async def together() -> list[Any]:
        return await asyncio.gather(*(governed_chat(model, MESSAGES) for _ in range(8)), return_exceptions=True)

    outcomes = asyncio.run(together())
    assert len(model.calls) == 2
    assert sum(isinstance(outcome, RunLimitExceeded) for outcome in outcomes) == 6


def test_an_error_of_the_client_comes_through_and_counts(begin: Begin) -> None:  # EXEC-14, POL-03
    begin(RunPolicy(max_llm_calls=1))
    broken, tracer = LookupError("down"), Tracer()
    with pytest.raises(LookupError) as raised:
        chat(Model(broken), tracer=tracer)
    assert raised.value is broken
    assert (tracer.events[0]["status"], tracer.events[0]["error_type"]) == ("error", "LookupError")
    with pytest.raises(RunLimitExceeded):
        check_limits("llm")


def test_unknown_usage_counts_the_call_only(begin: Begin) -> None:  # EXEC-14, HAR-29
    begin(RunPolicy(max_tokens=1, max_llm_calls=2))
    chat(Model(tokens=None))
    chat(Model(tokens=None))
    with pytest.raises(RunLimitExceeded) as stopped:
        chat(Model(tokens=None))
    assert stopped.value.rule == "max_llm_calls"


def test_without_a_tracer_no_event_is_built(begin: Begin) -> None:  # EXEC-15
    begin()
    chat(Model())
    tracer = Tracer()
    chat(Model(), tracer=tracer)
    assert tracer.events[0]["step_index"] == 1  # the untraced call took no step
