"""A secret of this store, made once, kept in a file that only its owner reads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tracehold_collector.core.errors import StoreError

KEY_BYTES = 32


def load_or_create_key(path: Path) -> bytes:
    """Return the key in `path`, made on first use.

    Two processes that start at once end up with the same key: the file is written under another name and linked
    into place, and the first link wins.

    Raises:
        StoreError: the file cannot be read or written, or does not hold 32 bytes as hex.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _create(path)
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot use the key file {path}: {type(error).__name__}. Restore it from a backup: without it, users and "
            "sessions already stored cannot be recognised again"
        ) from error
    if len(key) != KEY_BYTES:
        raise StoreError(f"the key file {path} holds {len(key)} bytes, expected {KEY_BYTES}; restore it from a backup")
    return key


def _create(path: Path) -> None:
    own = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(own, path)
    except FileExistsError:
        pass  # another process was first; its key is the store's
    finally:
        own.unlink()
