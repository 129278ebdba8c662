"""Who may: with a key set, only its bearer; without, only this machine.

A keyless collector listens on loopback. A web page in the user's browser could still try to reach it, so it answers
only to loopback host names (DNS rebinding), and ingest takes only content types that a page cannot send without a
preflight, which is never granted.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tracehold_collector.core.settings import is_loopback

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What a load balancer may ask without a key; they say up or down and nothing else."""


_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")


class AccessMiddleware:
    """Refuses what may not be answered, before anything is read.

    Args:
        app: what to protect.
        api_key: the key to ask for, or `None` when only this machine is served.
    """

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._expected = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 403."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            refusal = self._refusal(Headers(scope=scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        if self._expected is not None:
            # RFC 9110 section 11.1: the scheme's case does not matter.
            scheme, _, shown = headers.get("authorization", "").partition(" ")
            matches = hmac.compare_digest(shown.strip().encode("utf-8", "replace"), self._expected)
            if matches and scheme.lower() == "bearer":
                return None
            return JSONResponse(
                {
                    "error": "this collector needs an API key",
                    "hint": "send it as 'Authorization: Bearer KEY'; clients of ours read it from TRACEHOLD_API_KEY",
                },
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_loopback(_host_name(hosts[0])):
            return JSONResponse(
                {
                    "error": "this collector has no API key and answers only as localhost",
                    "hint": "ask it as http://127.0.0.1, or set TRACEHOLD_API_KEY for it to be reached by other names",
                },
                status_code=403,
            )
        return None


def _host_name(host: str) -> str:
    """The name of a Host header in lower case, its port and brackets taken off; empty when it is malformed."""
    match = _HOST.fullmatch(host.strip().lower())
    return (match["six"] or match["name"]) if match else ""
