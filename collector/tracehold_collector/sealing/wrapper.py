"""Wraps the keys of tenants: by a key in a file, or by a key management service that never gives its key away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.secretfile import load_or_create_key

MASTER_KEY_FILE: Final = "master.key"
_NONCE_BYTES: Final = 12
WRAPPED_BYTES: Final = _NONCE_BYTES + 32 + 16
"""Bytes of a wrapped key of 32: nonce, ciphertext, tag."""


def wrap_key(outer: AESGCM, key: bytes, context: bytes) -> bytes:
    """Return `key` sealed with AES-256-GCM under `outer`, bound to `context`: nonce (12), ciphertext, tag (16).

    Nonces are random: NIST SP 800-38D section 8.3 allows 2^32 of them a key, and a tenant's key wraps far fewer.
    """
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + outer.encrypt(nonce, key, context)


def unwrap_key(outer: AESGCM, wrapped: bytes, context: bytes) -> bytes:
    """Return what `wrap_key` was given.

    Raises:
        cryptography.exceptions.InvalidTag: another key or context, or altered bytes.
    """
    return outer.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], context)


class Wrapper(Protocol):
    """Seals the keys of tenants. Called once a tenant and start, so that it may be a request over the network."""

    def wrap(self, key: bytes, context: bytes) -> bytes:
        """Return `key` sealed, bound to `context` (a key management service calls it the encryption context).

        Raises:
            StoreError: the service cannot be reached.
        """
        ...

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the key.

        Raises:
            StoreError: it was wrapped by another key or under another context, or the service cannot be reached.
        """
        ...


class FileWrapper:
    """Wraps with the key in a file beside the store.

    Args:
        path: the file; made on first use, for its owner alone.
        may_create: whether nothing was wrapped yet.

    Raises:
        StoreError: the file is missing and must not be made, or cannot be used.
    """

    def __init__(self, path: Path, *, may_create: bool) -> None:
        without = "no sealed content can be read"
        self._path = path
        self._cipher = AESGCM(load_or_create_key(path, may_create=may_create, without=without))

    def wrap(self, key: bytes, context: bytes) -> bytes:
        """Return `key` sealed."""
        return wrap_key(self._cipher, key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the key; raises as the protocol says."""
        try:
            return unwrap_key(self._cipher, wrapped, context)
        except InvalidTag as error:
            raise StoreError(
                f"{self._path} is not the key that the key store was made with: restore both from backups of one store"
            ) from error
