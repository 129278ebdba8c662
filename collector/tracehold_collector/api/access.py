"""Who may: with a key set, only its bearer; without, only this machine.

A keyless collector listens on loopback. A web page in the user's browser could still try to reach it, so it answers
only to loopback host names (DNS rebinding), and ingest takes only content types that a page cannot send without a
preflight, which is never granted.
"""

from __future__ import annotations

import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tracehold_collector.core.settings import is_loopback

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What a load balancer may ask without a key; they say up or down and nothing else."""


class AccessMiddleware:
    """Refuses what may not be answered, before anything is read.

    Args:
        app: what to protect.
        api_key: the key to ask for, or `None` when only this machine is served.
    """

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._expected = None if api_key is None else f"Bearer {api_key}".encode()

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
            shown = headers.get("authorization", "").encode("utf-8", "replace")
            if hmac.compare_digest(shown, self._expected):
                return None
            return JSONResponse(
                {
                    "error": "this collector needs an API key",
                    "hint": "send it as 'Authorization: Bearer KEY'; clients of ours read it from TRACEHOLD_API_KEY",
                },
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
        if not is_loopback(_host_name(headers.get("host", ""))):
            return JSONResponse(
                {
                    "error": "this collector has no API key and answers only as localhost",
                    "hint": "ask it as http://127.0.0.1, or set TRACEHOLD_API_KEY for it to be reached by other names",
                },
                status_code=403,
            )
        return None


def _host_name(host: str) -> str:
    """The name of a Host header, its port and brackets taken off."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
