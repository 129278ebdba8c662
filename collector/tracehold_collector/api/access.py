"""Who may, over HTTP: looks at the key, at what the address needs, and notes who asked (decisions 7 and 19).

A keyless collector listens on loopback. A web page in the user's browser could still try to reach it, so over HTTP it
answers only to loopback host names (DNS rebinding), and ingest takes only content types that a page cannot send without
a preflight, which is never granted. A page cannot speak gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracehold_collector.access.gate import Gate, Refusal
from tracehold_collector.access.journal import AccessLog, Entry
from tracehold_collector.access.principal import Principal
from tracehold_collector.api.errors import on_collector_error
from tracehold_collector.api.needs import HTTP, OPEN_PATHS, Need
from tracehold_collector.api.noting import note_answer
from tracehold_collector.api.otlp_status import OTLP_PATHS, otlp_error
from tracehold_collector.core.errors import ThrottledError
from tracehold_collector.core.settings import is_loopback
from tracehold_collector.core.tenants import Writes
from tracehold_collector.store.reader import Access

TENANT_HEADER: Final = "x-tracehold-tenant"

_NOT_HERE: Final = "this collector has no API key and answers only as localhost"
_HOW_TO_REACH: Final = (
    "ask it as http://127.0.0.1; for it to be reached by other names, make keys with 'tracehold keys create' or set "
    "TRACEHOLD_API_KEY"
)

_NOWHERE: Final = "(no such address)"

_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is not answered: the status, and words for whoever asked."""

    status: int
    error: str
    hint: str


def principal_of(request: Request) -> Principal:
    """Return who asks; set before any handler runs."""
    found: Principal = request.scope["state"]["principal"]
    return found


def access_of(request: Request) -> Access:
    """Return what the asker may see."""
    who = principal_of(request)
    return Access(tenants=who.tenants, content=who.may("content"))


def writes_of(request: Request) -> Writes:
    """Return whose data the sender may bring; several headers are no claim that anybody could mean."""
    claims = request.headers.getlist(TENANT_HEADER)
    return principal_of(request).writes(", ".join(claims) or None)


def denial_of(who: Principal, need: Need | None) -> Denial | None:
    """Return why `who` may not use an address that needs `need`, or `None` when it may. No need known is a no."""
    if need is None:
        return Denial(403, "no role opens this address", "it is missing from the collector's table; report it")
    if not who.may(need.role):
        has = ", ".join(sorted(who.roles)) or "no role"
        return Denial(
            403, f"this needs a key with the role {need.role}; this one has {has}", "show another key, or ask for one"
        )
    if need.every_tenant and not who.oversees:
        return Denial(403, "this is about all tenants together", "show a key that names all tenants, or ask for one")
    return None


class AccessMiddleware:
    """Refuses what may not be answered, before anything is read, and notes what was answered.

    Args:
        app: what to protect.
        gate: says who asks.
        routes: the addresses there are.
        log: where reads, administrative acts and refusals are noted.
    """

    def __init__(self, app: ASGIApp, gate: Gate, routes: Sequence[BaseRoute], log: AccessLog) -> None:
        self._app = app
        self._gate = gate
        self._routes = routes
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 403."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        who = self._gate.admit(headers.get("authorization", ""), headers.get("x-api-key", ""))
        if isinstance(who, Refusal):
            self._log.refused(
                Entry(
                    "denied", _path(self._routes, scope) or _NOWHERE, who.key_id, who.name or "a stranger", status=401
                ),
                who.key_id or "strangers",
            )
            await _answer(scope["path"], headers, Denial(401, who.error, who.hint))(scope, receive, send)
            return
        path = _path(self._routes, scope)
        denial = self._host_denial(headers) or (denial_of(who, HTTP.get(path)) if path else None)
        if denial is not None:
            entry = Entry("denied", path or _NOWHERE, who.key_id, who.name, tenants=who.tenants, status=denial.status)
            self._log.refused(entry, who.key_id or who.name)
            await _answer(scope["path"], headers, denial)(scope, receive, send)
            return
        need = HTTP.get(path)
        try:
            self._gate.meters.request(who.key_id, who.limit)
            if need is not None and need.act == "ingest":
                self._gate.meters.room(who.key_id, who.limit)
        except ThrottledError as error:
            await (await on_collector_error(Request(scope), error))(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = who
        if need is None or need.act in {"ingest", "watch"}:
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                await note_answer(self._log, scope, who, (path, need), message)
            await send(message)

        await self._app(scope, receive, noted)

    def _host_denial(self, headers: Headers) -> Denial | None:
        if not self._gate.keyless:
            return None
        hosts = headers.getlist("host")
        if len(hosts) == 1 and is_loopback(_host_name(hosts[0])):
            return None
        return Denial(403, _NOT_HERE, _HOW_TO_REACH)


def _path(routes: Sequence[BaseRoute], scope: Scope) -> str:
    """The path of the route that will answer, with its place-holders; empty when none will."""
    for route in routes:
        if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
            return route.path
    return ""


_CODES: Final = {401: 16, 403: 7}


def _answer(path: str, asked: Headers, denial: Denial) -> Response:
    status = denial.status
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004
    if path in OTLP_PATHS:
        return otlp_error(asked, status, _CODES[status], f"{denial.error}: {denial.hint}", headers)
    return JSONResponse({"error": denial.error, "hint": denial.hint}, status, headers)


def _host_name(host: str) -> str:
    """The name of a Host header in lower case, its port and brackets taken off; empty when it is malformed."""
    match = _HOST.fullmatch(host.strip().lower())
    return (match["six"] or match["name"]) if match else ""
