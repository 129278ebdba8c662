"""The audit log as C2SP lays it out (tlog-tiles), and proofs that are made here for who does not want to.

Under `/api/v1/log/{tenant}` every client of such logs finds `checkpoint`, `tile/...` and `tile/entries/...`. Tiles
never change, so they may be cached for ever, by the asker alone.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.api.access import access_of
from tracehold_collector.api.noting import note_rows, note_tenant
from tracehold_collector.api.parameters import index_number
from tracehold_collector.audit.merkle import consistency_proof, inclusion_proof
from tracehold_collector.audit.tiles import (
    TILE_WIDTH,
    TileCache,
    TilePath,
    encode_bundle,
    parse_tile_path,
    tile_width,
)
from tracehold_collector.core.errors import QueryError, StoreError, TileError
from tracehold_collector.evidence.entries import read_entries
from tracehold_collector.evidence.log_reader import LogReader
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.store.database import Database
from tracehold_collector.store.tree_heads import StoredHead

NOTE_TYPE: Final = "text/plain; charset=utf-8"
TILE_TYPE: Final = "application/octet-stream"
_FOR_EVER: Final = {"Cache-Control": "private, max-age=31536000, immutable"}
_MOST: Final = 1 << 62


async def get_checkpoint(request: Request) -> Response:
    """Return the newest tree head of a log, a signed note (C2SP tlog-checkpoint)."""
    _tenant, head = _head(request)
    return Response(head.note, media_type=NOTE_TYPE, headers={"Cache-Control": "no-cache"})


async def get_tile(request: Request) -> Response:
    """Return a tile of hashes, or a bundle of entries under `entries/`, as far as the newest tree head reaches.

    A bundle with an entry whose event was deleted is not there any more: its leaf hash is, in the tile of level 0.
    """
    tenant, head = _head(request)
    path = parse_tile_path(f"tile/{request.path_params['tile']}")
    if path.width > tile_width(path.level or 0, path.index, head.size):
        raise TileError(f"the tree of {head.size} leaves has no such tile")
    data = await asyncio.to_thread(_read_tile, request, tenant, path)
    note_rows(request, path.width)
    return Response(data, media_type=TILE_TYPE, headers=_FOR_EVER)


async def get_proof(request: Request) -> Response:
    """Return that an event, or a leaf by its index, stands in the log: leaf hash, inclusion proof, signed tree head."""
    tenant, head = _head(request)
    query = request.query_params
    event_id, index = query.get("event_id"), index_number(query, "leaf_index", _MOST)
    if (event_id is None) == (index is None):
        raise QueryError("give event_id=, or leaf_index=")
    if index is None:
        index = await asyncio.to_thread(_place, request, tenant, str(event_id))
    if index is None or index >= head.size:
        return JSONResponse(
            {"error": "there is no such event in the log that you may see, or no tree head covers it yet"}, 404
        )
    found = await asyncio.to_thread(_prove, request, tenant, index, head.size)
    note_rows(request, 1)
    return JSONResponse({"leaf_index": index, "size": head.size, **found, "tree_head": head.note})


async def get_consistency(request: Request) -> Response:
    """Return the proof that the tree of `to` leaves (by default of the newest tree head) begins with that of `from`."""
    tenant, head = _head(request)
    old = index_number(request.query_params, "from", _MOST)
    new = index_number(request.query_params, "to", _MOST)
    new = head.size if new is None else new
    if old is None or not old <= new <= head.size:
        raise QueryError(f"give from= and to=, sizes of tree heads, rising, up to {head.size}")
    proof = await asyncio.to_thread(_consistent, request, tenant, old, new)
    return JSONResponse({"old": old, "new": new, "proof": proof, "tree_head": head.note if new == head.size else None})


def _head(request: Request) -> tuple[str, StoredHead]:
    """The tenant and its newest tree head; a log that the key may not see is as one that does not exist."""
    tenant: str = request.path_params["tenant"]
    tenants = access_of(request).tenants
    heads: HeadKeeper = request.app.state.heads
    head = heads.last(tenant) if tenants is None or tenant in tenants else None
    if head is None:
        raise TileError(f"there is no log of tenant {tenant[:128]!r} with a tree head that this key may see")
    note_tenant(request, tenant)
    return tenant, head


def _read_tile(request: Request, tenant: str, path: TilePath) -> bytes:
    with _log(request, tenant) as log:
        if path.level is not None:
            return log.tile(path)
        first = path.index * TILE_WIDTH
        return encode_bundle(read_entries(log.cursor, tenant, first, first + path.width))


def _place(request: Request, tenant: str, event_id: str) -> int | None:
    try:
        key = uuid.UUID(event_id)
    except ValueError:
        raise QueryError("event_id is no UUID: 32 hex digits, dashes allowed") from None
    with _log(request, tenant) as log:
        found = log.cursor.execute(
            "SELECT leaf_index FROM events WHERE event_id = ? AND tenant = ?", [key, tenant]
        ).fetchone()
    return None if found is None else found[0]


def _prove(request: Request, tenant: str, index: int, size: int) -> dict[str, Any]:
    with _log(request, tenant) as log:
        nodes = log.nodes(size)
        proof = inclusion_proof(index, size, nodes)
        return {"leaf_hash": _text(nodes(0, index)), "proof": [_text(step) for step in proof]}


def _consistent(request: Request, tenant: str, old: int, new: int) -> list[str]:
    with _log(request, tenant) as log:
        return [_text(step) for step in consistency_proof(old, new, log.nodes(new))]


@contextmanager
def _log(request: Request, tenant: str) -> Iterator[LogReader]:
    database: Database = request.app.state.database
    cache: TileCache = request.app.state.tiles
    try:
        with database.cursor() as cursor:
            yield LogReader(cursor, tenant, cache)
    except duckdb.Error as error:
        raise StoreError(f"the store could not answer: {type(error).__name__}") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
