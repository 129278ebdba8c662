"""Keeping an index in step with the source it is derived from (IDX).

The source is authoritative, the index follows. A write that fails is noted as pending, not raised: losing a search
hit must not lose a message. `reconcile` makes up for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

from tracehold.core import strictjson
from tracehold.core.database import IN_MEMORY
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval.bookkeeping import InMemoryBookkeeping, SqliteBookkeeping, SyncBookkeeping
from tracehold.retrieval.entries import Entry, batches, check_ids, entries_of
from tracehold.retrieval.fallback import FallbackBookkeeping
from tracehold.retrieval.index_protocol import EventSink, IndexItem, IndexSync
from tracehold.retrieval.locks import ScopeLocks

_log: Final = logging.getLogger(__name__)

_MAX_FAILED_CALLS: Final = 24
"""Of one `reconcile`: a batch is halved until the one entry that fails is found, but a dead backend is not asked
about each entry."""


class SyncIndexSync(IndexSync):
    """Writes to the index at once, in the calling thread.

    What a crash leaves: a deletion is noted before it is tried, so it stays pending until it is known to have worked.
    A new entry is noted after it is written; between source and index it may be missing from both the index and the
    notes, and `reconcile` finds it.

    Args:
        retriever: the index, such as a `HybridRetriever`. It is not closed.
        bookkeeping: what is noted about it, closed by `close`. Default a `SqliteBookkeeping` in the retriever's own
            file, or in memory when it has none.
        tracer: told of `index_sync_pending` and `index_sync_reconcile` (IDX-03).
    """

    def __init__(
        self, retriever: Any, *, bookkeeping: SyncBookkeeping | None = None, tracer: EventSink | None = None
    ) -> None:
        self._retriever = retriever
        self._notes = FallbackBookkeeping(_default_bookkeeping(retriever) if bookkeeping is None else bookkeeping)
        self._tracer = tracer
        self._locks = ScopeLocks()
        self._failing = False

    def index(
        self,
        ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Write the entries that are new or changed; what fails is pending.

        Raises:
            RetrievalError: lists of unequal length, or values of the wrong type; nothing was tried.
        """
        entries = entries_of(ids, contents, metadatas)
        place = scope or Scope()
        with self._locks.one(place):
            changed = [entry for entry in entries if self._notes.get_hash(place, entry.id) != self._hash(entry)]
            written = not changed or self._write(place, changed)
        if not written:
            self._tell_pending("index", len(changed))

    def replace(
        self,
        old_ids: Sequence[str],
        new_ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Delete some entries and write others.

        Raises:
            RetrievalError: the backend failed, both are pending then; or the arguments cannot be used.
        """
        entries = entries_of(new_ids, contents, metadatas)
        old = check_ids(old_ids)
        place = scope or Scope()
        touched = list(dict.fromkeys([*old, *(entry.id for entry in entries)]))
        with self._locks.one(place):
            self._notes.mark_pending(place, touched)
            try:
                self._retriever.replace(old, *_columns(entries), scope=place, metadatas=_metadatas(entries))
            except Exception as error:
                self._tell_pending("replace", len(touched))
                raise RetrievalError(_failure("replace", len(touched), error)) from error
            self._notes.delete_hashes(place, set(old) - {entry.id for entry in entries})
            self._notes.set_hashes(place, [(entry.id, self._hash(entry)) for entry in entries])

    def drop(self, ids: Sequence[str], *, scope: Scope | None = None, strict: bool = False) -> None:
        """Delete entries of exactly this scope; unknown ids are ignored.

        Raises:
            RetrievalError: the backend failed and `strict` is set, the ids are pending all the same; or an id is no
                text.
        """
        gone = check_ids(ids)
        if not gone:
            return
        place = scope or Scope()
        with self._locks.one(place):
            error = self._delete(place, gone)
        if error is not None:
            self._tell_pending("drop", len(gone))
            if strict:
                raise RetrievalError(_failure("drop", len(gone), error)) from error

    def reconcile(
        self, items: Sequence[IndexItem | tuple[Any, ...]], *, scope: Scope | None = None, batch_size: int = 256
    ) -> int:
        """Make the index of exactly this scope equal to the source.

        Entries the source does not have are deleted, also those only the index knows of; missing, changed and pending
        ones are written. What fails stays pending; call it again.

        Args:
            items: all the source has under this scope: id, content and, if there is any, metadata.
            scope: unset dimensions included.
            batch_size: entries in a call of the backend.

        Returns:
            How many entries were written or deleted.

        Raises:
            RetrievalError: items of another shape, or bookkeeping that cannot be read.
        """
        if type(batch_size) is not int or batch_size < 1:
            raise RetrievalError(f"batch_size is an integer of at least 1, not {batch_size!r}")
        entries = _entries(items)
        place = scope or Scope()
        with self._locks.one(place):
            done = self._delete_others(place, entries, batch_size) + self._write_stale(place, entries, batch_size)
            left = len(self._notes.pending_ids(place))
        if self._tracer is not None:
            self._tracer.emit({"type": "index_sync_reconcile", "items": len(entries), "pending": left})
        return done

    def pending(self, *, scope: Scope | None = None) -> set[str]:
        """Return the ids that have not converged, where the set dimensions of `scope` match; of all without any.

        Raises:
            RetrievalError: the bookkeeping cannot be read.
        """
        places = self._notes.exact_scopes(scope, pending=True)
        return set().union(*(self._notes.pending_ids(place) for place in places))

    def entries(self, *, scope: Scope | None = None) -> dict[Scope, set[str]]:
        """Return what the index may hold: what is noted, and what it says itself, as far as it can be asked."""
        found = self._held(scope, exact=False) or {}
        for place in self._notes.exact_scopes(scope):
            noted = self._notes.tracked_ids(place) | self._notes.pending_ids(place)
            found.setdefault(place, set()).update(noted)
        return found

    def close(self) -> None:
        """Close the bookkeeping; the retriever stays open for those who share it."""
        self._notes.close()

    def _write(self, place: Scope, entries: Sequence[Entry]) -> bool:
        # A crash while changed content is written must not leave the old hash standing.
        self._notes.mark_pending(
            place, [entry.id for entry in entries if self._notes.get_hash(place, entry.id) is not None]
        )
        try:
            self._retriever.add(*_columns(entries), scope=place, metadatas=_metadatas(entries))
        except Exception as error:  # noqa: BLE001 - whatever a backend raises (IDX-01)
            self._warn(_failure("index", len(entries), error))
            self._notes.mark_pending(place, [entry.id for entry in entries])
            return False
        self._failing = False
        self._notes.set_hashes(place, [(entry.id, self._hash(entry)) for entry in entries])
        return True

    def _delete(self, place: Scope, ids: Sequence[str]) -> Exception | None:
        self._notes.mark_pending(place, ids)
        try:
            self._retriever.delete_exact(list(ids), scope=place)
        except Exception as error:  # noqa: BLE001 - whatever a backend raises (IDX-01)
            self._warn(_failure("drop", len(ids), error))
            return error
        self._failing = False
        self._notes.delete_hashes(place, ids)
        return None

    def _delete_others(self, place: Scope, entries: Sequence[Entry], batch_size: int) -> int:
        held = (self._held(place, exact=True) or {}).get(place, set())
        known = held | self._notes.tracked_ids(place) | self._notes.pending_ids(place)
        gone = sorted(known - {entry.id for entry in entries})
        return sum(len(batch) for batch in batches(gone, batch_size) if self._delete(place, batch) is None)

    def _write_stale(self, place: Scope, entries: Sequence[Entry], batch_size: int) -> int:
        held = self._held(place, exact=True)
        missing = set() if held is None else {entry.id for entry in entries} - held.get(place, set())
        stale = [
            entry
            for entry in entries
            if entry.id in missing or self._notes.get_hash(place, entry.id) != self._hash(entry)
        ]
        waiting = list(batches(stale, batch_size))[::-1]
        done = failed = 0
        while waiting:
            batch = waiting.pop()
            if failed >= _MAX_FAILED_CALLS:
                self._notes.mark_pending(place, [entry.id for entry in batch])
            elif self._write(place, batch):
                done += len(batch)
            else:
                failed += 1
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]] if half else []
        return done

    def _held(self, scope: Scope | None, *, exact: bool) -> dict[Scope, set[str]] | None:
        """Return what the index says it holds; `None` when it cannot tell."""
        listing = getattr(self._retriever, "entries", None)
        if listing is None:
            return None
        try:
            found: dict[Scope, set[str]] = listing(scope=scope, exact=exact)
        except Exception as error:  # noqa: BLE001 - whatever a backend raises
            self._warn(f"the index could not be listed: {type(error).__name__}")
            return None
        return found

    def _warn(self, words: str) -> None:
        # Once, until something works again: a backend that is down fails with every message.
        _log.log(logging.DEBUG if self._failing else logging.WARNING, "%s", words)
        self._failing = True

    def _hash(self, entry: Entry) -> str:
        digest = blake2b(digest_size=16)
        for part in (entry.content, entry.metadata, str(getattr(self._retriever, "fingerprint", ""))):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def _tell_pending(self, operation: str, count: int) -> None:
        if self._tracer is not None:
            self._tracer.emit({"type": "index_sync_pending", "operation": operation, "count": count})


def _default_bookkeeping(retriever: Any) -> SyncBookkeeping:
    path = getattr(retriever, "db_path", None)
    return InMemoryBookkeeping() if path in {None, "", IN_MEMORY} else SqliteBookkeeping(path)


def _entries(items: Iterable[IndexItem | tuple[Any, ...]]) -> list[Entry]:
    try:
        rows = [IndexItem(*item) for item in items]
    except TypeError as error:
        raise RetrievalError("an item of the source is a tuple of id, content and, if any, metadata") from error
    return entries_of([row.id for row in rows], [row.content for row in rows], [row.metadata or {} for row in rows])


def _columns(entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    return [entry.id for entry in entries], [entry.content for entry in entries]


def _metadatas(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [strictjson.loads(entry.metadata) for entry in entries]


def _failure(operation: str, count: int, error: Exception) -> str:
    # The error's own words may quote content.
    return f"the index failed to {operation} {count} entries with {type(error).__name__}; they are pending: reconcile"
