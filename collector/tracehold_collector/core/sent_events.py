"""Server-Sent Events as a reader takes them in (WHATWG HTML, "Server-sent events", "Interpreting an event stream")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentEvent:
    """One event.

    Attributes:
        name: its type.
        data: what it says; empty when only the id was told, which is no event to a browser.
        last_id: the id to come back by.
    """

    name: str
    data: str
    last_id: str


def read_sent_events(lines: Iterable[str]) -> Iterator[SentEvent]:
    """Yield the events in a stream's lines; one that was cut off by the end of the stream is none."""
    name, last_id = "", ""
    data: list[str] = []
    told_id = last_id
    for line in lines:
        if not line:
            if data or last_id != told_id:
                told_id = last_id
                yield SentEvent(name or "message", "\n".join(data), last_id)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            last_id = value
