"""Events that could not be sent yet, on disk: a folder of small NDJSON files that several processes share.

A file is written under a temporary name, synced and renamed, so a name that ends in `.ndjson` is complete.
Whoever holds the lock (`flock`) on a file may send it, and removes it when the collector has taken it. The
kernel drops the lock of a process that dies, so its files are simply taken over; the worst a crash can do is
a second sending, which the collector recognises by the event ids.

What a crash leaves behind, and what the next reader does:

- a temporary file with some lines in it: its complete lines are sent as if it had been renamed;
- an empty temporary file: removed once it is an hour old, since its owner may be about to write;
- a file cut or damaged by the disk: the good lines are sent, then the file is put aside as `.bad`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from tracehold.core.clock import NS_PER_S, now_ns

_log = logging.getLogger(__name__)

_READY = ".ndjson"
_PART = ".part"
_BAD = ".bad"
_KEPT_BAD = 16
_EMPTY_PART_AGE_NS = 3600 * NS_PER_S
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
# Without O_NONBLOCK a named pipe in the folder would hang the reader.
_OLD_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_numbers = itertools.count()


class SpoolFullError(OSError):
    """The spool holds as many bytes as it may."""


class Claim:
    """A spool file that this process alone may send, until `ack` or `release`.

    Attributes:
        name: the file's name inside the spool.
        lines: its events, without newlines.
    """

    def __init__(self, spool: Spool, name: str, fd: int, lines: list[bytes], damaged: bool) -> None:
        """Hold the locked descriptor."""
        self.name = name
        self.lines = lines
        self._spool = spool
        self._fd = fd
        self._damaged = damaged

    def ack(self) -> None:
        """The collector has taken the events: remove the file, or put a damaged one aside."""
        if self._damaged:
            self._spool.set_aside(self.name)
        else:
            with contextlib.suppress(OSError):
                (self._spool.path / self.name).unlink()
        self.release()

    def release(self) -> None:
        """Let others have the file."""
        if self._fd < 0:
            return
        # Closing is not enough: a child forked meanwhile shares the lock through its copy of the descriptor.
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close the descriptor only; in a forked child the lock is still the parent's."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


class Spool:
    """One folder of unsent events. Not for concurrent use by threads; any number of processes may share it."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Touch nothing yet; the folder is made by the first `write`.

        Args:
            path: the folder, one for each address and key.
            max_bytes: how much its files may hold together; an older process's files count.
        """
        self.path = path
        self._max_bytes = max_bytes

    def write(self, lines: Sequence[bytes]) -> str:
        """Keep `lines` safe from a crash of the process and of the machine; return the file's name.

        Raises:
            SpoolFullError: the lines do not fit; nothing was written.
            OSError: the folder cannot be written or is not ours alone; nothing was written.
        """
        body = b"\n".join(lines) + b"\n"
        self._prepare()
        if self.size_bytes() + len(body) > self._max_bytes:
            raise SpoolFullError(f"the spool may hold {self._max_bytes} bytes")
        # Names sort by age. The process id and number keep two writers of one nanosecond apart.
        name = f"{now_ns():020d}-{os.getpid()}-{next(_numbers)}{_READY}"
        part = self.path / (name + _PART)
        fd = os.open(part, _NEW_FILE, 0o600)
        try:
            # Tells a living writer from a dead one; see `_adopt`.
            _try_lock(fd)
            _write_all(fd, body)
            os.fsync(fd)
            part.rename(self.path / name)
            _sync_folder(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        finally:
            _unlock_and_close(fd)
        return name

    def names(self) -> list[str]:
        """Return the files that wait, oldest first, after taking over what dead writers left half-written."""
        found = []
        for name, entry in self._entries():
            if name.endswith(_READY):
                found.append(name)
            elif name.endswith(_PART) and self._adopt(name, entry):
                found.append(name.removesuffix(_PART))
        return sorted(found)

    def claim(self, name: str) -> Claim | None:
        """Lock and read a file; `None` when it is gone, is being sent, or holds nothing readable."""
        try:
            fd = os.open(self.path / name, _OLD_FILE)
        except OSError as error:
            # Too many open files is no fault of this one; a symbolic link is nothing we wrote.
            if error.errno == errno.ELOOP:
                self.set_aside(name)
            return None
        claim = Claim(self, name, fd, [], True)
        try:
            if not _try_lock(fd):
                claim.forget()
                return None
            info = os.fstat(fd)
            if info.st_nlink == 0:  # its last owner sent and removed it before we had the lock
                claim.release()
                return None
            if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                claim = Claim(self, name, fd, *_read_lines(fd))
        except OSError:
            claim.lines.clear()
        if not claim.lines:
            claim.ack()
            return None
        return claim

    def exists(self, name: str) -> bool:
        """Say whether a file still waits."""
        return (self.path / name).exists()

    def size_bytes(self) -> int:
        """Return how much the folder holds, in bytes; files put aside do not count."""
        return sum(info.st_size for name, info in self._entries() if not name.endswith(_BAD))

    def set_aside(self, name: str) -> None:
        """Rename a damaged file so that it never stops the others; the oldest of many are removed."""
        bad = self.path / (name + _BAD)
        with contextlib.suppress(OSError):
            (self.path / name).rename(bad)
            _log.warning("A damaged spool file was put aside as %s, after the events in it that can be read.", bad)
        kept = sorted(name for name, _ in self._entries() if name.endswith(_BAD))
        for old in kept[:-_KEPT_BAD]:
            (self.path / old).unlink(missing_ok=True)

    def _prepare(self) -> None:
        """Make the folder, and refuse one that other users can read or put links into."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = self.path.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
            raise PermissionError(f"{self.path} must be a folder that belongs to the user of this process")
        if stat.S_IMODE(info.st_mode) != 0o700:  # noqa: PLR2004 - rwx for the owner
            self.path.chmod(0o700)

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names in the folder with what is known of each; a folder that is not there is empty."""
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.name, entry.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return

    def _adopt(self, name: str, info: os.stat_result) -> bool:
        """Give a dead writer's file its final name. An empty one may have a writer that is about to lock it."""
        path = self.path / name
        if info.st_size == 0:
            if now_ns() - info.st_mtime_ns > _EMPTY_PART_AGE_NS:
                path.unlink(missing_ok=True)
            return False
        try:
            fd = os.open(path, _OLD_FILE)
        except OSError:
            return False
        try:
            if not _try_lock(fd):
                return False
            path.rename(path.with_name(name.removesuffix(_PART)))
        except OSError:
            return False
        finally:
            _unlock_and_close(fd)
        return True


def _try_lock(fd: int) -> bool:
    """Lock a file if nobody else has it. Without locks, say yes: a second sending is recognised."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _unlock_and_close(fd: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _read_lines(fd: int) -> tuple[list[bytes], bool]:
    """Return the lines that are JSON objects, and whether anything else was found."""
    with open(fd, "rb", closefd=False) as file:
        body = file.read()
    lines = body.split(b"\n")
    good = [line for line in lines if _is_object(line)]
    return good, not body.endswith(b"\n") or len(good) != len(lines) - 1


def _is_object(line: bytes) -> bool:
    if not line.startswith(b"{"):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _write_all(fd: int, body: bytes) -> None:
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_folder(path: Path) -> None:
    """Make a rename last through a power cut; some file systems cannot, and the file itself is synced."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
