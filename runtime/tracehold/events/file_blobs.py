"""Blobs as files of one folder.

root/incoming/               files that are being written
root/plain/ab/abcd...        blobs that are bound to no stream, by their digest
root/12/1234.../abcd...      blobs of one stream, by the stream's salt and their digest
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Final

from tracehold.events.blob_store import (
    OCTETS,
    PLAIN,
    Place,
    as_bytes,
    bucket_of_stream,
    changed,
    check,
    listed_ref,
    missing,
    new_ref,
    place_of,
)
from tracehold.events.event import BlobRef

_INCOMING: Final = "incoming"
_ATTEMPTS: Final = 100
_STALE_S: Final = 3600.0
_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)


class FileBlobStore:
    """Blobs as files under `root`, each readable by its owner only (BLB-01).

    A blob is there as a whole or not at all, also after a power cut. Several processes may share the folder. All work
    is done in threads, so that the event loop stays free.

    Args:
        root: the folder; made when it is missing.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self._incoming = self.root / _INCOMING
        self._incoming.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._swept = False

    async def put(self, data: bytes, media_type: str = OCTETS) -> BlobRef:
        """Keep `data` and return how to find it; the same bytes are kept once.

        Raises:
            OSError: the folder cannot be written.
        """
        data = as_bytes(data)
        return await asyncio.to_thread(self._put, data, media_type)

    async def get(self, ref: BlobRef) -> bytes:
        """Return the bytes.

        Raises:
            FileNotFoundError: it is not here.
            BlobIntegrityError: the file has changed.
        """
        return await asyncio.to_thread(self._get, ref)

    async def exists(self, ref: BlobRef) -> bool:
        """Whether it is here."""
        place = place_of(ref)
        return place is not None and await asyncio.to_thread(_is_file, self._path(place))

    async def delete(self, ref: BlobRef) -> None:
        """Remove the file; one that is not here is no error."""
        place = place_of(ref)
        if place is not None:
            await asyncio.to_thread(self._delete, place)

    async def of_stream(self, stream: str) -> list[BlobRef]:
        """Return the blobs that are bound to a stream."""
        return await asyncio.to_thread(self._of_stream, bucket_of_stream(stream))

    def _path(self, place: Place) -> Path:
        if place.bucket == PLAIN:
            return self.root / PLAIN / place.sha256[:2] / place.sha256
        return self.root / place.bucket[:2] / place.bucket / place.sha256

    def _put(self, data: bytes, media_type: str) -> BlobRef:
        self._sweep_once()
        ref = new_ref(data, media_type)
        place = place_of(ref)
        if place is None:
            raise AssertionError("a new reference has a place")
        path = self._path(place)
        for attempt in range(_ATTEMPTS):
            if _holds(path, data):
                break
            try:
                self._write(path, place, data)
            except (FileNotFoundError, FileExistsError):
                # A deletion beside this removes the emptied folder, here between its making and its use.
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                break
        return ref

    def _write(self, path: Path, place: Place, data: bytes) -> None:
        path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        temporary = self._incoming / f"{place.bucket}.{place.sha256}.{secrets.token_hex(8)}"
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, _PRIVATE)
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        for folder in (path.parent, path.parent.parent, self.root):
            _sync_folder(folder)

    def _get(self, ref: BlobRef) -> bytes:
        place = place_of(ref)
        if place is None:
            raise missing(ref)
        try:
            file = os.open(self._path(place), os.O_RDONLY | _NO_LINKS)
        except FileNotFoundError:
            raise missing(ref) from None
        except OSError as error:
            if error.errno == errno.ELOOP:  # somebody put a link in its place
                raise changed(ref) from None
            raise
        with os.fdopen(file, "rb") as stream:
            # Before it is read: what was put there instead may be larger than memory.
            if os.fstat(stream.fileno()).st_size != ref.size:
                raise changed(ref)
            return check(ref, stream.read())

    def _delete(self, place: Place) -> None:
        path = self._path(place)
        for leftover in self._incoming.glob(f"{place.bucket}.{place.sha256}.*"):
            leftover.unlink(missing_ok=True)  # of a writer that was killed: it holds the content too
        path.unlink(missing_ok=True)
        _sync_folder(path.parent)
        with contextlib.suppress(OSError):  # not empty, or gone
            path.parent.rmdir()
            path.parent.parent.rmdir()

    def _of_stream(self, bucket: str) -> list[BlobRef]:
        found: list[BlobRef] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root / bucket[:2] / bucket) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    ref = listed_ref(Place(bucket, entry.name), entry.stat(follow_symlinks=False).st_size)
                    if place_of(ref) is not None:
                        found.append(ref)
        return sorted(found, key=lambda ref: ref.sha256)

    def _sweep_once(self) -> None:
        """Remove what writers that were killed have left behind; they hold content that nobody points to."""
        if self._swept:
            return
        self._swept = True
        oldest = time.time() - _STALE_S
        for leftover in self._incoming.iterdir():
            with contextlib.suppress(OSError):
                if leftover.lstat().st_mtime < oldest:
                    leftover.unlink()


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _holds(path: Path, data: bytes) -> bool:
    """Whether the file is there and whole; one that was changed is written anew."""
    try:
        file = os.open(path, os.O_RDONLY | _NO_LINKS)
    except OSError:
        return False
    with os.fdopen(file, "rb") as stream:
        return os.fstat(stream.fileno()).st_size == len(data) and stream.read() == data


def _sync_folder(folder: Path) -> None:
    """Make a rename or removal survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
