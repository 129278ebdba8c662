"""The conversation's past as a tool."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tracehold.core.errors import ConfigurationError
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.retrieval import HybridRetriever
from tracehold.sessions.search import ConversationSearch
from tracehold.sessions.search_tool import DEFAULT_PROMPTS, ConversationSearchTool
from tracehold.sessions.sqlite import SqliteSessionStore
from tracehold.tools.base import Tool
from tracehold.tools.registry import ToolRegistry

ADA = Scope(user="ada")
NOON = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)


@pytest.fixture
def search() -> Iterator[ConversationSearch]:
    retriever = HybridRetriever()
    made = ConversationSearch(SqliteSessionStore(), retriever)
    for user in ("ada", "bob"):
        said = [
            Message(f"{user} likes green tea", "user", NOON),
            Message("Noted:\n green\ttea.", "assistant", NOON),
        ]
        made.append_many(said, scope=Scope(user=user, session="1"))
    yield made
    made.close()
    retriever.close()


def test_it_is_a_tool_of_a_fixed_name_that_needs_no_confirmation(search: ConversationSearch) -> None:  # SES-41
    tool = ConversationSearchTool(search, scope=ADA)
    assert isinstance(tool, Tool)
    assert tool.name == "conversation_search"
    assert not tool.requires_confirmation
    assert not tool.needs_confirmation({"query": "tea"})


def test_the_query_is_its_only_parameter(search: ConversationSearch) -> None:  # SES-42
    registry = ToolRegistry()
    registry.register(ConversationSearchTool(search, scope=ADA, top_k=3))
    (schema,) = registry.to_openai_schema()
    assert list(schema["function"]["parameters"]["properties"]) == ["query"]
    assert schema["function"]["parameters"]["required"] == ["query"]
    assert "ada" not in str(schema)


def test_scope_and_top_k_are_fixed_whatever_the_model_sends(search: ConversationSearch) -> None:  # SES-42
    tool = ConversationSearchTool(search, scope=ADA, top_k=1)
    answer = tool.run({"query": "likes", "top_k": 9, "scope": {"user": "bob"}, "all_scopes": True})
    assert answer.text == "[2026-01-02 12:30 UTC] user: ada likes green tea"


def test_without_a_scope_only_the_default_bucket_is_searched(search: ConversationSearch) -> None:  # SES-42, DEC-04
    assert ConversationSearchTool(search).run({"query": "tea"}).text == DEFAULT_PROMPTS["conversation_search_nothing"]


@pytest.mark.parametrize("parameters", [{}, {"query": ""}, {"query": " \n"}, {"query": None}, {"query": 5}])
def test_an_empty_query_gives_an_error_response(search: ConversationSearch, parameters: dict[str, Any]) -> None:
    # SES-43
    answer = ConversationSearchTool(search, scope=ADA).run(parameters)
    assert (answer.status, answer.text) == ("error", DEFAULT_PROMPTS["conversation_search_empty"])


def test_no_hit_gives_a_successful_response_that_says_so(search: ConversationSearch) -> None:  # SES-43
    answer = ConversationSearchTool(search, scope=ADA).run({"query": "xylophone"})
    assert (answer.status, answer.text) == ("success", DEFAULT_PROMPTS["conversation_search_nothing"])


def test_hits_are_listed_one_per_line_with_their_time(search: ConversationSearch) -> None:  # SES-43
    answer = ConversationSearchTool(search, scope=ADA).run({"query": "green tea"})
    assert answer.status == "success"
    assert sorted(answer.text.splitlines()) == [
        "[2026-01-02 12:30 UTC] assistant: Noted: green tea.",
        "[2026-01-02 12:30 UTC] user: ada likes green tea",
    ]


def test_a_long_message_is_cut_and_says_so(search: ConversationSearch) -> None:  # SES-43
    search.append(Message("novel " + "x" * 10_000, "user", NOON), scope=ADA)
    text = ConversationSearchTool(search, scope=ADA).run({"query": "novel"}).text
    assert len(text) < 2_100
    assert text.endswith("[8012 more characters]")


def test_texts_can_be_given_by_name(search: ConversationSearch) -> None:
    prompts = {"conversation_search_nothing": "rien", "tool_unknown": "of another package"}
    assert ConversationSearchTool(search, scope=ADA, prompts=prompts).run({"query": "xylophone"}).text == "rien"
    with pytest.raises(ConfigurationError, match="conversation_search_empty"):
        ConversationSearchTool(search, prompts={"conversation_search_empty": 5})  # type: ignore[dict-item]  # what is tested
