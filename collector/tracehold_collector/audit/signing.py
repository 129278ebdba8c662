"""The key that signs tree heads: a file in the data folder, made on first use; a rotation keeps what was signed."""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Base64Bytes, BaseModel, ConfigDict, ValidationError

from tracehold_collector.audit.notes import COSIGNATURE_V1, ED25519, Note, VerifierKey, check_name, sign_text
from tracehold_collector.audit.tree_heads import TreeHead, origin_of, parse_tree_head, sign_tree_head
from tracehold_collector.core.errors import NoteError, StoreError
from tracehold_collector.core.secretfile import create_secret, prepare_folder, replace_secret
from tracehold_collector.core.times import iso_utc, parse_moment_ns

SIGNING_FILE: Final = "log-signing.key"
_NS_PER_S: Final = 1_000_000_000
_COSIGNED: Final = "cosignature/v1\n"


class _KeyEntry(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    public_key: Base64Bytes
    since: str
    until: str | None = None


class _KeyFile(BaseModel):
    """The file; the last key is the one that signs, and only its private half is kept."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    version: Literal[1] = 1
    name: str
    keys: list[_KeyEntry]
    private_key: Base64Bytes


@dataclass(frozen=True, slots=True)
class LogKey:
    """A key of the log, in use or retired.

    Attributes:
        public: the Ed25519 public key, 32 bytes.
        since: when it was made, UTC nanoseconds since the epoch.
        until: when it was retired; `None` for the one in use.
    """

    public: bytes
    since: int
    until: int | None


@dataclass(frozen=True, slots=True)
class _Loaded:
    name: str
    keys: tuple[LogKey, ...]
    private: Ed25519PrivateKey
    stamp: tuple[int, int, int]


class Signer:
    """Signs tree heads and statements of this store's logs with the key in `log-signing.key`.

    The file is made on first use; of two processes that begin at once, one makes it and both use it. A rotation by
    another process is seen before the next signature. May be shared by threads: the lock holds `_loaded`.

    Args:
        folder: the data folder.
        now_ns: UTC nanoseconds since the epoch, for the day a new key begins.
        name: what a new log is called, as the name of a signed note's key; by default a random one under
            `tracehold.internal`. A log keeps the name it was made with.

    Raises:
        StoreError: the file cannot be made or read, or is none.
        NoteError: the name is none that a key can have.
    """

    def __init__(self, folder: Path, now_ns: int, *, name: str | None = None) -> None:
        self._path = folder / SIGNING_FILE
        self._lock = threading.Lock()
        if name is not None:
            check_name(name)
        if not self._path.exists():
            prepare_folder(folder)
            fresh = _with_new_key(name or f"tracehold.internal/{secrets.token_hex(8)}", [], now_ns)
            with _reported(self._path):
                create_secret(self._path, _written(fresh))
        self._loaded = _load(self._path)

    @property
    def name(self) -> str:
        """What the log is called: its key's name as a cosigner, and how the origin of every tenant's log begins."""
        return self._current().name

    @property
    def keys(self) -> tuple[LogKey, ...]:
        """The keys so far, the one in use last."""
        return self._current().keys

    def origin(self, tenant: str) -> str:
        """Return the origin of a tenant's log."""
        return origin_of(self._current().name, tenant)

    def verifier_keys(self, tenant: str | None = None) -> list[VerifierKey]:
        """Return what a verifier is to believe, the key in use first.

        Args:
            tenant: whose log; `None`: the keys as cosigner, and for statements, which are of no tenant.
        """
        loaded = self._current()
        public = [key.public for key in reversed(loaded.keys)]
        if tenant is not None:
            return [VerifierKey(origin_of(loaded.name, tenant), ED25519, key) for key in public]
        return [VerifierKey(loaded.name, kind, key) for key in public for kind in (ED25519, COSIGNATURE_V1)]

    def sign_head(self, tenant: str, size: int, root: bytes, time_ns: int) -> str:
        """Return the signed note of a tree head.

        Args:
            tenant: whose log.
            size: leaves.
            root: the root over them.
            time_ns: now, UTC nanoseconds since the epoch; whole seconds of it are signed.

        Raises:
            StoreError: the key cannot be read.
        """
        loaded = self._current()
        head = TreeHead(origin_of(loaded.name, tenant), size, root)
        return sign_tree_head(head, loaded.name, loaded.private, time_ns // _NS_PER_S)

    def sign_statement(self, text: str) -> str:
        """Return a signed note of any other text, by the key under the log's own name.

        Raises:
            NoteError: the text cannot stand in a note, or could be taken for a tree head or a cosignature.
        """
        loaded = self._current()
        if text.startswith(_COSIGNED) or _is_tree_head(text):
            raise NoteError("a statement must not look like a tree head: a log signs those with a time, as its own")
        return str(Note(text, (sign_text(text, loaded.name, loaded.private),)))

    def rotate(self, now_ns: int) -> LogKey:
        """Retire the key in use for a new one; what it signed can still be verified, and its private half is gone.

        The bytes of the old file may still lie on the disk: a file system does not overwrite.

        Raises:
            StoreError: the file cannot be written; the old key stays in use.
        """
        with _locked(self._path):
            loaded = _load(self._path)
            fresh = _with_new_key(loaded.name, list(loaded.keys), now_ns)
            replace_secret(self._path, _written(fresh))
        return self._current().keys[-1]

    def _current(self) -> _Loaded:
        with self._lock:
            with _reported(self._path):
                stamp = _stamp(self._path)
            if stamp != self._loaded.stamp:
                self._loaded = _load(self._path)
            return self._loaded


def _with_new_key(name: str, former: list[LogKey], now_ns: int) -> _KeyFile:
    private = Ed25519PrivateKey.generate()
    now = iso_utc(now_ns) or ""
    entries = [
        _KeyEntry(public_key=_base64(key.public), since=iso_utc(key.since) or "", until=iso_utc(key.until) or now)
        for key in former
    ]
    entries.append(_KeyEntry(public_key=_base64(private.public_key().public_bytes_raw()), since=now))
    return _KeyFile(name=name, keys=entries, private_key=_base64(private.private_bytes_raw()))


def _written(file: _KeyFile) -> str:
    return file.model_dump_json(indent=2) + "\n"


def _load(path: Path) -> _Loaded:
    with _reported(path):
        stamp = _stamp(path)
        text = path.read_text(encoding="ascii")
    try:
        file = _KeyFile.model_validate_json(text)
        check_name(file.name)
        private = Ed25519PrivateKey.from_private_bytes(file.private_key)
        keys = tuple(LogKey(entry.public_key, _ns(entry.since), _maybe_ns(entry.until)) for entry in file.keys)
        whole = keys[-1].public == private.public_key().public_bytes_raw()
    except (ValidationError, ValueError, IndexError, NoteError):
        whole = False
    if not whole:
        raise StoreError(f"{path} is damaged: no tree head can be signed. Restore it from a backup") from None
    return _Loaded(file.name, keys, private, stamp)


def _ns(moment: str) -> int:
    found = parse_moment_ns(moment)
    if found is None:
        raise ValueError("no moment")
    return found


def _maybe_ns(moment: str | None) -> int | None:
    return None if moment is None else _ns(moment)


def _is_tree_head(text: str) -> bool:
    try:
        parse_tree_head(text)
    except NoteError:
        return False
    return True


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from replacing the file at the same time."""
    with _reported(path):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"cannot use the log's key file {path}: {type(error).__name__}. Restore it from a backup: with another "
            "key, nobody who knows this log's verifier key believes its tree heads"
        ) from error


def _base64(data: bytes) -> bytes:
    return base64.b64encode(data)
