"""Makes the content of a manifest unreadable: its keys are destroyed, and what shared a key with it is sealed again.

Sealed again first, destroyed then: a crash in between leaves both, and the next start goes on. Keys with nothing to
save go before all others.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import duckdb
from tracehold.core.clock import now_ns

from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.steps import tell
from tracehold_collector.sealing.vault import DestroyedKeyError, Vault
from tracehold_collector.store.chunks import BLANK, CHUNK_COLUMNS, SEALED, Chunk, entries_of, repack, seal_chunk
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer

_LOT: Final = 64
"""Chunks that are sealed again in one transaction: half a second at most, of chunks as large as they get."""

_WAIT_S: Final = 600.0

# Of the manifest's keys, the chunks in which something stays: an event that no erasure is about. And of chunks from
# before there were keys.
_STAYING: Final = """
WITH theirs AS (
    SELECT chunk_id, key_id
    FROM contents
    WHERE tenant = $tenant
      AND body IS NOT NULL
      AND (
          key_id IN (SELECT key_id FROM erased_keys WHERE erasure_id = $erasure)
          OR key_id IS NULL AND chunk_id IN (
              SELECT content_chunk
              FROM events
              WHERE tenant = $tenant
                AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
          )
      )
)
SELECT content_chunk, key_id, list(content_pos)
FROM events
JOIN theirs ON chunk_id = content_chunk
WHERE tenant = $tenant
  AND event_id NOT IN (SELECT event_id FROM erased_events WHERE tenant = $tenant)
GROUP BY content_chunk, key_id
"""

_KEYS: Final = "SELECT key_id FROM erased_keys WHERE erasure_id = $erasure"

_Kept = tuple[uuid.UUID, uuid.UUID | None, list[int]]
"""A chunk, its key, and the places of the contents that stay."""


class Sealer:
    """Destroys the keys of an erasure, and saves what they hold beside it.

    Args:
        database: the open store.
        writer: swaps chunks, and keeps everybody from sealing while keys are destroyed.
        stopping: whether to stop; what is done stays done.
    """

    def __init__(self, database: Database, writer: Writer, stopping: Callable[[], bool]) -> None:
        self._database = database
        self._writer = writer
        self._stopping = stopping

    def make_unreadable(self, record: ErasureRecord, at_ns: int) -> bool:
        """Destroy the keys of a frozen manifest; return whether all are, which they are not when it was stopped.

        May be called again.

        Raises:
            StoreError: the store or the key store failed; what is done stays done.
            duckdb.Error: as above.
        """
        given = {"tenant": record.tenant, "erasure": record.id}
        with self._database.cursor() as cursor:
            keys = {row[0] for row in cursor.execute(_KEYS, {"erasure": record.id}).fetchall()}
            staying: list[_Kept] = cursor.execute(_STAYING, given).fetchall()
        shared = {key_id for _, key_id, _ in staying if key_id is not None}
        self._destroy(keys - shared, record, at_ns)
        for lot in _lots(staying, _LOT):
            if self._stopping():
                return False
            self._seal_again(lot, record)
        self._destroy(shared, record, at_ns)
        return True

    def _destroy(self, keys: set[uuid.UUID], record: ErasureRecord, at_ns: int) -> None:
        if keys:
            vault = self._database.vault
            self._writer.run(lambda _: vault.destroy(keys, record.id, at_ns)).result(_WAIT_S)

    def _seal_again(self, lot: Sequence[_Kept], record: ErasureRecord) -> None:
        kept: dict[uuid.UUID, set[int]] = {chunk_id: set(places) for chunk_id, _, places in lot}
        self._writer.run(lambda committer: _swap(committer, self._database.vault, kept, record)).result(_WAIT_S)


def _swap(committer: Committer, vault: Vault, kept: dict[uuid.UUID, set[int]], record: ErasureRecord) -> None:
    """Put chunks that hold only what stays in the place of those that hold all; on the writer's thread."""
    with committer.transaction() as connection:
        rows = connection.execute(
            f"SELECT {CHUNK_COLUMNS}, received_at FROM contents "  # noqa: S608 - column names of ours
            "WHERE tenant = $tenant AND chunk_id IN (SELECT unnest($chunks::UUID[])) AND body IS NOT NULL",
            {"tenant": record.tenant, "chunks": list(kept)},
        ).fetchall()
        sealed = [row for row in (_sealed_again(vault, row, kept) for row in rows) if row is not None]
        _replace(connection, record.tenant, sealed)
        tell(connection, record.id, record.tenant, "lot", now_ns(), resealed=len(sealed))


def _sealed_again(vault: Vault, row: tuple[Any, ...], kept: dict[uuid.UUID, set[int]]) -> list[Any] | None:
    *columns, received_at = row
    chunk = Chunk(*columns)
    try:
        entries = entries_of(chunk, vault)
    except DestroyedKeyError:
        return None  # another erasure was first
    stays = kept[chunk.chunk_id]
    rest = [entry if place in stays else BLANK for place, entry in enumerate(entries)]
    key_id, body = seal_chunk(vault, chunk.place, repack(rest))
    return [chunk.chunk_id, chunk.tenant, chunk.run_id, SEALED, chunk.entries, body, received_at, key_id]


def _replace(connection: duckdb.DuckDBPyConnection, tenant: str, rows: Sequence[list[Any]]) -> None:
    """The same ids: rows of `events`, which never change, point to them."""
    if not rows:
        return
    connection.execute(
        "DELETE FROM contents WHERE tenant = ? AND chunk_id IN (SELECT unnest(?::UUID[]))",
        [tenant, [row[0] for row in rows]],
    )
    connection.executemany(
        "INSERT INTO contents (chunk_id, tenant, run_id, codec, entries, body, received_at, key_id) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def _lots(items: Sequence[_Kept], size: int) -> Iterator[Sequence[_Kept]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
