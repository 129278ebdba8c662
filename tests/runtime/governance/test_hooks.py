"""Hooks watch: each is told in turn, none can change anything by what it returns."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from tracehold.governance import Hook, PendingAction, fire
from tracehold.llm.protocol import LLMResponse
from tracehold.tools.base import ToolResponse

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "on_run_start": ("hello",),
    "before_model": ([],),
    "after_model": (LLMResponse("hi"),),
    "before_tool": ("search", {}),
    "after_tool": ("search", {}, ToolResponse("found")),
    "on_guardrail_trip": ("input", "too long"),
    "on_interrupt": ([PendingAction("search", {}, "c")],),
    "on_error": (ValueError("x"),),
    "on_run_end": ("bye",),
}


class Recorder(Hook):
    """Writes down what it is told."""

    def __init__(self, name: str, log: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.log = log

    def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
        self.log.append((self.name, name, parameters))


class AsyncRecorder(Recorder):
    async def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        self.log.append((self.name, name, parameters))


def test_the_base_has_nine_methods_that_do_nothing() -> None:  # HOOK-01
    methods = {name for name, _ in inspect.getmembers(Hook, inspect.isfunction) if not name.startswith("_")}
    assert methods == set(ARGUMENTS)
    for method, arguments in ARGUMENTS.items():
        assert getattr(Hook(), method)(*arguments) is None


@pytest.mark.parametrize("method", ["on_run_start", "on_interrupt", "on_run_end"])
def test_methods_about_the_whole_run_take_a_scope(method: str) -> None:  # HOOK-01
    scope = inspect.signature(getattr(Hook, method)).parameters["scope"]
    assert (scope.kind, scope.default) == (inspect.Parameter.KEYWORD_ONLY, None)


def test_a_subclass_overrides_only_what_it_needs() -> None:  # HOOK-01
    log: list[tuple[Any, ...]] = []
    for method, arguments in ARGUMENTS.items():
        asyncio.run(fire([Recorder("a", log)], method, *arguments))
    assert log == [("a", "search", {})]


def test_what_a_hook_returns_is_ignored() -> None:  # HOOK-02
    class Meddler(Hook):
        def before_tool(self, name: str, parameters: dict[str, Any]) -> Any:
            return False

    log: list[tuple[Any, ...]] = []
    told: Any = fire([Meddler(), Recorder("b", log)], "before_tool", "search", {})
    assert asyncio.run(told) is None
    assert log == [("b", "search", {})]


def test_what_a_hook_raises_reaches_the_caller_and_ends_the_round() -> None:  # HOOK-03
    class Broken(Hook):
        def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
            raise KeyError("the hook's own")

    log: list[tuple[Any, ...]] = []
    with pytest.raises(KeyError, match="the hook's own"):
        asyncio.run(fire([Broken(), Recorder("b", log)], "before_tool", "search", {}))
    assert log == []


def test_what_an_async_hook_raises_reaches_the_caller() -> None:  # HOOK-03
    class Broken(Hook):
        async def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
            raise KeyError("the hook's own")

    with pytest.raises(KeyError, match="the hook's own"):
        asyncio.run(fire([Broken()], "before_tool", "search", {}))


def test_hooks_fire_in_list_order_async_ones_included() -> None:  # HOOK-04
    log: list[tuple[Any, ...]] = []
    hooks = [AsyncRecorder("first", log), Recorder("second", log), AsyncRecorder("third", log)]
    asyncio.run(fire(hooks, "before_tool", "search", {"q": 1}))
    assert log == [("first", "search", {"q": 1}), ("second", "search", {"q": 1}), ("third", "search", {"q": 1})]


def test_an_async_method_is_awaited_before_fire_returns() -> None:  # HOOK-11
    log: list[tuple[Any, ...]] = []

    async def run() -> list[tuple[Any, ...]]:
        await fire([AsyncRecorder("a", log)], "before_tool", "search", {})
        return list(log)

    assert asyncio.run(run()) == [("a", "search", {})]


def test_a_hook_that_removes_itself_does_not_make_the_next_one_miss_its_turn() -> None:
    log: list[tuple[Any, ...]] = []
    hooks: list[Hook] = []

    class Once(Hook):
        def before_tool(self, name: str, parameters: dict[str, Any]) -> None:
            hooks.remove(self)

    hooks += [Once(), Recorder("b", log)]
    asyncio.run(fire(hooks, "before_tool", "search", {}))
    assert log == [("b", "search", {})]
