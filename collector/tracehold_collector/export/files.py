"""An export as the bytes of a file: CSV, Parquet, or OTLP as JSON lines."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tracehold.core.jsontext import dumps
from tracehold.observability.semconv import EVENT_ID

from tracehold_collector.core.cells import csv_text
from tracehold_collector.core.record import Record
from tracehold_collector.export.events import EventExport, Part
from tracehold_collector.forward import to_otlp
from tracehold_collector.forward.otlp_json import OtlpJson
from tracehold_collector.forward.parts import mapping
from tracehold_collector.normalise.ids import span_event_id

_SPANS_A_LINE: Final = 500
"""Of OTLP: a line stays far below what a receiver takes in one request."""

_GROUP_ROWS: Final = 50_000
_GROUP_BYTES: Final = 32 * 1024 * 1024
"""A row group of Parquet is written at one of these, and memory is bounded by them."""

_TIMES: Final = {"started_at": "started_at_utc", "received_at": "received_at_utc"}
"""Columns that people get a readable form of, in front of the others."""


def csv_bytes(export: EventExport) -> Iterator[bytes]:
    """Yield the events as CSV (RFC 4180) in UTF-8. Unknown is empty; no cell is a formula to a spreadsheet."""
    yield csv_text(_schema(export).empty_table()).encode()
    for part in export.parts():
        yield csv_text(_with_readable_times(_table(export, part)), header=False).encode()


def parquet_bytes(export: EventExport) -> Iterator[bytes]:
    """Yield the events as Parquet; it is no Parquet file before its end, which comes last."""
    sink = _Sink()
    with pq.ParquetWriter(sink, _schema(export), compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for part in export.parts():
            waiting.append(_table(export, part))
            if sum(table.num_rows for table in waiting) >= _GROUP_ROWS or _bytes(waiting) >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
                yield sink.taken()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    yield sink.taken()


def otlp_bytes(export: EventExport) -> Iterator[bytes]:
    """Yield the events as OTLP trace requests, one a line of JSON, as the OTLP file exporter writes them.

    See the OpenTelemetry specification, "OpenTelemetry Protocol File Exporter".
    """
    for part in export.parts():
        records = _records(part)
        while some := list(islice(records, _SPANS_A_LINE)):
            yield OtlpJson().request(to_otlp(some)) + b"\n"


FORMS: Final[dict[str, tuple[Callable[[EventExport], Iterator[bytes]], str]]] = {
    "csv": (csv_bytes, "text/csv; charset=utf-8"),
    "parquet": (parquet_bytes, "application/vnd.apache.parquet"),
    "otlp": (otlp_bytes, "application/x-ndjson"),
}
"""By name: what writes it, and its media type."""


_FIELDS: Final = frozenset(field.name for field in fields(Record)) - {"event_id", "attributes", "content"}


def _schema(export: EventExport) -> pa.Schema:
    times = [pa.field(name, pa.timestamp("ns")) for name in _TIMES.values()]
    content = [pa.field("content", pa.string())] if export.with_content else []
    return pa.schema([*times, *export.schema, *content])


def _table(export: EventExport, part: Part) -> pa.Table:
    rows = part.rows
    columns = [rows.column(name).cast(pa.timestamp("ns")) for name in _TIMES]
    columns += rows.columns
    if part.contents is not None:
        said = [None if content is None else dumps(content).decode() for content in part.contents]
        columns.append(pa.array(said, pa.string()))
    return pa.Table.from_arrays(columns, schema=_schema(export))


def _with_readable_times(table: pa.Table) -> pa.Table:
    for place, name in enumerate(_TIMES.values()):
        table = table.set_column(place, name, pc.strftime(table.column(name), format="%Y-%m-%dT%H:%M:%SZ"))
    return table


def _records(part: Part) -> Iterator[Record]:
    contents = part.contents or [None] * part.rows.num_rows
    for row, content in zip(part.rows.to_pylist(), contents, strict=True):
        record = Record(
            event_id=uuid.UUID(row["event_id"]).bytes,
            attributes=orjson.loads(row["attributes"]) if row["attributes"] else None,
            content=content,
            **{name: row[name] for name in _FIELDS},
        )
        if content is not None and not _is_span(record):
            content["attributes"] = {**_own_words(record), **mapping(content.get("attributes"))}
        yield record


def _is_span(record: Record) -> bool:
    """Whether the id follows from the span, so that whoever takes the span in finds the same one."""
    own = span_event_id(record.tenant, record.trace_id or "", record.span_id or "")
    return record.source != "otlp" or record.event_id == own


def _own_words(record: Record) -> dict[str, Any]:
    """What is lost when a log record becomes a span, under our names for it."""
    return {EVENT_ID: record.event_id.hex(), "tracehold.type": record.type, "tracehold.run_id": record.run_id}


def _bytes(tables: Iterable[pa.Table]) -> int:
    return sum(table.nbytes for table in tables)


class _Sink(io.RawIOBase):
    """A file whose bytes are taken away as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
