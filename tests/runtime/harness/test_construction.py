"""Making a Harness: what it needs, what it refuses, what may be absent."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from harness_parts import MESSAGES, HookLog, Model, Probe, registry, run, with_tools
from tracehold import Message
from tracehold.context import ReducerConfig, WindowBudgetConfig
from tracehold.core.tokens import count_tokens
from tracehold.harness import Harness

OPTIONS = {
    "tool_registry",
    "confirm",
    "tracer",
    "permissions",
    "hooks",
    "compactor",
    "tool_retriever",
    "context_builder",
    "sources",
    "reducer",
    "window_budget",
    "prompts",
    "token_counter",
}


class Block:
    def build_block(self, query: str, **_: Any) -> str:
        return f"about {query}"

    async def abuild_block(self, query: str, **_: Any) -> str:
        return f"about {query}"


class Source:
    name = "notes"


def test_a_model_alone_is_enough() -> None:  # HAR-01
    model = Model("hi")
    assert run(Harness(model).acall_llm(MESSAGES)).content == "hi"


def test_only_the_model_is_positional_and_all_else_is_optional() -> None:  # HAR-01
    llm, *others = inspect.signature(Harness).parameters.values()
    assert llm.name == "llm"
    assert llm.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {parameter.name for parameter in others} >= OPTIONS
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in others)
    assert all(parameter.default is not inspect.Parameter.empty for parameter in others)
    with pytest.raises(TypeError):
        Harness(Model(), registry())  # type: ignore[misc]


@pytest.mark.parametrize("sources", [None, [], ()])
def test_a_builder_without_sources_is_refused(sources: Any) -> None:  # HAR-02
    with pytest.raises(ValueError, match="sources"):
        Harness(Model(), context_builder=Block(), sources=sources)


def test_sources_without_a_builder_are_refused() -> None:  # HAR-03
    with pytest.raises(ValueError, match="context_builder"):
        Harness(Model(), sources=[Source()])


def test_neither_builder_nor_sources_is_fine_and_so_is_an_empty_list() -> None:  # HAR-02, HAR-03
    assert Harness(Model(), sources=[]).context_block("q") == ""


OTHERS = {
    "tool_registry": registry,
    "confirm": lambda: lambda tool, parameters: True,
    "tracer": lambda: None,
    "permissions": lambda: None,
    "hooks": lambda: [HookLog()],
    "compactor": lambda: None,
    "tool_retriever": lambda: None,
    "reducer": ReducerConfig,
    "window_budget": WindowBudgetConfig,
    "prompts": lambda: None,
    "token_counter": lambda: len,
}


@pytest.mark.parametrize("name", OTHERS)
def test_each_other_dependency_may_be_the_only_one(name: str) -> None:  # HAR-04
    harness = Harness(Model(), **{name: OTHERS[name]()})
    assert run(harness.acall_llm(MESSAGES)).content == "fine"
    assert run(harness.atools_for("q")) == []
    assert run(harness.aassemble([Message("hello", "user")])) == MESSAGES
    assert run(harness.areduce("plan", ["one"])) == ["one"]
    assert harness.context_block("q") == ""


def test_a_registry_that_gives_no_schemas_is_refused() -> None:  # HAR-05
    with pytest.raises(TypeError, match="to_openai_schema"):
        Harness(Model(), tool_registry=[Probe()])
    shaped = type("Shaped", (), {"to_openai_schema": "a text, not a method"})()
    with pytest.raises(TypeError, match="to_openai_schema"):
        Harness(Model(), tool_registry=shaped)


def test_a_proxy_of_a_registry_is_accepted() -> None:  # HAR-05
    class Proxy:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    tool = Probe()
    harness = Harness(Model(), tool_registry=Proxy(registry(tool)))
    assert run(harness.aexec_tool("probe", {})).text == "done"
    assert [schema["function"]["name"] for schema in run(harness.atools_for("q"))] == ["probe"]


class Wrapped:
    """A registry with the documented methods and nothing else (REG-08, REG-09)."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def get(self, name: str) -> Any:
        return self._inner.get(name)

    def list_tools(self) -> list[Any]:
        return self._inner.list_tools()

    def to_openai_schema(self, names: Any = None) -> list[dict[str, Any]]:
        return self._inner.to_openai_schema(names)

    async def aexecute_tool(self, name: str, parameters: Any, confirm: Any = None) -> Any:
        return await self._inner.aexecute_tool(name, parameters, confirm)

    async def aexecute_tool_checked(self, name: str, parameters: Any, confirm: Any = None) -> Any:
        return await self._inner.aexecute_tool_checked(name, parameters, confirm)


def test_a_wrapper_with_the_documented_methods_is_enough() -> None:  # HAR-05
    tool = Probe(confirm=True)
    harness = Harness(Model(), tool_registry=Wrapped(registry(tool)), confirm=lambda tool, parameters: True)
    assert run(harness.aexec_tool("probe", {})).text == "done"
    assert run(harness.aexec_tool("ghost", {})).status == "error"
    assert len(tool.runs) == 1


def test_dependencies_are_readable_by_their_names() -> None:  # HAR-06
    given: dict[str, Any] = {
        "tool_registry": registry(),
        "confirm": lambda tool, parameters: True,
        "tracer": type("Silent", (), {"emit": lambda self, event: None})(),
        "permissions": type("Open", (), {"denial_reason": lambda self, tool: None})(),
        "hooks": [HookLog()],
        "compactor": object(),
        "tool_retriever": object(),
        "context_builder": Block(),
        "sources": [Source()],
        "reducer": ReducerConfig(agent_keep_recent_steps=1),
        "window_budget": WindowBudgetConfig(rag_ratio=0.1),
        "token_counter": len,
    }
    model = Model()
    harness = Harness(model, **given)
    assert harness.llm is model
    for name in given.keys() - {"hooks", "sources"}:
        assert getattr(harness, name) is given[name]
    assert list(harness.hooks) == given["hooks"]
    assert list(harness.sources) == given["sources"]


def test_hooks_and_sources_read_as_empty_lists() -> None:  # HAR-06
    harness = Harness(Model())
    assert harness.hooks == []
    assert harness.sources == []


def test_what_was_not_given_reads_as_none() -> None:  # HAR-06
    harness = Harness(Model())
    for name in ("tool_registry", "confirm", "tracer", "permissions", "compactor", "tool_retriever", "context_builder"):
        assert getattr(harness, name) is None
    assert harness.token_counter is count_tokens


def test_without_a_callback_a_risky_tool_is_refused_and_nobody_is_asked() -> None:  # HAR-08
    tool = Probe(confirm=True)
    answer = run(with_tools(tool).aexec_tool("probe", {}))
    assert answer.status == "error"
    assert tool.runs == []


def test_default_configurations_stand_in_for_missing_ones() -> None:  # HAR-09
    plan = [f"result {n} " * 200 for n in range(9)]
    shortened = []
    for options in ({}, {"reducer": ReducerConfig(), "window_budget": WindowBudgetConfig()}):
        harness = Harness(Model("s", context_window=5000), **options)
        shortened.append(run(harness.areduce("plan", plan)))
    assert shortened[0] == shortened[1]
    assert shortened[0] != plan


@pytest.mark.parametrize("seconds", [0, -1, True, "60", float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["approval_ttl_s", "confirm_timeout_s"])
def test_seconds_that_cannot_be_meant_are_refused(name: str, seconds: Any) -> None:  # DEC-02
    with pytest.raises(ValueError, match=name):
        Harness(Model(), **{name: seconds})
