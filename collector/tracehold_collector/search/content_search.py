"""One search in content: goes through the events that fit, opens what they said, and tells hits and how far it is."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Any, Final

import orjson

from tracehold_collector.core.errors import QueryError, StoreError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.search.needle import Needle, Place
from tracehold_collector.store.chunks import parse_chunk
from tracehold_collector.store.content_scan import (
    Position,
    ScanFilter,
    Spot,
    first_window,
    open_contents,
    read_envelopes,
    read_extent,
    read_page,
)
from tracehold_collector.store.reader import Reader

MAX_BYTES: Final = 4 * 1024 * 1024 * 1024
"""Bytes of unpacked content that one search looks at; its cursor goes on from there."""

_NO_CURSOR: Final = "cursor takes what the last line of an earlier answer has as its cursor"

_START: Final = Position((1 << 63) - 1, "")

MAX_PLACES: Final = 20
"""Values of one event that are looked at once the first was found, to tell how many more hold the text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look for, and where, and for how long.

    Attributes:
        text: what to look for.
        wanted: in which events.
        limit: hits at most.
        seconds: time at most.
    """

    text: str
    wanted: ScanFilter
    limit: int = 100
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that said the text: where first, and in how many further values."""

    spot: Spot
    envelope: dict[str, Any]
    place: Place
    more: int

    def told(self) -> dict[str, Any]:
        """Return it as JSON-like data."""
        return {
            **self.envelope,
            "at": iso_utc(self.spot.started_at),
            "at_ns": self.spot.started_at,
            "path": self.place.path,
            "excerpt": self.place.excerpt,
            "match_start": self.place.start,
            "match_length": self.place.length,
            "more_places": self.more,
        }


@dataclass(slots=True)
class Progress:
    """How far a search is.

    Attributes:
        events: looked at.
        of: there are to look at.
        unread: of those looked at, without a content that can be read, such as an erased one.
        bytes: of content looked at, unpacked.
        hits: found.
        reached: the last event looked at.
        tenants: whose events were hits.
        stopped_by: what ended it before everything was looked at: the limit of "hits", "time" or "bytes", or the
            "stop" of the collector.
    """

    events: int = 0
    of: int = 0
    unread: int = 0
    bytes: int = 0
    hits: int = 0
    reached: Position | None = None
    tenants: set[str] = field(default_factory=set)
    stopped_by: str | None = None

    def told(self) -> dict[str, Any]:
        """Return it as JSON-like data."""
        return {
            "events": self.events,
            "of": self.of,
            "unread": self.unread,
            "bytes": self.bytes,
            "hits": self.hits,
            "reached": iso_utc(self.reached.started_at) if self.reached else None,
        }


class ContentSearch:
    """A search under way. Not safe for use from several threads at once, but from one after the other.

    Args:
        reader: the store.
        asked: what to look for.
    """

    def __init__(self, reader: Reader, asked: Asked) -> None:
        self.progress = Progress()
        self._reader = reader
        self._asked = asked
        self._needle = Needle(asked.text)

    def steps(self) -> Iterator[list[Hit]]:
        """Yield the hits of each step, the latest start first; a step unpacks a few megabytes, and may find none.

        `progress` is up to date with each. What is done when the last one came, and why, is in `progress.stopped_by`.

        Raises:
            QueryError, StoreError: the store could not answer.
        """
        wanted, progress = self._asked.wanted, self.progress
        deadline = monotonic() + self._asked.seconds
        extent = self._reader.run(lambda cursor: read_extent(cursor, wanted))
        progress.of = extent.events
        yield []
        window = first_window(extent, wanted)
        while True:
            page = self._reader.run(lambda cursor: read_page(cursor, wanted, extent, window))
            if page is None:
                return
            while page:
                part, chunks = self._open(page)
                yield self._look(part, chunks)
                if self._is_over(deadline):
                    return
                page = page[len(part) :]
            if self._is_over(deadline):
                return

    def cursor(self) -> str | None:
        """Return what goes on after a search that a limit ended; `None` when all was looked at."""
        if self.progress.stopped_by is None:
            return None
        return write_cursor(self.progress.reached or self._asked.wanted.after or _START)

    def _open(self, page: Sequence[Spot]) -> tuple[Sequence[Spot], dict[str, bytes]]:
        """The first part of a page, in a statement of its own: nothing stays open while a reader takes its time."""
        return self._reader.run(lambda cursor: open_contents(cursor, self._reader.vault, page))

    def _look(self, part: Sequence[Spot], chunks: Mapping[str, bytes]) -> list[Hit]:
        progress = self.progress
        progress.bytes += sum(map(len, chunks.values()))
        contents = {chunk: self._parsed(opened) for chunk, opened in chunks.items() if self._needle.may_be_in(opened)}
        unread = {spot.chunk for spot in part} - chunks.keys()
        found: list[tuple[Spot, Place, int]] = []
        looked_at = len(part)
        for number, spot in enumerate(part if contents or unread else (), 1):
            progress.unread += spot.chunk in unread
            if spot.chunk in contents and (places := self._places(contents[spot.chunk], spot.place)):
                found.append((spot, *places))
                if progress.hits + len(found) == self._asked.limit:
                    looked_at = number
                    break
        progress.events += looked_at
        progress.reached = part[looked_at - 1].position
        return self._hits(found)

    def _places(self, contents: list[dict[str, Any]], place: int) -> tuple[Place, int] | None:
        """Where an event says the text first, and in how many further values."""
        if place >= len(contents):
            return None
        places = self._needle.places(contents[place])
        first = next(places, None)
        return None if first is None else (first, sum(1 for _ in islice(places, MAX_PLACES)))

    def _hits(self, found: Sequence[tuple[Spot, Place, int]]) -> list[Hit]:
        if not found:
            return []
        spots = [spot for spot, _, _ in found]
        envelopes = self._reader.run(lambda cursor: read_envelopes(cursor, spots))
        hits = [Hit(spot, envelopes[spot], place, more) for spot, place, more in found if spot in envelopes]
        self.progress.hits += len(hits)
        self.progress.tenants.update(hit.envelope["tenant"] for hit in hits)
        return hits

    @staticmethod
    def _parsed(opened: bytes) -> list[dict[str, Any]]:
        try:
            return parse_chunk(opened)
        except StoreError:
            return []  # no valid text, whatever it is: nothing in it can be found

    def _is_over(self, deadline: float) -> bool:
        progress = self.progress
        if progress.hits >= self._asked.limit:
            progress.stopped_by = "hits"
        elif progress.bytes >= MAX_BYTES:
            progress.stopped_by = "bytes"
        elif monotonic() > deadline:
            progress.stopped_by = "time"
        return progress.stopped_by is not None


def write_cursor(position: Position) -> str:
    """Return a position as text for a URL."""
    raw = orjson.dumps([position.started_at, position.event_id])
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_cursor(text: str) -> Position:
    """Return the position that `write_cursor` wrote.

    Raises:
        QueryError: it is none.
    """
    try:
        started_at, event_id = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        position = Position(started_at, str(uuid.UUID(event_id)) if event_id else "")
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise QueryError(_NO_CURSOR) from None
    if started_at is not None and not (type(started_at) is int and abs(started_at) < 1 << 63):
        raise QueryError(_NO_CURSOR)
    return position
