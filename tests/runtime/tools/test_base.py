"""Tools and their responses as a user writes them."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from tracehold.tools import Tool, ToolParameter, ToolResponse

WHO: ContextVar[str] = ContextVar("WHO")


def test_a_tool_has_name_description_and_origin(recorder_type: Any) -> None:  # REG-01
    class Remote(Tool):
        def get_parameters(self) -> list[ToolParameter]:
            return []

    tool = Remote("search", "Search.", origin="files-server")
    assert (tool.name, tool.description, tool.origin) == ("search", "Search.", "files-server")
    assert recorder_type().origin == "builtin"


def test_origin_is_given_by_name_only() -> None:  # REG-01
    with pytest.raises(TypeError):
        Tool("a", "b", "c")  # type: ignore[abstract, call-arg]


def test_a_tool_must_say_its_parameters() -> None:  # REG-01
    class Silent(Tool):
        def run(self, parameters: dict[str, Any]) -> ToolResponse:
            return ToolResponse.ok("")

    with pytest.raises(TypeError, match="get_parameters"):
        Silent("silent", "")  # type: ignore[abstract]


def test_arun_runs_run_on_a_worker_thread_with_the_callers_context() -> None:  # REG-01
    class Where(Tool):
        def get_parameters(self) -> list[ToolParameter]:
            return []

        def run(self, parameters: dict[str, Any]) -> ToolResponse:
            return ToolResponse.ok(WHO.get(), threading.get_ident())

    async def call() -> ToolResponse:
        WHO.set("ada")
        return await Where("where", "").arun({})

    response = asyncio.run(call())
    assert response.text == "ada"
    assert response.data != threading.get_ident()


def test_run_of_a_tool_that_is_only_async_runs_it_to_the_end() -> None:  # REG-01
    class Async(Tool):
        def get_parameters(self) -> list[ToolParameter]:
            return []

        async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
            await asyncio.sleep(0)
            return ToolResponse.ok("done")

    assert Async("a", "").run({}).text == "done"


def test_a_tool_that_does_nothing_says_what_to_override() -> None:  # REG-01
    class Empty(Tool):
        def get_parameters(self) -> list[ToolParameter]:
            return []

    with pytest.raises(NotImplementedError, match="Empty overrides neither run nor arun"):
        Empty("empty", "").run({})
    with pytest.raises(NotImplementedError):
        asyncio.run(Empty("empty", "").arun({}))


def test_the_flags_are_off(recorder_type: Any) -> None:  # REG-02
    assert (Tool.requires_confirmation, Tool.external_content, Tool.supports_parallel) == (False, False, False)
    assert recorder_type().needs_confirmation({}) is False


def test_the_flag_decides_whether_a_call_needs_confirmation(recorder_type: Any) -> None:  # REG-02
    assert recorder_type(requires_confirmation=True).needs_confirmation({"n": 1}) is True
    assert recorder_type(external_content=True).is_external_content({"n": 1}) is True


def test_whether_confirmation_is_needed_may_be_decided_per_call(recorder_type: Any) -> None:  # REG-02
    class Careful(recorder_type):  # type: ignore[misc]
        def needs_confirmation(self, parameters: dict[str, Any]) -> bool:
            return bool(parameters["n"] > 10)

    assert [Careful().needs_confirmation({"n": n}) for n in (1, 11)] == [False, True]


def test_a_parameter_is_required_and_has_no_default_unless_said() -> None:  # REG-03
    parameter = ToolParameter("city", "string", "where")
    assert (parameter.name, parameter.type, parameter.description) == ("city", "string", "where")
    assert (parameter.required, parameter.default, parameter.schema) == (True, None, None)
    assert ToolParameter("n", "integer", "", False, 3, {"type": "integer"}).schema == {"type": "integer"}


def test_a_response_is_a_success_without_data_unless_said() -> None:  # REG-04
    assert ToolResponse("x") == ToolResponse("x", "success", None)


@pytest.mark.parametrize(("make", "status"), [("ok", "success"), ("error", "error"), ("partial", "partial")])
def test_each_status_has_a_constructor(make: str, status: str) -> None:  # REG-04
    assert getattr(ToolResponse, make)("text", {"k": 1}) == ToolResponse("text", status, {"k": 1})  # type: ignore[arg-type]
    assert getattr(ToolResponse, make)("text").data is None


def test_the_text_of_a_response_is_its_str() -> None:  # REG-04
    assert str(ToolResponse.error("no such file")) == "no such file"


@pytest.mark.parametrize("status", ["ok", "", None])
def test_another_status_is_refused(status: Any) -> None:  # REG-04
    with pytest.raises(ValueError, match="success, partial, error"):
        ToolResponse("x", status)
