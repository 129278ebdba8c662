"""A table whose rows lie with the collector: DuckDB scans it here, and they are asked for as the scan goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from tracehold_collector.sql.bounds import bounds_of
from tracehold_collector.sql.frames import NEXT, ROWS, SCAN, Channel, ClosedError


class Source:
    """Asks the collector for rows.

    Args:
        channel: to the collector.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = count()

    def rows(self, table: str, schema: pa.Schema, condition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table that may pass `condition`, with the columns of `schema`."""
        number = next(self._numbers)
        bounds = [] if condition is None else bounds_of(str(condition))
        self._channel.send_json(
            SCAN, {"scan": number, "table": table, "columns": schema.names, "bounds": [list(bound) for bound in bounds]}
        )
        while True:
            self._channel.send_json(NEXT, {"scan": number})
            kind, body = self._channel.receive()
            if kind != ROWS:
                raise ClosedError
            if not body:
                return
            yield pa.ipc.read_record_batch(pa.py_buffer(body), schema)


class RemoteTable(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """What DuckDB takes for a dataset: it asks a scanner for the columns it needs and the filter it can push down.

    Args:
        source: where rows come from; an object with its method `rows`.
        name: the table's.
        schema: of all its columns.
    """

    def __init__(self, source: Any, name: str, schema: pa.Schema) -> None:
        self._source = source
        self._name = name
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_options: Any) -> Any:  # noqa: A002
        """Return what reads the rows; called once for each time the statement reads the table."""
        wanted = self._schema if columns is None else pa.schema([self._schema.field(name) for name in columns])
        return _Scanner(pa.RecordBatchReader.from_batches(wanted, self._rows(wanted, filter)))

    def _rows(self, schema: pa.Schema, condition: Any) -> Iterator[pa.RecordBatch]:
        for batch in self._source.rows(self._name, schema, condition):
            yield batch if condition is None else batch.filter(condition)


class _Scanner:
    """What DuckDB wants of a scanner. Arrow's own reads ahead on threads, and the two ends of a socket talk in turn."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader
