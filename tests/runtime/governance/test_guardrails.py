"""Guardrails let a text pass or stop it, and never take an answer nobody computed for a yes."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import GuardrailTripwireError
from tracehold.governance import CallableGuardrail, Guardrail, GuardrailResult, run_guardrails


class Short(Guardrail):
    """Blocks what is longer than five characters, and remembers where it ran."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def check(self, text: str) -> GuardrailResult:
        self.threads.append(threading.get_ident())
        return GuardrailResult(len(text) <= 5, "too long")


async def yes(text: str) -> bool:
    await asyncio.sleep(0)
    return True


async def no(text: str) -> bool:
    await asyncio.sleep(0)
    return False


class AsyncObject:
    async def __call__(self, text: str) -> bool:
        await asyncio.sleep(0)
        return text == "fine"


def acheck(guardrail: Guardrail, text: str = "text") -> GuardrailResult:
    return asyncio.run(guardrail.acheck(text))


def test_a_result_is_a_dataclass_whose_message_may_be_empty() -> None:  # GRD-01
    assert [field.name for field in dataclasses.fields(GuardrailResult)] == ["passed", "message"]
    assert GuardrailResult(True) == GuardrailResult(passed=True, message="")


def test_a_result_cannot_hold_a_call_nobody_awaited() -> None:  # GRD-08
    with pytest.raises(TypeError, match="nothing was checked"):
        GuardrailResult(yes("text"))  # type: ignore[arg-type]  # the mistake under test


def test_a_guardrail_without_check_cannot_be_made() -> None:  # GRD-02
    class Nothing(Guardrail):
        pass

    with pytest.raises(TypeError, match="check"):
        Nothing()  # type: ignore[abstract]  # the mistake under test


def test_acheck_of_the_base_runs_check_on_the_same_thread_and_returns_its_result() -> None:  # GRD-03
    guardrail = Short()
    assert acheck(guardrail, "much too long") == GuardrailResult(False, "too long")
    assert guardrail.threads == [threading.get_ident()]


def test_an_overridden_acheck_is_what_the_async_path_asks() -> None:  # GRD-04
    class Remote(Short):
        async def acheck(self, text: str) -> GuardrailResult:
            await asyncio.sleep(0)
            return GuardrailResult(False, "asked elsewhere")

    with pytest.raises(GuardrailTripwireError, match="asked elsewhere"):
        asyncio.run(run_guardrails([Remote()], "ok"))


@pytest.mark.parametrize("ask", [CallableGuardrail.check, acheck])
def test_true_passes_and_false_blocks_with_the_message_of_the_constructor(ask) -> None:  # GRD-05
    guardrail = CallableGuardrail(lambda text: len(text) < 4, message="input too long")
    assert ask(guardrail, "abc").passed is True
    assert ask(guardrail, "abcd") == GuardrailResult(False, "input too long")


def test_the_message_has_a_documented_default() -> None:  # GRD-05
    assert CallableGuardrail(lambda text: False).check("x").message == "guardrail triggered"


def test_a_result_of_the_function_is_passed_through_unchanged() -> None:  # GRD-06
    own = GuardrailResult(False, "my own words")
    guardrail = CallableGuardrail(lambda text: own, message="not these")
    assert guardrail.check("x") is own
    assert acheck(guardrail) is own


@pytest.mark.parametrize(("fn", "passes"), [(yes, True), (no, False)])
def test_acheck_awaits_an_async_function(fn, passes: bool) -> None:  # GRD-07
    assert acheck(CallableGuardrail(fn)).passed is passes


def test_acheck_awaits_what_a_lambda_around_an_async_call_returns() -> None:  # GRD-08
    assert acheck(CallableGuardrail(lambda text: no(text + "!"))).passed is False


@pytest.mark.parametrize(("text", "passes"), [("fine", True), ("bad", False)])
def test_acheck_awaits_an_object_with_an_async_call(text: str, passes: bool) -> None:  # GRD-08
    assert acheck(CallableGuardrail(AsyncObject()), text).passed is passes


