"""Conversations that are kept and searched, a user apart from the other, in one SQLite file with the traces."""

from __future__ import annotations

import os

from tracehold import (
    Agent,
    ConversationSearch,
    ConversationSearchTool,
    HybridRetriever,
    Scope,
    SqliteExporter,
    SqliteSessionStore,
    Tracer,
)
from tracehold.testing import ScriptedLLM, tool_call_reply

DATABASE = os.environ.get("EXAMPLE_DB", "sessions.db")


def main() -> None:
    """Talk with two people, then let the agent look up what one of them said in an earlier session."""
    store = ConversationSearch(SqliteSessionStore(DATABASE), HybridRetriever(db_path=DATABASE))
    tracer = Tracer(exporters=[SqliteExporter(DATABASE)])

    def talk(user: str, session: str, text: str, *replies: object) -> None:
        tools = [ConversationSearchTool(store, scope=Scope(user=user))]
        agent = Agent("memo", ScriptedLLM(replies), tools=tools, session_store=store, tracer=tracer)
        print(f"{user}: {agent.run(text, scope=Scope(user=user, session=session))}")

    talk("ada", "monday", "My boat is called Grete.", "A good name.")
    talk("bob", "monday", "My boat is called Titanic.", "A bold name.")
    look_up = tool_call_reply("conversation_search", {"query": "boat name"})
    talk("ada", "friday", "What is my boat called?", look_up, _repeat_what_was_found)
    print(*(f"{one.value}: {one.message_count} messages" for one in store.list_scopes(along="user")), sep=", ")


def _repeat_what_was_found(messages: list[dict[str, str]]) -> str:
    """Stand in for a model that reads the tool's answer."""
    found = messages[-1]["content"]
    return "Grete." if "Grete" in found and "Titanic" not in found else f"I cannot tell from: {found}"


if __name__ == "__main__":
    main()
