"""Seals what was said, and opens it again: AES-256-GCM, each run under keys of its own.

A vault knows which key it last sealed a run with, and keeps the keys it opened lately; the key store decides what
exists. The place of a chunk is sealed with it: moved to another run or chunk, it does not open.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.keystore import KeyStore

NONCE_BYTES: Final = 12
"""NIST SP 800-38D, section 5.2.1.1: 96 bits, random. A key seals the chunks of one run: far below 2^32 of them."""

_REMEMBERED: Final = 20_000
_CONTEXT: Final = b"tracehold sealed/1\n"

_Name = TypeVar("_Name")
_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class Place:
    """What a sealed chunk is bound to: its id, and whose it is."""

    chunk_id: uuid.UUID
    tenant: str
    run_id: str

    @property
    def bytes(self) -> bytes:
        """What is authenticated beside the text."""
        return b"".join((_CONTEXT, self.chunk_id.bytes, self.tenant.encode(), b"\0", self.run_id.encode()))


class DestroyedKeyError(StoreError):
    """The key is destroyed: what it sealed is erased."""


class Vault:
    """Seals and opens chunks; safe to use from several threads.

    Args:
        keys: where the keys are; closed with the vault.
    """

    def __init__(self, keys: KeyStore) -> None:
        self.keys = keys
        self._lock = threading.Lock()
        self._of_runs: _Lately[tuple[str, str], tuple[uuid.UUID, AESGCM]] = _Lately()
        self._opened: _Lately[uuid.UUID, AESGCM] = _Lately()
        self._destroyed = 0

    def seal(self, place: Place, text: bytes) -> tuple[uuid.UUID, bytes]:
        """Return `text` sealed, and the id of the key: one that has sealed this run before, or a new one.

        Raises:
            StoreError: the key store gives no key.
        """
        key_id, cipher = self._key_of(place.tenant, place.run_id)
        nonce = os.urandom(NONCE_BYTES)
        return key_id, nonce + cipher.encrypt(nonce, text, place.bytes)

    def open(self, place: Place, key_id: uuid.UUID, sealed: bytes) -> bytes:
        """Return what was sealed.

        Raises:
            DestroyedKeyError: its key is gone.
            StoreError: it was altered, moved, or sealed with another key.
        """
        cipher = self._ciphers([key_id]).get(key_id)
        if cipher is None:
            raise DestroyedKeyError(f"the key of chunk {place.chunk_id} is destroyed: what it held is erased")
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place.bytes)
        except (InvalidTag, ValueError) as error:
            raise StoreError(
                f"a content chunk of {len(sealed)} bytes is damaged: it does not open with its key"
            ) from error

    def prepare(self, key_ids: Iterable[uuid.UUID | None]) -> None:
        """Fetch keys that are about to be used, in one go."""
        self._ciphers({key_id for key_id in key_ids if key_id is not None})

    def destroy(self, key_ids: Collection[uuid.UUID], erasure_id: str, at_ns: int) -> int:
        """Destroy keys, here and in the key store; return how many were there.

        Run it where nobody seals meanwhile: on the writer's thread.

        Raises:
            StoreError: the key store could not destroy them; none is used here any more all the same.
        """
        gone = set(key_ids)
        with self._lock:
            self._destroyed += 1
            self._opened.drop(gone)
            self._of_runs.drop([run for run, (key_id, _) in self._of_runs.items() if key_id in gone])
        return self.keys.destroy(gone, erasure_id=erasure_id, at_ns=at_ns)

    def close(self) -> None:
        """Let go of the keys and the key store."""
        with self._lock:
            self._opened.clear()
            self._of_runs.clear()
        self.keys.close()

    def renew(self, runs: Iterable[tuple[str, str]]) -> None:
        """Seal what comes of these runs (tenant, run id) under new keys from now on."""
        with self._lock:
            self._of_runs.drop(list(runs))

    def _key_of(self, tenant: str, run_id: str) -> tuple[uuid.UUID, AESGCM]:
        with self._lock:
            known = self._of_runs.get((tenant, run_id))
        if known is None:
            # A run that was forgotten gets one more key: to look the first one up would cost every new run a question.
            taken = self.keys.take(tenant)
            known = (taken.id, AESGCM(taken.key))
            with self._lock:
                self._of_runs.put((tenant, run_id), known)
                self._opened.put(*known)
        return known

    def _ciphers(self, key_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, AESGCM]:
        with self._lock:
            found = {key_id: cipher for key_id in key_ids if (cipher := self._opened.get(key_id)) is not None}
            destroyed = self._destroyed
        missing = [key_id for key_id in key_ids if key_id not in found]
        if missing:
            fetched = {key_id: AESGCM(key) for key_id, key in self.keys.open(missing).items()}
            found |= fetched
            with self._lock:
                # One that was destroyed since it was fetched must not be kept.
                for key_id, cipher in fetched.items() if destroyed == self._destroyed else ():
                    self._opened.put(key_id, cipher)
        return found


class _Lately(Generic[_Name, _Thing]):
    """What was used last, up to a number."""

    def __init__(self) -> None:
        self._things: OrderedDict[_Name, _Thing] = OrderedDict()

    def get(self, name: _Name) -> _Thing | None:
        thing = self._things.get(name)
        if thing is not None:
            self._things.move_to_end(name)
        return thing

    def put(self, name: _Name, thing: _Thing) -> None:
        self._things[name] = thing
        if len(self._things) > _REMEMBERED:
            self._things.popitem(last=False)

    def items(self) -> Iterable[tuple[_Name, _Thing]]:
        return self._things.items()

    def drop(self, names: Iterable[_Name]) -> None:
        for name in names:
            self._things.pop(name, None)

    def clear(self) -> None:
        self._things.clear()
