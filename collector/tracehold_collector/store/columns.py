"""Turns records into Arrow tables, column by column: the cheapest way into DuckDB."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from tracehold_collector.audit.leaves import HASH_BYTES, event_digests
from tracehold_collector.core.record import Record

_TEXT: Final = pa.string()
_WHOLE: Final = pa.int64()

EVENT_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    ("tenant", _TEXT),
    ("run_id", _TEXT),
    ("trace_id", _TEXT),
    ("span_id", _TEXT),
    ("parent_span_id", _TEXT),
    ("seq", _WHOLE),
    ("kind", _TEXT),
    ("type", _TEXT),
    ("name", _TEXT),
    ("status", _TEXT),
    ("started_at", _WHOLE),
    ("duration_ns", _WHOLE),
    ("agent", _TEXT),
    ("user_ref", _TEXT),
    ("session_id", _TEXT),
    ("service", _TEXT),
    ("model", _TEXT),
    ("provider", _TEXT),
    ("input_tokens", _WHOLE),
    ("output_tokens", _WHOLE),
    ("cached_tokens", _WHOLE),
    ("cache_write_tokens", _WHOLE),
    ("reasoning_tokens", _WHOLE),
    ("cost_usd", pa.float64()),
    ("price_source", _TEXT),
    ("decision", _TEXT),
    ("decided_by", _TEXT),
    ("rule", _TEXT),
    ("error_type", _TEXT),
    ("source", _TEXT),
)
"""Columns of `events` that are plain fields of a `Record`."""


EVENT_SCHEMA: Final = pa.schema(
    [
        ("event_id", pa.uuid()),
        *EVENT_COLUMNS,
        ("attributes", _TEXT),
        ("content_chunk", pa.uuid()),
        ("content_pos", pa.int32()),
        ("commitment", pa.binary(HASH_BYTES)),
        ("digest", pa.binary(HASH_BYTES)),
    ]
)
"""The columns that the commit does not fill itself. `digest` is not stored: the leaf of the audit log is made of it."""

CHUNK_SCHEMA: Final = pa.schema(
    [
        ("chunk_id", pa.uuid()),
        ("tenant", _TEXT),
        ("run_id", _TEXT),
        ("codec", _TEXT),
        ("entries", pa.int32()),
        ("body", pa.binary()),
    ]
)
"""Chunks as they are packed; sealed they have a `key_id` as well."""


def event_batch(
    records: Sequence[Record],
    places: Sequence[tuple[bytes, int] | None],
    commitments: Sequence[bytes | None] | None = None,
) -> pa.RecordBatch:
    """Return the rows of `events` for `records`; the commit adds when they were received.

    Args:
        records: what to store.
        places: for each record the chunk id (16 bytes) and the position of its content, or `None`.
        commitments: to the content of each record that has one; without any, the rows get no place in the audit log.
    """
    columns: list[Any] = [_uuids([record.event_id for record in records])]
    columns += [pa.array([getattr(record, name) for record in records], kind) for name, kind in EVENT_COLUMNS]
    columns += [
        pa.array(
            [orjson.dumps(record.attributes).decode() if record.attributes else None for record in records], _TEXT
        ),
        _uuids([place[0] if place else None for place in places]),
        pa.array([place[1] if place else None for place in places], pa.int32()),
    ]
    if commitments is None:
        columns += [pa.nulls(len(records), pa.binary(HASH_BYTES))] * 2
        return pa.record_batch(columns, schema=EVENT_SCHEMA)
    # An event that says nothing has random bytes there: once its row is gone, nobody can guess what the leaf was of.
    drawn = os.urandom(HASH_BYTES * len(records))
    filled = b"".join(
        [
            commitment or drawn[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            for place, commitment in enumerate(commitments)
        ]
    )
    envelope = pa.record_batch(columns, names=EVENT_SCHEMA.names[:-2])
    digests = event_digests(envelope, filled, [commitment is not None for commitment in commitments])
    columns += [_hashes(filled), _hashes(b"".join(digests))]
    return pa.record_batch(columns, schema=EVENT_SCHEMA)


def chunk_batch(rows: Sequence[tuple[bytes, str, str, int, bytes]], codec: str) -> pa.RecordBatch:
    """Return the rows of `contents`: (chunk id, tenant, run id, entries, body) each."""
    ids, tenants, runs, entries, bodies = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    columns = [
        _uuids(ids),
        pa.array(tenants, _TEXT),
        pa.array(runs, _TEXT),
        pa.array([codec] * len(rows), _TEXT),
        pa.array(entries, pa.int32()),
        pa.array(bodies, pa.binary()),
    ]
    return pa.record_batch(columns, schema=CHUNK_SCHEMA)


class Cost(NamedTuple):
    """What a stored call was found to cost: event id (16 bytes), whose, USD, and which price list says so."""

    event_id: bytes
    tenant: str
    run_id: str
    cost_usd: float
    price_source: str


def cost_table(costs: Sequence[Cost], priced_at: int) -> pa.Table:
    """Return the rows of `costs`; `priced_at` is UTC nanoseconds."""
    return pa.table(
        {
            "event_id": _uuids([cost.event_id for cost in costs]),
            "tenant": pa.array([cost.tenant for cost in costs], _TEXT),
            "run_id": pa.array([cost.run_id for cost in costs], _TEXT),
            "cost_usd": pa.array([cost.cost_usd for cost in costs], pa.float64()),
            "price_source": pa.array([cost.price_source for cost in costs], _TEXT),
            "priced_at": pa.repeat(pa.scalar(priced_at, _WHOLE), len(costs)),
        }
    )


def _uuids(values: Sequence[bytes | None]) -> pa.ExtensionArray:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))


def _hashes(joined: bytes) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(HASH_BYTES), len(joined) // HASH_BYTES, [None, pa.py_buffer(joined)]
    )
