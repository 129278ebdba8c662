"""Follows events in the order in which they were committed, from a place that outlives a restart of the collector.

Rows lie in the order of their commits, so that DuckDB's row number finds what came after a place at once, at any size.
It is no place that lasts: a checkpoint after a deletion moves rows. What lasts is an event's id with the time of its
commit, which finds the row number again; each read looks whether the row is still the one it was.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
from tracehold.observability.event_types import DENIALS

from tracehold_collector.store.columns import EVENT_COLUMNS
from tracehold_collector.store.filters import equal_conditions

PAGE_ROWS: Final = 500
"""Events that are read at once."""

MAX_BEHIND: Final = 10_000
"""Events a follower may be behind; one that is further behind leaves out all but the newest `PAGE_ROWS`."""

MAX_PAST_ROWS: Final = 1_000_000

_COLUMNS: Final = ("event_id", *(name for name, _ in EVENT_COLUMNS), "attributes", "received_at")
_DENIED: Final = f"status = 'blocked' AND decision IN ({', '.join(repr(one) for one in sorted(DENIALS))})"
"""DEC-01; the answer to an approval request has the same decision and is not blocked."""

_ID: Final = re.compile(r"(\d{1,19})\.([0-9a-f]{32})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """After which event to go on.

    Attributes:
        received_at: when it was committed, UTC nanoseconds; 0 is before all.
        event_id: UUID text.
        row: its row number when last looked at; -1 is before all.
    """

    received_at: int
    event_id: str
    row: int

    def written(self) -> str:
        """Return it as text, without what does not last."""
        return f"{self.received_at}.{self.event_id.replace('-', '')}"


BEFORE_ALL: Final = Place(0, str(uuid.UUID(int=0)), -1)


@dataclass(frozen=True, slots=True)
class Followed:
    """Which events to follow.

    Attributes:
        tenants: whose; `None` is everyone's.
        equal: values of `filters.FILTERS`.
        denials: only what a gate stopped.
    """

    tenants: Sequence[str] | None = None
    equal: Mapping[str, str] = field(default_factory=dict)
    denials: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """What came after a place.

    Attributes:
        events: envelopes, by column, in the order of their commits.
        places: where each stands.
        skipped: events before them that are left out, because the follower was too far behind.
        looked: the last event that was looked at, whoever's it is: where to look on, and nothing to tell the follower.
        more: whether there is more already.
    """

    events: list[dict[str, Any]]
    places: list[Place]
    skipped: int
    looked: Place
    more: bool


def read_place(text: str) -> Place | None:
    """Return the place that `Place.written` wrote, its row unknown; `None` when the text is none."""
    match = _ID.fullmatch(text)
    return Place(int(match[1]), str(uuid.UUID(match[2])), -1) if match else None


def newest_place(cursor: duckdb.DuckDBPyConnection, followed: Followed, past: int) -> Place:
    """Return the place that has `past` events of those followed after it; with 0 the newest event of the tenants.

    Past events are looked for among the newest `MAX_PAST_ROWS` of the store only.
    """
    if not past:
        bound: dict[str, Any] = {}
        where = _where(Followed(followed.tenants), bound)
        return _place_at(cursor, _only(cursor, f"SELECT max(rowid) FROM events WHERE {where}", bound))  # noqa: S608 - names of columns come from FILTERS
    bound = {"past": past, "first": (_only(cursor, "SELECT max(rowid) FROM events", {}) or 0) - MAX_PAST_ROWS}
    where = _where(followed, bound)
    newest = f"SELECT rowid FROM events WHERE rowid > $first AND {where} ORDER BY rowid DESC LIMIT $past"  # noqa: S608 - as above
    first = _only(cursor, f"SELECT min(rowid) FROM ({newest})", bound)  # noqa: S608 - as above
    return newest_place(cursor, followed, 0) if first is None else _place_at(cursor, first - 1)


def located(cursor: duckdb.DuckDBPyConnection, place: Place) -> Place:
    """Return the place with its row as it is now; of an event that is gone, the last one committed no later."""
    if place.received_at == 0:
        return BEFORE_ALL
    bound = {"received_at": place.received_at, "event_id": place.event_id, "row": place.row}
    same = "received_at = $received_at AND event_id = $event_id::UUID"
    if _only(cursor, f"SELECT 1 FROM events WHERE rowid = $row AND {same}", bound):  # noqa: S608 - constants
        return place
    del bound["row"]
    row = _only(cursor, f"SELECT max(rowid) FROM events WHERE {same}", bound)  # noqa: S608 - constants
    if row is None:
        del bound["event_id"]
        row = _only(cursor, "SELECT max(rowid) FROM events WHERE received_at <= $received_at", bound)
    return Place(place.received_at, place.event_id, -1 if row is None else row)


def read_news(cursor: duckdb.DuckDBPyConnection, followed: Followed, place: Place) -> News:
    """Return what came after `place`, at most `PAGE_ROWS` events, as the store was at one moment."""
    cursor.begin()
    try:
        return _read_news(cursor, followed, located(cursor, place))
    finally:
        cursor.rollback()


def _read_news(cursor: duckdb.DuckDBPyConnection, followed: Followed, here: Place) -> News:
    last = _only(cursor, "SELECT max(rowid) FROM events WHERE rowid > $row", {"row": here.row})
    if last is None:
        return News([], [], 0, here, more=False)
    bound: dict[str, Any] = {"row": here.row}
    where = f"rowid > $row AND {_where(followed, bound)}"
    rows = _rows(cursor, where, bound)
    skipped = 0
    if len(rows) > PAGE_ROWS:
        behind = _only(cursor, f"SELECT count(*) FROM events WHERE {where}", bound) or 0  # noqa: S608 - as above
        if behind > MAX_BEHIND:
            skipped = behind - PAGE_ROWS
            newest = f"SELECT rowid FROM events WHERE {where} ORDER BY rowid DESC LIMIT {PAGE_ROWS}"  # noqa: S608 - as above
            bound["row"] = (_only(cursor, f"SELECT min(rowid) FROM ({newest})", bound) or 0) - 1  # noqa: S608 - as above
            rows = _rows(cursor, where, bound)
    shown, more = rows[:PAGE_ROWS], len(rows) > PAGE_ROWS
    events = [dict(zip(_COLUMNS, row[1:], strict=True)) for row in shown]
    places = [Place(event["received_at"], event["event_id"], row[0]) for event, row in zip(events, shown, strict=True)]
    return News(events, places, skipped, places[-1] if more else _place_at(cursor, last), more)


def _place_at(cursor: duckdb.DuckDBPyConnection, row: int | None) -> Place:
    """The place of a row, or of the last one before it that is there."""
    found = cursor.execute(
        "SELECT received_at, event_id::VARCHAR, rowid FROM events WHERE rowid = $row",
        {"row": -1 if row is None else row},
    ).fetchone()
    if found or row is None or row < 0:
        return Place(*found) if found else BEFORE_ALL
    return _place_at(cursor, _only(cursor, "SELECT max(rowid) FROM events WHERE rowid < $row", {"row": row}))


def _only(cursor: duckdb.DuckDBPyConnection, sql: str, bound: Mapping[str, Any]) -> Any:
    """The one value of a question that has one row or none."""
    row = cursor.execute(sql, bound).fetchone()
    return row[0] if row else None


def _where(followed: Followed, bound: dict[str, Any]) -> str:
    conditions = equal_conditions(followed.tenants, followed.equal, bound)
    if followed.denials:
        conditions.append(_DENIED)
    return " AND ".join(conditions) or "true"


def _rows(cursor: duckdb.DuckDBPyConnection, where: str, bound: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    columns = ", ".join("event_id::VARCHAR" if name == "event_id" else name for name in _COLUMNS)
    return cursor.execute(
        f"SELECT rowid, {columns} FROM events WHERE {where} ORDER BY rowid LIMIT {PAGE_ROWS + 1}",  # noqa: S608 - as above
        bound,
    ).fetchall()
