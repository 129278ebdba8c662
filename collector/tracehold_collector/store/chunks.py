"""How contents are kept: the contents of one run's events in one commit, compressed together and sealed.

Only this module knows the form. A decoder packs, the writer seals, whoever reads opens. Each content has a salt of its
own inside, so that its commitment in the audit log cannot be guessed once the chunk is gone:

    packed = for each content, salt (32 random bytes) || length (uint32, big-endian); then one zstd frame (RFC 8878) of
             the JSON array of all of them
    sealed = what `Vault.seal` makes of that
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson
import zstandard
from tracehold.core.jsontext import dumps

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.vault import DestroyedKeyError, Place, Vault

PLAIN: Final = "zstd+json/1"
"""The frame alone, of a store from before there were keys."""

PACKED: Final = "packed/1"
"""On its way from a decoder to the writer."""

SEALED: Final = "sealed/1"

MAX_CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Contents of a run are split before a chunk's JSON grows beyond this, so that reading one event stays cheap."""

SALT_BYTES: Final = 32
_ENTRY: Final = struct.Struct(f">{SALT_BYTES}sI")
_MAX_READ_BYTES: Final = 256 * 1024 * 1024

_ours = threading.local()
"""A compressor a thread: they let go of the interpreter while they work, and are not to be used by two at once."""


class Chunk(NamedTuple):
    """A row of `contents`, as `CHUNK_COLUMNS` reads it; `body` is not NULL."""

    chunk_id: uuid.UUID
    tenant: str
    run_id: str
    codec: str
    key_id: uuid.UUID | None
    entries: int
    body: bytes

    @property
    def place(self) -> Place:
        """What it is bound to."""
        return Place(self.chunk_id, self.tenant, self.run_id)


CHUNK_COLUMNS: Final = ", ".join(Chunk._fields)


class Entry(NamedTuple):
    """One content as its event's commitment has it; `salt` is empty where there was no commitment yet."""

    salt: bytes
    content: bytes


def pack(contents: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Return `contents`, each the JSON of one event's content, as one packed chunk; and the commitment to each."""
    salts = os.urandom(SALT_BYTES * len(contents))
    sha256 = hashlib.sha256
    heads: list[bytes] = []
    commitments: list[bytes] = []
    for place, content in enumerate(contents):
        salt = salts[place * SALT_BYTES : (place + 1) * SALT_BYTES]
        heads.append(_ENTRY.pack(salt, len(content)))
        commitments.append(sha256(salt + content).digest())
    heads.append(_compress(b"[" + b",".join(contents) + b"]"))
    return b"".join(heads), commitments


BLANK: Final = Entry(bytes(SALT_BYTES), b"{}")
"""What stands in a chunk that was sealed again where an erased content was, so that the others keep their places."""


def repack(entries: Sequence[Entry]) -> bytes:
    """Return contents with the salts they have as one packed chunk."""
    heads = [_ENTRY.pack(entry.salt, len(entry.content)) for entry in entries]
    frame = _compress(b"[" + b",".join(entry.content for entry in entries) + b"]")
    return b"".join((*heads, frame))


def commitment_of(entry: Entry) -> bytes:
    """Return the commitment to a content."""
    return hashlib.sha256(entry.salt + entry.content).digest()


def seal_chunk(vault: Vault, place: Place, packed: bytes) -> tuple[uuid.UUID, bytes]:
    """Return the key id and the body of a packed chunk, sealed.

    Raises:
        StoreError: there is no key to be had.
    """
    return vault.seal(place, packed)


def open_chunk(chunk: Chunk, vault: Vault) -> bytes:
    """Return a chunk as the JSON it was made of, not looked into: for who first asks whether a text is in it at all.

    Raises:
        DestroyedKeyError: it is erased.
        StoreError: the codec is not known here, or the bytes are damaged.
    """
    return _json(_packed(chunk, vault), chunk)


def read_chunk(chunk: Chunk, vault: Vault) -> list[dict[str, Any]]:
    """Return the contents of a chunk, in order.

    Raises:
        DestroyedKeyError: it is erased.
        StoreError: as `open_chunk`.
    """
    return parse_chunk(open_chunk(chunk, vault))


def read_chunks(rows: Iterable[tuple[Any, ...]], vault: Vault) -> Iterator[tuple[uuid.UUID, list[dict[str, Any]]]]:
    """Yield the contents of chunks by id, given rows of `CHUNK_COLUMNS`; those that are erased are left out.

    Raises:
        StoreError: as `open_chunk`.
    """
    for row in rows:
        chunk = Chunk(*row)
        try:
            yield chunk.chunk_id, read_chunk(chunk, vault)
        except DestroyedKeyError:
            continue


def entries_of(chunk: Chunk, vault: Vault) -> list[Entry]:
    """Return each content with its salt, exactly as its commitment has it.

    Raises:
        DestroyedKeyError: it is erased.
        StoreError: as `open_chunk`; also when the contents are not where the chunk says.
    """
    packed = _packed(chunk, vault)
    text = _json(packed, chunk)
    if chunk.codec == PLAIN:
        return [Entry(b"", orjson.dumps(content)) for content in parse_chunk(text)]
    found: list[Entry] = []
    start = 1
    for place in range(chunk.entries):
        salt, length = _ENTRY.unpack_from(packed, place * _ENTRY.size)
        found.append(Entry(salt, text[start : start + length]))
        start += length + 1
    if start != len(text):
        raise StoreError(f"a content chunk of {len(chunk.body)} bytes is damaged: its contents do not fill it")
    return found


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


def unpack_chunk(packed: bytes, entries: int) -> list[dict[str, Any]]:
    """Return the contents of a chunk that is not sealed yet.

    Raises:
        StoreError: the bytes are damaged.
    """
    return parse_chunk(_unframe(packed[entries * _ENTRY.size :]))


def encode_content(content: dict[str, Any]) -> bytes:
    """Return one event's content as the JSON that `pack` joins."""
    return dumps(content)


def _compress(text: bytes) -> bytes:
    compressor: zstandard.ZstdCompressor | None = getattr(_ours, "compressor", None)
    if compressor is None:
        compressor = _ours.compressor = zstandard.ZstdCompressor(level=3)
    return compressor.compress(text)


def _packed(chunk: Chunk, vault: Vault) -> bytes:
    if chunk.codec == SEALED and chunk.key_id is not None:
        return vault.open(chunk.place, chunk.key_id, chunk.body)
    if chunk.codec == PLAIN:
        return chunk.body
    raise StoreError(f"a content chunk is written as {chunk.codec!r}, this Tracehold reads {SEALED!r} and {PLAIN!r}")


def _json(packed: bytes, chunk: Chunk) -> bytes:
    return _unframe(packed if chunk.codec == PLAIN else packed[chunk.entries * _ENTRY.size :])


def _unframe(frame: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=_MAX_READ_BYTES)
    except zstandard.ZstdError as error:
        raise StoreError(f"a content chunk of {len(frame)} bytes is damaged: {type(error).__name__}") from error
