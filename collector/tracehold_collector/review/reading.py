"""How reviews stand, read from the store: a fold over the events that record them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import duckdb
from tracehold.observability.event_types import DENIALS

from tracehold_collector.core.errors import NotFoundError, QueryError
from tracehold_collector.core.tenants import Tenants
from tracehold_collector.review.acts import DayFigures
from tracehold_collector.review.states import Review

_DENIAL: Final = """
SELECT tenant, run_id, received_at
FROM events
WHERE event_id = $event_id
  AND status = 'blocked'
  AND list_contains($denials::VARCHAR[], decision)
  AND source <> 'collector'
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
"""
_REVIEW: Final = """
SELECT state, revision, assignee, verdict, verdict_by, verdict_key
FROM reviews
WHERE tenant = $tenant
  AND denial_id = $denial_id
"""
_ACTS: Final = """
SELECT event_id, revision, type, started_at, decided_by, state, assignee, verdict
FROM review_acts
WHERE tenant = $tenant
  AND denial_id = $denial_id
ORDER BY revision
"""
_DAY: Final = """
SELECT
    count(*),
    count(*) FILTER (state IN ('open', 'assigned')),
    count(*) FILTER (state = 'awaiting_sign_off'),
    count(*) FILTER (state IN ('open', 'assigned', 'awaiting_sign_off') AND received_at < $due_before)
FROM (
    SELECT events.received_at, coalesce(reviews.state, 'open') AS state
    FROM events
    LEFT JOIN reviews ON reviews.tenant = events.tenant AND reviews.denial_id = events.event_id
    WHERE events.tenant = $tenant
      AND events.status = 'blocked'
      AND list_contains($denials::VARCHAR[], events.decision)
      AND events.source <> 'collector'
      AND events.received_at >= epoch_ns($day::DATE::TIMESTAMP)
      AND events.received_at < epoch_ns($day::DATE::TIMESTAMP + INTERVAL 1 DAY)
)
"""
_SIGNED: Final = "SELECT revision FROM signed_days WHERE tenant = $tenant AND day = $day::DATE"


@dataclass(frozen=True, slots=True)
class Denial:
    """The denial that is reviewed: its event id, whose it is, its run, when it came in (UTC nanoseconds)."""

    event_id: uuid.UUID
    tenant: str
    run_id: str
    received_at: int


@dataclass(frozen=True, slots=True)
class StoredAct:
    """One act as it stands in the log: times in UTC nanoseconds."""

    event_id: uuid.UUID
    revision: int
    type: str
    at: int
    by: str
    state: str
    assignee: str | None
    verdict: str | None


def find_denial(cursor: duckdb.DuckDBPyConnection, event_id: str, tenant: str | None, tenants: Tenants) -> Denial:
    """Return the denial of this event id.

    Args:
        cursor: the reader's own.
        event_id: a UUID as text.
        tenant: whose it is; `None` when the id says enough.
        tenants: whose data the asker is let near.

    Raises:
        QueryError: it is no id, or several tenants have an event of this id: ids are chosen by senders.
        NotFoundError: there is no such denial that the asker may see.
    """
    try:
        key = uuid.UUID(event_id)
    except ValueError:
        raise QueryError("the id of a denial is a UUID: 32 hex digits, dashes allowed") from None
    asked = {"event_id": key, "denials": sorted(DENIALS), "tenants": _narrowed(tenant, tenants)}
    found = [Denial(key, *row) for row in cursor.execute(_DENIAL, asked).fetchall()]
    if not found:
        raise NotFoundError(f"there is no denial {key} that you may see; 'tracehold review list' shows those there are")
    if len(found) > 1:
        raise QueryError("several of your tenants have a denial of this id; say which with 'tenant'")
    return found[0]


def read_review(cursor: duckdb.DuckDBPyConnection, denial: Denial) -> Review:
    """Return how the review of a denial stands by its own acts; nobody's signature under its day is looked at."""
    row = cursor.execute(_REVIEW, {"tenant": denial.tenant, "denial_id": denial.event_id}).fetchone()
    return Review() if row is None else Review(*row)


def read_acts(cursor: duckdb.DuckDBPyConnection, denial: Denial) -> Sequence[StoredAct]:
    """Return what was done about a denial, in order."""
    rows = cursor.execute(_ACTS, {"tenant": denial.tenant, "denial_id": denial.event_id}).fetchall()
    return [StoredAct(*row) for row in rows]


def read_day(cursor: duckdb.DuckDBPyConnection, tenant: str, day: date, due_before_ns: int) -> tuple[DayFigures, int]:
    """Return what a day's denials come to, and how often the day was signed off.

    Args:
        cursor: the reader's own.
        tenant: whose.
        day: of receipt, UTC.
        due_before_ns: what came in before this moment and still waits is overdue.
    """
    asked: dict[str, Any] = {"tenant": tenant, "day": day}
    counts = cursor.execute(_DAY, asked | {"denials": sorted(DENIALS), "due_before": due_before_ns}).fetchone()
    signed = cursor.execute(_SIGNED, asked).fetchone()
    return DayFigures(*(counts or (0, 0, 0, 0))), signed[0] if signed else 0


def _narrowed(tenant: str | None, tenants: Tenants) -> list[str] | None:
    if tenant is None:
        return None if tenants is None else list(tenants)
    return [tenant] if tenants is None or tenant in tenants else []
