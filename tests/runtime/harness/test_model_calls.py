"""`acall_llm`: one governed, recorded call of the model."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import Any

import pytest
from harness_parts import MESSAGES, Clock, Emitter, HookLog, Model, in_run, of, only, reply, run, soon
from tracehold import Tracer
from tracehold.context import WindowBudgetConfig
from tracehold.core.clock import now_ns
from tracehold.core.errors import LLMRequestError, RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy, check_limits
from tracehold.governance.hooks import Hook
from tracehold.harness import Harness
from tracehold.llm.protocol import LLMResponse

TOOLS = [{"type": "function", "function": {"name": "t", "parameters": {}}}]


def call(model: Model, policy: RunPolicy | None = None, **options: Any) -> LLMResponse:
    async def once() -> LLMResponse:
        with in_run(policy):
            return await Harness(model, **options).acall_llm(MESSAGES)

    return run(once())


def test_the_clients_own_response_object_comes_back() -> None:  # HAR-10
    answer = reply("hi", raw=object())
    model = Model(answer)
    before = vars(answer).copy()
    assert run(Harness(model).acall_llm(MESSAGES)) is answer
    assert vars(answer) == before
    assert [asked.messages for asked in model.chats] == [MESSAGES]


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_are_not_sent_at_all(tools: Any) -> None:  # HAR-11
    model = Model()
    run(Harness(model).acall_llm(MESSAGES, tools=tools))
    assert model.chats[0].options == {}


def test_tools_reach_the_client() -> None:  # HAR-11
    model = Model()
    run(Harness(model).acall_llm(MESSAGES, tools=TOOLS))
    assert model.chats[0].options == {"tools": TOOLS}


def test_other_keywords_reach_the_client_unchanged() -> None:  # HAR-12
    model, stop = Model(), ["END"]
    run(Harness(model).acall_llm(MESSAGES, temperature=0, stop=stop, anything=None))
    assert model.chats[0].options == {"temperature": 0, "stop": stop, "anything": None}
    assert model.chats[0].options["stop"] is stop


def test_what_happens_around_a_call_has_one_order() -> None:  # HAR-13, HAR-18
    order: list[Any] = []

    class Recording:
        def emit(self, event: dict[str, Any]) -> None:
            if event["type"] != "llm_call" or event.get("status") == "limited":
                return
            with pytest.raises(RunLimitExceeded):  # the tokens of this very call are in the sum already
                check_limits("llm")
            order.append("event")

    def chat(_: Any) -> LLMResponse:
        order.append("chat")
        return reply(tokens=8)

    cancel = lambda: order.append("limits") and False  # noqa: E731 - a spy, read beside its use
    hook = HookLog(order)

    async def once() -> None:
        with in_run(RunPolicy(max_tokens=7, cancel=cancel)):
            with pytest.raises(RunLimitExceeded):
                await Harness(Model(chat), tracer=Recording(), hooks=[hook]).acall_llm(MESSAGES)
            order.append("raised")

    run(once())
    words = [entry if isinstance(entry, str) else entry[0] for entry in order]
    assert words[0] == "limits"
    assert [word for word in words if word != "limits"] == ["before_model", "chat", "event", "after_model", "raised"]


def test_the_deadline_is_looked_at_after_the_call_too() -> None:  # HAR-13, POL-07
    clock, hook, tracer = Clock(), HookLog(), Tracer()

    def late(_: Any) -> LLMResponse:
        clock.now += 10
        return reply()

    async def once() -> None:
        with in_run(RunPolicy(deadline_seconds=5), clock=clock), pytest.raises(RunLimitExceeded) as stopped:
            await Harness(Model(late), tracer=tracer, hooks=[hook]).acall_llm(MESSAGES)
        assert stopped.value.rule == "deadline_seconds"

    run(once())
    assert hook.names() == ["before_model", "after_model"]
    assert only(tracer, "llm_call")["usage"]["total_tokens"] == 10


STOPS = {
    "max_llm_calls": RunPolicy(max_llm_calls=1),
    "max_tokens": RunPolicy(max_tokens=10),
}


@pytest.mark.parametrize("rule", STOPS)
def test_a_reached_limit_stops_the_call_before_anything(rule: str) -> None:  # HAR-14, DEC-01
    model, hook, tracer = Model(), HookLog(), Tracer()
    harness = Harness(model, hooks=[hook], tracer=tracer)

    async def twice() -> None:
        with in_run(STOPS[rule]):
            await harness.acall_llm(MESSAGES)
            hook.fired.clear()
            with pytest.raises(RunLimitExceeded) as stopped:
                await harness.acall_llm(MESSAGES)
            assert stopped.value.rule == rule

    run(twice())
    assert len(model.chats) == 1
    assert hook.fired == []
    first, stopped = of(tracer, "llm_call")
    assert first.get("status") != "limited"
    assert (stopped["status"], stopped["decision"], stopped["rule"]) == ("limited", "limited", rule)
    assert stopped["reason"]
    assert "usage" not in stopped or stopped["usage"] is None
    assert "latency_ms" not in stopped


def test_a_cancel_stops_the_call_and_is_recorded() -> None:  # HAR-14, POL-08, DEC-01
    model, hook, tracer = Model(), HookLog(), Tracer()
    with pytest.raises(RunCancelled):
        call(model, RunPolicy(cancel=lambda: True), hooks=[hook], tracer=tracer)
    assert model.chats == []
    assert hook.fired == []
    event = only(tracer, "llm_call")
    assert (event["status"], event["decision"], event["rule"]) == ("cancelled", "cancelled", "cancel")
    assert event["reason"]


def test_a_passed_deadline_stops_the_call_before_it_is_made() -> None:  # POL-07
    clock, model, tracer = Clock(), Model(), Tracer()

    async def once() -> None:
        with in_run(RunPolicy(deadline_seconds=5), clock=clock):
            clock.now += 6
            with pytest.raises(RunLimitExceeded):
                await Harness(model, tracer=tracer).acall_llm(MESSAGES)

    run(once())
    assert model.chats == []
    assert only(tracer, "llm_call")["rule"] == "deadline_seconds"


def test_a_cancel_callback_that_raises_stops_the_call_and_is_recorded(tracer: Tracer) -> None:  # DEC-01
    def broken() -> bool:
        raise LookupError("no switch")

    model = Model()
    with pytest.raises(LookupError):
        call(model, RunPolicy(cancel=broken), tracer=tracer)
    assert model.chats == []
    assert only(tracer, "llm_call")["status"] == "error"


def test_stopped_calls_count_nothing() -> None:  # HAR-14, POL-12
    stop = True
    harness = Harness(Model())

    async def often() -> None:
        nonlocal stop
        with in_run(RunPolicy(max_llm_calls=1, cancel=lambda: stop)):
            for _ in range(3):
                with pytest.raises(RunCancelled):
                    await harness.acall_llm(MESSAGES)
            stop = False
            await harness.acall_llm(MESSAGES)
            with pytest.raises(RunLimitExceeded):
                await harness.acall_llm(MESSAGES)

    run(often())


def test_a_completed_call_is_one_event(tracer: Tracer) -> None:  # HAR-15, HAR-16
    answer = reply(model="m-7", usage={"total_tokens": 9, "prompt_tokens": 4}, finish_reason="stop")
    run(Harness(Model(answer), tracer=tracer).acall_llm(MESSAGES))
    event = only(tracer, "llm_call")
    assert event["model"] == "m-7"
    assert event["usage"] == {"total_tokens": 9, "prompt_tokens": 4}
    assert type(event["latency_ms"]) is int
    assert event["latency_ms"] >= 0
    assert event["has_tool_calls"] is False
    assert event["finish_reason"] == "stop"
    assert len(tracer.events) == 1


def test_the_event_falls_back_to_the_clients_model(tracer: Tracer) -> None:  # HAR-15
    run(Harness(Model(reply(model="")), tracer=tracer).acall_llm(MESSAGES))
    assert only(tracer, "llm_call")["model"] == "client-model"


@pytest.mark.parametrize(("tool_calls", "said"), [(None, False), ([], False), ([{"id": "1"}], True)])
def test_the_event_says_whether_tools_are_wanted(tracer: Tracer, tool_calls: Any, said: bool) -> None:  # HAR-15
    run(Harness(Model(reply(tool_calls=tool_calls)), tracer=tracer).acall_llm(MESSAGES))
    assert only(tracer, "llm_call")["has_tool_calls"] is said


def test_inside_a_run_the_event_says_which_and_where_in_it() -> None:  # HAR-16, HAR-07
    events: list[dict[str, Any]] = []
    harness = Harness(Model(), tracer=Emitter(events))

    async def twice() -> str:
        with in_run() as run_id:
            await harness.acall_llm(MESSAGES)
            await harness.acall_llm(MESSAGES)
            return run_id

    run_id = run(twice())
    assert [event["run_id"] for event in events] == [run_id, run_id]
    assert [event["step_index"] for event in events] == [1, 2]


def test_outside_a_run_the_event_claims_no_run() -> None:  # HAR-16
    events: list[dict[str, Any]] = []
    run(Harness(Model(), tracer=Emitter(events)).acall_llm(MESSAGES))
    assert "run_id" not in events[0]
    assert "step_index" not in events[0]


def test_a_slow_hook_does_not_lengthen_the_call(tracer: Tracer) -> None:  # HAR-17, DEC-15
    marks: list[int] = []

    class Slow(Hook):
        async def before_model(self, messages: Any) -> None:
            await asyncio.sleep(0.01)
            marks.append(now_ns())

        async def after_model(self, response: Any) -> None:
            marks.append(now_ns())
            await asyncio.sleep(0.01)

    run(Harness(Model(), tracer=tracer, hooks=[Slow()]).acall_llm(MESSAGES))
    event = only(tracer, "llm_call")
    begun, ended = marks
    assert begun <= event["started_at_ns"]
    assert event["started_at_ns"] + event["duration_ns"] <= ended
    assert event["latency_ms"] == event["duration_ns"] // 1_000_000


def test_a_call_that_overshoots_counts_and_then_stops_the_run() -> None:  # HAR-18, POL-06
    tracer = Tracer()
    harness = Harness(Model(reply(tokens=50)), tracer=tracer)

    async def overshoot() -> None:
        with in_run(RunPolicy(max_tokens=40)):
            with pytest.raises(RunLimitExceeded, match="50"):
                await harness.acall_llm(MESSAGES)
            with pytest.raises(RunLimitExceeded):  # a tool that would come next does not run
                check_limits("tool")

    run(overshoot())
    (event,) = of(tracer, "llm_call")
    assert event["usage"]["total_tokens"] == 50


def test_a_call_that_meets_the_token_limit_exactly_is_fine() -> None:  # HAR-18, POL-06
    assert call(Model(reply(tokens=40)), RunPolicy(max_tokens=40)).content == "fine"


def test_the_clients_exception_comes_through_as_the_same_object(tracer: Tracer) -> None:  # HAR-19
    broken, hook = LLMRequestError("down", status_code=503), HookLog()
    with pytest.raises(LLMRequestError) as raised:
        call(Model(broken), tracer=tracer, hooks=[hook])
    assert raised.value is broken
    assert hook.names() == ["before_model"]
    event = only(tracer, "llm_call")
    assert (event["status"], event["error_type"]) == ("error", "LLMRequestError")
    assert event["model"] == "client-model"


@pytest.mark.parametrize(
    "answer", [None, "a text", {"content": "x"}, object()], ids=lambda answer: type(answer).__name__
)
def test_a_client_that_gives_back_no_response_does_not_go_unseen(answer: Any, tracer: Tracer) -> None:  # DEC-01
    class Odd(Model):
        async def chat(self, messages: Any, **_: Any) -> Any:
            return answer

    async def counted() -> None:
        with in_run(RunPolicy(max_llm_calls=1)):
            with contextlib.suppress(Exception):
                await Harness(Odd(), tracer=tracer).acall_llm(MESSAGES)
            with pytest.raises(RunLimitExceeded):
                check_limits("llm")

    run(counted())
    assert len(of(tracer, "llm_call")) == 1


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_an_exception_that_cannot_be_printed_comes_through_too(tracer: Tracer) -> None:  # HAR-19
    broken = UnprintableError()
    with pytest.raises(UnprintableError) as raised:
        call(Model(broken), tracer=tracer)
    assert raised.value is broken
    assert only(tracer, "llm_call")["error_type"] == "UnprintableError"


def test_a_failed_call_counts() -> None:  # POL-03: a call is counted when it starts
    harness = Harness(Model(LookupError(), LookupError()))

    async def thrice() -> None:
        with in_run(RunPolicy(max_llm_calls=2)):
            for _ in range(2):
                with pytest.raises(LookupError):
                    await harness.acall_llm(MESSAGES)
            with pytest.raises(RunLimitExceeded):
                await harness.acall_llm(MESSAGES)

    run(thrice())


def test_a_call_cancelled_from_outside_is_one_cancelled_event(tracer: Tracer) -> None:  # DEC-01
    async def cancelled() -> None:
        started = asyncio.Event()

        async def hang() -> LLMResponse:
            started.set()
            await asyncio.Event().wait()
            raise AssertionError

        harness = Harness(Model(lambda _: hang()), tracer=tracer)
        with in_run():
            task = asyncio.create_task(harness.acall_llm(MESSAGES))
            await soon(started.wait())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(cancelled())
    assert only(tracer, "llm_call")["status"] == "cancelled"


@pytest.mark.parametrize("reason", ["length", "max_tokens", "model_context_window_exceeded"])
def test_a_reply_cut_short_is_warned_about_once(reason: str, caplog: pytest.LogCaptureFixture) -> None:  # HAR-20
    with caplog.at_level(logging.WARNING):
        run(Harness(Model(reply(finish_reason=reason, model="m-9"))).acall_llm(MESSAGES))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert reason in record.getMessage()
    assert "m-9" in record.getMessage()


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "end_turn", None, ""])
def test_other_endings_are_not_warned_about(reason: Any, caplog: pytest.LogCaptureFixture) -> None:  # HAR-20
    with caplog.at_level(logging.WARNING):
        run(Harness(Model(reply(finish_reason=reason))).acall_llm(MESSAGES))
    assert caplog.records == []


RESERVES = [
    ({"context_window": 100_000}, 4096),
    ({"context_window": 1000}, 500),
    ({"context_window": 100_000, "max_output_tokens": 300}, 300),
]


@pytest.mark.parametrize(("limits", "reserve"), RESERVES)
def test_anthropic_is_told_the_output_reserve(limits: dict[str, int], reserve: int) -> None:  # HAR-21, CTX-13
    model = Model(protocol="anthropic", **limits)
    run(Harness(model).acall_llm(MESSAGES))
    assert model.chats[0].options == {"max_tokens": reserve}


def test_the_reserve_is_the_configured_one() -> None:  # HAR-21
    model = Model(protocol="anthropic", context_window=100_000)
    run(Harness(model, window_budget=WindowBudgetConfig(desired_output_tokens=77)).acall_llm(MESSAGES))
    assert model.chats[0].options == {"max_tokens": 77}


def test_the_callers_max_tokens_wins() -> None:  # HAR-21
    model = Model(protocol="anthropic", context_window=100_000)
    run(Harness(model).acall_llm(MESSAGES, max_tokens=5))
    assert model.chats[0].options == {"max_tokens": 5}


@pytest.mark.parametrize(
    "attributes",
    [
        {"protocol": "anthropic"},
        {"protocol": "anthropic", "context_window": None},
        {"protocol": "openai", "context_window": 100_000},
        {"context_window": 100_000},
    ],
)
def test_nobody_else_is_told_a_reserve(attributes: dict[str, Any]) -> None:  # HAR-21
    model = Model(**attributes)
    run(Harness(model).acall_llm(MESSAGES))
    assert model.chats[0].options == {}


ODD_USAGE = [
    {"total_tokens": math.nan},
    {"total_tokens": math.inf},
    {"total_tokens": -1000},
    {"total_tokens": "1000"},
    {"total_tokens": None},
    {"total_tokens": True},
    {},
    None,
    "12 tokens",
    [1, 2],
]


@pytest.mark.parametrize("usage", ODD_USAGE)
def test_odd_usage_neither_lowers_a_limit_nor_breaks_the_run(usage: Any, tracer: Tracer) -> None:  # DEC-13
    harness = Harness(Model(reply(tokens=6), reply(usage=usage), reply(tokens=6)), tracer=tracer)

    async def thrice() -> None:
        with in_run(RunPolicy(max_tokens=12, max_llm_calls=3)):
            await harness.acall_llm(MESSAGES)
            assert (await harness.acall_llm(MESSAGES)).usage is usage
            await harness.acall_llm(MESSAGES)
            with pytest.raises(RunLimitExceeded) as stopped:  # 6 and 6: the odd one took nothing away
                await harness.acall_llm(MESSAGES)
            assert stopped.value.rule == "max_tokens"

    run(thrice())
    assert tracer.summary()["total_tokens"] == 12
    assert len([event for event in of(tracer, "llm_call") if event.get("status") != "limited"]) == 3
