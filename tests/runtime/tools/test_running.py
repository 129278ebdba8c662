"""Whatever happens inside a tool becomes a response, except what steers the run."""

from __future__ import annotations

import asyncio
import enum
import functools
import gc
import logging
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.control import ControlSignal
from tracehold.core.errors import GuardrailTripwireError, RunCancelled, RunLimitExceeded
from tracehold.tools import FunctionTool, ToolResponse
from tracehold.tools.response import MAX_ERROR_CHARS, as_response
from tracehold.tools.running import arun_tool, run_tool

Run = Callable[[Any], ToolResponse]
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def tool_of(func: Callable[..., Any]) -> FunctionTool:
    return FunctionTool(func, "t", "")


def raising(error: BaseException) -> Callable[..., Any]:
    def run(_parameters: dict[str, Any]) -> Any:
        raise error

    return run


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both ways to run a tool."""
    if request.param == "sync":
        return lambda tool: run_tool(tool, {}, name="t")
    return lambda tool: asyncio.run(arun_tool(tool, {}, name="t"))


@dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    x: int


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("hello", "hello"),
        ("", ""),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([float("nan")], "[null]"),
        (("a",), '["a"]'),
        (b"caf\xc3\xa9\xff", "café\ufffd"),
        (Point(1), '{"x":1}'),
        (Model(x=1), '{"x":1}'),
        (ToolResponse(3), "3"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_a_tool_returns_becomes_text(run: Run, returned: Any, text: str) -> None:
    response = run(tool_of(lambda _parameters: returned))
    assert (response.text, response.status) == (text, "success")


def test_what_was_not_a_text_stays_for_the_application(run: Run) -> None:
    returned = {"a": 1}
    assert run(tool_of(lambda _parameters: returned)).data is returned


def test_a_response_is_passed_on_as_it_is(run: Run) -> None:
    made = ToolResponse.partial("half", {"k": 1})
    assert run(tool_of(lambda _parameters: made)) is made


class AnyStatus(str):
    """Equal to whatever it is compared with."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Level(enum.StrEnum):
    PARTIAL = "partial"


@pytest.mark.parametrize(
    "status",
    ["denied", "", None, 3, ["success"], AnyStatus("denied"), object()],
    ids=lambda value: type(value).__name__ + str(value)[:7],
)
def test_a_status_set_afterwards_cannot_pass_for_the_word_of_a_gate(run: Run, status: Any) -> None:  # REG-04
    made = ToolResponse("done", data=1)
    made.status = status
    assert run(tool_of(lambda _parameters: made)) == ToolResponse("done", "error", 1)


def test_a_status_equal_to_a_known_one_is_that_one(run: Run) -> None:  # REG-04
    for status in (Level.PARTIAL, AnyStatus("partial")):
        made = ToolResponse("half")
        made.status = status  # type: ignore[assignment]  # a tool is not type-checked
        assert type(run(tool_of(lambda _parameters, made=made: made)).status) is str
        assert run(tool_of(lambda _parameters, made=made: made)) == ToolResponse.partial("half")


def test_the_log_is_told_once_of_a_tool_whose_status_is_unknown(caplog: pytest.LogCaptureFixture) -> None:  # REG-04
    made = ToolResponse("secret")
    made.status = "hunter2"  # type: ignore[assignment]  # a tool is not type-checked
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            as_response("once_in_the_log", made)
    assert caplog.text.count("once_in_the_log") == 1
    assert "secret" not in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("text", "plain"),
    [(b"bytes", "bytes"), (None, ""), (AnyStatus("x"), "x"), ({"a": 1}, '{"a":1}'), (Level.PARTIAL, "partial")],
)
def test_the_text_of_a_response_becomes_a_plain_text(run: Run, text: Any, plain: str) -> None:  # REG-04
    response = run(tool_of(lambda _parameters: ToolResponse(text, data=1)))
    assert (response.text, response.status, response.data) == (plain, "success", 1)
    assert type(response.text) is str


def test_what_a_registry_returned_becomes_a_response_whatever_it_is() -> None:  # REG-04
    class Mute:
        def __str__(self) -> str:
            raise ValueError("no text")

    assert as_response("t", Mute()).text == "Tool t failed: ValueError: no text"
    assert as_response("t", ToolResponse(Mute())).status == "error"  # type: ignore[arg-type]  # on purpose
    assert as_response("t", 3) == ToolResponse("3", data=3)


