"""How contents are kept: the contents of one run's events in one commit, compressed together.

`write_chunk` and `open_chunk` are the only two that know the form; sealing changes these two and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
import zstandard
from tracehold.core.jsontext import dumps

from tracehold_collector.core.errors import StoreError

CODEC: Final = "zstd+json/1"
"""A JSON array, one element an event, as one zstd frame (RFC 8878)."""

MAX_CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Contents of a run are split before a chunk's JSON grows beyond this, so that reading one event stays cheap."""

_MAX_READ_BYTES: Final = 256 * 1024 * 1024

_compressor = zstandard.ZstdCompressor(level=3)


def write_chunk(contents: Sequence[bytes]) -> bytes:
    """Return one chunk holding `contents`, each the JSON of one event's content, in order.

    Not safe for use from several threads at once: the one writer calls it.
    """
    return _compressor.compress(b"[" + b",".join(contents) + b"]")


def read_chunk(body: bytes, codec: str) -> list[dict[str, Any]]:
    """Return the contents of a chunk, in order.

    Raises:
        StoreError: the codec is not known here, or the bytes are damaged.
    """
    return parse_chunk(open_chunk(body, codec))


def open_chunk(body: bytes, codec: str) -> bytes:
    """Return a chunk as the JSON it was made of, not looked into: for who first asks whether a text is in it at all.

    Raises:
        StoreError: as `read_chunk`.
    """
    if codec != CODEC:
        raise StoreError(f"a content chunk is written as {codec!r}, this Tracehold reads {CODEC!r}")
    try:
        return zstandard.ZstdDecompressor().decompress(body, max_output_size=_MAX_READ_BYTES)
    except zstandard.ZstdError as error:
        raise StoreError(f"a content chunk of {len(body)} bytes is damaged: {type(error).__name__}") from error


def parse_chunk(opened: bytes) -> list[dict[str, Any]]:
    """Return the contents in what `open_chunk` returned.

    Raises:
        StoreError: the bytes are damaged.
    """
    try:
        contents: list[dict[str, Any]] = orjson.loads(opened)
    except orjson.JSONDecodeError as error:
        raise StoreError(f"a content chunk of {len(opened)} bytes is damaged: {type(error).__name__}") from error
    return contents


def encode_content(content: dict[str, Any]) -> bytes:
    """Return one event's content as the JSON that `write_chunk` joins."""
    return dumps(content)
