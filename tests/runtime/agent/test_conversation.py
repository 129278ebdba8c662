"""An agent with a session store: earlier turns are shown, this one is added once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_parts import Act, agent, race, shown, turn
from tracehold import LLMError, Message, Scope, SessionError, SqliteCheckpointStore, SqliteSessionStore
from tracehold.sessions.store import SessionStore


def said(sessions: SessionStore, scope: Scope | None = None) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in sessions.load(scope=scope)]


def test_a_turn_is_stored_once_when_it_is_done(sessions: SqliteSessionStore) -> None:
    agent("hello", session_store=sessions).run("hi")
    assert said(sessions) == [("user", "hi"), ("assistant", "hello")]


def test_earlier_turns_are_shown_to_the_model(sessions: SqliteSessionStore) -> None:
    worker = agent("hello", "you said hi", session_store=sessions, prompt="You help.")
    worker.run("hi")
    worker.run("what did I say?")
    assert [(m["role"], m["content"]) for m in shown(worker)] == [
        ("system", "You help."),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "what did I say?"),
    ]


def test_what_tools_said_is_not_part_of_the_conversation(sessions: SqliteSessionStore) -> None:
    worker = agent(turn(("look", 1)), "seen", "and?", tools=[Act("look")], session_store=sessions)
    worker.run("look")
    worker.run("and?")
    assert said(sessions) == [("user", "look"), ("assistant", "seen"), ("user", "and?"), ("assistant", "and?")]
    assert [m["role"] for m in shown(worker)] == ["user", "assistant", "user"]


def test_a_suspended_turn_is_stored_when_it_is_done_and_not_before(
    sessions: SqliteSessionStore, store: SqliteCheckpointStore
) -> None:
    worker = agent(
        turn(("pay", 1)), "paid", tools=[Act("pay", confirm=True)], session_store=sessions, checkpoint_store=store
    )
    worker.run("pay")
    assert said(sessions) == []
    worker.resume(True)
    assert said(sessions) == [("user", "pay"), ("assistant", "paid")]


def test_a_failed_turn_is_not_stored(sessions: SqliteSessionStore) -> None:
    with pytest.raises(LLMError):
        agent(LLMError("down"), session_store=sessions).run("hi")
    assert said(sessions) == []


def test_conversations_of_different_scopes_are_apart(sessions: SqliteSessionStore) -> None:
    worker = agent("a", "b", session_store=sessions)
    one, two = Scope(user="u", session="1"), Scope(user="u", session="2")
    worker.run("for one", scope=one)
    worker.run("for two", scope=two)
    assert said(sessions, one) == [("user", "for one"), ("assistant", "a")]
    assert said(sessions, two) == [("user", "for two"), ("assistant", "b")]
    assert [m["content"] for m in shown(worker)] == ["for two"]


def test_a_conversation_that_cannot_be_stored_leaves_the_answer_to_be_had_again(
    store: SqliteCheckpointStore, sessions: SqliteSessionStore
) -> None:
    class Full(SqliteSessionStore):
        def append_many(self, *args: Any, **options: Any) -> None:
            raise SessionError("disk full")

    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "paid", tools=[pay], session_store=Full(sessions.db_path), checkpoint_store=store)
    worker.run("pay")
    with pytest.raises(SessionError, match="disk full"):
        worker.resume(True)
    assert agent(tools=[pay], session_store=sessions, checkpoint_store=store).resume() == "paid"
    assert pay.entered == [1]
    assert said(sessions) == [("user", "pay"), ("assistant", "paid")]


def test_a_turn_of_another_agent_in_between_does_not_hide_one_that_is_there(
    store: SqliteCheckpointStore, sessions: SqliteSessionStore
) -> None:
    """The process ends after the conversation was stored and before the state was cleared; others go on talking."""

    class Gone(BaseException):
        pass

    class Dies(SqliteCheckpointStore):
        def replace(self, expected: str | None, state_json: str | None, **options: Any) -> bool:
            if state_json is None:
                raise Gone
            return super().replace(expected, state_json, **options)

    with pytest.raises(Gone):
        agent(
            turn(("look", 1)), "seen", tools=[Act("look")], session_store=sessions, checkpoint_store=Dies(store.db_path)
        ).run("hi")
    for _ in range(3):
        agent("x", session_store=sessions).run("x")
    assert agent(session_store=sessions, checkpoint_store=store).resume() == "seen"
    assert said(sessions).count(("assistant", "seen")) == 1


def test_concurrent_turns_in_one_conversation_stay_whole(sessions: SqliteSessionStore) -> None:
    async def all_at_once() -> None:
        await race(*(agent(f"answer {n}", session_store=sessions).arun(f"question {n}") for n in range(8)))

    asyncio.run(all_at_once())
    contents = [content for _, content in said(sessions)]
    assert len(contents) == 16
    for question, answer in zip(contents[::2], contents[1::2], strict=True):
        assert question.split()[1] == answer.split()[1]


def test_history_written_by_others_is_shown(sessions: SqliteSessionStore) -> None:
    sessions.append(Message("from before", "system"))
    worker = agent("hello", session_store=sessions)
    worker.run("hi")
    assert [m["content"] for m in shown(worker)] == ["from before", "hi"]
