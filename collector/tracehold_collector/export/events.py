"""Reads the events of an export: one snapshot, a bounded part of it in memory at any time."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

from tracehold_collector.core.errors import StoreError
from tracehold_collector.export.selection import Selection
from tracehold_collector.store.database import Database
from tracehold_collector.store.leases import GONE
from tracehold_collector.store.reader import MAX_PACKED_BYTES, Access
from tracehold_collector.store.records import unpack

_ROWS: Final = 5_000
_ROWS_WITH_CONTENT: Final = 500
"""Their contents are in memory together, so fewer."""

_INNER: Final = ("content_chunk", "content_pos")

Contents = list[dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Part:
    """Some events, in the order they came in, and what they said where that was asked for.

    Attributes:
        rows: columns of `events`, ids as text.
        contents: one a row, `None` where there is none; `None` when contents were not asked for.
    """

    rows: pa.RecordBatch
    contents: Contents | None


class EventExport:
    """The events of one export: `events` of them, with the columns of `schema`. Close it.

    Args:
        database: the open store.
        selection: which events.
        access: what the asker may see.
        with_content: whether to read what they said; only for who may see it.
        table: `events` as they were stored, or `priced_events` with costs as they are known today.
        ended_only: leave out the opening halves of spans, which their ends tell whole.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(
        self,
        database: Database,
        selection: Selection,
        access: Access,
        *,
        with_content: bool = False,
        table: str = "events",
        ended_only: bool = False,
    ) -> None:
        if with_content and not access.content:
            raise ValueError("contents are for who may see them")
        condition, self._bound = selection.condition(access.tenants)
        if ended_only:
            condition += " AND status <> 'started'"
        self._where = f"FROM {table} WHERE {condition}"
        self._vault = database.vault
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._revoked = False
        self._steps: Generator[Part] | None = None
        try:
            self._cursor = self._stack.enter_context(database.cursor(self._revoke))
            # Contents are read beside the running scan, which is the only thing a cursor can do at a time.
            self._beside = self._stack.enter_context(database.cursor())
            self._cursor.begin()
            self.events: int = self._all(f"SELECT count(*) {self._where}")[0][0]
            names = [row[0] for row in self._cursor.execute(f"DESCRIBE {table}").fetchall() if row[0] not in _INNER]
            listed = ", ".join(_column(name) for name in names)
            empty = self._cursor.execute(f"SELECT {listed} FROM {table} LIMIT 0")  # noqa: S608 - names of ours
            self.schema: pa.Schema = empty.to_arrow_table().schema
        except duckdb.Error as error:
            self.close()
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error
        self.with_content = with_content

    def parts(self) -> Iterator[Part]:
        """Yield the events; once.

        Raises:
            StoreError: the store cannot be read on.
        """
        self._steps = self._read()
        while True:
            with self._lock:
                if self._revoked:
                    raise StoreError(GONE)
                part = next(self._steps, None)
            if part is None:
                return
            yield part

    def _revoke(self) -> None:
        """Let go of the snapshot for somebody who will not wait for a slow receiver; from another thread."""
        self._revoked = True
        with self._lock:
            self._let_go()

    def _read(self) -> Generator[Part]:
        listed = [*self.schema.names, *(_INNER if self.with_content else ())]
        text = f"SELECT {', '.join(_column(name) for name in listed)} {self._where}"
        size = _ROWS_WITH_CONTENT if self.with_content else _ROWS
        try:
            for batch in self._cursor.execute(text, self._bound).to_arrow_reader(size):
                yield from self._filled(batch) if self.with_content else [Part(batch, None)]
        except duckdb.Error as error:
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error

    def close(self) -> None:
        """Let go of the snapshot; a second call does nothing."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        # The reader in it keeps the store's file open beyond its cursor's end.
        if self._steps is not None:
            self._steps.close()
        self._stack.close()

    def _all(self, text: str) -> list[Any]:
        return self._cursor.execute(text, self._bound).fetchall()

    def _filled(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """The batch with its contents, in as many parts as it takes to have no more of them in memory than may be."""
        chunks = batch.column("content_chunk").to_pylist()
        positions = batch.column("content_pos").to_pylist()
        # Keyed by row: two tenants may have events of one id.
        places = {
            uuid.UUID(int=row): (uuid.UUID(chunk), positions[row])
            for row, chunk in enumerate(chunks)
            if chunk is not None
        }
        found, beyond = unpack(self._beside, self._vault, places, MAX_PACKED_BYTES)
        if beyond and batch.num_rows > 1:
            middle = batch.num_rows // 2
            found.clear()
            yield from self._filled(batch.slice(0, middle))
            yield from self._filled(batch.slice(middle))
            return
        if beyond:
            raise StoreError("one event says more than can be read at once")
        yield Part(batch.select(self.schema.names), [found.get(uuid.UUID(int=row)) for row in range(batch.num_rows)])


def _column(name: str) -> str:
    """An id as text, which every form has a place for."""
    return f'"{name}"::VARCHAR AS "{name}"' if name in {"event_id", "content_chunk", "attributes"} else f'"{name}"'
