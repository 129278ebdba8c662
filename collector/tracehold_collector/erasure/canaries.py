"""Looks for pieces of what was erased in every file of the data folder, byte by byte.

Of sealed content the pieces are of the sealed bytes: where they are not, the chunk is not. They are kept with the
erasure, as text, so that the search does not find its own list. Of what was said, as it was said, pieces are kept in
memory only: there are none after a restart, and the record says how many there were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog

from tracehold_collector.core.errors import StoreError
from tracehold_collector.erasure.record import Canaries, ErasureRecord
from tracehold_collector.store.chunks import CHUNK_COLUMNS, SEALED, Chunk, entries_of
from tracehold_collector.store.database import Database

_log = structlog.get_logger(__name__)

_CHUNKS: Final = 50
"""Chunks of which pieces are taken, spread over all of a manifest."""

_PIECE_BYTES: Final = 24
_TELLING: Final = 10
"""Different bytes a piece has at least: twenty-four spaces would be found anywhere."""
_BLOCK_BYTES: Final = 4 * 1024 * 1024

_SAMPLE: Final = f"""
SELECT {CHUNK_COLUMNS}
FROM contents
WHERE tenant = $tenant
  AND body IS NOT NULL
  AND octet_length(body) >= 3 * {_PIECE_BYTES}
  AND chunk_id IN (
      SELECT content_chunk
      FROM events
      WHERE tenant = $tenant
        AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
        AND run_id IN (
            SELECT run_id
            FROM events
            WHERE tenant = $tenant
            GROUP BY run_id
            HAVING count(*) = count(*) FILTER (
                event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
            )
        )
  )
ORDER BY hash(chunk_id)
LIMIT {_CHUNKS}
"""  # noqa: S608 - constants


class CanaryScanner:
    """Takes pieces of what is about to be erased, and looks for them afterwards.

    Args:
        database: the open store.
        folder: every file in it, and in its folders, is read.
        beside: other files and folders to read, such as registered places and logs.
    """

    def __init__(self, database: Database, folder: Path, beside: Sequence[Path] = ()) -> None:
        self._database = database
        self._folders = (folder, *beside)
        self._lock = threading.Lock()
        self._plain: dict[str, tuple[bytes, ...]] = {}

    def remember(self, record: ErasureRecord) -> list[bytes]:
        """Take pieces, and return those of sealed content, to be kept until they are looked for.

        Only of runs that go whole: what is sealed again keeps its words, and those of others would be found.

        Raises:
            duckdb.Error: the store cannot be read.
        """
        with self._database.cursor() as cursor:
            rows = cursor.execute(_SAMPLE, {"tenant": record.tenant, "erasure": record.id}).fetchall()
        chunks = [Chunk(*row) for row in rows]
        plain = self._plain_pieces(chunks)
        with self._lock:
            self._plain[record.id] = self._plain.get(record.id) or plain
        return [_middle(chunk.body) for chunk in chunks if chunk.codec == SEALED]

    def scan(self, record: ErasureRecord, sealed: Sequence[bytes]) -> Canaries:
        """Look for the pieces in every file."""
        with self._lock:
            plain = self._plain.pop(record.id, ())
        pieces = (*sealed, *plain)
        found: dict[str, int] = {}
        files = read = 0
        for path in self._files() if pieces else ():
            try:
                there, size = _found_in(path, pieces)
            except OSError:
                continue  # removed meanwhile, or not to be read by this process
            files += 1
            read += size
            if there:
                found[path.name] = found.get(path.name, 0) + there
        if found:
            _log.error("erased_content_found", erasure=record.id, files=sorted(found))
        return Canaries(len(sealed), len(plain), found, files, read)

    def _plain_pieces(self, chunks: Sequence[Chunk]) -> tuple[bytes, ...]:
        """Of the last words of some contents; and of chunks that are not sealed, of their bytes."""
        pieces: dict[bytes, None] = {}
        for chunk in chunks:
            if chunk.codec != SEALED:
                pieces[_middle(chunk.body)] = None
            try:
                entries = entries_of(chunk, self._database.vault)
            except StoreError:
                continue  # destroyed before a crash
            for entry in entries[:2]:
                start = max(0, len(entry.content) - _PIECE_BYTES - 2)
                piece = entry.content[start : start + _PIECE_BYTES]
                if len(piece) == _PIECE_BYTES and len(set(piece)) >= _TELLING:
                    pieces[piece] = None
        return tuple(pieces)

    def _files(self) -> Iterator[Path]:
        for place in self._folders:
            if place.is_file():
                yield place
            elif place.is_dir():
                yield from (path for path in sorted(place.rglob("*")) if path.is_file() and not path.is_symlink())


def _middle(body: bytes) -> bytes:
    middle = len(body) // 2
    return bytes(body[middle : middle + _PIECE_BYTES])


def _found_in(path: Path, pieces: Sequence[bytes]) -> tuple[int, int]:
    """Return how many of the pieces are in a file, and its size; a piece across two blocks is found as well."""
    there: set[bytes] = set()
    size = 0
    before = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            size += len(block)
            text = before + block
            there.update(piece for piece in pieces if piece not in there and piece in text)
            before = text[-_PIECE_BYTES:]
    return len(there), size
