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
from tracehold_collector.store.chunks import CHUNK_COLUMNS, SEALED, Chunk, entries_of, open_chunk
from tracehold_collector.store.database import Database
from tracehold_collector.store.scan import files_under, scan_apart

_log = structlog.get_logger(__name__)

_CHUNKS: Final = 50
"""Chunks of which pieces are taken, spread over all of a manifest."""

_OTHER_BYTES: Final = 100_000
_PIECE_BYTES: Final = 24
_TELLING: Final = 10
"""Different bytes a piece has at least: twenty-four spaces would be found anywhere."""

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


# Some chunks that stay: words that they have as well, such as a system prompt, tell of nobody. Chosen by id first, or
# the bodies of all of them would be read.
_OTHERS: Final = f"""
SELECT {CHUNK_COLUMNS}
FROM contents
WHERE tenant = $tenant
  AND octet_length(body) <= {_OTHER_BYTES}
  AND chunk_id IN (
      SELECT chunk_id
      FROM contents
      WHERE tenant = $tenant
        AND chunk_id NOT IN (SELECT unnest($chosen::UUID[]))
      ORDER BY hash(chunk_id)
      LIMIT {_CHUNKS}
  )
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
            given = {"tenant": record.tenant, "erasure": record.id}
            chunks = [Chunk(*row) for row in cursor.execute(_SAMPLE, given).fetchall()]
            chosen = {"tenant": record.tenant, "chosen": [chunk.chunk_id for chunk in chunks]}
            others = [Chunk(*row) for row in cursor.execute(_OTHERS, chosen).fetchall()] if chunks else []
        common = b"".join(self._opened(chunk) for chunk in others)
        plain = tuple(piece for piece in self._plain_pieces(chunks) if piece not in common)
        with self._lock:
            self._plain[record.id] = self._plain.get(record.id) or plain
        return [_middle(chunk.body) for chunk in chunks if chunk.codec == SEALED]

    def scan(self, record: ErasureRecord, sealed: Sequence[bytes]) -> Canaries:
        """Look for the pieces in every file.

        Raises:
            StoreError: the search could not be made; it is to be tried again.
        """
        with self._lock:
            plain = self._plain.get(record.id, ())
        pieces = (*sealed, *plain)
        if not pieces:
            return Canaries(0, 0, {}, 0, 0)
        # Apart: to close one of the store's files in this process would end its locks on it.
        scanned = scan_apart(self._files(), pieces)
        found: dict[str, int] = {}
        for finding in scanned.findings:
            name = Path(finding.path).name
            found[name] = found.get(name, 0) + 1
        if found:
            _log.error("erased_content_found", erasure=record.id, files=sorted(found))
        return Canaries(len(sealed), len(plain), found, scanned.files, scanned.bytes_read)

    def _opened(self, chunk: Chunk) -> bytes:
        try:
            return open_chunk(chunk, self._database.vault)
        except StoreError:
            return b""  # erased, or damaged

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
            yield from files_under(place) if place.is_dir() else [place]


def _middle(body: bytes) -> bytes:
    middle = len(body) // 2
    return bytes(body[middle : middle + _PIECE_BYTES])
