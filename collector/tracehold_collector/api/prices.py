"""Prices stored calls when somebody asks for it; says how far it is while it works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tracehold_collector.api.access import principal_of
from tracehold_collector.core.errors import BadBodyError, CollectorError
from tracehold_collector.core.tenants import Tenants
from tracehold_collector.core.times import parse_moment_ns
from tracehold_collector.repricing import Repriced, Repricer, Scope

_MAX_BODY: Final = 64 * 1024
_KNOWN: Final = frozenset({"again", "since", "until"})


async def apply_prices(request: Request) -> Response:
    """Price calls of the asker's tenants; answers JSON lines: one each few thousand calls, the last one has `done`.

    The body is a JSON object or empty: `again` (also what a price list priced before), `since` and `until` (ISO 8601,
    UTC where no zone is said).
    """
    scope = _scope(await _body(request), principal_of(request).tenants)
    repricer: Repricer = request.app.state.repricer
    return StreamingResponse(_lines(repricer, scope), media_type="application/x-ndjson")


def _lines(repricer: Repricer, scope: Scope) -> Iterator[bytes]:
    told = Repriced()
    try:
        for told in repricer.steps(scope):
            yield _line(told, done=False)
    except CollectorError as error:
        yield orjson.dumps({"error": str(error)}) + b"\n"  # the status has been sent
    else:
        yield _line(told, done=True)


def _line(told: Repriced, *, done: bool) -> bytes:
    line: dict[str, Any] = {
        "looked_at": told.looked_at,
        "priced": told.priced,
        "changed": told.changed,
        "unknown": sum(told.unknown.values()),
        "usd": told.usd,
    }
    return orjson.dumps(line | ({"done": True} if done else {})) + b"\n"


async def _body(request: Request) -> dict[str, Any]:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _MAX_BODY:
            raise BadBodyError("a request for pricing is a small JSON object; leave the rest out")
    try:
        body = orjson.loads(bytes(raw)) if raw else {}
    except orjson.JSONDecodeError as error:
        raise BadBodyError(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict) or (unknown := body.keys() - _KNOWN):
        said = f"it has no {', '.join(sorted(map(repr, unknown)))}" if isinstance(body, dict) else "this is none"
        raise BadBodyError(f"the body is a JSON object with {', '.join(sorted(_KNOWN))}; {said}"[:400])
    return body


def _scope(body: dict[str, Any], tenants: Tenants) -> Scope:
    again = body.get("again", False)
    if not isinstance(again, bool):
        raise BadBodyError("'again' is true or false")
    return Scope(again, _moment(body, "since"), _moment(body, "until"), tenants)


def _moment(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    moment = parse_moment_ns(value) if isinstance(value, str) else None
    if moment is None:
        raise BadBodyError(f"{name!r} is a time as 2026-11-29 or 2026-11-29T17:00:00, UTC")
    return moment
