"""What a run may use up."""

from __future__ import annotations

import dataclasses
import inspect
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import RunCancelled, RunLimitExceeded, TraceholdError
from tracehold.execution import (
    RunPolicy,
    check_limits,
    current_run_id,
    new_run_id,
    record_llm,
    record_tool,
    reset_run,
    start_run,
)
from tracehold.execution.limits import Limits

Begin = Callable[..., Any]


def test_a_policy_of_nothing_limits_nothing(begin: Begin) -> None:  # POL-01
    policy = RunPolicy()
    assert [getattr(policy, field.name) for field in dataclasses.fields(policy)] == [None] * 5
    begin(policy)
    for _ in range(100):
        record_llm({"total_tokens": 10**9})
        record_tool()
        check_limits("llm")
        check_limits("tool")


def test_the_fields_are_the_documented_ones() -> None:  # POL-01
    names = ["max_llm_calls", "max_tool_calls", "max_tokens", "deadline_seconds", "cancel"]
    assert list(inspect.signature(RunPolicy).parameters) == names


USES: dict[str, Callable[[], None]] = {
    "max_llm_calls": lambda: record_llm(None),
    "max_tool_calls": record_tool,
    "max_tokens": lambda: record_llm({"total_tokens": 1}),
}


@pytest.mark.parametrize("name", USES)
def test_each_limit_is_off_on_its_own(name: str, begin: Begin) -> None:  # POL-01
    ample: dict[str, Any] = dict.fromkeys(USES, 1000)
    if name == "max_tokens":
        ample["max_llm_calls"] = None  # tokens come with calls
    begin(RunPolicy(**(ample | {name: None})))
    for _ in range(2000):
        USES[name]()
    check_limits("llm")
    check_limits("tool")


GOOD: list[dict[str, Any]] = [
    {"max_llm_calls": 1},
    {"max_tool_calls": 0},
    {"max_tool_calls": 10**9},
    {"max_tokens": 1},
    {"deadline_seconds": 1},
    {"deadline_seconds": 0.001},
    {"cancel": lambda: False},
    {"cancel": dict},
]


@pytest.mark.parametrize("fields", GOOD)
def test_what_can_be_meant_is_taken(fields: dict[str, Any]) -> None:  # POL-02
    policy = RunPolicy(**fields)
    for name, value in fields.items():
        assert getattr(policy, name) is value


