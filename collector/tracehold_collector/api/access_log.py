"""`GET /api/v1/access-log`: who asked for what, for a key with the role `audit`. Asking is itself noted."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.access.reading import ACTIONS, COLUMNS, MAX_LINES, Asked, read_log
from tracehold_collector.api.access import principal_of
from tracehold_collector.api.noting import note_rows
from tracehold_collector.api.parameters import moment, whole_number
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import iso_utc

_KNOWN: Final = frozenset({"since", "until", "key", "action", "before", "limit"})
_DEFAULT_LIMIT: Final = 100


async def get_access_log(request: Request) -> Response:
    """Return lines of the access log, the newest first, as `columns` and `rows`."""
    asked = _asked(request.query_params)
    who = principal_of(request)
    tenants = None if who.oversees else who.tenants
    lines = await asyncio.to_thread(read_log, request.app.state.data_dir, asked, tenants)
    note_rows(request, len(lines))
    rows = [[_shown(name, line[name]) for name in COLUMNS] for line in lines]
    return JSONResponse({"columns": COLUMNS, "rows": rows})


def _asked(query: QueryParams) -> Asked:
    unknown = sorted(set(query) - _KNOWN)
    if unknown:
        raise QueryError(f"there is no parameter {unknown[0][:40]!r}; there are: {', '.join(sorted(_KNOWN))}")
    action = query.get("action")
    if action is not None and action not in ACTIONS:
        raise QueryError(f"action takes one of {', '.join(ACTIONS)}")
    return Asked(
        since=moment(query, "since"),
        until=moment(query, "until"),
        key=query.get("key"),
        action=action,
        before=whole_number(query, "before", 2**62),
        limit=whole_number(query, "limit", MAX_LINES) or _DEFAULT_LIMIT,
    )


def _shown(name: str, value: Any) -> Any:
    return iso_utc(value) if name == "at" else value