def test_a_text_whose_making_steers_the_run_passes() -> None:  # HAR-60
    class Waiting:
        def __str__(self) -> str:
            raise ControlSignal("suspend")

    with pytest.raises(ControlSignal):
        as_response("t", Waiting())


def test_a_result_that_has_no_text_is_an_error(run: Run) -> None:
    class Mute:
        def __str__(self) -> str:
            raise ValueError("no text")

    assert run(tool_of(lambda _parameters: Mute())).text == "Tool t failed: ValueError: no text"


def test_a_generator_is_no_result(run: Run) -> None:
    def pieces(_parameters: dict[str, Any]) -> Any:
        yield "a"

    async def async_pieces(_parameters: dict[str, Any]) -> Any:
        yield "a"

    for generator in (pieces, async_pieces):
        response = run(tool_of(generator))
        assert response.status == "error"
        assert "generator" in response.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad city"), "Tool t failed: ValueError: bad city"),
        (KeyError("city"), "Tool t failed: KeyError: 'city'"),
        (RuntimeError(), "Tool t failed: RuntimeError"),
        (GuardrailTripwireError("inner"), "Tool t failed: GuardrailTripwireError: inner"),
        (ExceptionGroup("two", [ValueError("a")]), "Tool t failed: ExceptionGroup: two (1 sub-exception)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_becomes_an_error_response_with_its_type_and_message(
    run: Run, error: Exception, text: str
) -> None:  # HAR-55
    assert run(tool_of(raising(error))) == ToolResponse.error(text)


def test_a_stop_iteration_does_not_hang_the_caller(run: Run) -> None:  # HAR-55
    assert "StopIteration" in run(tool_of(raising(StopIteration("end")))).text


def test_an_endless_recursion_is_an_error_response(run: Run) -> None:  # HAR-55
    def endless(parameters: dict[str, Any]) -> Any:
        return endless(parameters)

    assert "RecursionError" in run(tool_of(endless)).text


def test_an_exception_whose_text_fails_is_still_named(run: Run) -> None:  # HAR-55
    class Mute(Exception):  # noqa: N818 - a sample
        def __str__(self) -> str:
            raise RuntimeError

    assert run(tool_of(raising(Mute()))).text == "Tool t failed: Mute"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_the_text_of_an_exception_cannot_stop_the_program(run: Run, stop: type[BaseException]) -> None:  # HAR-55
    class Trap(Exception):  # noqa: N818 - a sample
        def __str__(self) -> str:
            raise stop

    assert run(tool_of(raising(Trap()))).text == "Tool t failed: Trap"


def test_an_exception_whose_text_is_no_plain_text_is_described(run: Run) -> None:  # HAR-55
    class Odd(str):
        __slots__ = ()

        def __format__(self, _spec: str) -> str:
            raise SystemExit

        def __len__(self) -> int:
            raise SystemExit

    class Strange(Exception):  # noqa: N818 - a sample
        def __str__(self) -> str:
            return Odd("bad city")

    assert run(tool_of(raising(Strange()))).text == "Tool t failed: Strange: bad city"


def test_a_long_or_broken_message_is_made_fit_for_the_model(run: Run) -> None:  # HAR-55
    text = run(tool_of(raising(ValueError("\ud800" + "x" * 1_000_000)))).text
    text.encode()
    assert len(text) < MAX_ERROR_CHARS + 100
    assert text.endswith("…")


STEERING = [ControlSignal("suspend"), RunLimitExceeded("max", rule="max_llm_calls"), RunCancelled("stop")]


@pytest.mark.parametrize("signal", STEERING, ids=lambda signal: type(signal).__name__)
def test_a_signal_that_steers_the_run_passes(run: Run, signal: Exception) -> None:  # HAR-60
    with pytest.raises(type(signal)) as caught:
        run(tool_of(raising(signal)))
    assert caught.value is signal


@pytest.mark.parametrize("signal", STEERING, ids=lambda signal: type(signal).__name__)
def test_a_signal_of_a_task_group_inside_the_tool_passes(run: Run, signal: Exception) -> None:  # HAR-60
    async def both(_parameters: dict[str, Any]) -> str:
        async def one() -> None:
            raise signal

        async with asyncio.TaskGroup() as group:
            group.create_task(one())
        return "never"

    with pytest.raises(type(signal)) as caught:
        run(tool_of(both))
    assert caught.value is signal