BAD: list[tuple[str, Any]] = [
    *((name, value) for name in ("max_llm_calls", "max_tokens") for value in (0, -1)),
    ("max_tool_calls", -1),
    *(
        (name, value)
        for name in ("max_llm_calls", "max_tool_calls", "max_tokens")
        for value in (True, False, 1.0, 2.5, "3", math.nan, [1])
    ),
    *(("deadline_seconds", value) for value in (0, 0.0, -1, True, "5", math.nan, math.inf, -math.inf)),
    *(("cancel", value) for value in (True, False, 1, "stop", object())),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_anything_else_is_a_value_error(name: str, value: Any) -> None:  # POL-02
    with pytest.raises(ValueError, match=name):
        RunPolicy(**{name: value})


@pytest.mark.parametrize("limit", [1, 3])
def test_exactly_so_many_model_calls_are_made(limit: int, begin: Begin) -> None:  # POL-03
    begin(RunPolicy(max_llm_calls=limit))
    for _ in range(limit):
        check_limits("llm")
        record_llm(None)
    with pytest.raises(RunLimitExceeded) as stopped:
        check_limits("llm")
    assert stopped.value.rule == "max_llm_calls"
    assert str(limit) in str(stopped.value)
    assert isinstance(stopped.value, TraceholdError)


def test_used_up_model_calls_do_not_stop_tools(begin: Begin) -> None:  # POL-03
    begin(RunPolicy(max_llm_calls=1))
    record_llm(None)
    check_limits("tool")


def test_at_most_so_many_tools_execute(begin: Begin) -> None:  # POL-04
    begin(RunPolicy(max_tool_calls=2))
    for _ in range(2):
        check_limits("tool")
        record_tool()
    with pytest.raises(RunLimitExceeded) as stopped:
        check_limits("tool")
    assert stopped.value.rule == "max_tool_calls"
    check_limits("llm")


@pytest.mark.parametrize("kind", ["llm", "tool"])
def test_starting_a_call_checks_and_counts_in_one_step(kind: Any) -> None:  # POL-04
    limits = Limits(RunPolicy(max_llm_calls=7, max_tool_calls=7))
    barrier = threading.Barrier(16)

    def often() -> int:
        barrier.wait(20)
        started = 0
        for _ in range(20):
            try:
                limits.start(kind)
            except RunLimitExceeded:
                continue
            started += 1
        return started

    with ThreadPoolExecutor(16) as pool:
        assert sum(future.result(20) for future in [pool.submit(often) for _ in range(16)]) == 7


def test_no_tools_at_all_still_allows_model_calls(begin: Begin) -> None:  # POL-05
    begin(RunPolicy(max_tool_calls=0))
    check_limits("llm")
    record_llm(None)
    check_limits("llm")
    with pytest.raises(RunLimitExceeded):
        check_limits("tool")


def test_before_a_call_a_sum_at_the_limit_stops_and_after_one_only_a_sum_beyond(begin: Begin) -> None:  # POL-06
    limits = Limits(RunPolicy(max_tokens=10))
    limits.add_usage({"total_tokens": 9})
    limits.check("llm")
    limits.check_tokens()
    limits.add_usage({"total_tokens": 1})
    limits.check_tokens()
    for kind in ("llm", "tool"):
        with pytest.raises(RunLimitExceeded) as stopped:
            limits.check(kind)  # type: ignore[arg-type]
        assert stopped.value.rule == "max_tokens"
    limits.add_usage({"total_tokens": 1})
    with pytest.raises(RunLimitExceeded):
        limits.check_tokens()


def test_tokens_are_summed_over_the_run(begin: Begin) -> None:  # POL-06
    begin(RunPolicy(max_tokens=30))
    for _ in range(2):
        record_llm({"total_tokens": 10, "prompt_tokens": 999})
        check_limits("llm")
    record_llm({"total_tokens": 10})
    with pytest.raises(RunLimitExceeded):
        check_limits("llm")


ODD = [None, {}, {"total_tokens": None}, "many", [], {"total_tokens": True}, {"total_tokens": b"9"}, object()]
ODD_NUMBERS = [math.nan, math.inf, -math.inf, -1, -(10**30), -0.5, "1000", "-5"]


@pytest.mark.parametrize("usage", [*ODD, *({"total_tokens": value} for value in ODD_NUMBERS)])
def test_odd_usage_leaves_the_sum_as_it_is(usage: Any, begin: Begin) -> None:  # DEC-13, HAR-29
    begin(RunPolicy(max_tokens=10))
    record_llm({"total_tokens": 9})
    record_llm(usage)
    check_limits("llm")
    record_llm({"total_tokens": 1})
    with pytest.raises(RunLimitExceeded):
        check_limits("llm")


ANYTHING = st.none() | st.integers() | st.floats() | st.text() | st.booleans() | st.lists(st.integers())


@given(usages=st.lists(ANYTHING | st.dictionaries(st.sampled_from(["total_tokens", "other"]), ANYTHING)))
def test_no_usage_ever_lowers_the_sum_or_breaks_the_count(usages: list[Any]) -> None:  # DEC-13, POL-06
    limits, before = Limits(RunPolicy(max_tokens=5)), 0
    for usage in usages:
        limits.add_usage(usage)
        assert type(limits.total_tokens) is int
        assert limits.total_tokens >= before
        before = limits.total_tokens


@pytest.mark.parametrize("kind", ["llm", "tool"])
def test_the_deadline_counts_from_the_runs_begin(kind: Any, clock: Any, begin_timed: Begin) -> None:  # POL-07
    begin_timed(RunPolicy(deadline_seconds=5))
    clock.now += 4.9
    check_limits(kind)
    clock.now += 0.2
    with pytest.raises(RunLimitExceeded) as stopped:
        check_limits(kind)
    assert stopped.value.rule == "deadline_seconds"


@pytest.mark.parametrize("kind", ["llm", "tool"])
def test_cancel_is_asked_before_every_call_and_may_ask_for_the_run(kind: Any, begin: Begin) -> None:  # POL-08
    asked: list[Any] = []

    def cancel() -> bool:
        asked.append(current_run_id())
        return len(asked) == 3

    run_id = begin(RunPolicy(cancel=cancel))
    check_limits(kind)
    check_limits(kind)
    with pytest.raises(RunCancelled):
        check_limits(kind)
    assert asked == [run_id] * 3


@pytest.mark.parametrize("answer", [1, "yes", [0]])
def test_any_true_answer_cancels(answer: Any, begin: Begin) -> None:  # POL-08
    begin(RunPolicy(cancel=lambda: answer))
    with pytest.raises(RunCancelled):
        check_limits("llm")


@pytest.mark.parametrize("answer", [0, "", None, []])
def test_any_false_answer_does_not(answer: Any, begin: Begin) -> None:  # POL-08
    begin(RunPolicy(cancel=lambda: answer))
    check_limits("llm")


def test_a_cancel_that_raises_does_not_let_the_call_through(begin: Begin) -> None:  # POL-08
    def broken() -> bool:
        raise LookupError("no switch")

    begin(RunPolicy(cancel=broken))
    with pytest.raises(LookupError):
        check_limits("llm")


def test_every_run_counts_from_zero() -> None:  # POL-09
    policy = RunPolicy(max_llm_calls=1, max_tool_calls=1, max_tokens=5)
    same = new_run_id()
    for run_id, step in ((same, 0), (new_run_id(), 0), (same, 7)):  # the last one is a resume
        token = start_run(run_id, step=step, policy=policy)
        check_limits("llm")
        check_limits("tool")
        record_llm({"total_tokens": 5})
        record_tool()
        with pytest.raises(RunLimitExceeded):
            check_limits("llm")
        reset_run(token)


def test_nested_runs_share_the_outermost_ones_counters(begin: Begin) -> None:  # POL-10
    begin(RunPolicy(max_llm_calls=2))
    record_llm(None)
    inner = start_run(new_run_id(), policy=RunPolicy(max_llm_calls=100))
    record_llm(None)
    with pytest.raises(RunLimitExceeded):
        check_limits("llm")
    reset_run(inner)
    with pytest.raises(RunLimitExceeded):
        check_limits("llm")


def test_a_stricter_inner_policy_is_ignored_too(begin: Begin) -> None:  # POL-10
    begin(RunPolicy(max_llm_calls=5))
    reset_run(start_run(new_run_id(), policy=RunPolicy(max_llm_calls=1, cancel=lambda: True)))
    inner = start_run(new_run_id(), policy=RunPolicy(max_llm_calls=1, cancel=lambda: True))
    record_llm(None)
    check_limits("llm")
    reset_run(inner)


@pytest.mark.parametrize("kind", ["llm", "tool"])
def test_outside_a_run_nothing_is_checked(kind: Any) -> None:  # POL-11
    for _ in range(3):
        record_llm({"total_tokens": 10**9})
        record_tool()
        check_limits(kind)


def test_after_a_run_nothing_is_checked() -> None:  # POL-11
    token = start_run(new_run_id(), policy=RunPolicy(max_tool_calls=0))
    reset_run(token)
    check_limits("tool")


def test_a_failed_check_leaves_the_counters_alone() -> None:  # POL-12
    stop = True
    limits = Limits(RunPolicy(max_llm_calls=1, max_tool_calls=0, cancel=lambda: stop))
    for kind, error in (("llm", RunCancelled), ("tool", RunCancelled)):
        with pytest.raises(error):
            limits.check(kind)  # type: ignore[arg-type]
    stop = False
    for _ in range(3):
        with pytest.raises(RunLimitExceeded):
            limits.check("tool")
        with pytest.raises(RunLimitExceeded):
            limits.start("tool")
    assert (limits.llm_calls, limits.tool_calls, limits.total_tokens) == (0, 0, 0)
    limits.check("llm")
