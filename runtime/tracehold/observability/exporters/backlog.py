"""A bounded queue behind an inline write: what could not be written now is written later, in order (DEC-11)."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tracehold.observability.exporters.base import DeferredError

_log = logging.getLogger(__name__)

Item = TypeVar("Item")

RETRY_S = 0.1
MAX_ITEMS = 50_000


class Backlog(Generic[Item]):
    """Writes an item at once while that works; keeps it, in order, while it does not.

    A background thread tries again every `RETRY_S` seconds and exists only while something waits. A forked child
    starts with an empty backlog: the parent still holds the items and will write them.

    Args:
        name: for the log.
        write: writes one item or raises.
        transient: what `write` raises when trying later may work; anything else passes through.
        max_items: how many may wait; beyond it the newest are dropped, counted, and logged once.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Item], None],
        transient: tuple[type[Exception], ...],
        *,
        max_items: int = MAX_ITEMS,
    ) -> None:
        self.dropped = 0
        self._name = name
        self._write = write
        self._transient = transient
        self._max_items = max_items
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        _all.add(self)

    def put(self, item: Item) -> None:
        """Write `item`, or keep it when that fails for now or when earlier ones still wait.

        Raises:
            DeferredError: the inline attempt failed; its cause says why. The item is kept.
        """
        with self._lock:
            if self._items:
                self._keep(item)
                return
            try:
                self._write(item)
            except self._transient as error:
                self._keep(item)
                raise DeferredError(f"{self._name} could not write now; it will try again") from error

    def drain(self, timeout_s: float) -> bool:
        """Try for at most `timeout_s` seconds to write what waits; say whether nothing waits any more."""
        deadline = time.monotonic() + timeout_s
        while not self._try_all():
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(RETRY_S, timeout_s))
        return True

    def abandon(self) -> None:
        """Give up what still waits: count it and say so."""
        with self._lock:
            lost = len(self._items)
            self._items.clear()
            self.dropped += lost
        if lost:
            _log.warning("%s closed with %d events it could not write", self._name, lost)

    def hold(self, timeout_s: float) -> bool:
        """Keep writes from starting until `release`, once the one under way has ended; false when it did not end."""
        return self._lock.acquire(timeout=timeout_s)

    def release(self) -> None:
        """Let writes go on."""
        self._lock.release()

    def _keep(self, item: Item) -> None:
        if len(self._items) >= self._max_items:
            self.dropped += 1
            if self.dropped == 1:
                _log.warning("%s is %d events behind; new ones are dropped and counted", self._name, self._max_items)
            return
        self._items.append(item)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._retry, name=f"tracehold-{self._name}", daemon=True)
            self._thread.start()

    def _retry(self) -> None:
        while True:
            time.sleep(RETRY_S)
            if self._try_all():
                return

    def _try_all(self) -> bool:
        with self._lock:
            while self._items:
                try:
                    self._write(self._items[0])
                except self._transient:
                    return False
                self._items.popleft()
            self._thread = None
            return True

    def _reset_in_child(self) -> None:
        self._items = deque()
        self._lock = threading.Lock()
        self._thread = None


_all: weakref.WeakSet[Backlog[Any]] = weakref.WeakSet()


def _reset_all_in_child() -> None:
    for backlog in list(_all):
        backlog._reset_in_child()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all_in_child)
