"""The key store in a SQLite file of its own: `keys.db`, beside the database and in none of its backups."""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.secretfile import make_private, prepare_folder
from tracehold_collector.sealing.keys_file import FILE_NAME, empty_write_ahead_file, open_keys_file
from tracehold_collector.sealing.keystore import KEY_BYTES, DataKey, KeyBackup, KeyState, ListedErasure
from tracehold_collector.sealing.pool import KeyPool
from tracehold_collector.sealing.wrapper import (
    MASTER_KEY_FILE,
    WRAPPED_BYTES,
    FileWrapper,
    Wrapper,
    unwrap_key,
    wrap_key,
)

_LOOKED_UP_AT_ONCE: Final = 500
_ZEROS: Final = bytes(WRAPPED_BYTES)
_DIGEST_BYTES: Final = 16
_T = TypeVar("_T")


class SqliteKeyStore:
    """Keys of runs wrapped by a tenant's key, tenants' keys by the `wrapper`. The contract is the protocol's.

    Args:
        path: the file.
        wrapper: of the tenants' keys.
        may_create: whether nothing was sealed yet.

    Raises:
        StoreError: the file cannot be used, or is missing and must not be made.
    """

    def __init__(self, path: Path, wrapper: Wrapper, *, may_create: bool) -> None:
        self.path = path
        self._wrapper = wrapper
        self._connection = open_keys_file(path, may_create=may_create)
        self._lock = threading.Lock()  # guards the connection and `_tenant_keys`
        self._tenant_keys: dict[int, AESGCM] = {}
        self._pool = KeyPool(self._make)
        self._closed = False
        self._check_wrapper()

    @classmethod
    def open_in(cls, folder: Path, *, may_create: bool) -> SqliteKeyStore:
        """Open the key store of a data folder, with the master key in a file beside it.

        Args:
            folder: the data folder.
            may_create: whether nothing was sealed yet; with sealed content, new keys would help nobody.

        Raises:
            StoreError: one of the two files is missing and must not be made, or cannot be used.
        """
        path = folder / FILE_NAME
        prepare_folder(folder)
        # The master key is made first: a crash between the two leaves one that has wrapped nothing, and is used then.
        unmade = may_create and not path.exists()
        return cls(path, FileWrapper(folder / MASTER_KEY_FILE, may_create=unmade), may_create=may_create)

    def take(self, tenant: str) -> DataKey:
        """Return a key from the pool."""
        return self._pool.take(tenant, 1)[0]

    def take_many(self, tenant: str, count: int) -> list[DataKey]:
        """Return keys from the pool."""
        return self._pool.take(tenant, count)

    def open(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, bytes]:
        """Return the living ones among these."""
        sql = "SELECT id, tenant_key, wrapped FROM keys WHERE id IN ({})"
        with self._locked():
            return {
                uuid.UUID(bytes=key_id): self._unwrap(key_id, number, wrapped)
                for key_id, number, wrapped in self._of(ids, sql)
                if wrapped != _ZEROS
            }

    def state(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, KeyState]:
        """Return what became of those that are known."""
        sql = (
            "SELECT id, made_at, destroyed_at, erasure_id FROM keys LEFT JOIN destroyed ON key = number "
            "WHERE id IN ({})"
        )
        with self._locked():
            return {uuid.UUID(bytes=key_id): KeyState(*rest) for key_id, *rest in self._of(ids, sql)}

    def destroy(self, ids: Collection[uuid.UUID], *, erasure_id: str, at_ns: int) -> int:
        """Overwrite the living ones among these with zeros, where they stand; then empty the write-ahead file."""
        # A crash before the commit leaves all keys; one before the file is emptied leaves copies in it. So it is
        # emptied by every call: the erasure that calls again after the crash destroys nothing more, and ends those.
        with self._locked():
            with self._changing():
                found = self._of(ids, "SELECT number, wrapped FROM keys WHERE id IN ({})")
                living = [number for number, wrapped in found if wrapped != _ZEROS]
                self._connection.executemany(
                    "UPDATE keys SET wrapped = ? WHERE number = ?", ((_ZEROS, number) for number in living)
                )
                self._connection.executemany(
                    "INSERT INTO destroyed VALUES (?, ?, ?)", ((number, at_ns, erasure_id) for number in living)
                )
            empty_write_ahead_file(self._connection, self.path)
        return len(living)

    def list_erasure(self, erasure: ListedErasure) -> None:
        """Add it to the list."""
        with self._locked(), self._changing():
            self._connection.execute(
                "INSERT OR IGNORE INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    erasure.erasure_id,
                    erasure.tenant,
                    erasure.mode,
                    erasure.at_ns,
                    b"".join(erasure.runs),
                    b"".join(erasure.events),
                    erasure.request,
                ),
            )

    def listed_erasures(self, known: Collection[str] = ()) -> list[ListedErasure]:
        """Return the list."""
        with self._locked():
            ids = [row[0] for row in self._connection.execute("SELECT erasure_id FROM erasures ORDER BY at, rowid")]
            return [self._listed(erasure_id) for erasure_id in ids if erasure_id not in set(known)]

    def backup(self, to: Path, *, made_at: int, expires_at: int) -> KeyBackup:
        """Write a copy with SQLite's backup interface, which takes a consistent one beside the traffic."""
        if to.exists():
            raise StoreError(f"{to} exists already; name a new file for the backup of the keys")
        made = KeyBackup(str(to.absolute()), made_at, expires_at)
        with self._locked():
            # Registered first: a copy nobody knows of would be left out of every erasure report.
            with self._changing():
                self._connection.execute(
                    "INSERT INTO backups VALUES (?, ?, ?)", (made.path, made.made_at, made.expires_at)
                )
            try:
                make_private(to)
                with closing(sqlite3.connect(to)) as copy:
                    self._connection.backup(copy)
                    copy.execute("PRAGMA journal_mode = DELETE")  # one file, without one beside it
            except OSError as error:
                raise StoreError(f"cannot write the backup {to}: {error.strerror}") from error
        return made

    def backups(self) -> list[KeyBackup]:
        """Return the copies that were registered."""
        with self._locked():
            rows = self._connection.execute("SELECT path, made_at, expires_at FROM backups ORDER BY made_at, rowid")
            return [KeyBackup(*row) for row in rows]

    def close(self) -> None:
        """End the pool and close the file."""
        if not self._closed:
            self._closed = True
            self._pool.close()
            with self._lock:
                self._connection.close()

    def _make(self, tenant: str, count: int) -> list[DataKey]:
        keys = [DataKey(uuid.UUID(new_event_id(now_ns())), os.urandom(KEY_BYTES)) for _ in range(count)]
        with self._locked(), self._changing():
            number, cipher = self._tenant_key(tenant)
            self._connection.executemany(
                "INSERT INTO keys (id, tenant_key, wrapped, made_at) VALUES (?, ?, ?, ?)",
                ((key.id.bytes, number, wrap_key(cipher, key.key, key.id.bytes), now_ns()) for key in keys),
            )
        return keys

    def _tenant_key(self, tenant: str) -> tuple[int, AESGCM]:
        """Return the tenant's key and its number; made inside the caller's transaction when there is none."""
        row = self._connection.execute("SELECT number FROM tenant_keys WHERE tenant = ?", (tenant,)).fetchone()
        if row is not None:
            return row[0], self._cipher(row[0])
        wrapped = self._wrapper.wrap(AESGCM.generate_key(8 * KEY_BYTES), tenant.encode("utf-8", "replace"))
        inserted = self._connection.execute(
            "INSERT INTO tenant_keys (tenant, wrapped, made_at) VALUES (?, ?, ?)", (tenant, wrapped, now_ns())
        )
        # Not remembered before it is committed, but read again by whoever is next.
        number = int(inserted.lastrowid or 0)
        return number, self._read_cipher(number)

    def _cipher(self, number: int) -> AESGCM:
        if number not in self._tenant_keys:
            self._tenant_keys[number] = self._read_cipher(number)
        return self._tenant_keys[number]

    def _read_cipher(self, number: int) -> AESGCM:
        tenant, wrapped = self._connection.execute(
            "SELECT tenant, wrapped FROM tenant_keys WHERE number = ?", (number,)
        ).fetchone()
        return AESGCM(self._wrapper.unwrap(wrapped, tenant.encode("utf-8", "replace")))

    def _unwrap(self, key_id: bytes, number: int, wrapped: bytes) -> bytes:
        try:
            return unwrap_key(self._cipher(number), wrapped, key_id)
        except InvalidTag as error:
            raise StoreError(
                f"key {uuid.UUID(bytes=key_id)} in {self.path} was altered; restore the file from a backup"
            ) from error

    def _check_wrapper(self) -> None:
        """Fail at the start, and not at the first question for content, when the master key is another store's."""
        try:
            with self._locked():
                first = self._connection.execute("SELECT min(number) FROM tenant_keys").fetchone()[0]
                if first is not None:
                    self._cipher(first)
        except BaseException:
            self.close()
            raise

    def _of(self, ids: Iterable[uuid.UUID], sql: str) -> list[Sequence[Any]]:
        """Run `sql` for the ids, a part at a time; `{}` in it stands for their place-holders."""
        rows: list[Sequence[Any]] = []
        for part in _parts((key_id.bytes for key_id in dict.fromkeys(ids)), _LOOKED_UP_AT_ONCE):
            rows += self._connection.execute(sql.format(", ".join("?" * len(part))), part).fetchall()
        return rows

    def _listed(self, erasure_id: str) -> ListedErasure:
        row = self._connection.execute(
            "SELECT tenant, mode, at, runs, events, request FROM erasures WHERE erasure_id = ?", (erasure_id,)
        ).fetchone()
        tenant, mode, at_ns, runs, events, request = row
        return ListedErasure(erasure_id, tenant, mode, at_ns, _cut(runs), _cut(events), request)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreError(f"cannot use the key store {self.path}: {error}") from error

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One durable transaction, all or nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _parts(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def _cut(joined: bytes) -> tuple[bytes, ...]:
    return tuple(joined[place : place + _DIGEST_BYTES] for place in range(0, len(joined), _DIGEST_BYTES))
