"""A message as a row of the table, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from tracehold.core import strictjson
from tracehold.core.database import text_from_column, text_to_column
from tracehold.core.errors import SessionError
from tracehold.core.message import ROLES, Message

Row: TypeAlias = tuple[str, str, str | bytes, str | bytes]
"""Time, role, content, metadata; the last two as JSON."""


def message_to_row(message: Message) -> Row:
    """Return the row of a message.

    Content is written as JSON, text and parts alike, so that metadata needs no mark to tell them apart (SES-12).

    Raises:
        SessionError: a field of the wrong type, or content or metadata that JSON cannot hold (SES-11).
    """
    if not isinstance(message, Message):
        raise SessionError(f"a session stores Message objects, not {type(message).__name__}")
    if message.role not in ROLES:
        raise SessionError(f"a message's role is one of {', '.join(sorted(ROLES))}; this one was changed to another")
    if not isinstance(message.content, str | list):
        raise SessionError(f"a message's content is a text or a list of parts, not {type(message.content).__name__}")
    if not isinstance(message.metadata, dict):
        raise SessionError(f"a message's metadata is a dict, not {type(message.metadata).__name__}")
    return (
        time_to_text(message.timestamp, name="timestamp"),
        str(message.role),
        _json(message.content, name="content"),
        _json(message.metadata, name="metadata"),
    )


def message_from_row(row_id: int, row: Row) -> Message:
    """Return the message of a row (SES-09).

    Raises:
        SessionError: the row was not written by `message_to_row`, or was changed since.
    """
    try:
        timestamp, role, content, metadata = row
        return Message(
            content=strictjson.loads(text_from_column(content)),
            role=role,  # type: ignore[arg-type]  # Message refuses another
            timestamp=time_from_text(timestamp),
            metadata=strictjson.loads(text_from_column(metadata)),
        )
    except (ValueError, TypeError) as error:
        raise SessionError(
            f"message {row_id} of the table session_messages is damaged or was written by another program; "
            "restore it from a backup or delete that row"
        ) from error


def time_to_text(moment: datetime, *, name: str) -> str:
    """Return a time as UTC with microseconds: texts of one length, whose order is the order in time (SES-10, SES-19).

    Args:
        moment: a naive one is taken as UTC.
        name: what it is called in messages.

    Raises:
        SessionError: no datetime, or one that leaves the calendar in UTC.
    """
    if not isinstance(moment, datetime):
        raise SessionError(f"{name} is a datetime, not {type(moment).__name__}")
    try:
        aware = moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise SessionError(f"{name} is before the year 1 or after 9999 in UTC") from error
    return aware.isoformat(timespec="microseconds")


def time_from_text(text: str) -> datetime:
    """Return the aware UTC time that `time_to_text` wrote."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _json(value: Any, *, name: str) -> str | bytes:
    try:
        return text_to_column(strictjson.dumps(value, name=name))
    except strictjson.UnholdableError as error:
        raise SessionError(f"the message was not stored: {error}") from error