def test_a_subclass_of_a_control_signal_is_one(run: Run) -> None:  # HAR-60
    class Suspended(ControlSignal):
        pass

    with pytest.raises(Suspended):
        run(tool_of(raising(Suspended())))


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_a_wish_to_stop_the_program_passes(stop: type[BaseException]) -> None:
    with pytest.raises(stop):
        run_tool(tool_of(raising(stop())), {}, name="t")


def test_cancelling_the_caller_cancels_an_async_tool() -> None:
    states: list[str] = []

    async def main() -> None:
        started = asyncio.Event()

        async def wait(_parameters: dict[str, Any]) -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                states.append("cancelled")
                raise
            return "never"

        call = asyncio.create_task(arun_tool(tool_of(wait), {}, name="t"))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert states == ["cancelled"]


def test_a_sync_tool_does_not_block_the_event_loop_and_sees_the_context() -> None:
    others_ran = threading.Event()

    def wait(_parameters: dict[str, Any]) -> str:
        return f"{WHO.get()} {others_ran.wait(30)}"

    async def both() -> ToolResponse:
        WHO.set("ada")
        call = asyncio.create_task(arun_tool(tool_of(wait), {}, name="t"))
        await asyncio.sleep(0)
        others_ran.set()
        return await call

    assert asyncio.run(both()).text == "ada True"


def test_an_async_tool_runs_on_the_event_loop() -> None:
    async def where(_parameters: dict[str, Any]) -> str:
        return str(id(asyncio.get_running_loop()))

    async def call() -> bool:
        return (await arun_tool(tool_of(where), {}, name="t")).text == str(id(asyncio.get_running_loop()))

    assert asyncio.run(call())


def test_an_async_tool_can_be_run_without_an_event_loop() -> None:
    async def later(_parameters: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return WHO.get()

    assert run_tool(tool_of(later), {}, name="t").text == "nobody"


def test_inside_an_event_loop_the_sync_path_says_what_to_call_instead() -> None:
    async def later(_parameters: dict[str, Any]) -> str:
        return "never"

    async def call() -> ToolResponse:
        return run_tool(tool_of(later), {}, name="t")

    response = asyncio.run(call())
    assert response.status == "error"
    assert "aexecute_tool" in response.text


async def _hello(_parameters: dict[str, Any]) -> str:
    return "hello"


class _AsyncObject:
    async def __call__(self, _parameters: dict[str, Any]) -> str:
        return "hello"


@pytest.mark.parametrize("func", [_hello, _AsyncObject(), functools.partial(_hello)], ids=["def", "object", "partial"])
def test_an_async_function_in_any_dress_is_awaited(run: Run, func: Any) -> None:  # REG-07
    assert run(tool_of(func)) == ToolResponse.ok("hello")


def test_an_awaitable_that_nobody_awaited_is_an_error_and_gives_no_warning(run: Run) -> None:  # REG-07
    with warnings.catch_warnings(record=True) as given_warnings:
        warnings.simplefilter("always")
        response = run(tool_of(lambda parameters: _hello(parameters)))  # noqa: PLW0108 - sync-looking on purpose
        gc.collect()
    assert response.status == "error"
    assert "async def" in response.text
    assert given_warnings == []


def test_a_run_that_is_async_by_mistake_is_an_error(run: Run, recorder_type: Any) -> None:  # REG-07
    class Mistaken(recorder_type):  # type: ignore[misc]
        async def run(self, parameters: dict[str, Any]) -> ToolResponse:
            return ToolResponse.ok("never")

    response = run(Mistaken("m"))
    assert response.status == "error"
    assert "awaitable" in response.text


@pytest.mark.parametrize(
    "duck",
    [
        SimpleNamespace(name="t", run=lambda _parameters: "x"),
        SimpleNamespace(name="t", arun=_hello),
        SimpleNamespace(name="t", run=lambda _parameters: "x", arun=lambda _parameters: "x"),
    ],
    ids=["run", "arun", "an arun that is not async"],
)
def test_a_duck_typed_tool_needs_run_or_arun(run: Run, duck: Any) -> None:
    assert run(duck).status == "success"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(), st.lists))
def test_any_result_becomes_a_text_that_can_be_sent(value: Any) -> None:
    response = as_response("t", value)
    assert isinstance(response.text, str)
    assert response.status == "success"
