"""Opens `access.sqlite`: the keys, and who asked for what. Shared by the collector and the command (decision 19)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tracehold_collector.core.accessfile import BUSY_S, FILE_NAME
from tracehold_collector.core.errors import StoreError, StoreTooNewError
from tracehold_collector.core.secretfile import (
    give_to_owner_of_folder,
    load_or_create_key,
    make_private,
    prepare_folder,
)

SECRET_FILE: Final = "access.key"  # noqa: S105 - a file's name
_VERSION: Final = 2

_SCHEMA: Final = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS keys (
    id              TEXT    PRIMARY KEY,
    name            TEXT    NOT NULL,
    hash            BLOB    NOT NULL,   -- HMAC-SHA-256 of id and secret
    previous_hash   BLOB,               -- of the secret before the last rotation
    previous_until  INTEGER,            -- until when that one is still taken
    roles           TEXT    NOT NULL,   -- JSON list
    tenants         TEXT,               -- JSON list; NULL is every tenant
    created_at      INTEGER NOT NULL,   -- UTC nanoseconds since the epoch, as all times here
    expires_at      INTEGER,
    revoked_at      INTEGER,
    rotated_at      INTEGER,
    requests_per_s  REAL,
    events_per_day  INTEGER
) STRICT;
-- Apart from the keys: written by the running collector, once a minute at most.
CREATE TABLE IF NOT EXISTS key_use (
    id              TEXT    PRIMARY KEY,
    last_used_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS key_events (
    id              TEXT    NOT NULL,
    day             INTEGER NOT NULL,   -- days since the epoch, UTC
    events          INTEGER NOT NULL,
    PRIMARY KEY (id, day)
) STRICT;
-- Raised with every change of a key, so that the collector reads them again only then.
CREATE TABLE IF NOT EXISTS key_changes (number INTEGER NOT NULL) STRICT;
INSERT INTO key_changes SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM key_changes);
CREATE TABLE IF NOT EXISTS access_log (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    at              INTEGER NOT NULL,
    key_id          TEXT,
    who             TEXT    NOT NULL,
    action          TEXT    NOT NULL,   -- read, export, admin, denied, lost
    what            TEXT    NOT NULL,   -- a route with its place-holders, or a command
    parameters      TEXT,               -- JSON object, without content
    tenants         TEXT,               -- JSON list of whose data it may have shown; NULL is every tenant
    status          INTEGER,
    row_count       INTEGER,
    repeated        INTEGER NOT NULL    -- how many the row stands for
) STRICT;
CREATE TRIGGER IF NOT EXISTS access_log_no_update BEFORE UPDATE ON access_log
BEGIN SELECT RAISE(ABORT, 'the access log only grows'); END;
-- Old lines go, and leave a row here: without one, none can be removed, and no row can say less than six months.
CREATE TABLE IF NOT EXISTS access_log_trims (
    at              INTEGER NOT NULL,
    before          INTEGER NOT NULL,   -- only lines from before this moment were removed
    lines           INTEGER NOT NULL    -- how many
) STRICT;
CREATE TRIGGER IF NOT EXISTS access_log_trims_keep BEFORE INSERT ON access_log_trims
WHEN NEW.before > NEW.at - 183 * 86400000000000
BEGIN SELECT RAISE(ABORT, 'the access log keeps lines for six months at least'); END;
CREATE TRIGGER IF NOT EXISTS access_log_trims_no_update BEFORE UPDATE ON access_log_trims
BEGIN SELECT RAISE(ABORT, 'what was removed stays told'); END;
CREATE TRIGGER IF NOT EXISTS access_log_trims_no_delete BEFORE DELETE ON access_log_trims
BEGIN SELECT RAISE(ABORT, 'what was removed stays told'); END;
DROP TRIGGER IF EXISTS access_log_no_delete;  -- version 1 refused every removal
CREATE TRIGGER access_log_no_delete BEFORE DELETE ON access_log
WHEN OLD.at >= coalesce((SELECT max(before) FROM access_log_trims), 0)
BEGIN SELECT RAISE(ABORT, 'the access log only grows'); END;
PRAGMA user_version = 2;
COMMIT;
"""


def open_file(folder: Path) -> sqlite3.Connection:
    """Return a connection to the folder's access file, made with its folder when missing, for its owner alone.

    Autocommit; usable from any one thread at a time.

    Raises:
        StoreError: it cannot be opened, or is something else.
        StoreTooNewError: a newer Tracehold wrote it.
    """
    path = folder / FILE_NAME
    prepare_folder(folder)
    try:
        make_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {path}: {error}") from error
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        _refuse_newer(path, version)
        connection.execute("PRAGMA journal_mode = WAL")
        # What is committed survives the process; a key's change is made to survive a power cut too, see `changing`.
        connection.execute("PRAGMA synchronous = NORMAL")
        if version < _VERSION:
            connection.executescript(_SCHEMA)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"cannot use {path}: {error}. Restore it from a backup") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_newer(path: Path, version: int) -> None:
    if version > _VERSION:
        raise StoreTooNewError(f"{path} was written by a newer Tracehold; it was left untouched. Use that version")


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection for the length of the block; errors as in `open_file`."""
    with closing(open_file(folder)) as connection:
        yield connection


@contextmanager
def changing(connection: sqlite3.Connection) -> Iterator[None]:
    """One durable transaction, all or nothing.

    Raises:
        StoreError: the file cannot be written; nothing was changed.
    """
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            connection.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error as error:
        raise StoreError(f"cannot write {FILE_NAME}: {error}; nothing was changed") from error


def server_secret(folder: Path, *, may_create: bool) -> bytes:
    """Return the secret behind the hashes of the keys, 32 bytes, from a file of its own.

    Args:
        folder: the data folder.
        may_create: whether no key was made yet; with keys, a new secret would lock every one of them out.

    Raises:
        StoreError: it cannot be read or made.
    """
    path = folder / SECRET_FILE
    there = path.exists()
    secret = load_or_create_key(path, may_create=may_create, without="no API key made so far can be checked")
    if not there:
        give_to_owner_of_folder(path)
    return secret
