"""Exchanges the store's file for another one: at any moment one whole store stands under its name.

Closing any descriptor of a file ends every lock that this process has on it (POSIX `fcntl`), and with it DuckDB's lock
that keeps a second collector away. So nothing here, and nothing else in this process, opens the file while it is open.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from pathlib import Path
from typing import Final

from tracehold_collector.core.errors import StoreError

_RELEASED_WITHIN_S: Final = 2.0
_ZEROS: Final = bytes(1 << 20)


def wal_of(path: Path) -> Path:
    """Return the write-ahead file of a DuckDB file."""
    return path.with_name(path.name + ".wal")


def new_file_of(path: Path) -> Path:
    """Return where the new store is made: beside the old one, since renaming is atomic within a file system only."""
    return path.with_name(path.name + ".new")


def remove_new(path: Path) -> None:
    """Remove an unfinished new store, its write-ahead file and what DuckDB put aside for it."""
    new = new_file_of(path)
    for file in (new, wal_of(new)):
        file.unlink(missing_ok=True)
    _remove_temporary(new)


def remove_leftovers(path: Path) -> None:
    """Remove what a process that was killed left beside the store at `path`; only while that is open.

    Rows that DuckDB put aside for lack of memory may be content, so they go as well.
    """
    remove_new(path)
    _remove_temporary(path)


def check_released(path: Path) -> None:
    """Make sure that this process has the file open nowhere: DuckDB would go on with it, and its write-ahead file.

    Raises:
        StoreError: it has.
    """
    deadline = time.monotonic() + _RELEASED_WITHIN_S
    while _is_open(path):
        gc.collect()
        if time.monotonic() > deadline:
            raise StoreError(f"{path} is still being read; it was left as it was")
        time.sleep(0.01)
    wal = wal_of(path)
    if wal.exists() and wal.stat().st_size:
        raise StoreError(f"{wal} was not taken into the store; the file was left as it was")
    wal.unlink(missing_ok=True)


def put_in_place(new: Path, path: Path) -> int | None:
    """Rename `new` to `path`, on the disk when this returns; both are closed.

    Returns:
        A descriptor of the file that was there, or `None` when that has another name still.

    Raises:
        StoreError: nothing was changed.
    """
    wal = wal_of(new)
    if wal.exists() and wal.stat().st_size:
        raise StoreError(f"{wal} was not taken into the new store; the old one stays")
    wal.unlink(missing_ok=True)
    old: int | None = None
    try:
        _sync(new)
        if path.stat().st_nlink == 1:
            old = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        new.replace(path)
    except OSError as error:
        if old is not None:
            os.close(old)
        raise StoreError(f"cannot put {new} in the place of {path}: {error.strerror}; the old store stays") from error
    with contextlib.suppress(OSError):  # after a power cut either name is right: both files are whole
        _sync(path.parent)
    return old


def overwrite(descriptor: int) -> bool:
    """Fill a file with zeros and close it; say whether the file system took them."""
    try:
        left = os.fstat(descriptor).st_size
        os.lseek(descriptor, 0, os.SEEK_SET)
        while left > 0:
            left -= os.write(descriptor, _ZEROS[: min(left, len(_ZEROS))])
        os.fsync(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_open(path: Path) -> bool:
    try:
        wanted = path.stat()
        numbers = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 - a few hundred names at most
    except OSError:
        return False
    for number in numbers:
        with contextlib.suppress(OSError):
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_temporary(path: Path) -> None:
    folder = path.with_name(path.name + ".tmp")
    for file in folder.glob("duckdb_temp_*"):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
