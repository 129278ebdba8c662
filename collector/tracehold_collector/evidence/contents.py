"""What events said, with the salt of each, as their commitments have it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

import duckdb
import pyarrow as pa

from tracehold_collector.sealing.vault import DestroyedKeyError, Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, Entry, entries_of

_CHUNKS: Final = f"""
SELECT {CHUNK_COLUMNS}
FROM contents
WHERE chunk_id IN (SELECT unnest($chunks::UUID[])) AND body IS NOT NULL
"""  # noqa: S608 - a constant


def read_contents(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, batch: pa.RecordBatch
) -> Iterator[tuple[str, Entry | None]]:
    """Yield what the events of a batch said, in no order, a chunk of contents in memory at a time.

    Args:
        cursor: the reader's own, not the one that the batch is read with.
        vault: opens contents.
        batch: with the columns of `records.COLUMNS`; events that said nothing are left out.

    Yields:
        An event's id, and what it said with its salt; `None` where that was erased.

    Raises:
        duckdb.Error, StoreError: the store cannot be read.
    """
    wanted: dict[uuid.UUID, list[tuple[str, int]]] = {}
    columns = (batch.column(name).to_pylist() for name in ("event_id", "content_chunk", "content_pos"))
    for event_id, chunk_id, position in zip(*columns, strict=True):
        if chunk_id is not None:
            wanted.setdefault(uuid.UUID(chunk_id), []).append((event_id, position))
    cursor.execute(_CHUNKS, {"chunks": list(wanted)})
    while row := cursor.fetchone():
        chunk = Chunk(*row)
        try:
            entries = entries_of(chunk, vault)
        except DestroyedKeyError:
            continue
        for event_id, position in wanted.pop(chunk.chunk_id, ()):
            entry = entries[position]
            # Without a salt there never was a commitment, and what stands there cannot be checked.
            yield event_id, entry if entry.salt else None
    for events in wanted.values():
        yield from ((event_id, None) for event_id, _ in events)
