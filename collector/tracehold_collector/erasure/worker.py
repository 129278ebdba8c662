"""A thread that takes erasures further, and tries again later what failed, without holding up the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

_RETRY_S: Final = 30.0
_LAST_RETRY_S: Final = 3600.0


class Worker:
    """Works on one id after the other.

    Args:
        name: of the thread.
        work: does it; returns whether it is to be left alone from now on, and `False` to have it tried again later.
    """

    def __init__(self, name: str, work: Callable[[str], bool]) -> None:
        self._work = work
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._later: dict[str, float] = {}  # used by the thread only, as is the next
        self._waits: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, erasure_id: str) -> None:
        """Have it worked on, now or as soon as the worker is started."""
        self._waiting.put(erasure_id)

    def close(self) -> None:
        """End after what is being done; a second call does nothing."""
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            due = min(self._later.values(), default=None)
            try:
                item = self._waiting.get(timeout=None if due is None else max(0.0, due - time.monotonic()))
            except queue.Empty:
                item = min(self._later, key=lambda each: self._later[each])
            if item is None:
                return
            self._later.pop(item, None)
            wait_s = self._waits.pop(item, _RETRY_S)
            if not self._work(item):
                self._later[item] = time.monotonic() + wait_s
                self._waits[item] = min(2 * wait_s, _LAST_RETRY_S)
