"""A zip file that goes out as it is made: nothing of it lies on a disk here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any, Final

_PIECE: Final = 256 * 1024
_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The same bytes for the same answer, whenever it is made."""


class ZipStream:
    """Writes files one after the other; `taken` gives the bytes so far. Files beyond 4 GiB are well."""

    def __init__(self) -> None:
        """Begin empty."""
        self._sink = _Sink()
        self._zip = zipfile.ZipFile(self._sink, "w", zipfile.ZIP_DEFLATED, compresslevel=6)

    def add(self, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Write one file, and yield what the zip file grew by, in pieces of some size."""
        info = zipfile.ZipInfo(name, _DATE)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        with self._zip.open(info, "w", force_zip64=True) as file:
            for piece in pieces:
                file.write(piece)
                if self._sink.waiting >= _PIECE:
                    yield self._sink.taken()
        yield self._sink.taken()

    def end(self) -> bytes:
        """Write the directory of the zip file: without it, it is none."""
        self._zip.close()
        return self._sink.taken()


class _Sink(io.RawIOBase):
    """A file that cannot be gone back in, whose bytes are taken away as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self.waiting = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        self.waiting += len(data)
        return len(data)

    def taken(self) -> bytes:
        pieces, self._pieces, self.waiting = self._pieces, [], 0
        return b"".join(pieces)