def test_acheck_awaits_a_future_and_what_it_holds() -> None:  # GRD-08
    def in_a_future(text: str) -> asyncio.Future[object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        future.set_result(no(text))
        return future

    assert acheck(CallableGuardrail(in_a_future)).passed is False  # type: ignore[arg-type]  # typed as odd as it is


@pytest.mark.parametrize("fn", [yes, no, lambda text: yes(text + "!"), AsyncObject()])
def test_check_refuses_what_has_to_be_awaited_without_a_warning_about_it(fn) -> None:  # GRD-09
    with pytest.raises(TypeError, match=r"acheck\(\)"):
        CallableGuardrail(fn).check("text")


def generated(text: str) -> Iterator[bool]:
    yield False


async def generated_async(text: str) -> AsyncIterator[bool]:
    yield False


@pytest.mark.parametrize("fn", [generated, generated_async])
def test_a_generator_that_never_ran_lets_nothing_through(fn) -> None:  # GRD-08
    with pytest.raises(TypeError, match="nothing was checked"):
        acheck(CallableGuardrail(fn))


@given(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()), st.floats(), st.booleans()))
def test_of_any_other_value_its_truth_counts(value: object) -> None:  # GRD-10
    guardrail = CallableGuardrail(lambda text: value)  # type: ignore[arg-type,return-value]  # what is under test
    assert guardrail.check("x").passed is bool(value)
    assert acheck(guardrail).passed is bool(value)


def broken(text: str) -> bool:
    raise ZeroDivisionError("the function's own")


async def broken_async(text: str) -> bool:
    raise ZeroDivisionError("the function's own")


@pytest.mark.parametrize("fn", [broken, broken_async])
def test_an_exception_of_the_function_propagates(fn) -> None:  # GRD-11
    with pytest.raises(ZeroDivisionError, match="the function's own"):
        asyncio.run(run_guardrails([CallableGuardrail(fn)], "text"))


def test_check_lets_an_exception_through_as_well() -> None:  # GRD-11
    with pytest.raises(ZeroDivisionError, match="the function's own"):
        CallableGuardrail(broken).check("text")


def test_a_guardrail_that_blocks_raises_its_message_and_its_name() -> None:  # GRD-12
    blocking = CallableGuardrail(lambda text: False, message="no numbers please", name="no_numbers")
    with pytest.raises(GuardrailTripwireError, match=r"^no numbers please$") as caught:
        asyncio.run(run_guardrails([CallableGuardrail(yes), blocking], "1"))
    assert caught.value.message == "no numbers please"
    assert caught.value.rule == "no_numbers"


def test_nothing_is_raised_when_all_pass() -> None:  # GRD-12
    asyncio.run(run_guardrails([], "text"))
    asyncio.run(run_guardrails([CallableGuardrail(yes), Short()], "text"))


def test_the_first_that_blocks_ends_the_round() -> None:  # GRD-12
    later = Short()
    with pytest.raises(GuardrailTripwireError):
        asyncio.run(run_guardrails([CallableGuardrail(no), later], "text"))
    assert later.threads == []


def test_a_block_without_a_message_still_says_who_blocked() -> None:
    class Mute(Guardrail):
        def check(self, text: str) -> GuardrailResult:
            return GuardrailResult(False)

    with pytest.raises(GuardrailTripwireError, match="guardrail Mute blocked the text") as caught:
        asyncio.run(run_guardrails([Mute()], "text"))
    assert caught.value.message == ""
    assert caught.value.rule == "Mute"


@pytest.mark.parametrize("answer", [True, None, "yes"])
def test_a_guardrail_that_returns_no_result_does_not_pass(answer: object) -> None:
    class Sloppy(Guardrail):
        def check(self, text: str) -> GuardrailResult:
            return answer  # type: ignore[return-value]  # the mistake under test

    with pytest.raises(TypeError, match="guardrail Sloppy must return a GuardrailResult"):
        asyncio.run(run_guardrails([Sloppy()], "text"))


def test_a_guardrail_whose_check_is_async_by_mistake_does_not_pass() -> None:  # GRD-08
    class Confused(Guardrail):
        async def check(self, text: str) -> GuardrailResult:  # type: ignore[override]  # the mistake under test
            return GuardrailResult(True)

    with pytest.raises(TypeError, match="guardrail Confused gave a coroutine"):
        asyncio.run(run_guardrails([Confused()], "text"))


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (broken, "broken"),
        (functools.partial(broken), "broken"),
        (lambda text: True, "lambda"),
        (AsyncObject(), "AsyncObject"),
    ],
)
def test_a_function_names_its_guardrail(fn, name: str) -> None:  # GRD-12
    assert CallableGuardrail(fn).name == name


def test_what_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="must be callable, not str"):
        CallableGuardrail("len")  # type: ignore[arg-type]  # the mistake under test
