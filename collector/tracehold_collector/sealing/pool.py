"""Keys kept ready in memory, so that the writer of events waits for no file."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.keystore import DataKey

_log = structlog.get_logger(__name__)

_FIRST_LOT: Final = 64
_LAST_LOT: Final = 1024


@dataclass(slots=True)
class _Ready:
    """Keys of one tenant that nobody has; `lot` is how many were made last."""

    lot: int = _FIRST_LOT // 2
    keys: deque[DataKey] = field(default_factory=deque)
    asked: bool = False


class KeyPool:
    """Hands out keys from lots made ahead of time; a lot is twice the one before, up to 1024.

    Keys that are ready when the process ends are never used: their rows stay, which costs a hundred bytes each.

    Args:
        make: makes and durably stores so many keys of a tenant; called on this pool's thread, or on that of whoever
            finds the pool dry.
    """

    def __init__(self, make: Callable[[str, int], list[DataKey]]) -> None:
        self._make = make
        self._lock = threading.Lock()  # guards `_ready` and what it holds; never held while keys are made
        self._ready: dict[str, _Ready] = {}
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._refill, name="tracehold-key-pool", daemon=True)
        self._thread.start()

    def take(self, tenant: str, count: int) -> list[DataKey]:
        """Return keys that nobody had before; makes what is missing at once.

        Raises:
            StoreError: as `make`.
        """
        with self._lock:
            ready = self._ready.setdefault(tenant, _Ready())
            keys = [ready.keys.popleft() for _ in range(min(count, len(ready.keys)))]
            missing = count - len(keys)
            lot = self._next_lot(ready) if missing else 0
            if not missing and not ready.asked and len(ready.keys) < ready.lot // 2:
                ready.asked = True
                self._wanted.put(tenant)
        if missing:
            made = self._make(tenant, missing + lot)
            keys += made[:missing]
            with self._lock:
                ready.keys.extend(made[missing:])
        return keys

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        self._wanted.put(None)
        self._thread.join()

    def _refill(self) -> None:
        while (tenant := self._wanted.get()) is not None:
            with self._lock:
                ready = self._ready[tenant]
                lot = self._next_lot(ready)
            made: list[DataKey] = []
            with contextlib.suppress(StoreError):  # whoever finds the pool dry is told
                made = self._make(tenant, lot)
            if not made:
                _log.warning("keys_not_made_ahead", keys=lot)
            with self._lock:
                ready.keys.extend(made)
                ready.asked = False

    @staticmethod
    def _next_lot(ready: _Ready) -> int:
        ready.lot = min(2 * ready.lot, _LAST_LOT)
        return ready.lot
