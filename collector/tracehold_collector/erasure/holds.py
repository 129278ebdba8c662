"""Legal holds: what is under one is not erased, whoever asks and on whatever ground, until it is released."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.tenants import Tenants
from tracehold_collector.erasure.request import Scope, read_scope
from tracehold_collector.erasure.words import HOLD_KINDS

_MAX_REASON_CHARS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold.

    Attributes:
        id: 32 hex digits.
        tenant: whose data.
        scope: what must stay; of a subject or session all its runs, whole.
        reason: in the words of who placed it, such as the number of a case.
        placed_by, placed_at: the name of the key, and UTC nanoseconds.
        released_by, released_at: the same; `None` while it holds.
    """

    id: str
    tenant: str
    scope: Scope
    reason: str
    placed_by: str
    placed_at: int
    released_by: str | None = None
    released_at: int | None = None

    @property
    def active(self) -> bool:
        """Whether it holds."""
        return self.released_at is None


def read_hold(body: Mapping[str, Any], tenant: str, pseudonyms: Pseudonyms) -> tuple[Scope, str]:
    """Return what a hold is asked for on, and why.

    Raises:
        BadBodyError: says what would be right.
    """
    kind = body.get("scope")
    if kind not in HOLD_KINDS:
        raise BadBodyError(f"'scope' of a hold is one of {', '.join(HOLD_KINDS)}")
    reason = body.get("reason")
    if not isinstance(reason, str) or not 0 < len(reason.strip()) <= _MAX_REASON_CHARS:
        raise BadBodyError(f"'reason' says why, such as a case number: text of at most {_MAX_REASON_CHARS} characters")
    return read_scope(kind, body.get("value"), pseudonyms.of(tenant)), reason.strip()


def place_hold(
    connection: duckdb.DuckDBPyConnection, tenant: str, scope: Scope, *, reason: str, principal: str
) -> Hold:
    """Place a hold, inside the caller's transaction on the writer's thread."""
    hold = Hold(uuid.uuid4().hex, tenant, scope, reason, principal, now_ns())
    connection.execute(
        "INSERT INTO legal_holds VALUES (?, ?, 'placed', ?, ?, ?, ?, ?)",
        [hold.id, tenant, hold.placed_at, principal, scope.kind, scope.value, reason],
    )
    return hold


def release_hold(connection: duckdb.DuckDBPyConnection, hold: Hold, *, principal: str) -> None:
    """Release a hold, inside the caller's transaction on the writer's thread; once more does nothing."""
    if hold.active:
        connection.execute(
            "INSERT INTO legal_holds VALUES (?, ?, 'released', ?, ?, ?, ?, NULL)",
            [hold.id, hold.tenant, now_ns(), principal, hold.scope.kind, hold.scope.value],
        )


def load_holds(cursor: duckdb.DuckDBPyConnection, tenants: Tenants, *, active: bool = False) -> list[Hold]:
    """Return the holds of these tenants, the latest first; released ones too unless only `active` ones are wanted."""
    rows = cursor.execute(
        """
        SELECT placed.hold_id, placed.tenant, placed.kind, placed.value, coalesce(placed.reason, ''), placed.principal,
               placed.happened_at, released.principal, released.happened_at
        FROM legal_holds AS placed
        LEFT JOIN legal_holds AS released ON released.hold_id = placed.hold_id AND released.step = 'released'
        WHERE placed.step = 'placed'
          AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], placed.tenant))
        ORDER BY placed.happened_at DESC
        """,
        {"tenants": None if tenants is None else list(tenants)},
    ).fetchall()
    holds = [Hold(row[0], row[1], Scope(row[2], row[3]), *row[4:]) for row in rows]
    return [hold for hold in holds if hold.active] if active else holds
