"""The keys in the memory of a running collector, read again within a second of any change."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog
from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.access.file import open_file, server_secret
from tracehold_collector.access.keys import Key, read_keys
from tracehold_collector.access.limits import DAY_S, Meters
from tracehold_collector.access.principal import Principal
from tracehold_collector.access.roles import effective
from tracehold_collector.core.accessfile import FILE_NAME
from tracehold_collector.core.errors import StoreError

_log = structlog.get_logger(__name__)

_LOOK_S: Final = 0.25
_NOTE_S: Final = 60.0
_COMPLAIN_S: Final = 60.0


class KeyBook:
    """The keys of a data folder, as they are now.

    A request looks at memory only. A thread of the book's own looks whether the file changed, four times a second, and
    writes once a minute which keys were used. When the file cannot be read, the keys stand as they were last seen.

    Args:
        folder: the data folder.

    Raises:
        StoreError: the file cannot be opened, or there are keys and the secret behind their hashes is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = open_file(folder)
        self._changes = -1
        self._inode = 0
        self.keys: Mapping[str, Key] = {}
        self.asks = False
        """Whether there was ever a key since the start: a file that loses its keys must not open the collector."""
        self.secret = bytes(32)
        self._principals: dict[str, tuple[Key, str, Principal]] = {}
        self._used: dict[str, int] = {}
        self.meters = Meters()
        self._noted_at = time.monotonic()
        self._complained_at = -_COMPLAIN_S
        try:
            self.refresh()
            self._load_counts()
        except BaseException:
            self._connection.close()
            raise
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tracehold-keys", daemon=True)
        self._thread.start()

    def used(self, key_id: str, at_ns: int) -> None:
        """Note that a key was used; written later."""
        self._used[key_id] = at_ns

    def principal(self, key: Key, default_tenant: str) -> Principal:
        """Return who a key stands for; made once a version of the key."""
        known = self._principals.get(key.id)
        if known is not None and known[0] is key and known[1] == default_tenant:
            return known[2]
        first = key.tenants[0] if key.tenants else default_tenant
        made = Principal(key.id, key.name, effective(key.roles), key.tenants, first, key.limit)
        self._principals[key.id] = (key, default_tenant, made)
        return made

    def refresh(self) -> bool:
        """Read the keys again if they changed; say whether they had.

        Raises:
            StoreError: the file or the secret cannot be read.
        """
        try:
            self._follow_the_file()
            (number,) = self._connection.execute("SELECT number FROM key_changes").fetchone()
            if number == self._changes:
                return False
            keys = {key.id: key for key in read_keys(self._connection)}
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {FILE_NAME} in {self._folder}: {error}. Restore it from a backup") from error
        if keys:
            self.secret = server_secret(self._folder, may_create=False)
        self.keys = keys
        self.asks = self.asks or bool(keys)
        self._changes = number
        return True

    def close(self) -> None:
        """Write which keys were used, and end; a second call does nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join()
        self._note_use()
        self._connection.close()

    def _follow_the_file(self) -> None:
        """Open the file that has the name now: a backup may have been put in its place."""
        try:
            inode = os.stat(self._folder / FILE_NAME).st_ino  # noqa: PTH116 - the number only
        except OSError as error:
            raise StoreError(f"{FILE_NAME} is no longer in {self._folder}; the keys stand as they were") from error
        if inode != self._inode:
            if self._inode:
                self._connection.close()
                self._connection = open_file(self._folder)
                self._changes = -1
            self._inode = inode

    def _work(self) -> None:
        while not self._ending.wait(_LOOK_S):
            try:
                if self.refresh():
                    _log.info("keys_read", keys=len(self.keys))
            except Exception as error:  # noqa: BLE001 - the thread must go on: a revocation hangs on it
                if time.monotonic() - self._complained_at > _COMPLAIN_S:
                    self._complained_at = time.monotonic()
                    _log.error("keys_not_read", error=f"{type(error).__name__}: {error}")
            if time.monotonic() - self._noted_at > _NOTE_S:
                self._note_use()

    def _load_counts(self) -> None:
        today = now_ns() // NS_PER_S // DAY_S
        rows = self._connection.execute("SELECT id, day, events FROM key_events WHERE day >= ?", [today - 1]).fetchall()
        self.meters.load({(key_id, day): events for key_id, day, events in rows})

    def _note_use(self) -> None:
        self._noted_at = time.monotonic()
        used, self._used = self._used, {}
        counted = self.meters.changed()
        if not used and not counted:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO key_use VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET last_used_at = excluded.last_used_at",
                list(used.items()),
            )
            self._connection.executemany(
                "INSERT INTO key_events VALUES (?, ?, ?) ON CONFLICT (id, day) DO UPDATE SET events = excluded.events",
                [(*place, events) for place, events in counted.items()],
            )
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            _log.warning("key_use_not_written", error=type(error).__name__)
