"""Records as the rows they become in the store, encoded where their body is decoded: the writer only inserts.

Encoding on the one writer thread took as long as inserting; done by the decoders, it runs beside the commits, and what
crosses from a decoder process to the writer is a few buffers instead of objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, overload

import orjson
import pyarrow as pa
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id

from tracehold_collector.core.record import Record
from tracehold_collector.store import chunks
from tracehold_collector.store.columns import (
    CHUNK_SCHEMA,
    EVENT_COLUMNS,
    EVENT_SCHEMA,
    chunk_batch,
    event_batch,
)
from tracehold_collector.store.run_deltas import DELTA_SCHEMA, run_delta_batch

_FIELDS: Final = tuple(name for name, _ in EVENT_COLUMNS)
_NOT_ENCODABLE: Final = (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError)
"""What Arrow and the encoders raise for a value that no column holds."""


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Record]):
    """Some records, encoded; as a sequence it gives them back, decoded when they are asked for.

    Attributes:
        events, deltas, contents: rows of the tables of these names (`deltas`: of `run_deltas`), all their columns but
            `received_at`, which the commit adds, and those that the audit log fills.
    """

    events: pa.RecordBatch
    deltas: pa.RecordBatch
    contents: pa.RecordBatch

    def __len__(self) -> int:
        """Records."""
        return int(self.events.num_rows)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | Sequence[Record]:
        """Decode; whoever wants many iterates once."""
        return self.records()[place]

    def __iter__(self) -> Iterator[Record]:
        """Decode."""
        return iter(self.records())

    @property
    def ids(self) -> bytes:
        """The event ids, 16 bytes each, one behind the other."""
        return _joined(self.events.column("event_id").storage)

    @property
    def digests(self) -> bytes | None:
        """What the audit log commits to of each event, 32 bytes each; `None` when they were encoded without."""
        column = self.events.column("digest")
        return None if column.null_count else _joined(column)

    def records(self) -> list[Record]:
        """Return the records as they were before `encode`."""
        columns = {name: self.events.column(name).to_pylist() for name in _FIELDS}
        ids = self.events.column("event_id").to_pylist()
        attributes = self.events.column("attributes").to_pylist()
        chunk_of = self.events.column("content_chunk").to_pylist()
        position_of = self.events.column("content_pos").to_pylist()
        contents = dict(
            zip(
                self.contents.column("chunk_id").to_pylist(),
                (
                    chunks.unpack_chunk(body, entries)
                    for body, entries in zip(
                        self.contents.column("body").to_pylist(),
                        self.contents.column("entries").to_pylist(),
                        strict=True,
                    )
                ),
                strict=True,
            )
        )
        return [
            Record(
                event_id=event_id.bytes,
                attributes=orjson.loads(attributes[place]) if attributes[place] else None,
                content=contents[chunk_of[place]][position_of[place]] if chunk_of[place] is not None else None,
                **{name: columns[name][place] for name in _FIELDS},
            )
            for place, event_id in enumerate(ids)
        ]

    def pack(self) -> tuple[bytes, bytes, bytes]:
        """Return what `unpack` makes the same rows from, in another process."""
        return (
            self.events.serialize().to_pybytes(),
            self.deltas.serialize().to_pybytes(),
            self.contents.serialize().to_pybytes(),
        )

    @classmethod
    def unpack(cls, packed: tuple[bytes, bytes, bytes]) -> Self:
        """Return the rows that were packed, without copying them."""
        events, deltas, contents = packed
        return cls(
            pa.ipc.read_record_batch(pa.py_buffer(events), EVENT_SCHEMA),
            pa.ipc.read_record_batch(pa.py_buffer(deltas), DELTA_SCHEMA),
            pa.ipc.read_record_batch(pa.py_buffer(contents), CHUNK_SCHEMA),
        )


def encode(records: Sequence[Record], *, evidence: bool = True) -> Rows:
    """Return `records` as rows.

    Args:
        records: what to store.
        evidence: whether to make what the audit log commits to.

    Raises:
        pyarrow.ArrowException, OverflowError, UnicodeError, TypeError, ValueError: one of them holds a value that no
            column can; `encode_apart` leaves such out.
    """
    places, chunk_rows, commitments = _pack_contents(records)
    events = event_batch(records, places, commitments if evidence else None)
    return Rows(events, run_delta_batch(records), chunk_batch(chunk_rows, chunks.PACKED))


def encode_apart(records: Sequence[Record], *, evidence: bool = True) -> tuple[Rows, int]:
    """Return those of `records` that can be stored as rows, and how many cannot.

    One that cannot is found by halving; its neighbours are kept.
    """
    try:
        return encode(records, evidence=evidence), 0
    except _NOT_ENCODABLE:
        fit = _encodable(records)
        return encode(fit, evidence=evidence), len(records) - len(fit)


def _encodable(records: Sequence[Record]) -> list[Record]:
    try:
        encode(records)
    except _NOT_ENCODABLE:
        if len(records) == 1:
            return []
        half = len(records) // 2
        return [*_encodable(records[:half]), *_encodable(records[half:])]
    return list(records)


_ChunkRow = tuple[bytes, str, str, int, bytes]


def _pack_contents(
    records: Sequence[Record],
) -> tuple[list[tuple[bytes, int] | None], list[_ChunkRow], list[bytes | None]]:
    """Put the contents of each run into chunks; return each record's place, the rows, and each one's commitment."""
    places: list[tuple[bytes, int] | None] = [None] * len(records)
    commitments: list[bytes | None] = [None] * len(records)
    open_chunks: dict[tuple[str, str], _OpenChunk] = {}
    rows: list[_ChunkRow] = []
    for index, record in enumerate(records):
        if not record.content:
            continue
        encoded = chunks.encode_content(record.content)
        key = (record.tenant, record.run_id)
        chunk = open_chunks.get(key)
        if chunk is not None and chunk.size + len(encoded) > chunks.MAX_CHUNK_BYTES:
            rows.append(chunk.row(commitments))
            chunk = None
        if chunk is None:
            chunk = open_chunks[key] = _OpenChunk(bytes.fromhex(new_event_id(now_ns())), *key)
        places[index] = (chunk.chunk_id, len(chunk.contents))
        chunk.contents.append(encoded)
        chunk.owners.append(index)
        chunk.size += len(encoded)
    rows.extend(chunk.row(commitments) for chunk in open_chunks.values())
    return places, rows, commitments


@dataclass(slots=True)
class _OpenChunk:
    chunk_id: bytes
    tenant: str
    run_id: str
    contents: list[bytes] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    size: int = 0

    def row(self, commitments: list[bytes | None]) -> _ChunkRow:
        """Return the chunk, and put the commitment to each content where its owner is."""
        packed, made = chunks.pack(self.contents)
        for owner, commitment in zip(self.owners, made, strict=True):
            commitments[owner] = commitment
        return self.chunk_id, self.tenant, self.run_id, len(self.contents), packed


def _joined(column: pa.Array) -> bytes:
    """The values of a column of fixed width without NULLs, one behind the other."""
    width = column.type.byte_width
    start = column.offset * width
    return bytes(column.buffers()[1][start : start + len(column) * width])
