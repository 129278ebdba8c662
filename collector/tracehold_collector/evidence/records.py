"""Stored events as the records of a bundle: the whole envelope, exact, as one line of JSON each."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb
import orjson
import pyarrow as pa

from tracehold_collector.audit.leaves import DECIMALS, FIELDS, WHOLE_NUMBERS, event_digests
from tracehold_collector.evidence.contents import Said

COLUMNS: Final = ("event_id", "received_at", "leaf_index", "commitment", "content_chunk", "content_pos", *FIELDS)
"""What of an event is read; contents are looked for by the place in two of them."""

_AS_TEXT: Final = {"event_id", "content_chunk", "attributes"}
_LISTED: Final = ", ".join(f"{name}::VARCHAR AS {name}" if name in _AS_TEXT else name for name in COLUMNS)
_ROWS: Final = 2_000

Row = Mapping[str, Any]


def read_rows(cursor: duckdb.DuckDBPyConnection, where: str, bound: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the events that meet a condition, by rising place in the log.

    Args:
        cursor: the reader's own; busy until the last one.
        where: a condition on `events`.
        bound: its values.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    text = f"SELECT {_LISTED} FROM events WHERE {where} ORDER BY leaf_index NULLS LAST, event_id"  # noqa: S608
    yield from cursor.execute(text, dict(bound)).to_arrow_reader(_ROWS)


def record_line(row: Row) -> bytes:
    """Return one event as a line of `records.jsonl`.

    64-bit integers are texts and an unknown field is left out, as in the JSON form of protocol buffers: no reader
    rounds a time, and none takes unknown for zero.
    """
    envelope = {name: _value(name, row[name]) for name in FIELDS if row[name] is not None}
    commitment = row["commitment"]
    return _line(
        {
            "leaf_index": row["leaf_index"],
            "event_id": row["event_id"],
            "received_at": str(row["received_at"]),
            "has_content": row["content_chunk"] is not None,
            "commitment": None if commitment is None else base64.b64encode(commitment).decode(),
            "envelope": envelope,
        }
    )


def erased_line(leaf_index: int, event_id: str, erasure_id: str) -> bytes:
    """Return a leaf whose record an erasure took away as a line of `erased.jsonl`."""
    return _line({"leaf_index": leaf_index, "event_id": event_id, "erasure_id": erasure_id})


def population_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield the events of a batch as lines of `population.jsonl`: what their leaves are made of, and no more."""
    commitments = batch.column("commitment").to_pylist()
    joined = b"".join(commitment or bytes(32) for commitment in commitments)
    digests = event_digests(batch, joined, batch.column("content_chunk").is_valid().to_pylist())
    columns = (batch.column(name).to_pylist() for name in ("leaf_index", "event_id", "received_at"))
    for leaf_index, event_id, received_at, digest in zip(*columns, digests, strict=True):
        yield _line(
            {
                "leaf_index": leaf_index,
                "event_id": event_id,
                "received_at": str(received_at),
                "digest": base64.b64encode(digest).decode(),
            }
        )


def content_line(said: Said) -> bytes:
    """Return what one event said as a line of `content.jsonl`."""
    told: dict[str, Any] = {"event_id": said.event_id, "state": said.state}
    if said.state == "told" and said.salt is not None and said.content is not None:
        told |= {"salt": base64.b64encode(said.salt).decode(), "content": said.content.decode("utf-8", "replace")}
    if said.erasure_id is not None:
        told["erasure_id"] = said.erasure_id
    return _line(told)


def _value(name: str, value: Any) -> Any:
    if name in WHOLE_NUMBERS:
        return str(value)
    if name in DECIMALS and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _line(item: Mapping[str, Any]) -> bytes:
    return orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE)
