"""What the readers of recorded sessions share: lines and documents parsed item by item, events with ids of the file's.

An id is made of what the file names things by, never of what they say: it outlives an erasure.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple

from tracehold.core.ids import run_root_span_id

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.limits import DEFAULT_LIMITS
from tracehold_collector.core.names import is_id, stand_in_id
from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.json_text import check_depth, parse_json
from tracehold_collector.normalise.ids import span_digest
from tracehold_collector.normalise.times import read_rfc3339

Event = dict[str, Any]
"""A native event, as `POST /v1/events` takes it."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A longer line is reported and left out; an event of several lines must still fit into a request."""

_OWN_LEVELS: Final = 8
"""An event holds an item of a file this many levels deep at most."""

_MAX_DEPTH: Final = DEFAULT_LIMITS.max_depth - _OWN_LEVELS
_SHORTEST_UNIQUE: Final = 24
"""Random identifiers (`msg_`, `toolu_`, UUIDs) have this many characters; counters and names in tests have not."""


class Line(NamedTuple):
    """One parsed line.

    Attributes:
        number: its place in the file, from 1.
        value: JSON-like.
        replaced: whether invalid Unicode in it was replaced.
    """

    number: int
    value: Any
    replaced: bool


class Reader(NamedTuple):
    """One form of recorded session.

    Attributes:
        name: what `--from` calls it.
        title: what people call it, with its article.
        lines: a file of this form is lines, each a JSON value; else it is one document.
        looks: whether a parsed line, or the parsed document, is surely of this form.
        read: yields the events of a file, and a rejection for each item that cannot be read. It is given an iterator of
            lines (and of rejections, which it passes on), else the parsed document.
    """

    name: str
    title: str
    lines: bool
    looks: Callable[[Any], bool]
    read: Callable[[Any], Iterator[Event | Rejection]]


@dataclass(frozen=True, slots=True)
class Session:
    """Whose events these are.

    Attributes:
        form: the reader's name.
        key: what tells this session from any other of its form.
        run_id: fit for the open envelope.
        service: the program that was recorded.
        name: its conversation's identifier, which becomes a pseudonym, or `None`.
        copied: the program copies earlier events, with their ids, into the file of a session that goes on: what has an
            id of its own is told apart without the session then, so that nothing is counted or billed twice.
    """

    form: str
    key: str
    run_id: str
    service: str
    name: str | None = None
    copied: bool = False

    def event(self, local: str, own_type: str, /, *, parent: str | None = None, **fields: Any) -> Event:
        """Return an event of this session; fields that are `None` are left out.

        Args:
            local: what tells it from others of the session.
            own_type: its type.
            parent: `local` of the event it hangs under; default the run itself.
            fields: the others, under their names in the event format.
        """
        root = run_root_span_id(self.run_id)
        event: Event = {
            "type": own_type,
            "event_id": f"{self.form}:{'' if self.copied and _is_unique(local) else self.key}:{local}",
            "run_id": self.run_id,
            "span_id": self.span(local),
            "parent_span_id": self.span(parent) if parent is not None else root,
            "service": self.service,
            "session": self.name,
            **fields,
        }
        return {name: value for name, value in event.items() if value is not None}

    def run(self, **fields: Any) -> Event:
        """Return the event that is the run's root: how it ended is `status`, "unset" when the file does not say."""
        event = self.event("run", f"{self.form.replace('-', '_')}.session", kind="run", **fields)
        event["span_id"] = run_root_span_id(self.run_id)
        del event["parent_span_id"]
        return event

    def span(self, local: str) -> str:
        """Return the span id of the event `local`: 16 hex digits."""
        return span_digest(f"{self.form}\x00{self.key}\x00{local}")


def open_half(event: Event) -> Event:
    """Return `event` as the opening half of what a later read of the file may end: it is not counted."""
    event["event_id"] += "#open"
    event["status"] = "started"
    for name in ("usage", "cost_usd", "duration_ns", "decision"):
        event.pop(name, None)
    return event


def run_id(form: str, *parts: object) -> str:
    """Return a run id that shows what the file calls its run, or a stand-in when that is not fit to be shown."""
    text = ":".join((form, *map(str, parts)))
    return text if is_id(text, DEFAULT_LIMITS.max_name_chars) else stand_in_id(text)


def digest(*parts: str) -> str:
    """Return 24 hex digits for texts that must not be shown, or are too long."""
    message = b"\x00".join(part.encode("utf-8", "replace") for part in parts)
    return hashlib.blake2b(message, digest_size=12, person=b"tracehold-file").hexdigest()


def read_lines(file: IO[bytes] | gzip.GzipFile, on_offset: Callable[[int], None]) -> Iterator[Line | Rejection]:
    """Yield the parsed lines of a file, and a rejection for each that is none.

    Args:
        file: at its beginning.
        on_offset: told after each line how far the file is read, in bytes.
    """
    number = offset = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        size = len(raw)
        rest = raw
        while size > MAX_LINE_BYTES and not rest.endswith(b"\n") and (rest := file.readline(MAX_LINE_BYTES)):
            size += len(rest)
        offset += size
        on_offset(offset)
        where = f"line {number}"
        if size > MAX_LINE_BYTES:
            yield Rejection(where, f"the line has {size} bytes, {MAX_LINE_BYTES} are read; it was left out")
        elif raw.strip():
            yield _line(raw, number, where)


def _line(raw: bytes, number: int, where: str) -> Line | Rejection:
    try:
        parsed = parse_json(raw.strip(), _MAX_DEPTH)
        check_depth(parsed.value, _MAX_DEPTH)
    except BadBodyError as error:
        if not raw.endswith(b"\n"):
            return Rejection(where, "the last line is cut short, or still being written; ingest the file again later")
        return Rejection(where, str(error))
    return Line(number, parsed.value, parsed.replaced)


def guarded(where: str, events: Iterable[Event | Rejection]) -> Iterator[Event | Rejection]:
    """Yield the events of one item; where it has a shape that no reader thought of, a rejection in their place.

    Args:
        where: the item's place, for people.
        events: as they are made.
    """
    try:
        yield from events
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        # Only the kind of the fault is said: its text may hold what the item says.
        yield Rejection(where, f"the item cannot be read ({type(error).__name__}); report it")


def too_deep(value: Any, where: str) -> Rejection | None:
    """Return why an item of a document cannot be taken, or `None`: its neighbours can."""
    try:
        check_depth(value, _MAX_DEPTH)
    except BadBodyError as error:
        return Rejection(where, str(error))
    return None


def time_ns(value: object) -> int | None:
    """Return UTC nanoseconds of a time with a zone, or `None`."""
    return read_rfc3339(value)


def width_ns(start: int | None, end: int | None) -> int | None:
    """Return nanoseconds from `start` to `end`, or `None` when one is unknown or they are the wrong way round."""
    return end - start if start is not None and end is not None and end >= start else None


def text(value: object) -> str | None:
    """Return a text that says something, or `None`."""
    return value if isinstance(value, str) and value else None


def items(value: object) -> list[Any]:
    """Return a list, empty for anything else."""
    return value if isinstance(value, list) else []


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping, empty for anything else."""
    return value if isinstance(value, dict) else {}


def others(value: dict[str, Any], *read: str) -> dict[str, Any] | None:
    """Return the entries of `value` that no field says, for the content; `None` when there are none."""
    return {key: entry for key, entry in value.items() if key not in read and entry not in (None, "", [], {})} or None


def _is_unique(local: str) -> bool:
    _, _, name = local.rpartition("/")
    return len(name) >= _SHORTEST_UNIQUE and any(letter.isdigit() for letter in name)
