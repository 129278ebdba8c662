"""The run that code is part of, and the documented functions over it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tracehold
from tracehold import RunLimitExceeded, Scope, Tracer
from tracehold.execution import (
    RunPolicy,
    check_limits,
    correlation,
    current_run_id,
    current_scope,
    current_step,
    current_trace_carrier,
    limited,
    new_run_id,
    record_llm,
    record_tool,
    reset_run,
    start_run,
)

Begin = Callable[..., str]
CARRIER = {"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"}


def test_outside_a_run_there_is_none() -> None:  # EXEC-07
    assert current_run_id() is None
    assert current_scope() is None
    assert current_trace_carrier() is None
    assert current_step() == 0


def test_inside_a_run_its_values_are_there(begin: Begin) -> None:  # EXEC-08
    scope = Scope(user="u", session="s")
    run_id = begin(scope=scope, trace_carrier=CARRIER, step=3)
    assert current_run_id() == run_id
    assert current_scope() is scope
    assert current_trace_carrier() == CARRIER
    assert current_step() == 3


def test_after_a_run_there_is_none_again() -> None:  # EXEC-08, EXEC-13
    token = start_run(new_run_id(), scope=Scope(user="u"), trace_carrier=CARRIER)
    correlation()
    reset_run(token)
    test_outside_a_run_there_is_none()


def test_runs_in_different_tasks_do_not_see_each_other() -> None:  # EXEC-08
    async def one(name: str) -> list[Any]:
        token = start_run(name, scope=Scope(user=name))
        seen = []
        for _ in range(3):
            seen.append((current_run_id(), current_scope(), correlation()["step_index"]))
            await asyncio.sleep(0)
        reset_run(token)
        return seen

    async def both() -> list[Any]:
        return await asyncio.gather(*(asyncio.create_task(one(name)) for name in ("a", "b")))

    for name, seen in zip("ab", asyncio.run(both()), strict=True):
        assert seen == [(name, Scope(user=name), step) for step in (1, 2, 3)]


def test_worker_threads_of_asyncio_know_the_run(begin: Begin) -> None:  # EXEC-09
    run_id = begin()

    async def on_a_thread() -> Any:
        return await asyncio.to_thread(lambda: (current_run_id(), correlation()["step_index"]))

    assert asyncio.run(on_a_thread()) == (run_id, 1)


def test_a_bare_thread_is_in_no_run(begin: Begin) -> None:  # EXEC-08
    begin()
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(current_run_id()))
    thread.start()
    thread.join(20)
    assert seen == [None]


def test_a_run_inside_a_run_joins_it(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:  # EXEC-10, EXEC-13
    run_id = begin(scope=Scope(user="outer"), trace_carrier=CARRIER)
    correlation()
    with caplog.at_level(logging.WARNING):
        token = start_run("another", step=50, scope=Scope(user="inner"), trace_carrier={})
    assert token is None
    assert caplog.records == []
    assert (current_run_id(), current_scope(), current_trace_carrier()) == (run_id, Scope(user="outer"), CARRIER)
    assert correlation() == {"run_id": run_id, "step_index": 2}
    reset_run(token)
    assert correlation() == {"run_id": run_id, "step_index": 3}


def test_an_inner_policy_is_ignored_with_a_warning(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:  # EXEC-10
    begin()
    with caplog.at_level(logging.WARNING):
        assert start_run("another", policy=RunPolicy(max_tool_calls=0)) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "ignored" in record.getMessage()
    check_limits("tool")


def test_steps_start_at_one(begin: Begin) -> None:  # EXEC-11
    run_id = begin()
    assert current_step() == 0
    assert [correlation() for _ in range(3)] == [{"run_id": run_id, "step_index": step} for step in (1, 2, 3)]
    assert current_step() == 3


def test_a_continued_run_goes_on_from_its_step(begin: Begin) -> None:  # EXEC-11, EXEC-06
    begin(step=41)
    assert correlation()["step_index"] == 42


def test_every_event_of_a_tracer_takes_the_next_step(begin: Begin) -> None:  # EXEC-11
    begin()
    tracer = Tracer()
    tracer.emit({"type": "llm_call"})
    tracer.emit({"type": "tool_call"} | correlation())
    tracer.emit({"type": "llm_call"})
    assert [event["step_index"] for event in tracer.events] == [1, 2, 3]


def test_threads_never_take_the_same_step(begin: Begin) -> None:  # EXEC-11, EXEC-09
    begin()
    barrier = threading.Barrier(8)

    def often() -> list[int]:
        barrier.wait(20)
        return [correlation()["step_index"] for _ in range(50)]

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(contextvars.copy_context().run, often) for _ in range(8)]
        steps = [step for future in futures for step in future.result(20)]
    assert sorted(steps) == list(range(1, 401))


def test_outside_a_run_there_is_nothing_to_correlate() -> None:  # EXEC-13
    assert correlation() == {}


@pytest.mark.parametrize("carrier", [None, {}, {"traceparent": "nonsense"}, CARRIER])
def test_the_carrier_is_given_back_as_it_came(carrier: Any, begin: Begin) -> None:  # EXEC-12
    begin(trace_carrier=carrier)
    assert current_trace_carrier() == carrier


def test_a_resume_brings_its_own_carrier() -> None:  # EXEC-12
    run_id = new_run_id()
    for carrier in (CARRIER, None, {"traceparent": "00-" + "12" * 16 + "-" + "34" * 8 + "-01"}):
        token = start_run(run_id, trace_carrier=carrier)
        assert current_trace_carrier() == carrier
        reset_run(token)


def test_the_helpers_have_the_documented_shape() -> None:  # EXEC-13
    first, *others = inspect.signature(start_run).parameters.values()
    assert first.name == "run_id"
    assert {"step", "policy", "scope", "trace_carrier"} <= {parameter.name for parameter in others}
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in others)
    defaults = {parameter.name: parameter.default for parameter in others}
    assert (defaults["step"], defaults["policy"], defaults["scope"], defaults["trace_carrier"]) == (0, None, None, None)
    assert list(inspect.signature(check_limits).parameters) == ["kind"]
    assert list(inspect.signature(record_llm).parameters) == ["usage"]
    assert list(inspect.signature(record_tool).parameters) == []


def test_resetting_nothing_does_nothing(begin: Begin) -> None:  # EXEC-13
    run_id = begin()
    assert reset_run(None) is None
    assert current_run_id() == run_id


def test_a_run_ended_from_another_context_does_not_break(begin: Begin) -> None:  # EXEC-13, FR-07
    token = start_run(new_run_id())
    contextvars.copy_context().run(reset_run, token)
    reset_run(token)
    assert current_run_id() is None


def test_run_ids_are_texts_of_their_own() -> None:  # EXEC-13
    ids = [new_run_id() for _ in range(200)]
    assert len(set(ids)) == 200
    assert all(isinstance(run_id, str) and run_id for run_id in ids)


def test_the_accessors_are_public() -> None:  # EXEC-07, DEC-16
    assert tracehold.current_run_id is current_run_id
    assert tracehold.current_scope is current_scope
    assert tracehold.current_step is current_step
    assert tracehold.current_trace_carrier is current_trace_carrier


def test_a_tracers_run_and_start_run_are_one_kind_of_run() -> None:  # EXEC-08, EXEC-10
    tracer = Tracer()
    with tracer.run("job") as outer:
        assert start_run(new_run_id()) is None
        assert current_run_id() == outer.run_id
    token = start_run("mine")
    with tracer.run("job") as inner:
        assert inner.run_id == "mine"
    reset_run(token)


def test_limits_can_be_put_on_a_part_of_a_run_that_has_none() -> None:  # POL-10
    with Tracer().run("outer"):
        with limited(RunPolicy(max_llm_calls=1)):
            check_limits("llm")
            record_llm(None)
            with pytest.raises(RunLimitExceeded):
                check_limits("llm")
        check_limits("llm")


def test_limits_within_limits_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:  # POL-10
    with Tracer().run("outer"), limited(RunPolicy(max_llm_calls=5)), limited(RunPolicy(max_llm_calls=1)):
        record_llm(None)
        check_limits("llm")
    assert "ignored" in caplog.text
