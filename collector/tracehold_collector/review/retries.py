"""What an agent tried after a denial: the rows of `denial_retries`, compared by arguments where these may be seen.

The named query looks at envelopes: it knows tools, agents, the order of things and their outcome. Whether a later call
carries the same arguments, or another tool was pointed at the same target, only its content tells.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from tracehold_collector.core.cells import rows_of
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.review.reading import Denial
from tracehold_collector.store.reader import Access, Reader

MAX_COMPARED: Final = 50
"""Later attempts of a run whose arguments are looked at."""

MIN_TARGET_CHARS: Final = 6
"""A shorter text, such as `true` or `main`, stands in many calls by chance."""

_MAX_LEAVES: Final = 200
_MAX_LEAF_CHARS: Final = 10_000
_MAX_ROWS: Final = 200
_MASK: Final = "[REDACTED"

# The Tracer puts its words at the top, an engine event under `data`, an OTLP span under `attributes`.
_INSIDE: Final = ("data", "attributes")
_ARGUMENTS: Final = (
    "params",
    "parameters",
    "arguments",
    "args",
    "input",
    "gen_ai.tool.call.arguments",
    "tool.parameters",
    "input.value",
)

_LATER: Final = """
SELECT event_id, started_at, name, agent, status
FROM events
WHERE tenant = $tenant
  AND run_id = $run_id
  AND name IS NOT NULL
  AND source <> 'collector'
  AND ((kind = 'tool' AND status <> 'started') OR (kind = 'gate' AND status = 'blocked'))
  AND (started_at IS NULL, coalesce(started_at, 0), coalesce(seq, 0), event_id) > (
      SELECT (started_at IS NULL, coalesce(started_at, 0), coalesce(seq, 0), event_id)
      FROM events
      WHERE tenant = $tenant AND event_id = $event_id
      LIMIT 1
  )
ORDER BY started_at, coalesce(seq, 0), event_id
LIMIT $most
"""
_OUTCOMES: Final = {"blocked": "stopped", "suspended": "waiting", "error": "failed", "cancelled": "cancelled"}


@dataclass(frozen=True, slots=True)
class Likeness:
    """How two calls' arguments compare.

    Attributes:
        same: whether they are equal; `None` when what was masked for the record may make the difference.
        shared: ways into the stopped call's arguments whose value the other call carries, as a whole or inside a text.
    """

    same: bool | None
    shared: tuple[str, ...]


def retries_of(reader: Reader, denial: Denial, access: Access) -> list[dict[str, Any]]:
    """Return the later attempts, oldest first, as a JSON answer has them.

    Each has `way`: that of `denial_retries`, or `same_target` for another tool that was given a value of the stopped
    call. `same_arguments` and `shared` are `None` where the contents may not be seen, or one of them has no arguments.

    Raises:
        QueryError, StoreError: as the reader's.
    """
    only = Access((denial.tenant,), access.content)
    asked = {"event_id": str(denial.event_id), "tenant": denial.tenant, "limit": _MAX_ROWS}
    table = reader.query("denial_retries", asked, only)
    rows = [dict(zip(table.column_names, row, strict=True)) for row in rows_of(table)]
    found = {row["retry_event_id"]: _listed(row) for row in rows}
    if access.content:
        _compare(reader, denial, only, found)
    return sorted(found.values(), key=lambda one: one["at"] or "")  # those without a time stay in their source's order


def compare(stopped: Any, later: Any) -> Likeness:
    """Return how the arguments of a later call compare with those of the stopped one.

    A value is shared when it is a text of `MIN_TARGET_CHARS` or more that stands in a text of the other call, or the
    reverse, or a number of as many digits that is equal. What was masked for the record is no value.
    """
    others = [value for _, value in _leaves(later)]
    own = [(way, value) for way, value in _leaves(stopped) if not _is_masked(value)]
    shared = tuple(way for way, value in own if any(_meets(value, other) for other in others))
    same = stopped == later
    masked = same and any(_is_masked(value) for _, value in _walk(stopped, ""))
    return Likeness(None if masked else same, shared)


def arguments_of(content: Mapping[str, Any] | None) -> Any:
    """Return the arguments in an event's content, whichever way it came in; `None` when there are none."""
    inside = [content, *(content.get(key) for key in _INSIDE)] if content else []
    places = [place for place in inside if isinstance(place, Mapping)]
    for key in _ARGUMENTS:
        for place in places:
            if place.get(key) not in (None, "", {}, []):
                return _parsed(place[key])
    return None


def _compare(reader: Reader, denial: Denial, access: Access, found: dict[str, dict[str, Any]]) -> None:
    later = reader.run(lambda cursor: _later(cursor, denial))
    ids = [str(denial.event_id), *(row["event_id"] for row in later)]
    try:
        contents = reader.contents(ids, access)
    except QueryError:
        return  # they say too much for one answer: nothing is compared, and nothing is claimed
    stopped = arguments_of(contents[ids[0]])
    if stopped is None:
        return
    for row in later:
        arguments = arguments_of(contents[row["event_id"]])
        if arguments is None:
            continue
        likeness = compare(stopped, arguments)
        known = found.get(row["event_id"])
        if known is None and not (likeness.same or likeness.shared):
            continue
        known = found.setdefault(row["event_id"], row)
        known |= {"same_arguments": likeness.same, "shared": list(likeness.shared)}


def _later(cursor: duckdb.DuckDBPyConnection, denial: Denial) -> Sequence[dict[str, Any]]:
    asked = {"tenant": denial.tenant, "run_id": denial.run_id, "event_id": denial.event_id, "most": MAX_COMPARED}
    return [_attempt(*row) for row in cursor.execute(_LATER, asked).fetchall()]


def _attempt(event_id: uuid.UUID, started_at: int | None, name: str, agent: str | None, status: str) -> dict[str, Any]:
    outcome = _OUTCOMES.get(status, "ran")
    return {
        "way": "same_target",
        "event_id": str(event_id),
        "at": iso_utc(started_at),
        "name": name,
        "agent": agent,
        "outcome": outcome,
        "got_through": outcome not in {"stopped", "waiting"},
        "same_arguments": None,
        "shared": None,
    }


def _listed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "way": row["way"],
        "event_id": row["retry_event_id"],
        "at": row["retry_at"],
        "name": row["retry_name"],
        "agent": row["retry_agent"],
        "outcome": row["outcome"],
        "got_through": row["got_through"],
        "same_arguments": None,
        "shared": None,
    }


def _parsed(value: Any) -> Any:
    """Arguments that a sender wrote as JSON text, read; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _leaves(value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for way, leaf in _walk(value, ""):
        found.append((way, leaf))
        if len(found) == _MAX_LEAVES:
            break
    return found


def _walk(value: Any, way: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(inner, f"{way}.{key}" if way else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _walk(inner, f"{way}.{place}" if way else str(place))
    elif isinstance(value, str):
        text = value[:_MAX_LEAF_CHARS].strip()
        if len(text) >= MIN_TARGET_CHARS:
            yield way, text
    elif isinstance(value, int | float) and not isinstance(value, bool) and len(str(value)) >= MIN_TARGET_CHARS:
        yield way, value


def _is_masked(value: Any) -> bool:
    return isinstance(value, str) and _MASK in value


def _meets(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one in other or (other in one and not _is_masked(other))
    return type(one) is type(other) and bool(one == other)
