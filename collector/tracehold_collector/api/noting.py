"""What the access log is told about an answer: what was asked for (never content), whose data, how much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.types import Message, Scope
from tracehold.privacy import Cleaner

from tracehold_collector.access.journal import AccessLog, Action, Entry
from tracehold_collector.access.principal import Principal
from tracehold_collector.api.needs import Need
from tracehold_collector.core.names import try_clean
from tracehold_collector.core.tenants import Tenants

WAIT_S: Final = 0.25
"""How long an answer waits for its line to be written; then it goes out, and the line follows."""

_IDS: Final = frozenset({"event_id", "run_id", "trace_id", "traceID", "trace_ids", "key", "name", "after"})
"""Told as they are: masking would take an id for a card number now and then."""

_SAID: Final = frozenset(
    {
        "tenant", "agent", "status", "kind", "model", "provider", "rule", "decision", "decided_by", "service",
        "serviceName", "operation", "source", "since", "until", "start", "end", "startTime", "endTime", "endTs",
        "lookback", "limit", "offset", "timezone", "minDuration", "maxDuration", "spanKind", "span_kind", "user_ref",
        "session_id", "by", "query.service_name", "query.operation_name", "query.start_time_min",
        "query.start_time_max", "action", "seconds", "denials", "last", "format", "with_content",
        "question", "sample", "complete", "tree_head",
        "from", "to", "leaf_index",
        "state", "verdict", "assignee", "overdue", "due_hours", "day", "from_day", "until_day", "first", "way",
        "got_through", "digest",
        "query.serviceName", "query.operationName", "query.startTimeMin", "query.startTimeMax", "query.num_traces",
    }
)  # fmt: skip
"""Told, masked. The value of any other parameter could be somebody's words: of it, only the name is told."""

_WITHHELD: Final = "(not kept)"
_cleaner: Final = Cleaner(mask="[REDACTED]")


def note_rows(request: Request, rows: int) -> None:
    """Tell the access log how many rows, events or traces the answer has."""
    request.scope["state"]["rows"] = rows


def note_tenant(request: Request, tenant: str) -> None:
    """Tell the access log that the answer is about this tenant only."""
    request.scope["state"]["seen"] = (tenant,)


def note_parameters(request: Request, **told: Any) -> None:
    """Tell the access log what stands for parameters that it may not be told itself."""
    request.scope["state"].setdefault("told", {}).update(told)


def note_end(request: Request, rows: int, tenants: Tenants, **told: Any) -> None:
    """Add the line of a streamed answer's end: at its start nobody knew how much it would show.

    Args:
        request: the one that is answered.
        rows: how much it had.
        tenants: whose data it showed.
        **told: how it ended, without content.
    """
    log: AccessLog = request.app.state.access_log
    who: Principal = request.scope["state"]["principal"]
    log.add(Entry("read", f"{request.url.path} (end)", who.key_id, who.name, told, tenants, 200, rows))


def note_export(request: Request) -> None:
    """Tell the access log that the answer is an export: it goes into a file."""
    request.scope["state"]["export"] = True


async def note_answer(log: AccessLog, scope: Scope, who: Principal, route: tuple[str, Need], message: Message) -> None:
    """Write the line of an answer that is about to go out, and wait a moment for it.

    Args:
        log: where to.
        scope: of the request, with what its handler told.
        who: asked.
        route: its path and what that needs.
        message: the start of the answer.
    """
    path, need = route
    action: Action = "admin" if need.act == "admin" else "read"
    status = message["status"]
    if action == "read" and "text/csv" in Headers(raw=message.get("headers", [])).get("content-type", ""):
        action = "export"
    state = scope["state"]
    if state.get("export"):
        action = "export"
    asked = parameters(scope.get("path_params", {}), QueryParams(scope.get("query_string", b"")))
    done = log.add(
        Entry(
            action,
            path,
            who.key_id,
            who.name,
            asked | state.get("told", {}),
            state.get("seen", who.tenants),
            status,
            state.get("rows"),
        )
    )
    await asyncio.wait([asyncio.wrap_future(done)], timeout=WAIT_S)


def parameters(path: Mapping[str, Any], query: QueryParams) -> dict[str, Any]:
    """Return what was asked for, as far as it is no content: ids, names of the envelope and times."""
    told: dict[str, Any] = {name: str(value) for name, value in path.items()}
    for name in dict.fromkeys(query):
        values = query.getlist(name)
        if name in _IDS:
            told[name] = values
        elif name in _SAID:
            told[name] = [try_clean(_cleaner, value[:200]) or _WITHHELD for value in values[:20]]
        else:
            told[_name(name)] = _WITHHELD
    return {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in told.items()}


def _name(name: str) -> str:
    """A parameter's name, when it looks like one."""
    return name if name.replace(".", "").replace("_", "").isalnum() and len(name) <= 40 else "(another parameter)"  # noqa: PLR2004
