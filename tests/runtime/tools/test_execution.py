"""A call's way through the registry: known, valid, confirmed, run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.control import ControlSignal
from tracehold.tools import FunctionTool, Refusal, ToolParameter, ToolRegistry, ToolResponse
from tracehold.tools.confirmation import aask, ask

Execute = Callable[..., tuple[ToolResponse, bool]]


@pytest.fixture(params=["sync", "async"])
def execute(request: pytest.FixtureRequest, registry: ToolRegistry) -> Execute:
    """Both ways to execute a tool, as one function that returns what the `_checked` form does."""
    if request.param == "sync":
        return registry.execute_tool_checked
    return lambda *args: asyncio.run(registry.aexecute_tool_checked(*args))


def test_a_call_runs_the_tool_with_its_parameters(execute: Execute, recorder: Any) -> None:  # REG-09
    response, entered = execute("recorder", {"n": 3})
    assert (response, entered) == (ToolResponse.ok("3"), True)
    assert recorder.calls == [{"n": 3}]


def test_the_plain_forms_return_the_response_alone(registry: ToolRegistry, recorder: Any) -> None:  # REG-09
    assert registry.execute_tool("recorder", {"n": 1}) == ToolResponse.ok("1")
    assert asyncio.run(registry.aexecute_tool("recorder", {"n": 2})) == ToolResponse.ok("2")


def test_an_unknown_tool_is_an_error_response_and_nothing_was_entered(execute: Execute) -> None:  # REG-09
    response, entered = execute("missing", {})
    assert (response.status, entered) == ("error", False)
    assert "missing" in response.text


@pytest.mark.parametrize("name", [None, 3, ["a"], "x" * 5000, "\ud800"])
def test_a_name_that_is_no_name_is_unknown(execute: Execute, name: Any) -> None:  # REG-09
    response, entered = execute(name, {})
    assert (response.status, entered) == ("error", False)
    assert len(response.text) < 200
    response.text.encode()


def test_a_call_that_fails_inside_the_tool_was_entered(execute: Execute, registry: ToolRegistry) -> None:  # REG-09
    registry.register_function(lambda _parameters: 1 / 0, "broken", "")
    response, entered = execute("broken", {})
    assert (response.status, entered) == ("error", True)
    assert "ZeroDivisionError: division by zero" in response.text


def test_a_control_signal_passes_both_ways(execute: Execute, registry: ToolRegistry) -> None:  # REG-09
    def stop(_parameters: dict[str, Any]) -> str:
        raise ControlSignal

    registry.register_function(stop, "stop", "")
    with pytest.raises(ControlSignal):
        execute("stop", {})


# --- parameters


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, '"n" is a required property'),
        ({"n": "three"}, 'n: the value is not of type "integer"'),
        ({"n": None}, "n:"),
        ({"n": True}, "n:"),
        ({"n": 1.5}, "n:"),
    ],
)
def test_missing_or_mistyped_parameters_are_an_error_response(
    execute: Execute, recorder: Any, parameters: Any, said: str
) -> None:  # REG-10
    response, entered = execute("recorder", parameters)
    assert (response.status, entered, recorder.calls) == ("error", False, [])
    assert said in response.text


def test_extra_keys_are_tolerated(execute: Execute, recorder: Any) -> None:  # REG-10
    assert execute("recorder", {"n": 1, "reasoning": "because"})[1]
    assert recorder.calls == [{"n": 1, "reasoning": "because"}]


@pytest.mark.parametrize("parameters", [None, [], "{}", '{"n": 1}', 3])
def test_parameters_that_are_no_object_are_refused(execute: Execute, recorder: Any, parameters: Any) -> None:  # REG-10
    response, entered = execute("recorder", parameters)
    assert (response.status, entered, recorder.calls) == ("error", False, [])
    assert "must be an object" in response.text


def test_parameters_are_checked_before_anyone_is_asked(
    execute: Execute, registry: ToolRegistry, recorder_type: Any
) -> None:  # REG-10
    registry.register(recorder_type(requires_confirmation=True))
    asked: list[Any] = []
    response, entered = execute("recorder", {"n": "x"}, lambda *call: asked.append(call) or True)
    assert (response.status, entered, asked) == ("error", False, [])


def test_a_call_is_checked_against_the_schema_that_was_shown(registry: ToolRegistry, recorder: Any) -> None:  # REG-10
    recorder.get_parameters = lambda: [ToolParameter("n", "string", "")]
    registry.to_openai_schema()
    recorder.get_parameters = lambda: [ToolParameter("n", "integer", "")]
    assert registry.execute_tool("recorder", {"n": "shown as text"}).status == "success"
    registry.to_openai_schema()
    assert registry.execute_tool("recorder", {"n": "shown as a number"}).status == "error"


def test_a_tool_that_replaces_another_is_checked_by_its_own_schema(registry: ToolRegistry, recorder: Any) -> None:
    # REG-10
    registry.to_openai_schema()
    registry.register(FunctionTool(lambda _parameters: "ok", "recorder", ""), overwrite=True)
    assert registry.execute_tool("recorder", {}).text == "ok"


BROKEN: list[Any] = [
    {"type": "object", "properties": {"n": {"type": "no-such-type"}}},
    {"$ref": "#/$defs/missing"},
    {"$ref": "http://127.0.0.1:9/schema.json"},
    {"$ref": "file:///etc/hostname"},
    {"$schema": "http://example.com/unknown"},
    {"properties": {"n": {"pattern": "("}}},
    {"properties": {"n": {"pattern": "(a{1000}){1000}"}}},
    {"properties": 3},
    {"x": object()},
    {"x": "\ud800"},
    ["a", "list"],
    "text",
]


@pytest.mark.parametrize("schema", BROKEN, ids=range(len(BROKEN)))
def test_a_schema_that_breaks_the_validator_is_an_error_response(
    execute: Execute, recorder: Any, schema: Any
) -> None:  # REG-11
    recorder.get_input_schema = lambda: schema
    response, entered = execute("recorder", {"n": 1})
    assert (response.status, entered, recorder.calls) == ("error", False, [])
    assert "recorder" in response.text


def test_a_schema_that_contains_itself_is_an_error_response(execute: Execute, recorder: Any) -> None:  # REG-11
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["n"] = schema
    recorder.get_input_schema = lambda: schema
    assert execute("recorder", {"n": 1})[0].status == "error"


def test_a_tool_that_cannot_tell_its_parameters_is_an_error_response(execute: Execute, recorder: Any) -> None:  # REG-11
    recorder.get_parameters = lambda: 1 / 0
    response, entered = execute("recorder", {"n": 1})
    assert (response.status, entered) == ("error", False)
    assert "ZeroDivisionError" in response.text


# --- confirmation


def test_a_tool_that_needs_confirmation_is_refused_when_nobody_can_be_asked(
    execute: Execute, registry: ToolRegistry, recorder_type: Any
) -> None:  # REG-09
    tool = recorder_type(requires_confirmation=True)
    registry.register(tool)
    response, entered = execute("recorder", {"n": 1})
    assert (response.status, entered, tool.calls) == ("error", False, [])
    assert "there is nobody to ask" in response.text


@pytest.mark.parametrize("answer", [True, False])
def test_the_answer_decides(execute: Execute, registry: ToolRegistry, recorder_type: Any, answer: bool) -> None:
    # REG-09
    tool = recorder_type(requires_confirmation=True)
    registry.register(tool)
    asked: list[Any] = []

    def confirm(asked_tool: Any, parameters: Any) -> bool:
        asked.append((asked_tool, parameters))
        return answer

    assert execute("recorder", {"n": 1}, confirm)[1] is answer
    assert asked == [(tool, {"n": 1})]
    assert len(tool.calls) == answer


async def _pieces() -> Any:
    yield True


NO_ANSWERS: list[Any] = [
    "no",
    "yes",
    "false",
    "",
    [0],
    [],
    1,
    0,
    None,
    object(),
    _pieces(),
    concurrent.futures.Future(),
]


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=lambda answer: repr(answer)[:12])
def test_an_answer_that_is_neither_true_nor_false_is_refused(
    execute: Execute, registry: ToolRegistry, recorder_type: Any, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:  # REG-09
    tool = recorder_type(requires_confirmation=True)
    registry.register(tool)
    with caplog.at_level(logging.WARNING):
        response, entered = execute("recorder", {"n": 1}, lambda *_call: answer)
    assert (response.status, entered, tool.calls) == ("error", False, [])
    assert "neither yes nor no" in response.text
    assert f"answered with {type(answer).__name__}" in caplog.text


def test_an_awaited_answer_that_is_neither_true_nor_false_is_refused(
    registry: ToolRegistry, recorder_type: Any
) -> None:  # REG-09
    async def confirm(_tool: Any, _parameters: Any) -> Any:
        return "no"

    tool = recorder_type(requires_confirmation=True)
    registry.register(tool)
    assert not asyncio.run(registry.aexecute_tool_checked("recorder", {"n": 1}, confirm))[1]
    assert tool.calls == []


def test_whoever_asks_is_told_what_came_back_instead_of_an_answer() -> None:
    with pytest.raises(TypeError, match="answer True or False, and answered with str"):
        ask(lambda *_call: "no", None, {})  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="answered with list"):
        asyncio.run(aask(lambda *_call: [0], None, {}))  # type: ignore[arg-type]  # on purpose


def test_a_tool_that_needs_no_confirmation_asks_nobody(execute: Execute, recorder: Any) -> None:  # REG-09
    asked: list[Any] = []
    assert execute("recorder", {"n": 1}, lambda *call: asked.append(call) or False)[1]
    assert asked == []


def test_a_duck_typed_tool_is_asked_for_its_flag(execute: Execute, registry: ToolRegistry) -> None:  # REG-02, REG-09
    registry.register(
        SimpleNamespace(name="duck", get_parameters=list, run=lambda _parameters: "ran", requires_confirmation=True)
    )
    assert not execute("duck", {})[1]
    assert execute("duck", {}, lambda *_call: True) == (ToolResponse.ok("ran"), True)


def test_an_async_needs_confirmation_is_not_taken_for_a_no(execute: Execute, recorder: Any) -> None:  # REG-02
    async def needs_confirmation(_parameters: dict[str, Any]) -> bool:
        return False

    recorder.needs_confirmation = needs_confirmation
    assert not execute("recorder", {"n": 1})[1]


def test_a_person_is_asked_when_the_tool_cannot_say_whether_to(
    execute: Execute, recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:  # REG-02
    recorder.needs_confirmation = lambda _parameters: 1 / 0
    with caplog.at_level(logging.WARNING):
        assert not execute("recorder", {"n": 1})[1]
    assert "ZeroDivisionError" in caplog.text


async def _yes(_tool: Any, _parameters: Any) -> bool:
    return True


async def _no(_tool: Any, _parameters: Any) -> bool:
    return False


class _AsyncObject:
    async def __call__(self, _tool: Any, _parameters: Any) -> bool:
        return False


@pytest.mark.parametrize("confirm", [_yes, _AsyncObject()])
@pytest.mark.parametrize("flag", [True, False])
def test_the_sync_path_refuses_an_async_callback(
    registry: ToolRegistry, recorder_type: Any, confirm: Any, flag: bool
) -> None:  # REG-12
    tool = recorder_type(requires_confirmation=flag)
    registry.register(tool)
    for execute in (registry.execute_tool, registry.execute_tool_checked):
        with pytest.raises(TypeError, match="aexecute_tool"):
            execute("recorder", {"n": 1}, confirm)
    assert tool.calls == []


def test_the_sync_path_refuses_a_callback_that_turns_out_to_be_async(
    registry: ToolRegistry, recorder_type: Any
) -> None:  # REG-12
    tool = recorder_type(requires_confirmation=True)
    registry.register(tool)
    with pytest.raises(TypeError, match="aexecute_tool"):
        registry.execute_tool("recorder", {"n": 1}, lambda *call: _yes(*call))  # noqa: PLW0108 - not `async def`
    assert tool.calls == []


@pytest.mark.parametrize("confirm", [_no, _AsyncObject(), lambda *call: _no(*call)])  # noqa: PLW0108 - as above
def test_an_async_no_is_awaited_and_refuses(registry: ToolRegistry, recorder_type: Any, confirm: Any) -> None:  # REG-09
    registry.register(recorder_type(requires_confirmation=True))
    assert not asyncio.run(registry.aexecute_tool_checked("recorder", {"n": 1}, confirm))[1]


def test_a_blocking_callback_leaves_the_event_loop_free(registry: ToolRegistry, recorder_type: Any) -> None:  # REG-09
    registry.register(recorder_type(requires_confirmation=True))
    others_ran = threading.Event()

    async def both() -> bool:
        call = asyncio.create_task(
            registry.aexecute_tool_checked("recorder", {"n": 1}, lambda *_call: others_ran.wait(30))
        )
        await asyncio.sleep(0)
        others_ran.set()
        return (await call)[1]

    assert asyncio.run(both())


# --- the seam for a harness


def test_check_returns_the_tool_and_runs_nothing(registry: ToolRegistry, recorder: Any) -> None:  # REG-10
    recorder.requires_confirmation = True
    assert registry.check("recorder", {"n": 1}) is recorder
    assert recorder.calls == []


def test_check_tells_unknown_from_invalid(registry: ToolRegistry, recorder: Any) -> None:  # REG-10
    unknown, invalid = registry.check("missing", {}), registry.check("recorder", {})
    assert isinstance(unknown, Refusal)
    assert isinstance(invalid, Refusal)
    assert (unknown.decision, invalid.decision) == ("unknown_tool", "invalid_args")
    assert invalid.response() == ToolResponse.error(invalid.text)


def test_what_check_returned_can_be_run(registry: ToolRegistry, recorder: Any) -> None:  # REG-09
    tool = registry.check("recorder", {"n": 5})
    assert asyncio.run(registry.run(tool, {"n": 5})) == ToolResponse.ok("5")


def test_the_object_that_check_returned_runs_whatever_took_its_name(registry: ToolRegistry, recorder: Any) -> None:
    # REG-09
    tool = registry.check("recorder", {"n": 5})
    registry.register(FunctionTool(lambda _parameters: "another", "recorder", ""), overwrite=True)
    assert asyncio.run(registry.run(tool, {"n": 5})) == ToolResponse.ok("5")
    assert recorder.calls == [{"n": 5}]


class Flighty:
    """A tool that goes by the name it was registered under only until then."""

    def __init__(self, then: Any) -> None:
        self._names = iter(["recorder"])
        self._then = then

    @property
    def name(self) -> Any:
        name = next(self._names, self._then)
        if isinstance(name, Exception):
            raise name
        return name

    get_parameters = list

    def run(self, _parameters: Any) -> str:
        return "ran"


@pytest.mark.parametrize("then", ["harmless", None, AttributeError("gone"), ValueError("gone")], ids=str)
def test_a_tool_that_has_changed_its_name_is_not_run(
    execute: Execute, registry: ToolRegistry, then: Any, caplog: pytest.LogCaptureFixture
) -> None:  # REG-05, REG-09
    registry.register(Flighty(then))
    for name in ("recorder", "harmless"):
        response, entered = execute(name, {})
        assert (response.status, entered) == ("error", False)
    refused = registry.check("recorder", {})
    assert isinstance(refused, Refusal)
    assert refused.decision == "unknown_tool"
    assert "registered as recorder has another name" in caplog.text
    assert registry.names() == ["recorder"]
    assert [shown["function"]["name"] for shown in registry.to_openai_schema()] == ["recorder"]


def test_a_tool_that_changes_its_name_while_it_runs_is_reported_by_the_registered_one(
    execute: Execute, registry: ToolRegistry
) -> None:  # HAR-55
    def fail(_parameters: dict[str, Any]) -> str:
        tool.name = "harmless"
        raise ValueError

    tool = FunctionTool(fail, "harmful", "")
    registry.register(tool)
    assert execute("harmful", {})[0].text == "Tool harmful failed: ValueError"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["n", "m", "\ud800"]) | st.text() | st.integers(), values))
def test_whatever_a_model_sends_the_call_gives_a_response(parameters: dict[Any, Any]) -> None:  # REG-10
    registry = ToolRegistry()
    registry.register_function(lambda got: str(got["n"]), "t", "", [ToolParameter("n", "integer", "")])
    response, entered = registry.execute_tool_checked("t", parameters)
    n = parameters.get("n")
    fits = (isinstance(n, int) and not isinstance(n, bool)) or (isinstance(n, float) and n.is_integer())
    assert fits or not entered
    response.text.encode()


def test_a_callback_that_has_no_more_answers_does_not_hang_the_caller(
    registry: ToolRegistry, recorder_type: Any
) -> None:  # REG-09
    registry.register(recorder_type(requires_confirmation=True))
    answers: Any = iter(())
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(registry.aexecute_tool("recorder", {"n": 1}, lambda *_call: next(answers)))
