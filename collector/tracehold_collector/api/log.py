"""The audit log over HTTP, for who verifies it: what there is of it, and its leaves with the events they are of.

Nothing is verified here. Whoever asks does that, and need not believe a word of it.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.api.access import access_of, principal_of
from tracehold_collector.api.forms import json_answer
from tracehold_collector.api.noting import note_rows, note_tenant
from tracehold_collector.api.parameters import index_number, whole_number
from tracehold_collector.audit.signing import Signer
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.heads.copies import read_copies
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.store.log import OWN_LOG, log_sizes
from tracehold_collector.store.log_rows import Contents, window_of
from tracehold_collector.store.reader import NO_CONTENT
from tracehold_collector.store.tree_heads import StoredHead
from tracehold_collector.verify.stored import StoredLog
from tracehold_collector.verify.wire import MEDIA_TYPE, state_json, write_window

_MOST: Final = 1 << 62
AT_ONCE: Final = 2
"""Windows that are made at once; each takes memory, and more of them would only share the interpreter."""
CONTENTS: Final = get_args(Contents)


async def list_logs(request: Request) -> Response:
    """Return the logs that the key may see: tenant, size, origin, newest tree head, and the keys that sign them."""
    signer: Signer = request.app.state.signer
    heads: HeadKeeper = request.app.state.heads

    def read() -> list[dict[str, object]]:
        sizes = log_sizes(request.app.state.database)
        return [
            {
                "tenant": tenant,
                "size": size,
                "origin": signer.origin(tenant),
                "keys": [str(key) for key in signer.verifier_keys(tenant)],
                "head": _head(heads.last(tenant)),
            }
            for tenant, size in sorted(sizes.items())
            if _sees(request, tenant)
        ]

    logs = await asyncio.to_thread(read)
    note_rows(request, len(logs))
    return JSONResponse({"name": signer.name, "logs": logs})


async def get_state(request: Request) -> Response:
    """Return what there is of one log: size, tree heads from the store and from the copy beside it, erasures."""
    tenant = _tenant(request)
    log = await asyncio.to_thread(_log, request, "none")
    state = await asyncio.to_thread(log.state, tenant)
    return await asyncio.to_thread(json_answer, state_json(state))


async def get_frontier(request: Request) -> Response:
    """Return the roots of the full subtrees that the first `size` leaves are made of, as hex, the largest first."""
    tenant = _tenant(request)
    size = whole_number(request.query_params, "size", _MOST)
    if size is None:
        raise QueryError("give size=, the number of leaves")
    log = StoredLog(request.app.state.database)
    nodes = await asyncio.to_thread(log.frontier, tenant, size)
    return JSONResponse({"size": size, "nodes": [node.hex() for node in nodes]})


async def get_window(request: Request) -> Response:
    """Return the leaves `first` up to `end` with their events as an Arrow stream; at most 65,536 at once, 512 raw ones.

    With `contents=check` each content is held against its commitment here; with `contents=raw`, which needs the role
    `content`, it comes along for who asks to do that.
    """
    tenant = _tenant(request)
    first = index_number(request.query_params, "first", _MOST)
    end = index_number(request.query_params, "end", _MOST)
    contents = request.query_params.get("contents", "check")
    if contents not in CONTENTS:
        raise QueryError(f"contents takes one of {', '.join(CONTENTS)}")
    most = window_of(cast("Contents", contents))
    if first is None or end is None or not first <= end <= first + most:
        raise QueryError(f"give first= and end=, leaves of the log, {most} of them at most")
    if contents == "raw" and not access_of(request).content:
        return JSONResponse({"error": NO_CONTENT, "hint": "ask with contents=check"}, 403)
    log = StoredLog(request.app.state.database, contents=cast("Contents", contents))
    windows: asyncio.Semaphore = request.app.state.windows
    async with windows:
        window = await asyncio.to_thread(log.window, tenant, first, end)
        note_rows(request, window.rows.num_rows)
        return Response(await asyncio.to_thread(write_window, window), media_type=MEDIA_TYPE)


def _head(head: StoredHead | None) -> dict[str, object] | None:
    if head is None:
        return None
    signed_at = iso_utc(head.signed_at)
    return {"size": head.size, "root": head.root.hex(), "signed_at": signed_at, "note": head.note}


def _log(request: Request, contents: Contents) -> StoredLog:
    return StoredLog(request.app.state.database, read_copies(request.app.state.data_dir), contents=contents)


def _tenant(request: Request) -> str:
    """The tenant asked for; one that the key may not see is as one that does not exist."""
    tenant = request.query_params.get("tenant")
    tenants = access_of(request).tenants
    if tenant is None and tenants is not None and len(tenants) == 1:
        tenant = tenants[0]
    if tenant is None:
        raise QueryError("give tenant=, whose log")
    if not _sees(request, tenant):
        raise QueryError(f"there is no log of tenant {tenant[:128]!r} that this key may see")
    note_tenant(request, tenant)
    return tenant


def _sees(request: Request, tenant: str) -> bool:
    """Whether the key may see this log; that of the collector itself is for who oversees all of it."""
    tenants = access_of(request).tenants
    return tenants is None or tenant in tenants or (tenant == OWN_LOG and principal_of(request).oversees)
