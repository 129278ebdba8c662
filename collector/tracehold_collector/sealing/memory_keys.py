"""A key store in memory, for tests and for a store in memory: it promises all but to outlive its process."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.keystore import KEY_BYTES, DataKey, KeyBackup, KeyState, ListedErasure


class MemoryKeyStore:
    """Keeps keys in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[uuid.UUID, bytes] = {}
        self._states: dict[uuid.UUID, KeyState] = {}
        self._erasures: dict[str, ListedErasure] = {}

    def take(self, tenant: str) -> DataKey:
        """Return a new key."""
        return self.take_many(tenant, 1)[0]

    def take_many(self, tenant: str, count: int) -> list[DataKey]:  # noqa: ARG002 - one wrapping for all
        """Return new keys."""
        made = [DataKey(uuid.uuid4(), os.urandom(KEY_BYTES)) for _ in range(count)]
        with self._lock:
            for key in made:
                self._keys[key.id] = key.key
                self._states[key.id] = KeyState(now_ns())
        return made

    def open(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, bytes]:
        """Return the living ones."""
        with self._lock:
            return {key_id: self._keys[key_id] for key_id in ids if key_id in self._keys}

    def state(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, KeyState]:
        """Return what became of those that are known."""
        with self._lock:
            return {key_id: self._states[key_id] for key_id in ids if key_id in self._states}

    def destroy(self, ids: Collection[uuid.UUID], *, erasure_id: str, at_ns: int) -> int:
        """Forget the living ones among these."""
        with self._lock:
            living = [key_id for key_id in set(ids) if self._keys.pop(key_id, None) is not None]
            for key_id in living:
                self._states[key_id] = replace(self._states[key_id], destroyed_at=at_ns, erasure_id=erasure_id)
        return len(living)

    def list_erasure(self, erasure: ListedErasure) -> None:
        """Remember it, unless it is known."""
        with self._lock:
            self._erasures.setdefault(erasure.erasure_id, erasure)

    def listed_erasures(self, known: Collection[str] = ()) -> list[ListedErasure]:
        """Return them in the order they came."""
        with self._lock:
            return [erasure for erasure in self._erasures.values() if erasure.erasure_id not in known]

    def backup(self, to: Path, *, made_at: int, expires_at: int) -> KeyBackup:  # noqa: ARG002 - the protocol's
        """Refuse: there is nothing to copy."""
        raise StoreError(f"cannot write a backup to {to}: these keys are in memory only, and end with the process")

    def backups(self) -> list[KeyBackup]:
        """Return none."""
        return []

    def close(self) -> None:
        """Do nothing."""
