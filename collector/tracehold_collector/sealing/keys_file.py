"""Opens `keys.db`, whose pages keep nothing of what was overwritten (https://www.sqlite.org/pragma.html)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from tracehold_collector.core.errors import StoreError, StoreTooNewError
from tracehold_collector.core.secretfile import make_private

FILE_NAME: Final = "keys.db"
BUSY_S: Final = 10.0
_VERSION: Final = 1

_SCHEMA: Final = """
BEGIN IMMEDIATE;
CREATE TABLE tenant_keys (
    number       INTEGER PRIMARY KEY,
    tenant       TEXT    NOT NULL UNIQUE,
    wrapped      BLOB    NOT NULL,
    made_at      INTEGER NOT NULL        -- UTC nanoseconds since the epoch, as all times here
) STRICT;
-- A row is never made longer or shorter: its wrapped key is overwritten where it stands. A row that grew might be moved
-- to another page, and leave a copy of what it held.
CREATE TABLE keys (
    number       INTEGER PRIMARY KEY,
    id           BLOB    NOT NULL UNIQUE,
    tenant_key   INTEGER NOT NULL,
    wrapped      BLOB    NOT NULL,       -- nonce, ciphertext, tag; zeros once destroyed
    made_at      INTEGER NOT NULL
) STRICT;
CREATE TABLE destroyed (
    key          INTEGER PRIMARY KEY,    -- keys.number
    destroyed_at INTEGER NOT NULL,
    erasure_id   TEXT    NOT NULL
) STRICT;
CREATE TABLE erasures (
    erasure_id   TEXT    PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    mode         TEXT    NOT NULL,       -- scrub, delete
    at           INTEGER NOT NULL,
    runs         BLOB    NOT NULL,       -- keyed digests, 16 bytes each
    events       BLOB    NOT NULL,       -- event ids, 16 bytes each
    request      TEXT    NOT NULL        -- JSON: what was asked for
) STRICT;
CREATE TABLE backups (
    path         TEXT    NOT NULL,
    made_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;
PRAGMA user_version = 1;
COMMIT;
"""


def open_keys_file(path: Path, *, may_create: bool) -> sqlite3.Connection:
    """Return a connection to the file, in autocommit; usable from any one thread at a time.

    Raises:
        StoreError: it is missing and must not be made, cannot be opened, or is something else.
        StoreTooNewError: a newer Tracehold wrote it.
    """
    if not may_create and not path.exists():
        raise StoreError(
            f"the key store {path} is missing, and the store holds content that was sealed under its keys. Restore it "
            "from a backup ('tracehold sealing backup' makes them): without it that content cannot be read. To go on "
            "without that content, move the store away and start with an empty folder"
        )
    try:
        make_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {path}: {error}") from error
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"cannot use {path}: {error}. Restore it from a backup") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise StoreTooNewError(f"{path} was written by a newer Tracehold; it was left untouched. Use that version")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    if version < _VERSION:
        connection.executescript(_SCHEMA)


def empty_write_ahead_file(connection: sqlite3.Connection, path: Path) -> None:
    """Move the write-ahead file into the database and cut it to nothing: its old frames hold what was overwritten.

    Raises:
        StoreError: somebody reads the file all the time, such as a backup under way.
    """
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StoreError(
            f"{path} is being read by another process, and its write-ahead file cannot be emptied before that ends. "
            "The keys are overwritten; let the reader end and the erasure goes on"
        )
