"""Opens the store's DuckDB file: one process has it, every thread gets a cursor of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tracehold_collector.core.errors import StoreError, StoreLockedError
from tracehold_collector.sealing.keystore import KeyStore
from tracehold_collector.sealing.memory_keys import MemoryKeyStore
from tracehold_collector.sealing.vault import Vault
from tracehold_collector.store.leases import Leases
from tracehold_collector.store.migrate import migrate
from tracehold_collector.store.swap import check_released, put_in_place, remove_leftovers

FILE_NAME = "tracehold.duckdb"
_LITTLE = "32MB"
_SEALED = "SELECT 1 FROM contents WHERE key_id IS NOT NULL LIMIT 1"


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How DuckDB runs.

    Attributes:
        memory_limit: DuckDB's own budget, as it writes it ("1GB").
        threads: DuckDB's own; default half of the machine's cores. A commit of a few hundred rows is one thread's work,
            and a second one only costs it a third more CPU time (measured: 3.3 ms against 4.4 ms for 100 rows).
        checkpoint_threshold: size of the write-ahead file at which DuckDB checkpoints by itself. Its default of 16 MB
            costs two thirds of the ingest speed and stalls up to a second; the store checkpoints at quiet moments.
    """

    memory_limit: str = "1GB"
    threads: int = max(1, (os.cpu_count() or 1) // 2)
    checkpoint_threshold: str = "256MB"


class Database:
    """The open store. `connection` is for the one writer; readers use `cursor()`.

    Args:
        path: the DuckDB file; created with its folder when missing. `None` keeps the store in memory, for tests.
        options: how DuckDB runs.
        keys: opens the key store, once the file is this process's alone; it is told whether there may be none yet. By
            default one in memory: what is stored can be read as long as this object lives.

    Raises:
        StoreLockedError: another process has the file open (FR-51).
        StoreTooNewError: a newer Tracehold wrote it.
        StoreError: the file cannot be opened, or is no store.
    """

    def __init__(
        self,
        path: Path | None,
        options: DatabaseOptions | None = None,
        *,
        keys: Callable[[bool], KeyStore] = lambda _may_create: MemoryKeyStore(),
    ) -> None:
        self.path = path
        self._options = options or DatabaseOptions()
        self.leases = Leases()
        self.changes = 0
        self.copying = False
        self._lock = threading.Lock()
        self.connection = self._open()
        try:
            if path is not None:
                remove_leftovers(path)  # once the file is ours: they could be another collector's
            migrate(self.connection)
            sealed = self.connection.execute(_SEALED).fetchone()
            self.vault = Vault(keys(sealed is None))
        except BaseException:
            self.connection.close()
            raise

    def cursor(self, on_revoke: Callable[[], None] | None = None) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Give a connection of the caller's own to the same store; closed on leaving.

        What streams from it, such as an Arrow reader, must be let go of before: it would keep the file open.

        Args:
            on_revoke: as `Leases.lease` says, for who reads for long.
        """
        return self.leases.lease(self._cursor, on_revoke)

    def rows_changed(self) -> None:
        """Tell that rows were changed or deleted, after the commit; only on the writer's thread.

        A copy of the file that was begun before that, even within the transaction, is begun again (`store/rewrite.py`).
        """
        self.changes += 1

    def exchange(self, new: Path) -> int | None:
        """Put `new` in the place of the store's file and open it; nobody may read or write meanwhile.

        Returns:
            A descriptor of the old file, which has no name any more, for who wants to overwrite it; the caller closes
            it. `None` when the old file has another name, such as a hard link that a backup made.

        Raises:
            StoreError: the old file could not be let go of, and is open as before; or the new one is in its place and
                cannot be opened.
        """
        if self.path is None:
            raise StoreError("a store in memory has no file to exchange")
        with self._lock:
            self.connection.execute("CHECKPOINT")
            self.connection.close()
            try:
                check_released(self.path)
                return put_in_place(new, self.path)
            finally:
                self.connection = self._open()

    def reopen(self) -> None:
        """Open the file again after DuckDB declared it invalid (full disk, I/O error); uncommitted work is gone."""
        with self._lock:
            self.connection.close()
            self.connection = self._open()

    def release_memory(self) -> None:
        """Give back what DuckDB keeps of what it has read, such as every event's id when the store was opened."""
        self.connection.execute(f"SET memory_limit = '{_LITTLE}'")
        self.connection.execute(f"SET memory_limit = '{self._options.memory_limit}'")

    def wal_bytes(self) -> int:
        """Size of the write-ahead file, 0 when there is none."""
        return _size(self.path.with_name(self.path.name + ".wal")) if self.path else 0

    def disk_bytes(self) -> int:
        """Size of the store and its write-ahead file."""
        return _size(self.path) + self.wal_bytes() if self.path else 0

    def close(self) -> None:
        """Write everything into the file and release it; a second call does nothing."""
        with self._lock:
            self.connection.close()
        self.vault.close()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self.connection.cursor()

    def _open(self) -> duckdb.DuckDBPyConnection:
        options = self._options
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "python_enable_replacements": False,
            "memory_limit": options.memory_limit,
            "threads": options.threads,
            "checkpoint_threshold": options.checkpoint_threshold,
        }
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            connection = duckdb.connect(str(self.path) if self.path else ":memory:", config=config)
            if self.path is not None:
                os.chmod(self.path, 0o600)  # noqa: PTH101 - traces may hold personal data
            connection.execute("SET TimeZone = 'UTC'")
        except duckdb.IOException as error:
            if "lock" in str(error).lower():
                raise StoreLockedError(
                    f"{self.path} is open in another process; DuckDB lets one process have a file. Ask that collector "
                    "over HTTP (tracehold query ...), stop it, or start this one with another --data-dir"
                ) from error
            raise StoreError(f"cannot open {self.path}: {error}") from error
        except duckdb.Error as error:
            raise StoreError(f"cannot open {self.path}: {error}") from error
        return connection


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
