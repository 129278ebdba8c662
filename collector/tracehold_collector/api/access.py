"""Who may: with a key set, only its bearer; without, only this machine. One rule for HTTP and gRPC.

A keyless collector listens on loopback. A web page in the user's browser could still try to reach it, so over HTTP it
answers only to loopback host names (DNS rebinding), and ingest takes only content types that a page cannot send without
a preflight, which is never granted. A page cannot speak gRPC.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tracehold_collector.api.otlp_status import OTLP_PATHS, otlp_error
from tracehold_collector.core.settings import is_loopback

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What a load balancer may ask without a key; they say up or down and nothing else."""

NO_KEY: Final = "this collector needs an API key"
HOW_TO_SHOW: Final = (
    "send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'; clients of ours read it from TRACEHOLD_API_KEY"
)
_NOT_HERE: Final = "this collector has no API key and answers only as localhost"
_HOW_TO_REACH: Final = "ask it as http://127.0.0.1, or set TRACEHOLD_API_KEY for it to be reached by other names"

_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")


class KeyCheck:
    """Whether a sender shows the key.

    Args:
        api_key: the key to ask for, or `None` when none is asked for.
    """

    def __init__(self, api_key: str | None) -> None:
        self._expected = None if api_key is None else api_key.encode()

    @property
    def needed(self) -> bool:
        """Whether a key is asked for at all."""
        return self._expected is not None

    def passes(self, authorization: str, x_api_key: str) -> bool:
        """Whether one of the two headers holds the key, or none is needed.

        Args:
            authorization: the `authorization` header or metadata, empty when absent.
            x_api_key: the same for `x-api-key`.
        """
        if self._expected is None:
            return True
        # RFC 9110 section 11.1: the scheme's case does not matter.
        scheme, _, shown = authorization.partition(" ")
        bearer = self._is_key(shown) and scheme.lower() == "bearer"
        return self._is_key(x_api_key) or bearer

    def _is_key(self, shown: str) -> bool:
        return hmac.compare_digest(shown.strip().encode("utf-8", "replace"), self._expected or b"")


class AccessMiddleware:
    """Refuses what may not be answered, before anything is read.

    Args:
        app: what to protect.
        api_key: the key to ask for, or `None` when only this machine is served.
    """

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._check = KeyCheck(api_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 403."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            refusal = self._refusal(scope["path"], Headers(scope=scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        if self._check.needed:
            if self._check.passes(headers.get("authorization", ""), headers.get("x-api-key", "")):
                return None
            return _answer(path, headers, 401, NO_KEY, HOW_TO_SHOW)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_loopback(_host_name(hosts[0])):
            return _answer(path, headers, 403, _NOT_HERE, _HOW_TO_REACH)
        return None


_CODES: Final = {401: 16, 403: 7}


def _answer(path: str, asked: Headers, status: int, error: str, hint: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004
    if path in OTLP_PATHS:
        return otlp_error(asked, status, _CODES[status], f"{error}: {hint}", headers)
    return JSONResponse({"error": error, "hint": hint}, status, headers)


def _host_name(host: str) -> str:
    """The name of a Host header in lower case, its port and brackets taken off; empty when it is malformed."""
    match = _HOST.fullmatch(host.strip().lower())
    return (match["six"] or match["name"]) if match else ""
