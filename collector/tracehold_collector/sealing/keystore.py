"""What a key store promises: keys of runs that are there before their content, and gone for good when destroyed.

Contract, held by `tests/collector/sealing/test_keystore.py` for every implementation
  - A key that `take` returns is durably stored already, and is returned once in the life of the store: content sealed
    under it is readable after any crash.
  - `take` SHOULD NOT do I/O: a store keeps lots in memory. A key that was never handed out before a crash stays unused.
  - After `destroy` has returned, the key cannot be had from the store, its files or its write-ahead file, by whoever
    has all other keys. It MUST be durable by then. A second call for the same key changes nothing: the first tells.
  - `destroy` of several keys is all or nothing; an id that the store does not know is left out and not counted.
  - The erasure list only grows. It outlives a restore of the database from an old backup, which does not know it.
  - Every method may be called from any thread.

One that stands on a key management service keeps wrapped keys where they can be overwritten, and has the service wrap
the keys of tenants (`wrapper.Wrapper`): a call to the service a tenant and start, none a run. A service that keeps a
key it was told to delete for a waiting time (they all do) must not hold the keys of runs: their end has to be at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

KEY_BYTES: Final = 32
"""AES-256."""


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key of a run.

    Attributes:
        id: stands beside what was sealed under it.
        key: 32 random bytes; never logged, never stored open.
    """

    id: uuid.UUID
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyState:
    """What became of a key.

    Attributes:
        made_at: UTC nanoseconds.
        destroyed_at: the same; `None` while it lives.
        erasure_id: for which erasure it was destroyed.
    """

    made_at: int
    destroyed_at: int | None = None
    erasure_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListedErasure:
    """An erasure as the key store remembers it, for a database that was restored from before it.

    Attributes:
        erasure_id: its id.
        tenant: whose data.
        mode: `scrub` or `delete`.
        at_ns: when it was listed; UTC nanoseconds.
        runs: keyed digests of the runs that were erased whole, 16 bytes each: a name chosen by a sender may tell of a
            person, and must not outlive the erasure here.
        events: ids of the events that were erased, 16 bytes each.
        request: what was asked for, as JSON of ids and words of our own.
    """

    erasure_id: str
    tenant: str
    mode: str
    at_ns: int
    runs: tuple[bytes, ...] = ()
    events: tuple[bytes, ...] = ()
    request: str = "{}"


@dataclass(frozen=True, slots=True)
class KeyBackup:
    """A copy of the key store: until it is gone, what was erased after it was made can be read by who has it.

    Attributes:
        path: where it was written.
        made_at: UTC nanoseconds.
        expires_at: by when whoever keeps it is to delete it; UTC nanoseconds.
    """

    path: str
    made_at: int
    expires_at: int


class KeyStore(Protocol):
    """Keeps the keys of runs. The contract is the module's docstring.

    Every method raises `StoreError` when the store cannot be read or written; nothing was changed then.
    """

    def take(self, tenant: str) -> DataKey:
        """Return a key for one run of `tenant`, durably stored before this returns and never returned again."""
        ...

    def take_many(self, tenant: str, count: int) -> list[DataKey]:
        """Return `count` such keys; one durable write at most."""
        ...

    def open(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, bytes]:
        """Return the keys that exist and are not destroyed, by id; the others are missing."""
        ...

    def state(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, KeyState]:
        """Return what became of the keys that exist or did."""
        ...

    def destroy(self, ids: Collection[uuid.UUID], *, erasure_id: str, at_ns: int) -> int:
        """Destroy keys for good; return how many were destroyed by this call.

        Args:
            ids: of the keys.
            erasure_id: for which erasure, told by `state`.
            at_ns: UTC nanoseconds, told by `state`.
        """
        ...

    def list_erasure(self, erasure: ListedErasure) -> None:
        """Add an erasure to the list; one that is on it already is left as it stands."""
        ...

    def listed_erasures(self, known: Collection[str] = ()) -> list[ListedErasure]:
        """Return the list, oldest first, without those whose ids are `known`."""
        ...

    def backup(self, to: Path, *, made_at: int, expires_at: int) -> KeyBackup:
        """Write a copy of the store into a new file and register it.

        Raises:
            StoreError: the file exists already, or cannot be written.
        """
        ...

    def backups(self) -> list[KeyBackup]:
        """Return the copies ever registered, oldest first."""
        ...

    def close(self) -> None:
        """Release the store; a second call does nothing."""
        ...
