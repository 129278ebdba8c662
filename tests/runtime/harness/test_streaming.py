"""`astream_llm`: a stream counts when it starts and is settled when it ends, however it ends (DEC-03)."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest
from harness_parts import MESSAGES, Clock, Emitter, HookLog, Model, in_run, of, only, reply, run, soon, until
from tracehold import Tracer
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy, check_limits
from tracehold.harness import Harness
from tracehold.llm.protocol import StreamStats

TOOLS = [{"type": "function", "function": {"name": "t", "parameters": {}}}]
STATS = StreamStats(usage={"total_tokens": 30}, finish_reason="stop", model="m-5", latency_ms=1)


async def drain(harness: Harness, **options: Any) -> list[Any]:
    return [piece async for piece in harness.astream_llm(MESSAGES, **options)]


async def take(harness: Harness, count: int) -> Any:
    """Take `count` pieces and give back the open stream."""
    stream = harness.astream_llm(MESSAGES)
    for _ in range(count):
        await anext(stream)
    return stream


def test_pieces_come_in_order_as_they_are_made() -> None:  # HAR-22
    async def lockstep() -> None:
        seen = asyncio.Event()

        class Waiting(Model):
            async def stream(self, messages: Any, **_: Any) -> Any:
                yield "one"
                await soon(seen.wait())  # a harness that buffers never gets past this
                yield "two"

        got = []
        async for piece in Harness(Waiting()).astream_llm(MESSAGES):
            got.append(piece)
            seen.set()
        assert got == ["one", "two"]

    run(lockstep())


def test_options_reach_the_stream() -> None:  # HAR-12, HAR-27
    model = Model()
    run(drain(Harness(model), temperature=0.5, stop=["x"]))
    assert model.streams[0].options == {"temperature": 0.5, "stop": ["x"]}
    assert model.streams[0].messages == MESSAGES


def test_before_model_fires_before_the_stream_opens() -> None:  # HAR-23, HOOK-05
    hook, model = HookLog(), Model()

    async def first() -> None:
        stream = Harness(model, hooks=[hook]).astream_llm(MESSAGES)
        assert hook.fired == []  # nothing happens until somebody iterates
        await anext(stream)
        assert hook.fired == [("before_model", MESSAGES)]
        await stream.aclose()

    run(first())


@pytest.mark.parametrize("stop", ["limit", "cancel"])
def test_a_stopped_stream_is_never_opened(stop: str, tracer: Tracer) -> None:  # HAR-23, HAR-14, DEC-01
    model, hook = Model(), HookLog()
    policy = RunPolicy(max_tokens=10) if stop == "limit" else RunPolicy(cancel=lambda: bool(model.chats))
    harness = Harness(model, hooks=[hook], tracer=tracer)

    async def stopped() -> None:
        with in_run(policy):
            await harness.acall_llm(MESSAGES)
            hook.fired.clear()
            stream = harness.astream_llm(MESSAGES)
            with pytest.raises(RunLimitExceeded if stop == "limit" else RunCancelled):
                await anext(stream)

    run(stopped())
    assert model.streams == []
    assert hook.fired == []
    _, event = of(tracer, "llm_call")
    word = "limited" if stop == "limit" else "cancelled"
    assert (event["status"], event["decision"], event["rule"]) == (
        word,
        word,
        "max_tokens" if stop == "limit" else stop,
    )
    assert event["reason"]


def test_a_plain_stream_has_no_after_model() -> None:  # HAR-24
    hook = HookLog()
    assert run(drain(Harness(Model(), hooks=[hook]))) == ["a", "b", "c"]
    assert hook.names() == ["before_model"]


def test_with_tools_the_final_response_fires_after_model_and_comes_last(tracer: Tracer) -> None:  # HAR-25
    hook, last = HookLog(), reply("ab", tool_calls=[{"id": "c1"}])
    model = Model(pieces=("a", "b", last))
    got = run(drain(Harness(model, hooks=[hook], tracer=tracer), tools=TOOLS))
    assert got == ["a", "b", last]
    assert got[-1] is last
    assert hook.fired[1:] == [("after_model", last)]
    assert model.streams[0].options == {"tools": TOOLS}
    assert len(of(tracer, "llm_call")) == 1


async def _drained(harness: Harness) -> None:
    await drain(harness)


async def _closed(harness: Harness) -> None:
    stream = await take(harness, 1)
    await stream.aclose()


async def _broken(harness: Harness) -> None:
    harness.llm.pieces = ("a", LookupError("gone"))
    with pytest.raises(LookupError):
        await drain(harness)


async def _closed_elsewhere(harness: Harness) -> None:
    stream = await take(harness, 1)
    await asyncio.create_task(stream.aclose())


async def _left_by_break(harness: Harness) -> None:
    async for _ in harness.astream_llm(MESSAGES):
        break
    gc.collect()
    await until(lambda: harness.llm.streams_ended)


async def _collected(harness: Harness) -> None:
    stream = await take(harness, 1)
    del stream
    gc.collect()
    await until(lambda: harness.llm.streams_ended)


async def _cancelled(harness: Harness) -> None:
    taken = asyncio.Event()

    async def consume() -> None:
        async for _ in harness.astream_llm(MESSAGES):
            taken.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await soon(taken.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    await until(lambda: harness.llm.streams_ended)


async def _cancelled_while_waiting_for_the_model(harness: Harness) -> None:
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    harness.llm.pieces = ("a", hang)
    task = asyncio.create_task(drain(harness))
    await soon(reached.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: harness.llm.streams_ended)


ENDINGS = {
    "drained": _drained,
    "closed early": _closed,
    "broken": _broken,
    "closed from another task": _closed_elsewhere,
    "left by a bare break": _left_by_break,
    "collected": _collected,
    "consumer cancelled": _cancelled,
    "cancelled while waiting": _cancelled_while_waiting_for_the_model,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_stream_is_one_event_however_it_ends(  # HAR-26, FR-07
    ending: str, tracer: Tracer, caplog: pytest.LogCaptureFixture
) -> None:
    async def ended() -> None:
        with in_run():
            await ENDINGS[ending](Harness(Model(), tracer=tracer))
            await until(lambda: of(tracer, "llm_call"))

    with caplog.at_level(logging.ERROR):
        run(ended())
    event = only(tracer, "llm_call")
    assert event["streamed"] is True
    assert event["model"] == "client-model"
    assert type(event["latency_ms"]) is int
    assert event["duration_ns"] >= 0
    assert event["run_id"]
    assert event["step_index"] == 1
    if ending == "broken":
        assert (event["status"], event["error_type"]) == ("error", "LookupError")
    elif ending == "drained":
        assert event.get("status") not in {"error", "cancelled"}
    else:
        assert event["status"] == "cancelled"
    assert caplog.records == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_next_event_is_no_child_of_an_ended_stream(ending: str, tracer: Tracer) -> None:  # FR-07
    async def ended() -> None:
        with in_run():
            harness = Harness(Model(), tracer=tracer)
            await ENDINGS[ending](harness)
            await until(lambda: of(tracer, "llm_call"))
            tracer.emit({"type": "run_error"})

    run(ended())
    streamed, later = only(tracer, "llm_call"), only(tracer, "run_error")
    assert later["parent_span_id"] == streamed["parent_span_id"]
    assert later["parent_span_id"] != streamed["span_id"]


def test_while_a_stream_is_open_the_consumers_events_are_not_its_children(tracer: Tracer) -> None:  # FR-07
    async def between() -> None:
        with in_run():
            async for _ in Harness(Model(), tracer=tracer).astream_llm(MESSAGES):
                tracer.emit({"type": "run_error"})

    run(between())
    streamed = only(tracer, "llm_call")
    assert {event["parent_span_id"] for event in of(tracer, "run_error")} == {streamed["parent_span_id"]}


def test_a_stream_belongs_where_it_began_whatever_the_consumer_opens_meanwhile(tracer: Tracer) -> None:  # FR-07
    async def spanned() -> None:
        with in_run():
            stream = await take(Harness(Model(), tracer=tracer), 1)
            with tracer.span("consumer"):
                [_ async for _ in stream]

    run(spanned())
    assert only(tracer, "llm_call")["parent_span_id"] == only(tracer, "span")["parent_span_id"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_started_stream_counts_once(ending: str) -> None:  # HAR-28, DEC-03
    async def ended() -> None:
        with in_run(RunPolicy(max_llm_calls=2)):
            await ENDINGS[ending](Harness(Model()))
            check_limits("llm")  # one is left
            await drain(Harness(Model()))
            with pytest.raises(RunLimitExceeded):
                check_limits("llm")

    run(ended())


def test_open_streams_count_while_they_are_open() -> None:  # HAR-28, POL-03
    async def many() -> None:
        with in_run(RunPolicy(max_llm_calls=2)):
            model = Model()
            harness = Harness(model)
            held = [await take(harness, 1), await take(harness, 1)]
            with pytest.raises(RunLimitExceeded):
                await take(harness, 1)
            with pytest.raises(RunLimitExceeded):
                await harness.acall_llm(MESSAGES)
            assert len(model.streams) == 2
            for stream in held:
                await stream.aclose()

    run(many())


def test_a_stream_that_nobody_iterates_was_never_started(tracer: Tracer) -> None:  # HAR-26, HAR-28
    async def never() -> None:
        with in_run(RunPolicy(max_llm_calls=1)):
            harness = Harness(Model(), tracer=tracer)
            await harness.astream_llm(MESSAGES).aclose()
            assert await drain(harness) == ["a", "b", "c"]

    run(never())
    assert len(of(tracer, "llm_call")) == 1


def test_usage_and_finish_reason_come_from_the_clients_statistics(tracer: Tracer) -> None:  # HAR-27
    run(drain(Harness(Model(stats=STATS), tracer=tracer)))
    event = only(tracer, "llm_call")
    assert event["usage"] == {"total_tokens": 30}
    assert event["finish_reason"] == "stop"
    assert event["model"] == "m-5"


def test_without_statistics_usage_is_unknown_not_zero(tracer: Tracer) -> None:  # HAR-27, HAR-29
    run(drain(Harness(Model(), tracer=tracer)))
    event = only(tracer, "llm_call")
    assert event.get("usage") is None
    assert event.get("finish_reason") is None


def test_a_callers_own_on_stats_is_still_told() -> None:  # HAR-12, HAR-27
    told: list[Any] = []
    run(drain(Harness(Model(stats=STATS), tracer=Tracer()), on_stats=told.append))
    assert told == [STATS]


def test_a_stream_of_unknown_usage_raises_the_call_count_only() -> None:  # HAR-29
    async def unknown() -> None:
        with in_run(RunPolicy(max_tokens=1, max_llm_calls=2)):
            harness = Harness(Model())
            await drain(harness)
            await drain(harness)
            with pytest.raises(RunLimitExceeded) as stopped:
                await drain(harness)
            assert stopped.value.rule == "max_llm_calls"

    run(unknown())


def test_the_tokens_of_a_stream_count() -> None:  # HAR-28, POL-06, DEC-03
    async def counted() -> None:
        with in_run(RunPolicy(max_tokens=30)):
            await drain(Harness(Model(stats=STATS)))
            with pytest.raises(RunLimitExceeded):
                check_limits("llm")

    run(counted())


def test_a_drained_stream_beyond_the_token_limit_raises_after_its_last_piece(tracer: Tracer) -> None:  # HAR-30
    got: list[Any] = []

    async def beyond() -> None:
        async def keep() -> None:
            async for piece in Harness(Model(stats=STATS), tracer=tracer).astream_llm(MESSAGES):
                got.append(piece)  # noqa: PERF401 - the loop raises at its end

        with in_run(RunPolicy(max_tokens=20)), pytest.raises(RunLimitExceeded):
            await keep()

    run(beyond())
    assert got == ["a", "b", "c"]
    assert len(of(tracer, "llm_call")) == 1


def test_a_stream_drained_after_the_deadline_raises() -> None:  # HAR-30
    async def late() -> None:
        clock = Clock()

        async def slowly() -> None:
            async for _ in Harness(Model()).astream_llm(MESSAGES):
                clock.now += 3

        with in_run(RunPolicy(deadline_seconds=5), clock=clock), pytest.raises(RunLimitExceeded):
            await slowly()

    run(late())


def test_a_stream_closed_early_is_not_checked_but_counted() -> None:  # HAR-30
    async def early() -> None:
        clock = Clock()
        with in_run(RunPolicy(max_tokens=20, deadline_seconds=5), clock=clock):
            stream = await take(Harness(Model(stats=STATS)), 1)
            await stream.aclose()  # 30 tokens: beyond the limit, and no exception here
            with pytest.raises(RunLimitExceeded) as stopped:
                check_limits("llm")
            assert stopped.value.rule == "max_tokens"

    run(early())


def test_an_exception_in_mid_stream_arrives_as_the_same_object_after_the_accounting(tracer: Tracer) -> None:  # HAR-31
    broken = LookupError("gone")

    got: list[Any] = []

    async def keep() -> None:
        async for piece in Harness(Model(pieces=("a", broken), stats=STATS), tracer=tracer).astream_llm(MESSAGES):
            got.append(piece)  # noqa: PERF401 - the loop raises

    async def midway() -> None:
        with in_run(RunPolicy(max_tokens=30)):
            with pytest.raises(LookupError) as raised:
                await keep()
            assert got == ["a"]
            assert raised.value is broken
            assert len(of(tracer, "llm_call")) == 1
            with pytest.raises(RunLimitExceeded):
                check_limits("llm")

    run(midway())


class TraceBrokenError(Exception):
    pass


class FailingTracer:
    def emit(self, event: dict[str, Any]) -> None:
        raise TraceBrokenError("no room")


def test_a_failing_trace_does_not_hide_the_streams_own_error() -> None:  # HAR-32
    broken = LookupError("gone")
    with pytest.raises(LookupError) as raised:
        run(drain(Harness(Model(pieces=("a", broken)), tracer=FailingTracer())))
    assert raised.value is broken
    assert any("TraceBrokenError" in note for note in broken.__notes__)


def test_a_failing_trace_alone_is_raised() -> None:  # HAR-32
    with pytest.raises(TraceBrokenError):
        run(drain(Harness(Model(), tracer=FailingTracer())))


def test_a_failing_trace_does_not_undo_the_count() -> None:  # HAR-28, HAR-32
    async def counted() -> None:
        with in_run(RunPolicy(max_llm_calls=1)):
            with pytest.raises(TraceBrokenError):
                await drain(Harness(Model(), tracer=FailingTracer()))
            with pytest.raises(RunLimitExceeded):
                check_limits("llm")

    run(counted())


def test_statistics_that_make_no_sense_do_not_break_the_stream(tracer: Tracer) -> None:  # HAR-27, DEC-13
    odd = StreamStats(usage={"total_tokens": float("nan")}, finish_reason=None, model="")

    async def odd_stream() -> None:
        with in_run(RunPolicy(max_tokens=5)):
            assert await drain(Harness(Model(stats=odd), tracer=tracer)) == ["a", "b", "c"]
            check_limits("llm")

    run(odd_stream())
    assert only(tracer, "llm_call")["model"] == "client-model"


def test_a_hook_that_raises_opens_no_stream_and_counts_nothing() -> None:  # HOOK-03, HAR-28
    class Strict(HookLog):
        def before_model(self, messages: Any) -> None:
            raise PermissionError("no")

    async def refused() -> None:
        model = Model()
        with in_run(RunPolicy(max_llm_calls=1)):
            with pytest.raises(PermissionError):
                await drain(Harness(model, hooks=[Strict()]))
            check_limits("llm")
        assert model.streams == []

    run(refused())


def test_a_bare_emitter_gets_the_run_of_a_stream_that_ends_elsewhere() -> None:  # HAR-07, FR-07
    events: list[dict[str, Any]] = []

    async def elsewhere() -> str:
        with in_run() as run_id:
            stream = await take(Harness(Model(), tracer=Emitter(events)), 1)
        await asyncio.create_task(stream.aclose())  # this task is in no run
        return run_id

    run_id = run(elsewhere())
    assert [(event["run_id"], event["streamed"]) for event in events] == [(run_id, True)]
