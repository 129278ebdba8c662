"""Removing the blobs of a run, also those that no event points to any more (ERA-05, ERA-10, ERA-12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tracehold.engine.ports import EngineOps
from tracehold.events.blobs import bound_to
from tracehold.events.event import BlobRef, Event


async def remove_blobs(engine: EngineOps, stream: str, events: Sequence[Event]) -> int:
    """Remove the blobs behind a stream's events, and those left by appends that failed or repeated.

    Returns:
        How many went. Without a blob store none can: 0, and an engine that has it finds them by their stream later.
    """
    refs = {ref.uri: ref for event in events for ref in event.blobs}
    for ref in await orphans(engine, stream):
        refs.setdefault(ref.uri, ref)
    return await remove_refs(engine, stream, refs.values())


async def orphans(engine: EngineOps, stream: str) -> list[BlobRef]:
    """Return every blob that is bound to a stream, as far as the blob store can tell (ERA-12)."""
    of_stream = getattr(engine.blobs, "of_stream", None)
    if of_stream is None:
        return []
    found: list[BlobRef] = await engine.retry(partial(of_stream, stream), "listing payloads")
    return found


async def remove_refs(engine: EngineOps, stream: str, refs: Iterable[BlobRef]) -> int:
    """Remove blobs of a stream's events, unless they are another run's too (ERA-10); return how many went."""
    blobs = engine.blobs
    if blobs is None:
        return 0
    refs = list(refs)
    unbound = {ref.uri for ref in refs if bound_to(ref, stream) is None}
    shared = await _used_elsewhere(engine, stream, unbound) if unbound else set()
    removed = 0
    for ref in refs:
        # An event can point to any blob: one that is bound to another stream is not this run's.
        if bound_to(ref, stream) is False or ref.uri in shared:
            continue
        if await engine.retry(partial(blobs.exists, ref), "looking up a payload"):
            await engine.retry(partial(blobs.delete, ref), "removing a payload")
            removed += 1
    return removed


async def _used_elsewhere(engine: EngineOps, stream: str, uris: set[str]) -> set[str]:
    """Return which blobs the events of other runs point to.

    A blob that an application put itself is kept once however many runs point to it. Nothing but the logs says which
    ones do, so this reads them all; blobs of the engine's own are bound to their stream and need none of it.
    """
    used: set[str] = set()
    for info in await engine.retry(engine.store.run_index, "listing runs"):
        if info.stream != stream:
            for event in await engine.stored(info.stream):
                used.update(ref.uri for ref in event.blobs if ref.uri in uris)
    return used
