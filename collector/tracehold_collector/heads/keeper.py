"""Signs a tree head of each log as it grows, and sees to it that copies are made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import duckdb
import structlog
from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.audit.signing import Signer
from tracehold_collector.core.errors import CollectorError, StoreError
from tracehold_collector.heads.copies import CopyPlace
from tracehold_collector.store.collector_events import last_start_or_stop
from tracehold_collector.store.database import Database
from tracehold_collector.store.log import OWN_LOG, Logs, log_sizes, read_frontier
from tracehold_collector.store.tree_heads import StoredHead, last_tree_heads, write_tree_heads

_log = structlog.get_logger(__name__)

_LONGEST_S: Final = 60.0
LOOK_S: Final = 1.0
"""Seconds between looks: a log is signed once in that time at most."""


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """When a log that grew is signed: whichever comes first, or when a run ended.

    Attributes:
        every_events: leaves since its last tree head.
        every_s: seconds since then.
    """

    every_events: int = 10_000
    every_s: float = 10.0


@dataclass(slots=True)
class CopyState:
    """How far a second place has got.

    Attributes:
        waiting: heads that it has not got, the latest of each log.
        delay_s: how long it is left alone after a failure; 0 while all is well.
        retry_at: until when, by the monotonic clock.
    """

    waiting: dict[str, StoredHead] = field(default_factory=dict)
    delay_s: float = 0.0
    retry_at: float = 0.0


class HeadKeeper:
    """Signs and copies, on a thread of its own.

    Args:
        database: the open store.
        logs: give the logs as their writers have them now.
        signer: signs.
        places: where copies go.
        options: when to sign.
    """

    def __init__(
        self,
        database: Database,
        logs: Callable[[], Sequence[Logs]],
        signer: Signer,
        places: Sequence[CopyPlace],
        options: HeadOptions | None = None,
    ) -> None:
        self._database = database
        self._logs = logs
        self._signer = signer
        self._options = options or HeadOptions()
        self.copies = {place.name: CopyState() for place in places}
        """By the name of each place."""
        self._places = places
        with database.cursor() as cursor:
            self._last = last_tree_heads(cursor)
            self.altered = [tenant for tenant, head in self._last.items() if not _fits(cursor, head)]
            """Logs that no longer fit their last tree head, or that grew while nobody ran; found at the start."""
        if _was_closed(database):
            covered = {tenant: head.size for tenant, head in self._last.items()}
            self.altered += [
                tenant
                for tenant, size in log_sizes(database).items()
                # Its own log has its farewell as its last leaf, which a kill may leave unsigned.
                if tenant not in (OWN_LOG, *self.altered) and size > covered.get(tenant, 0)
            ]
        for tenant in self.altered:
            _log.error("audit_log_altered", tenant=tenant, hint="it does not fit its last tree head: tracehold verify")
        self._ending = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="tracehold-tree-heads", daemon=True)

    def start(self) -> None:
        """Sign what was left unsigned, then look again and again."""
        self._thread.start()

    def close(self) -> None:
        """Sign what is committed, copy it if that goes at once, and end; a second call does nothing."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.sign_rest()
        self._closed = True

    def sign_rest(self) -> None:
        """Sign all that is committed; before the collector says goodbye, so that what comes after that is noticed."""
        if self._closed:
            return
        try:
            self.look(all_of_it=True)
        except StoreError as error:
            _log.error("tree_heads_not_signed", error=str(error), hint="they are signed at the next start")

    def last(self, tenant: str) -> StoredHead | None:
        """Return the last tree head of a log."""
        return self._last.get(tenant)

    def look(self, *, all_of_it: bool = False) -> None:
        """Sign the logs that are due, or all that grew, and copy what waits.

        Raises:
            StoreError: nothing was signed; what is due stays due.
        """
        with self._lock:
            due = self._due(all_of_it=all_of_it)
            if due:
                write_tree_heads(self._database, due)
            for head in due:
                self._last[head.tenant] = head
                for state in self.copies.values():
                    state.waiting[head.tenant] = head
            self._copy(hurry=all_of_it)

    def _due(self, *, all_of_it: bool) -> list[StoredHead]:
        now = now_ns()
        return [head for log in self._logs() for head in self._due_of(log, now, all_of_it=all_of_it)]

    def _due_of(self, log: Logs, now: int, *, all_of_it: bool) -> Iterator[StoredHead]:
        ended = log.take_ended()
        for tenant, size in log.sizes.items():
            last = self._last.get(tenant)
            grown = size - (last.size if last else 0)
            waited = now - last.signed_at if last else now
            if not grown or not (
                all_of_it
                or tenant in ended
                or grown >= self._options.every_events
                or not 0 <= waited < self._options.every_s * NS_PER_S
            ):
                continue
            covered, root = log.head(tenant)
            note = self._signer.sign_head(tenant, covered, root, now)
            yield StoredHead(tenant, covered, root, now, note)

    def _copy(self, *, hurry: bool) -> None:
        for place in self._places:
            state = self.copies[place.name]
            if time.monotonic() < state.retry_at and not hurry:
                continue
            try:
                for tenant, head in list(state.waiting.items()):
                    place.put(head)
                    del state.waiting[tenant]
            except StoreError as error:
                if not state.delay_s:
                    _log.warning("tree_head_not_copied", place=place.name, error=str(error))
                state.delay_s = min(max(LOOK_S, 2 * state.delay_s), _LONGEST_S)
                state.retry_at = time.monotonic() + state.delay_s
            else:
                state.delay_s = 0.0

    def _work(self) -> None:
        left_over = True
        while not self._ending.wait(0 if left_over else LOOK_S):
            try:
                self.look(all_of_it=left_over)
                left_over = False
            except CollectorError as error:
                _log.error("tree_heads_not_signed", error=str(error))
            except Exception as error:  # noqa: BLE001 - the thread must go on, whatever a look meets
                _log.error("tree_heads_not_signed", error=type(error).__name__)


def _was_closed(database: Database) -> bool:
    """Whether the collector before stopped in order: then it signed all that there was."""
    last = last_start_or_stop(database)
    return last is not None and last[0] == "stopped"


def _fits(cursor: duckdb.DuckDBPyConnection, head: StoredHead) -> bool:
    try:
        return read_frontier(cursor, head.tenant, head.size).root() == head.root
    except StoreError:
        return False
