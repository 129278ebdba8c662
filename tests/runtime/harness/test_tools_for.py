"""`atools_for`: the tools a model is shown this turn."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from harness_parts import Model, Probe, registry, run, soon, until
from tracehold.governance.permissions import ToolPermissions
from tracehold.harness import Harness


def names(schemas: list[dict[str, Any]]) -> list[str]:
    return [schema["function"]["name"] for schema in schemas]


def schema(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


class Retriever:
    def __init__(self, *found: str) -> None:
        self.found = found
        self.asked: list[Any] = []
        self.thread: int | None = None

    def schema_for(self, query: str, *, top_k: int | None = None) -> list[dict[str, Any]]:
        self.asked.append((query, top_k))
        self.thread = threading.get_ident()
        return [schema(name) for name in self.found]


TOOLS = [Probe("a"), Probe("b", origin="mcp:stranger"), Probe("c")]


def shown(query: str = "q", **options: Any) -> list[str]:
    return names(run(Harness(Model(), tool_registry=registry(*TOOLS), **options).atools_for(query)))


def test_without_a_retriever_all_tools_are_shown() -> None:  # HAR-83, HAR-86
    tools = registry(*TOOLS)
    assert run(Harness(Model(), tool_registry=tools).atools_for("q")) == tools.to_openai_schema()
    assert shown() == ["a", "b", "c"]


def test_without_a_registry_there_are_none() -> None:  # HAR-83
    assert run(Harness(Model()).atools_for("q")) == []


def test_a_retriever_gives_its_subset() -> None:  # HAR-84, HAR-86
    retriever = Retriever("c", "a")
    assert shown("paint it", tool_retriever=retriever) == ["c", "a"]
    assert retriever.asked == [("paint it", None)]


def test_the_retriever_is_asked_off_the_loop() -> None:  # HAR-84
    async def both() -> list[str]:
        entered, released = threading.Event(), threading.Event()

        class Slow(Retriever):
            def schema_for(self, query: str, *, top_k: int | None = None) -> list[dict[str, Any]]:
                entered.set()
                assert released.wait(20)
                return super().schema_for(query, top_k=top_k)

        retriever = Slow("a")
        harness = Harness(Model(), tool_registry=registry(*TOOLS), tool_retriever=retriever)
        task = asyncio.create_task(harness.atools_for("q"))
        await until(entered.is_set)
        released.set()
        found = names(await soon(task))
        assert retriever.thread != threading.get_ident()
        return found

    assert run(both()) == ["a"]


def test_a_retriever_that_fails_reaches_the_caller() -> None:  # HAR-84
    class Broken(Retriever):
        def schema_for(self, query: str, *, top_k: int | None = None) -> list[dict[str, Any]]:
            return [next(iter(()))]  # StopIteration breaks futures: whoever awaits one would wait for ever

    async def asked() -> None:
        await asyncio.wait_for(Harness(Model(), tool_retriever=Broken()).atools_for("q"), 5)

    with pytest.raises(RuntimeError):
        run(asked())


DENIALS: dict[str, tuple[ToolPermissions, list[str]]] = {
    "by name": (ToolPermissions(deny=["a"]), ["b", "c"]),
    "by origin": (ToolPermissions(deny_origins=["mcp:stranger"]), ["a", "c"]),
    "by allow list": (ToolPermissions(allow=["c"]), ["c"]),
    "by an empty allow list": (ToolPermissions(allow=[]), []),
    "by allowed origins": (ToolPermissions(allow_origins=["builtin"]), ["a", "c"]),
}


@pytest.mark.parametrize("denial", DENIALS)
@pytest.mark.parametrize("retriever", [None, Retriever("a", "b", "c")])
def test_what_is_denied_is_not_shown(denial: str, retriever: Any) -> None:  # HAR-85
    permissions, left = DENIALS[denial]
    assert shown(permissions=permissions, tool_retriever=retriever) == left


def test_a_tool_only_the_retriever_knows_is_judged_by_its_name() -> None:  # HAR-85
    permissions = ToolPermissions(deny=["ghost"])
    assert shown(permissions=permissions, tool_retriever=Retriever("ghost", "a")) == ["a"]


def test_permissions_that_raise_show_nothing() -> None:  # HAR-85: deny by default
    class Broken:
        def denial_reason(self, tool: Any) -> str | None:
            raise OSError("the policy server is away")

    assert shown(permissions=Broken()) == []


def test_without_permissions_the_list_is_as_it_was() -> None:  # HAR-86
    given = [schema("a"), schema("b")]
    retriever = type("R", (), {"schema_for": lambda self, query, top_k=None: given})()
    assert run(Harness(Model(), tool_retriever=retriever).atools_for("q")) == given
