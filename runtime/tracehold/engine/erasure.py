"""Erasing one run from every store the engine was given (ERA)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from tracehold.core.errors import RunNotFinished
from tracehold.engine.event_types import RUN_ERASED, erased_id
from tracehold.engine.ports import EngineOps
from tracehold.events.event import Event


@dataclass
class ErasureReport:
    """What an erasure removed (ERA-11).

    Attributes:
        stream: the run.
        mode: "scrub" or "delete" (ERA-03).
        events: events covered.
        blobs: blobs removed.
        provider_state: conversation states removed at a model provider.
        pending: streams that still hold a copy, because they are open (DEC-14).
    """

    stream: str
    mode: str
    events: int = 0
    blobs: int = 0
    provider_state: int = 0
    pending: list[str] = field(default_factory=list)


async def erase_run(
    engine: EngineOps, run_id: str, *, delete: bool = False, reason: str = "erasure", force: bool = False
) -> ErasureReport:
    """Erase a run: blobs first, so that a crash half way leaves what a repeat can finish (ERA-08).

    Raises:
        KeyError: nobody started it (ERA-02).
        RunNotFinished: it is open, and `force` was not given (ERA-01).
    """
    fold = await engine.fold_of(run_id)
    if fold.algo is None:
        raise KeyError(run_id)
    if fold.is_open and not force:
        raise RunNotFinished(f"run {run_id} is open: end it first, or erase it with force=True")
    report = ErasureReport(run_id, "delete" if delete else "scrub")
    events = await engine.stored(run_id)
    report.blobs = await _remove_blobs(engine, events)
    engine.bus.forget(run_id)
    if delete:
        report.events = await engine.retry(lambda: engine.store.delete_stream(run_id), f"deleting {run_id}")
    else:
        report.events = await engine.retry(lambda: engine.store.scrub(run_id), f"scrubbing {run_id}")
        await _mark(engine, run_id, fold.tenant, reason, report)
    engine.runs.forget(run_id)
    return report


async def _remove_blobs(engine: EngineOps, events: list[Event]) -> int:
    blobs = engine.blobs
    if blobs is None:
        return 0
    removed = 0
    for ref in {ref for event in events for ref in event.blobs}:
        if await engine.retry(partial(blobs.exists, ref), "looking up a payload"):
            await engine.retry(partial(blobs.delete, ref), "removing a payload")
            removed += 1
    return removed


async def _mark(engine: EngineOps, run_id: str, tenant: str | None, reason: str, report: ErasureReport) -> None:
    """Write the marker of a scrub to the log, once; it is not delivered (ERA-06, ERA-07)."""
    marker = Event(
        id=erased_id(run_id),
        type=RUN_ERASED,
        source="engine",
        stream=run_id,
        run_id=run_id,
        tenant=tenant,
        data={"reason": reason, "events": report.events, "blobs": report.blobs},
    )
    await engine.retry(lambda: engine.store.append(run_id, [marker]), f"marking {run_id} as erased")
