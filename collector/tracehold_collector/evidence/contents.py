"""What events said, with the salt of each, as their commitments have it; and what became of what is not there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import duckdb
import pyarrow as pa

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.vault import DestroyedKeyError, Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, Entry, commitment_of, entries_of

_CHUNKS: Final = f"""
SELECT {CHUNK_COLUMNS}
FROM contents
WHERE chunk_id IN (SELECT unnest($chunks::UUID[]))
"""  # noqa: S608 - a constant

State = Literal["told", "erased", "damaged", "missing"]
"""Of what an event said: it is here; an erasure took it; it is there, but cannot be read; it is gone, and no erasure
says so."""


class Said(NamedTuple):
    """What an event said.

    Attributes:
        event_id: the event's.
        state: whether it is here.
        salt: of its commitment, when it is here.
        content: the exact text, when it is here.
        erasure_id: which erasure took it.
    """

    event_id: str
    state: State
    salt: bytes | None = None
    content: bytes | None = None
    erasure_id: str | None = None


class _Event(NamedTuple):
    event_id: str
    position: int
    commitment: bytes | None
    erasure_id: str | None


def read_contents(
    cursor: duckdb.DuckDBPyConnection, vault: Vault, batch: pa.RecordBatch, erased: Mapping[int, str]
) -> Iterator[Said]:
    """Yield what the events of a batch said, in no order, a chunk of contents in memory at a time.

    Args:
        cursor: the reader's own, not the one that the batch is read with.
        vault: opens contents.
        batch: with the columns of `records.COLUMNS`; events that said nothing are left out.
        erased: erasures by the leaves they are about.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    wanted: dict[uuid.UUID, list[_Event]] = {}
    names = ("event_id", "content_chunk", "content_pos", "commitment", "leaf_index")
    for event_id, chunk_id, position, commitment, leaf in zip(
        *(batch.column(name).to_pylist() for name in names), strict=True
    ):
        if chunk_id is not None:
            event = _Event(event_id, position, commitment, erased.get(leaf))
            wanted.setdefault(uuid.UUID(chunk_id), []).append(event)
    cursor.execute(_CHUNKS, {"chunks": list(wanted)})
    while row := cursor.fetchone():
        chunk = Chunk(*row)
        entries = _entries(chunk, vault)
        for event in wanted.pop(chunk.chunk_id, ()):
            yield _said(event, entries)
    for events in wanted.values():
        yield from (_not_there(event, "missing") for event in events)


def _entries(chunk: Chunk, vault: Vault) -> Sequence[Entry] | State:
    if chunk.body is None:
        return "missing"
    try:
        return entries_of(chunk, vault)
    except DestroyedKeyError:
        return "missing"
    except StoreError:
        return "damaged"


def _said(event: _Event, entries: Sequence[Entry] | State) -> Said:
    if isinstance(entries, str):
        return _not_there(event, entries)
    if event.position is None or not 0 <= event.position < len(entries):
        return _not_there(event, "damaged")
    entry = entries[event.position]
    if event.erasure_id is not None and commitment_of(entry) != event.commitment:
        return _not_there(event, "missing")
    # Told even when it is not what was committed to: the verifier says so, and by whose hand is not for us to judge.
    return Said(event.event_id, "told", entry.salt, entry.content)


def _not_there(event: _Event, otherwise: State) -> Said:
    if event.erasure_id is None:
        return Said(event.event_id, otherwise)
    return Said(event.event_id, "erased", erasure_id=event.erasure_id)
