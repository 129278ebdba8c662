"""Choosing tools for a query, with the real registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tracehold.core.errors import ConfigurationError, RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval import HybridRetriever, RetrievalResult, ToolRetriever
from tracehold.tools.base import ToolParameter
from tracehold.tools.registry import ToolRegistry

TOOLS = {
    "refund_order": "Pay the money of an order back.",
    "track_parcel": "Say where a parcel is.",
    "weather": "Tell the forecast of a town.",
    "calculator": "Compute a formula.",
}


@pytest.fixture
def registry() -> ToolRegistry:
    made = ToolRegistry()
    for name, description in TOOLS.items():
        subject = [ToolParameter("subject", "string", f"What to {name.replace('_', ' ')} about")]
        made.register_function(lambda _parameters: "done", name, description, subject)
    return made


@pytest.fixture
def retriever() -> Iterator[HybridRetriever]:
    made = HybridRetriever()
    yield made
    made.close()


def indexed(registry: ToolRegistry, retriever: HybridRetriever, **options: Any) -> ToolRetriever:
    made = ToolRetriever(registry, retriever, **options)
    made.index()
    return made


def test_tools_are_found_by_name_description_and_parameters(  # TRV-01
    registry: ToolRegistry, retriever: HybridRetriever
) -> None:
    tools = indexed(registry, retriever)
    assert tools.retrieve("where is my parcel")[0] == "track_parcel"
    assert tools.retrieve("refund") == ["refund_order"]
    assert tools.retrieve("forecast") == ["weather"]


def test_schemas_and_descriptions_are_those_of_the_tools_found(  # TRV-01
    registry: ToolRegistry, retriever: HybridRetriever
) -> None:
    tools = indexed(registry, retriever)
    assert tools.schema_for("forecast") == registry.to_openai_schema(["weather"])
    assert tools.description_for("forecast") == registry.get_tools_description(["weather"])


def test_top_k_bounds_the_hits(registry: ToolRegistry, retriever: HybridRetriever) -> None:  # TRV-01
    assert len(indexed(registry, retriever, top_k=2).retrieve("subject")) == 2
    assert len(indexed(registry, retriever).retrieve("subject", top_k=3)) == 3
    assert len(indexed(registry, retriever).retrieve("subject", top_k=50)) == 4
    with pytest.raises(RetrievalError, match="top_k"):
        indexed(registry, retriever).retrieve("subject", top_k=0)


def test_indexing_again_follows_the_registry(registry: ToolRegistry, retriever: HybridRetriever) -> None:  # TRV-01
    tools = indexed(registry, retriever)
    registry.register_function(lambda _parameters: "done", "sunset", "Tell the hour of sunset.")
    assert "sunset" not in tools.retrieve("sunset forecast")
    tools.index()
    assert "sunset" in tools.retrieve("sunset forecast")


def test_a_selector_chooses_among_the_hits(registry: ToolRegistry, retriever: HybridRetriever) -> None:  # TRV-01
    asked: list[tuple[str, int]] = []

    def last(query: str, hits: list[RetrievalResult]) -> list[str]:
        asked.append((query, len(hits)))
        return [hits[-1].id, "unheard_of"]

    tools = indexed(registry, retriever, selector=last)
    assert len(tools.retrieve("subject")) == 1
    assert asked == [("subject", 4)]


def test_resident_tools_come_first_then_hits(registry: ToolRegistry, retriever: HybridRetriever) -> None:  # TRV-02
    tools = indexed(registry, retriever, always_include=("calculator", "unheard_of", "calculator"))
    assert tools.retrieve("forecast") == ["calculator", "weather"]
    assert tools.retrieve("formula") == ["calculator"]


def test_names_no_longer_registered_are_dropped(retriever: HybridRetriever, registry: ToolRegistry) -> None:  # TRV-02
    indexed(registry, retriever)
    fewer = ToolRegistry()
    fewer.register_function(lambda _parameters: "done", "calculator", "Compute a formula.")
    tools = ToolRetriever(fewer, retriever, always_include=("weather",), on_empty="resident")
    assert tools.retrieve("forecast formula subject") == ["calculator"]
    assert tools.retrieve("forecast") == []


@pytest.mark.parametrize(
    ("on_empty", "offered"),
    [
        ("all", ["calculator", "refund_order", "track_parcel", "weather"]),
        ("resident", ["calculator"]),
        ("none", []),
    ],
)
def test_on_empty_says_what_no_hit_gives(  # TRV-02
    registry: ToolRegistry, retriever: HybridRetriever, on_empty: Any, offered: list[str]
) -> None:
    tools = indexed(registry, retriever, always_include=("calculator",), on_empty=on_empty)
    for query in ("xylophone", "", "?!"):
        assert tools.retrieve(query) == offered
        assert tools.schema_for(query) == (registry.to_openai_schema(offered) if offered else [])
        assert (tools.description_for(query) == "") == (offered == [])


def test_without_an_index_the_whole_catalogue_is_offered(  # TRV-02
    registry: ToolRegistry, retriever: HybridRetriever
) -> None:
    assert ToolRetriever(registry, retriever).retrieve("forecast") == list(TOOLS)


def test_other_entries_of_a_shared_retriever_take_no_place(registry: ToolRegistry, retriever: HybridRetriever) -> None:
    names = [f"message {number}" for number in range(50)]
    retriever.add(names, ["forecast"] * 50, scope=Scope(base="conversation", user="ada"))
    retriever.add(names, ["forecast"] * 50, scope=Scope(base="tools", user="ada", session="1"))
    tools = indexed(registry, retriever, scope=Scope(user="ada"))
    assert tools.retrieve("forecast") == ["weather"]


@pytest.mark.parametrize("options", [{"on_empty": "some"}, {"always_include": "calculator"}])
def test_options_that_cannot_be_meant_are_refused(
    registry: ToolRegistry, retriever: HybridRetriever, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        ToolRetriever(registry, retriever, **options)
