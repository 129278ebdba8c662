"""Reads the access log, as far as the auditor's key reaches."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracehold_collector.access.file import opened
from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.tenants import Tenants

COLUMNS: Final = (
    "number", "at", "key_id", "who", "action", "what", "parameters", "tenants", "status", "rows", "repeated",
)  # fmt: skip
ACTIONS: Final = ("read", "export", "admin", "denied", "lost")
MAX_LINES: Final = 10_000

_LINES: Final = """
SELECT number, at, key_id, who, action, what, parameters, tenants, status, row_count, repeated
FROM access_log
WHERE (:since IS NULL OR at >= :since)
  AND (:until IS NULL OR at < :until)
  AND (:key IS NULL OR key_id = :key OR who = :key)
  AND (:action IS NULL OR action = :action)
  AND (:before IS NULL OR number < :before)
  AND (:own IS NULL OR (action <> 'lost' AND (
        tenants IS NULL OR EXISTS (SELECT 1 FROM json_each(tenants) WHERE value IN (SELECT value FROM json_each(:own)))
  )))
ORDER BY number DESC
LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which lines to read; `None` is any.

    Attributes:
        since, until: from then on, and before then; UTC nanoseconds.
        key: of this key, by id or name.
        action: one of `ACTIONS`.
        before: with a smaller number, to go on from a page before.
        limit: how many at most.
    """

    since: int | None = None
    until: int | None = None
    key: str | None = None
    action: str | None = None
    before: int | None = None
    limit: int = 100


def read_log(folder: Path, asked: Asked, tenants: Tenants) -> list[dict[str, Any]]:
    """Return lines of the access log, the newest first, as dictionaries of `COLUMNS`.

    A line that is about other tenants too shows that their own was read, and by whom, and nothing else of it.

    Args:
        folder: the data folder.
        asked: which lines.
        tenants: whose lines may be seen; `None` is everybody's, and those of nobody in particular.

    Raises:
        StoreError: the file cannot be read.
    """
    own = None if tenants is None else json.dumps(tenants)
    bound = {
        "since": asked.since,
        "until": asked.until,
        "key": asked.key,
        "action": asked.action,
        "before": asked.before,
        "own": own,
        "limit": asked.limit,
    }
    try:
        with opened(folder) as connection:
            rows = connection.execute(_LINES, bound).fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"the access log cannot be read: {type(error).__name__}") from error
    return [_line(dict(zip(COLUMNS, row, strict=True)), tenants) for row in rows]


def _line(line: dict[str, Any], tenants: Tenants) -> dict[str, Any]:
    line["parameters"] = json.loads(line["parameters"] or "{}")
    line["tenants"] = None if line["tenants"] is None else json.loads(line["tenants"])
    if tenants is not None and (line["tenants"] is None or not set(line["tenants"]) <= set(tenants)):
        touched = tenants if line["tenants"] is None else [one for one in line["tenants"] if one in tenants]
        line |= {"parameters": None, "rows": None, "tenants": list(touched)}
    return line
