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
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import iso_utc, parse_moment_ns

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
        since=_moment(query, "since"),
        until=_moment(query, "until"),
        key=query.get("key"),
        action=action,
        before=_number(query, "before", 2**62),
        limit=_number(query, "limit", MAX_LINES) or _DEFAULT_LIMIT,
    )


def _number(query: QueryParams, name: str, most: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= most):  # noqa: PLR2004
        raise QueryError(f"{name} takes a whole number from 1 to {most}")
    return int(text)


def _moment(query: QueryParams, name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    moment = parse_moment_ns(text)
    if moment is None:
        raise QueryError(f"{name} takes a time as 2026-11-29 or 2026-11-29T17:00:00, UTC")
    return moment


def _shown(name: str, value: Any) -> Any:
    return iso_utc(value) if name == "at" else value
