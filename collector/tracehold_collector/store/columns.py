"""Turns records into Arrow tables, column by column: the cheapest way into DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

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


def event_table(records: Sequence[Record], places: Sequence[tuple[bytes, int] | None], received_at: int) -> pa.Table:
    """Return the rows of `events` for `records`.

    Args:
        records: what to store.
        places: for each record the chunk id (16 bytes) and the position of its content, or `None`.
        received_at: UTC nanoseconds of the commit.
    """
    columns: dict[str, Any] = {"event_id": _uuids([record.event_id for record in records])}
    for name, kind in EVENT_COLUMNS:
        columns[name] = pa.array([getattr(record, name) for record in records], kind)
    columns["attributes"] = pa.array(
        [orjson.dumps(record.attributes).decode() if record.attributes else None for record in records], _TEXT
    )
    columns["received_at"] = pa.repeat(pa.scalar(received_at, _WHOLE), len(records))
    columns["content_chunk"] = _uuids([place[0] if place else None for place in places])
    columns["content_pos"] = pa.array([place[1] if place else None for place in places], pa.int32())
    return pa.table(columns)


def chunk_table(rows: Sequence[tuple[bytes, str, str, int, bytes]], codec: str, received_at: int) -> pa.Table:
    """Return the rows of `contents`: (chunk id, tenant, run id, entries, body) each."""
    ids, tenants, runs, entries, bodies = zip(*rows, strict=True)
    return pa.table(
        {
            "chunk_id": _uuids(ids),
            "tenant": pa.array(tenants, _TEXT),
            "run_id": pa.array(runs, _TEXT),
            "codec": pa.repeat(pa.scalar(codec), len(rows)),
            "entries": pa.array(entries, pa.int32()),
            "body": pa.array(bodies, pa.binary()),
            "received_at": pa.repeat(pa.scalar(received_at, _WHOLE), len(rows)),
        }
    )


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
