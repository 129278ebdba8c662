"""Who reads from the open store: asked to finish, then told to go, before its file is exchanged."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import duckdb

from tracehold_collector.core.errors import StoreError

GONE: Final = "the store was written anew to get rid of what was erased, and could not wait any longer; ask again"

_LONGEST_SHUT_S: Final = 30.0


class ReadersBusyError(StoreError):
    """Somebody still reads, although told to go."""


@dataclass(slots=True, eq=False)
class _Lease:
    cursor: duckdb.DuckDBPyConnection
    on_revoke: Callable[[], None] | None
    thread: int = field(default_factory=threading.get_ident)
    since: float = field(default_factory=time.monotonic)
    revoked: bool = False

    def revoke(self) -> None:
        self.revoked = True
        if self.on_revoke is not None:
            self.on_revoke()
        with contextlib.suppress(duckdb.Error):
            self.cursor.interrupt()


class Leases:
    """Keeps count of open cursors; safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[_Lease] = set()
        self._shut = False

    @contextmanager
    def lease(
        self, make: Callable[[], duckdb.DuckDBPyConnection], on_revoke: Callable[[], None] | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor, closed on leaving; while the file is being exchanged, wait for the new one.

        Args:
            make: makes the cursor.
            on_revoke: for a reader that rests between two statements, where an interrupt does not reach it: called from
                another thread, it must let go of the cursor and of all that was made with it.

        Raises:
            StoreError: the store was taken away while it was read, or was not there for long.
        """
        lease = self._take(make, on_revoke)
        try:
            yield lease.cursor
        except duckdb.Error as error:
            if lease.revoked:
                raise StoreError(GONE) from error
            raise
        finally:
            lease.cursor.close()
            with self._changed:
                self._held.discard(lease)
                self._changed.notify_all()

    def reading(self) -> frozenset[object]:
        """Return who reads now, for `have_ended`."""
        with self._changed:
            return frozenset(self._held)

    def have_ended(self, readers: frozenset[object], timeout_s: float) -> bool:
        """Wait until these readers have ended, while others begin and go on; say whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: not readers & self._held, timeout_s)

    @contextmanager
    def shut(self, grace_s: float) -> Iterator[None]:
        """Let nobody begin to read; inside, nobody reads.

        Args:
            grace_s: how long those who read may go on, and how long they then have to go once told to.

        Raises:
            ReadersBusyError: somebody does not go; everybody may read again.
        """
        with self._changed:
            self._shut = True
        try:
            if not self._empty(grace_s):
                with self._changed:
                    staying = list(self._held)
                for lease in staying:
                    lease.revoke()
                if not self._empty(grace_s):
                    oldest = min((lease.since for lease in staying), default=time.monotonic())
                    raise ReadersBusyError(
                        f"{len(staying)} readers of the store, one of them for {time.monotonic() - oldest:.0f} s, did "
                        "not end; the file was left as it was"
                    )
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()

    def _empty(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, timeout_s)

    def _take(self, make: Callable[[], duckdb.DuckDBPyConnection], on_revoke: Callable[[], None] | None) -> _Lease:
        me = threading.get_ident()
        with self._changed:
            # Whoever reads already must not wait for what waits for it.
            if not self._changed.wait_for(
                lambda: not self._shut or any(lease.thread == me for lease in self._held), _LONGEST_SHUT_S
            ):
                raise StoreError("the store is being written anew; ask again in a moment")
            lease = _Lease(make(), on_revoke)
            self._held.add(lease)
            return lease
