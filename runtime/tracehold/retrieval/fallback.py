"""Bookkeeping that does not forget a failure because it failed itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from tracehold.core.scope import Scope
from tracehold.retrieval.bookkeeping import InMemoryBookkeeping, SyncBookkeeping

_log: Final = logging.getLogger(__name__)


class FallbackBookkeeping(SyncBookkeeping):
    """Another bookkeeping, and in memory the ids that could not be noted there: they count as pending.

    A full disk fails the index and the notes about it alike; what was to be deleted must stay hidden even so.
    Writing never raises. Reading raises what the other one raises, except for a hash: an unknown one only means that
    content is written once more.
    """

    def __init__(self, notes: SyncBookkeeping) -> None:
        self._notes = notes
        self._lost = InMemoryBookkeeping()

    def get_hash(self, scope: Scope, id: str) -> str | None:  # noqa: A002 - documented name
        """Return the hash an entry is noted with, `None` when that is not certain."""
        if id in self._lost.pending_ids(scope):
            return None
        try:
            return self._notes.get_hash(scope, id)
        except Exception as error:  # noqa: BLE001 - whatever a bookkeeping of the user's raises
            _log.warning("index bookkeeping could not be read: %s", type(error).__name__)
            return None

    def set_hashes(self, scope: Scope, pairs: Iterable[tuple[str, str]]) -> None:
        """Note entries with a hash."""
        noted = list(pairs)
        self._note(scope, [id_ for id_, _ in noted], lambda: self._notes.set_hashes(scope, noted))

    def delete_hashes(self, scope: Scope, ids: Iterable[str]) -> None:
        """Strike entries out."""
        gone = list(ids)
        self._note(scope, gone, lambda: self._notes.delete_hashes(scope, gone))

    def mark_pending(self, scope: Scope, ids: Iterable[str]) -> None:
        """Mark entries as pending."""
        marked = list(ids)
        self._note(scope, marked, lambda: self._notes.mark_pending(scope, marked))

    def tracked_ids(self, scope: Scope) -> set[str]:
        """Return the ids noted with a hash under exactly this scope."""
        return self._notes.tracked_ids(scope) - self._lost.pending_ids(scope)

    def pending_ids(self, scope: Scope) -> set[str]:
        """Return the ids pending under exactly this scope."""
        return self._notes.pending_ids(scope) | self._lost.pending_ids(scope)

    def exact_scopes(self, scope: Scope | None = None, *, pending: bool = False) -> set[Scope]:
        """Return the exact scopes with a note, where the set dimensions of `scope` match."""
        return self._notes.exact_scopes(scope, pending=pending) | self._lost.exact_scopes(scope, pending=pending)

    def close(self) -> None:
        """Close the other one."""
        self._notes.close()

    def _note(self, scope: Scope, ids: list[str], write: Callable[[], None]) -> None:
        if not ids:
            return
        try:
            write()
        except Exception as error:  # noqa: BLE001 - whatever a bookkeeping of the user's raises
            _log.warning("index bookkeeping could not be written: %s", type(error).__name__)
            self._lost.mark_pending(scope, ids)
        else:
            self._lost.delete_hashes(scope, ids)
