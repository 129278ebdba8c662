"""What of an erased run other streams hold: a child's result in its parent's log, the input its children got (DEC-14).

A stream that is still open needs the copy to go on, so its turn comes when it has ended. Until then a note in the log
`QUEUE` says what is to be done, for any process to find. A note that is done is emptied in place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from tracehold.engine.blob_removal import remove_blobs, remove_refs
from tracehold.engine.event_types import (
    CHILD_COMPLETED,
    RUN_COMPLETED,
    child_completed_id,
    started_id,
)
from tracehold.engine.ports import EngineOps
from tracehold.engine.run_fold import RunFold
from tracehold.events.event import Event
from tracehold.events.scrubbing import ERASED, scrubbed
from tracehold.events.store import RunInfo

QUEUE: Final = "aaa.erasures"
"""The stream of what is still to be erased elsewhere. It is no run, and holds ids only."""

PENDING: Final = "aaa.erasure.pending"
DELETED: Final = "aaa.erasure.deleted"
"""Notes that a run was deleted: what comes to its stream late, from any process, goes too."""

_SETTLED: Final = timedelta(minutes=10)
"""After this a copy that never came is not coming: its sender has long told the parent, or crashed."""

_DELETED: Final = 4096
_CLEAN: Final = 65_536

_GONE: Final = {ERASED: True}
_KEPT_OF_RESULT: Final = ("child_run_id", "tag", "ledger")
_KEPT_OF_INPUT: Final = ("algo", "parent", "run_tag", "budget")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Copy:
    """An event of another stream that holds what a run was given or came to.

    Attributes:
        stream: the other run.
        event_id: of the event.
        kind: for a result, its outcome kind, which stays.
    """

    stream: str
    event_id: str
    kind: str | None = None


class Family:
    """Who is whose parent in a store, by its index of runs, which nobody can forge with a signal.

    Args:
        index: every run.
    """

    def __init__(self, index: Sequence[RunInfo]) -> None:
        self._tenants = {info.stream: info.started.tenant for info in index}
        self._children: dict[str, list[str]] = {}
        for info in index:
            parent = info.started.data.get("parent")
            if isinstance(parent, str):
                self._children.setdefault(parent, []).append(info.stream)

    def copies_of(self, run: RunFold) -> list[Copy]:
        """Return where else the payload of a run may stand: its parent's log and its children's."""
        found = [Copy(child, started_id(child)) for child in self._children.get(run.run_id, ())]
        if run.parent is not None:
            kind = (run.completed or {}).get("kind")
            found.insert(0, Copy(run.parent, child_completed_id(run.run_id), kind if isinstance(kind, str) else None))
        # A family is of one tenant; what only claims to belong to it is nobody's to change.
        return [copy for copy in found if copy.stream != run.run_id and self._is_of(copy.stream, run.tenant)]

    def forget(self, stream: str) -> None:
        """Note that a run was erased as a whole: no copies need be looked for there."""
        self._tenants.pop(stream, None)

    def _is_of(self, stream: str, tenant: str | None) -> bool:
        return stream in self._tenants and self._tenants[stream] == tenant


@dataclass(slots=True)
class Leftovers:
    """What this process knows of erasures that something may be left of.

    Attributes:
        position: every note of a copy in the queue before this number is done.
        deletions_from: every note of a deletion before this number is.
        deleted: runs that were deleted here, newest last; a handler at work then may still emit for them.
        clean: scrubbed runs of which nothing was left, with start and last number then.
    """

    position: int = 0
    deletions_from: int = 0
    deleted: dict[str, None] = field(default_factory=dict)
    clean: dict[str, tuple[datetime, int]] = field(default_factory=dict)

    def note_deleted(self, run_id: str) -> None:
        """Remember a deletion, and not more than can have mattered lately."""
        self.deleted.pop(run_id, None)
        self.deleted[run_id] = None
        if len(self.deleted) > _DELETED:
            del self.deleted[next(iter(self.deleted))]

    def note_clean(self, run_id: str, started: datetime, last: int) -> None:
        """Remember that nothing was left of a run, so that the next pass need not read its log again."""
        self.clean.pop(run_id, None)
        self.clean[run_id] = (started, last)
        if len(self.clean) > _CLEAN:
            del self.clean[next(iter(self.clean))]


async def finish_erasures(engine: EngineOps) -> None:
    """Erase what had to wait, and what came after a deletion (DEC-14, RET-12)."""
    await finish_copies(engine)
    for run_id in list(engine.leftovers.deleted):
        await _delete_late(engine, run_id)
    await _finish_deletions(engine)


async def note_deletion(engine: EngineOps, run_id: str) -> None:
    """Note, before it is done, that a run is deleted: for this process at once, for every other one in the queue."""
    note = Event(type=DELETED, source="engine", stream=QUEUE, data={"stream": run_id})
    await engine.retry(lambda: engine.store.append(QUEUE, [note]), f"noting that {run_id} is deleted")
    engine.leftovers.note_deleted(run_id)


async def _finish_deletions(engine: EngineOps) -> None:
    """Remove what came to runs that any process deleted lately, and empty the notes that are old enough."""
    queue = engine.leftovers
    last = await engine.retry(partial(engine.store.last_seq, QUEUE), "looking for deletions")
    if last < queue.deletions_from:
        return
    notes = await _notes(engine, queue.deletions_from)
    first_left: int | None = None
    for note in notes:
        run_id = note.data.get("stream")
        if note.type != DELETED or not isinstance(run_id, str):
            continue
        await _delete_late(engine, run_id)
        if datetime.now(UTC) - note.time < _SETTLED:
            first_left = note.seq if first_left is None else first_left
        else:
            await _empty(engine, note)
    if notes:
        queue.deletions_from = notes[-1].seq + 1 if first_left is None else first_left


async def _delete_late(engine: EngineOps, run_id: str) -> None:
    """Remove what stands under the id of a deleted run, unless a new run was started under it."""
    found = await engine.retry(partial(engine.store.last_seq, run_id), f"looking up {run_id}")
    if found < 0:
        return
    if not await engine.retry(partial(engine.store.has, run_id, started_id(run_id)), f"looking up {run_id}"):
        await remove_blobs(engine, run_id, await engine.stored(run_id))
        engine.bus.forget(run_id)
        await engine.retry(partial(engine.store.delete_stream, run_id), f"deleting {run_id}")
        engine.runs.forget(run_id)


async def erase_copies(engine: EngineOps, copies: Sequence[Copy], open_ones: Mapping[Copy, str]) -> list[str]:
    """Replace the copies of a run by `$erased` where the stream has ended; note the others.

    Args:
        engine: the engine.
        copies: where they may stand.
        open_ones: copies that are noted already.

    Returns:
        The streams that are still open.
    """
    pending = []
    for copy in copies:
        state = await _erase_copy(engine, copy)
        if state != "done" and copy not in open_ones:
            await _note(engine, copy)
        if state == "open":
            pending.append(copy.stream)
    return pending


async def finish_copies(engine: EngineOps) -> dict[Copy, str]:
    """Do what was noted, where the stream has ended since; return the notes that stay, with their ids.

    A note that cannot be done stays too: it must not keep anybody from erasing something else.
    """
    queue = engine.leftovers
    notes = await _notes(engine, queue.position)
    left: dict[Copy, str] = {}
    first_left: int | None = None
    for note in notes:
        copy = _copy_of(note)
        if copy is None:
            continue
        try:
            done = await _is_finished(engine, copy, note)
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("what is left in %s could not be erased yet: %s", copy.stream, type(error).__name__)
            done = False
        if not done:
            left[copy] = note.id
            first_left = note.seq if first_left is None else first_left
    if notes:
        queue.position = notes[-1].seq + 1 if first_left is None else first_left
    return left


async def _is_finished(engine: EngineOps, copy: Copy, note: Event) -> bool:
    state = await _erase_copy(engine, copy)
    if state == "open" or (state == "absent" and datetime.now(UTC) - note.time < _SETTLED):
        return False
    await _empty(engine, note)
    return True


async def _erase_copy(engine: EngineOps, copy: Copy) -> str:
    """Replace one copy; return "done", "open" when it has to stay for now, or "absent" when it is not there yet."""
    events: list[Event] = await engine.stored(copy.stream)
    if not events:
        return "done"
    if not any(event.type == RUN_COMPLETED for event in events):
        return "open"
    event = next((one for one in events if one.id == copy.event_id), None)
    if event is None:
        return "absent"
    data = _without_copy(event, copy.kind)
    if data is None:
        return "done"
    if not hasattr(engine.store, "replace_data"):
        return "open"  # a store of somebody else's that cannot: reported as pending, not passed over in silence
    others = {ref.uri for one in events if one is not event for ref in one.blobs}
    await remove_refs(engine, copy.stream, [ref for ref in event.blobs if ref.uri not in others])
    await engine.retry(
        partial(engine.store.replace_data, copy.stream, copy.event_id, data), f"erasing a copy in {copy.stream}"
    )
    return "done"


def _without_copy(event: Event, kind: str | None) -> dict[str, Any] | None:
    """Return the payload without the copied value, or `None` when it holds none any more."""
    if scrubbed(event) == event:
        return None
    data = event.data
    if event.type == CHILD_COMPLETED:
        outcome = data.get("outcome")
        told = outcome.get("kind") if isinstance(outcome, Mapping) else kind
        kept = _part(data, _KEPT_OF_RESULT)
        kept["outcome"] = {"kind": told, "value": dict(_GONE)}
    else:
        kept = _part(data, _KEPT_OF_INPUT)
        kept["input"] = dict(_GONE)
    return kept if kept != data or event.blobs else None


def _part(data: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: data[key] for key in keys if key in data}


async def _notes(engine: EngineOps, position: int) -> list[Event]:
    notes: list[Event] = await engine.retry(
        lambda: engine.store.read(QUEUE, position), "reading what is still to be erased"
    )
    return notes


async def _empty(engine: EngineOps, note: Event) -> None:
    await engine.retry(lambda: engine.store.replace_data(QUEUE, note.id, dict(_GONE)), "noting that it was erased")


async def _note(engine: EngineOps, copy: Copy) -> None:
    data = {"stream": copy.stream, "event": copy.event_id, "kind": copy.kind}
    note = Event(type=PENDING, source="engine", stream=QUEUE, data=data)
    await engine.retry(lambda: engine.store.append(QUEUE, [note]), f"noting a copy in {copy.stream}")


def _copy_of(note: Event) -> Copy | None:
    stream, event_id, kind = (note.data.get(key) for key in ("stream", "event", "kind"))
    if note.type != PENDING or not isinstance(stream, str) or not isinstance(event_id, str):
        return None
    return Copy(stream, event_id, kind if isinstance(kind, str) else None)
