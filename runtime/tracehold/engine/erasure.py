"""Erasing one run from every store the engine was given (ERA, DEC-14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tracehold.core.errors import RunNotFinished
from tracehold.engine.blob_removal import orphans, remove_blobs
from tracehold.engine.consequences import stop_deadline
from tracehold.engine.copies import Family, erase_copies, finish_copies, note_deletion
from tracehold.engine.event_types import RUN_ERASED, erased_id
from tracehold.engine.ports import EngineOps
from tracehold.engine.run_fold import RunFold
from tracehold.engine.run_ids import NoRunError, check_id
from tracehold.events.event import Event
from tracehold.events.scrubbing import scrubbed
from tracehold.events.store import RunInfo

STATE_ID: Final = "state_id"
"""The field of a model call that names the conversation state its provider keeps (BLB-03)."""


@dataclass
class ErasureReport:
    """What an erasure removed (ERA-11).

    Attributes:
        stream: the run.
        mode: "scrub" or "delete" (ERA-03).
        events: events covered; the marker of an earlier erasure does not count.
        blobs: blobs removed.
        provider_state: conversation states removed at a model provider.
        pending: streams that hold a copy and are still open; the next erase, purge or sweep after their end removes it
            (DEC-14).
    """

    stream: str
    mode: str
    events: int = 0
    blobs: int = 0
    provider_state: int = 0
    pending: list[str] = field(default_factory=list, kw_only=True)


async def erase_run(
    engine: EngineOps,
    run_id: str,
    *,
    delete: bool = False,
    reason: str = "erasure",
    force: bool = False,
    family: Family | None = None,
) -> ErasureReport:
    """Erase a run: what it leaves elsewhere first, its own log last, so that a repeat can finish it (ERA-07, ERA-08).

    Args:
        engine: the engine.
        run_id: the run.
        delete: leave nothing, instead of its skeleton.
        reason: for the marker; the first one's stays.
        force: even when it is open.
        family: who is whose parent, when the caller knows.

    Raises:
        KeyError: nobody started it (ERA-02).
        RunNotFinished: it is open, and `force` was not given (ERA-01).
    """
    check_id(run_id)
    events = await engine.stored(run_id)  # not the cache: another process may have ended or erased it
    fold = _folded(run_id, events)
    if fold.algo is None:
        raise NoRunError(run_id)
    if fold.is_open and not force:
        raise RunNotFinished(f"run {run_id} is open: end it first, or erase it with force=True")
    report = ErasureReport(run_id, "delete" if delete else "scrub")
    report.events = sum(event.type != RUN_ERASED for event in events)
    noted = await finish_copies(engine)
    if family is None:
        family = Family(await engine.retry(engine.store.run_index, "listing runs"))
    report.provider_state = await _forget_state(engine, events)
    report.blobs = await remove_blobs(engine, run_id, events)
    report.pending = await erase_copies(engine, family.copies_of(fold), noted)
    try:
        engine.bus.forget(run_id)
        if delete:
            await note_deletion(engine, run_id)
            await engine.retry(lambda: engine.store.delete_stream(run_id), f"deleting {run_id}")
        else:
            await engine.retry(lambda: engine.store.scrub(run_id), f"scrubbing {run_id}")
            await _mark(engine, fold, reason, report)
    finally:
        await _let_go(engine, run_id, adopt=fold.is_open and not delete)
    if fold.completed is not None:
        # An append that was on its way may have put its payload since; a finished run has nobody to read it.
        report.blobs += await remove_blobs(engine, run_id, [])
    family.forget(run_id)
    return report


async def is_clean(engine: EngineOps, info: RunInfo) -> bool:
    """Whether nothing of a run is left to scrub: no payload, nor a blob, came after its erasure (RET-08, RET-12)."""
    run_id, started = info.stream, info.started
    if scrubbed(started) != started or await orphans(engine, run_id):
        return False
    last: int = await engine.retry(partial(engine.store.last_seq, run_id), f"looking up {run_id}")
    if engine.leftovers.clean.get(run_id) == (started.time, last):
        return True  # a log only grows; a pass over many erased runs need not read them all again
    events = await engine.stored(run_id)
    if not any(event.type == RUN_ERASED for event in events) or any(scrubbed(event) != event for event in events):
        return False
    engine.leftovers.note_clean(run_id, started.time, events[-1].seq)
    return True


def _folded(run_id: str, events: Sequence[Event]) -> RunFold:
    fold = RunFold(run_id)
    for event in events:
        fold.fold(event)
    return fold


async def _forget_state(engine: EngineOps, events: Sequence[Event]) -> int:
    """Ask the backends that keep conversation state at a provider to remove the run's (ERA-11).

    Before the log is erased, which alone knows the ids: when it fails, a repeat can still do it.
    """
    ids = list(dict.fromkeys(state for event in events if isinstance(state := event.data.get(STATE_ID), str)))
    removed = 0
    for backend in engine.memory if ids else ():
        forget: Any = getattr(backend, "forget_state", None)
        if forget is not None:
            removed += await engine.retry(partial(forget, ids), "removing conversation state")
    return removed


async def _mark(engine: EngineOps, run: RunFold, reason: str, report: ErasureReport) -> None:
    """Write the marker of a scrub to the log, once; it is not delivered (ERA-06, ERA-07)."""
    marker = Event(
        id=erased_id(run.run_id),
        type=RUN_ERASED,
        source="engine",
        stream=run.run_id,
        run_id=run.run_id,
        tenant=run.tenant,
        data={"reason": reason, "events": report.events, "blobs": report.blobs},
    )
    stored = await engine.retry(lambda: engine.store.append(run.run_id, [marker]), f"marking {run.run_id} as erased")
    for observe in engine.observers:
        observe(stored[0])


async def _let_go(engine: EngineOps, run_id: str, *, adopt: bool) -> None:
    """Drop what this process holds of the run, payloads that wait to be published included (ERA-05)."""
    held = engine.runs.peek(run_id)
    timed = held is not None and held.deadline is not None
    if held is not None:
        stop_deadline(held)
    engine.runs.forget(run_id)
    engine.bus.forget(run_id)
    if adopt and timed:
        engine.arm_deadline(await engine.runs.get(run_id))
