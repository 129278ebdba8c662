"""One message of a conversation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tracehold.core.message import Message


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool"])
def test_the_four_roles_are_taken(role: str) -> None:  # MSG-01
    assert Message("hello", role).role == role  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["", "User", "developer", "user ", None])
def test_another_role_is_refused(role: object) -> None:  # MSG-01
    with pytest.raises(ValueError, match="role is one of assistant, system, tool, user"):
        Message("hello", role)  # type: ignore[arg-type]


def test_its_time_is_now_in_utc_unless_given() -> None:  # MSG-01
    before = datetime.now(UTC)
    made = Message("hello", "user").timestamp
    assert before <= made <= datetime.now(UTC)
    assert made.utcoffset() == timedelta(0)
    then = datetime(2020, 1, 1, tzinfo=UTC)
    assert Message("hello", "user", then).timestamp == then


def test_metadata_starts_empty_and_belongs_to_one_message() -> None:  # MSG-01
    one, other = Message("a", "user"), Message("b", "user")
    one.metadata["seen"] = True
    assert other.metadata == {}


def test_content_may_be_a_list_of_parts() -> None:  # MSG-01
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    assert Message(parts, "user").content == parts


def test_a_client_gets_role_and_content_only() -> None:  # MSG-02
    message = Message("hello", "assistant", metadata={"private": 1})
    assert message.to_dict() == {"role": "assistant", "content": "hello"}
