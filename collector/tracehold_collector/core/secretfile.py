"""A secret of this store, made once, kept in a file that only its owner reads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tracehold_collector.core.errors import StoreError

KEY_BYTES = 32


def prepare_folder(path: Path) -> None:
    """Make the folder of the store, for its owner alone.

    Raises:
        StoreError: it cannot be made or used.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(f"cannot use the data folder {path}: {error.strerror}. Choose another --data-dir") from error


def make_private(path: Path) -> None:
    """Make the file for its owner alone before SQLite makes it as the umask says; its side files take after it.

    Never opened when it is there already: closing it would end every lock that this process has on it through SQLite,
    and another process would then take itself for the only one (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        os.chmod(path, 0o600)  # noqa: PTH101 - as above
    else:
        give_to_owner_of_folder(path)


def give_to_owner_of_folder(path: Path) -> None:
    """Let the collector read what root made for it: it runs as the owner of the folder."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        folder = path.parent.stat()
        os.chown(path, folder.st_uid, folder.st_gid)


def load_or_create_key(
    path: Path,
    *,
    may_create: bool = True,
    without: str = "users and sessions already stored cannot be recognised again",
) -> bytes:
    """Return the key in `path`, made on first use.

    Args:
        path: the key file.
        may_create: whether this is the first use; a store that was filled with another key must not get a new one.
        without: what cannot be done without this key, for the message.

    Two processes that start at once end up with the same key: the file is written under another name and linked
    into place, and the first link wins.

    Raises:
        StoreError: the file cannot be read or written, or does not hold 32 bytes as hex.
    """
    try:
        if may_create and not path.exists():
            create_secret(path, secrets.token_hex(KEY_BYTES))
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot use the key file {path}: {type(error).__name__}. Restore it from a backup: without it, {without}"
        ) from error
    if len(key) != KEY_BYTES:
        raise StoreError(f"the key file {path} holds {len(key)} bytes, expected {KEY_BYTES}; restore it from a backup")
    return key


def create_secret(path: Path, text: str) -> None:
    """Write a secret that is not there yet, for its owner alone; when another process is first, its text stays.

    Raises:
        OSError: it cannot be written.
    """
    own = _write_aside(path, text)
    try:
        os.link(own, path)
    except FileExistsError:
        pass  # another process was first; its key is the store's
    finally:
        own.unlink()
    _sync_folder(path)


def replace_secret(path: Path, text: str) -> None:
    """Put another text in the place of a secret, all of it or nothing, with the owner it had.

    Whoever replaces what it has read holds a lock meanwhile.

    Raises:
        OSError: it cannot be written; the old text stands.
    """
    own = _write_aside(path, text)
    try:
        if os.geteuid() == 0:  # the collector may run as somebody else, and must read what root wrote
            was = path.stat()
            os.chown(own, was.st_uid, was.st_gid)
        own.replace(path)
    except BaseException:
        own.unlink(missing_ok=True)
        raise
    _sync_folder(path)


def _write_aside(path: Path, text: str) -> Path:
    own = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return own


def _sync_folder(path: Path) -> None:
    """Make the name as durable as the bytes."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
