"""One commit: sort out what the store has already, insert the rest, all or nothing. Used by the writer thread only."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

import duckdb
import structlog
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id

from tracehold_collector.core.record import Record
from tracehold_collector.store import chunks
from tracehold_collector.store.columns import Cost, chunk_table, cost_table, event_table
from tracehold_collector.store.database import Database
from tracehold_collector.store.run_deltas import run_delta_table
from tracehold_collector.store.seen import SeenIds
from tracehold_collector.store.shares import UsageShares

_log = structlog.get_logger(__name__)

_SQL: Final = resources.files("tracehold_collector.store.sql")
_FOLD_RUN_DELTAS: Final = (_SQL / "fold_run_deltas.sql").read_text()
_ADD_COSTS: Final = (_SQL / "add_costs.sql").read_text()

_LOAD_BATCH: Final = 100_000

UNAVAILABLE: Final = (
    duckdb.FatalException,
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.ConnectionException,
    duckdb.TransactionException,
    duckdb.OutOfMemoryException,
    duckdb.InterruptException,
    MemoryError,
)
"""Errors that are the store's fault and may pass. Any other is the fault of the rows."""

_NEEDS_REOPENING: Final = (
    duckdb.FatalException,
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.ConnectionException,
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of some records.

    Attributes:
        accepted: new in the store.
        duplicates: the store had them already.
        refused: could not be stored, whatever was tried.
    """

    accepted: int
    duplicates: int
    refused: int = 0

    def __add__(self, other: Receipt) -> Receipt:
        """Return what became of both."""
        return Receipt(self.accepted + other.accepted, self.duplicates + other.duplicates, self.refused + other.refused)


@dataclass(slots=True)
class CommitStats:
    """Counters since the start, for `/metrics`. Written by the writer thread only."""

    accepted: int = 0
    duplicates: int = 0
    commits: int = 0
    failed_commits: int = 0
    content_bytes: int = 0


class Committer:
    """Owns the database's write connection.

    Args:
        database: the open store.
        on_commit: called with the new records of each commit, after it; must not block. What it raises is logged.
    """

    def __init__(self, database: Database, on_commit: Callable[[Sequence[Record]], None] | None = None) -> None:
        self.stats = CommitStats()
        self.unfolded = 0
        self._database = database
        self._on_commit = on_commit
        self._seen = SeenIds()
        self._load_seen()
        self._shares = UsageShares(database.connection)
        # pyarrow imports pandas when it first builds an array, which takes half a second: not on somebody's request.
        event_table([], [], 0)

    def commit(self, submissions: Sequence[Sequence[Record]]) -> list[Receipt]:
        """Store the new records of several submissions in one transaction; return a receipt for each.

        Raises:
            duckdb.Error, pyarrow.ArrowException, OverflowError: nothing was stored.
        """
        fresh, receipts = self._select_new(submissions)
        if fresh:
            self._insert(fresh)
        self.stats.duplicates += sum(receipt.duplicates for receipt in receipts)
        return receipts

    def add_costs(self, costs: Sequence[Cost]) -> int:
        """Store what calls were found to cost, with the change of their runs' sums; return how many.

        Raises:
            duckdb.Error, pyarrow.ArrowException: nothing was stored.
        """
        priced_at = now_ns()
        connection = self._database.connection
        connection.execute("BEGIN TRANSACTION")
        try:
            connection.register("staged_costs", cost_table(costs, priced_at))
            connection.execute(_ADD_COSTS)
            written = self._shares.priced_anew(connection, ((cost.tenant, cost.run_id) for cost in costs), priced_at)
            connection.execute("COMMIT")
        except BaseException:
            self._shares.forget()
            _rollback(connection)
            raise
        self.unfolded += written + len({(cost.tenant, cost.run_id) for cost in costs})
        return len(costs)

    def recover(self, error: BaseException) -> None:
        """Open the file again when DuckDB will answer nothing more until then; the next commit tries again if not."""
        if not isinstance(error, _NEEDS_REOPENING):
            return
        try:
            self._database.reopen()
            self._seen = SeenIds()
            self._load_seen()
        except Exception as again:  # noqa: BLE001 - senders get 503 meanwhile
            _log.error("reopen_failed", error=type(again).__name__)
        else:
            _log.info("store_reopened", after=type(error).__name__)

    def fold(self) -> None:
        """Fold run deltas; the view `runs` reads the same before and after."""
        connection = self._database.connection
        connection.execute("BEGIN TRANSACTION")
        try:
            connection.execute(_FOLD_RUN_DELTAS)
            connection.execute("COMMIT")
        except BaseException:
            _rollback(connection)
            raise
        self.unfolded = 0

    def checkpoint(self) -> None:
        """Move the write-ahead file into the store."""
        self._database.connection.execute("CHECKPOINT")

    def _insert(self, fresh: list[Record]) -> None:
        received_at = now_ns()
        places, chunk_rows = _pack_contents(fresh)
        connection = self._database.connection
        connection.execute("BEGIN TRANSACTION")
        try:
            connection.register("staged_events", event_table(fresh, places, received_at))
            connection.execute("INSERT INTO events BY NAME SELECT * FROM staged_events")
            connection.register("staged_deltas", run_delta_table(fresh, received_at))
            connection.execute("INSERT INTO run_deltas BY NAME SELECT * FROM staged_deltas")
            if chunk_rows:
                connection.register("staged_contents", chunk_table(chunk_rows, chunks.CODEC, received_at))
                connection.execute("INSERT INTO contents BY NAME SELECT * FROM staged_contents")
            self.unfolded += self._shares.settle(connection, fresh, received_at)
            connection.execute("COMMIT")
        except BaseException:
            self._shares.forget()
            _rollback(connection)
            raise
        self._seen.add(record.event_id for record in fresh)
        self.unfolded += len({(record.tenant, record.run_id) for record in fresh})
        self.stats.commits += 1
        self.stats.accepted += len(fresh)
        self.stats.content_bytes += sum(len(row[4]) for row in chunk_rows)
        self._tell(fresh)

    def _tell(self, fresh: list[Record]) -> None:
        if self._on_commit is None:
            return
        try:
            self._on_commit(fresh)
        except Exception as error:  # noqa: BLE001 - the commit stands, whatever the listener does
            _log.error("on_commit_failed", error=type(error).__name__)

    def _select_new(self, submissions: Sequence[Sequence[Record]]) -> tuple[list[Record], list[Receipt]]:
        """Sort out duplicates: within the batch by a set, against the store by the filter and, where unsure, by SQL."""
        ids = [record.event_id for records in submissions for record in records]
        # Of one tenant: what another has under the same id takes nothing away here, and is not told.
        taken = self._stored(ids) if ids else set()
        fresh: list[Record] = []
        receipts: list[Receipt] = []
        for records in submissions:
            before = len(fresh)
            for record in records:
                key = (record.tenant, record.event_id)
                if key not in taken:
                    taken.add(key)
                    fresh.append(record)
            accepted = len(fresh) - before
            receipts.append(Receipt(accepted, len(records) - accepted))
        return fresh, receipts

    def _stored(self, ids: list[bytes]) -> set[tuple[str, bytes]]:
        maybe = self._seen.maybe(ids)
        if not maybe.any():
            return set()
        unsure = [uuid.UUID(bytes=ids[place]) for place in maybe.nonzero()[0]]
        rows = self._database.connection.execute(
            "SELECT tenant, event_id FROM events WHERE event_id IN (SELECT unnest(?::UUID[]))", [unsure]
        ).fetchall()
        return {(tenant, event_id.bytes) for tenant, event_id in rows}

    def _load_seen(self) -> None:
        result = self._database.connection.execute("SELECT event_id::VARCHAR FROM events")
        while rows := result.fetchmany(_LOAD_BATCH):
            self._seen.add(bytes.fromhex(row[0].replace("-", "")) for row in rows)


_ChunkRow = tuple[bytes, str, str, int, bytes]


def _pack_contents(records: Sequence[Record]) -> tuple[list[tuple[bytes, int] | None], list[_ChunkRow]]:
    """Put the contents of each run into chunks; return each record's place and the rows of `contents`."""
    places: list[tuple[bytes, int] | None] = [None] * len(records)
    open_chunks: dict[tuple[str, str], _OpenChunk] = {}
    rows: list[_ChunkRow] = []
    for index, record in enumerate(records):
        if not record.content:
            continue
        encoded = chunks.encode_content(record.content)
        key = (record.tenant, record.run_id)
        chunk = open_chunks.get(key)
        if chunk is not None and chunk.size + len(encoded) > chunks.MAX_CHUNK_BYTES:
            rows.append(chunk.row())
            chunk = None
        if chunk is None:
            chunk = open_chunks[key] = _OpenChunk(bytes.fromhex(new_event_id(now_ns())), *key)
        places[index] = (chunk.chunk_id, len(chunk.contents))
        chunk.contents.append(encoded)
        chunk.size += len(encoded)
    rows.extend(chunk.row() for chunk in open_chunks.values())
    return places, rows


@dataclass(slots=True)
class _OpenChunk:
    chunk_id: bytes
    tenant: str
    run_id: str
    contents: list[bytes] = field(default_factory=list)
    size: int = 0

    def row(self) -> _ChunkRow:
        return self.chunk_id, self.tenant, self.run_id, len(self.contents), chunks.write_chunk(self.contents)


def _rollback(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        # DuckDB ends the transaction itself on a fatal error; there is nothing left to undo then.
        _log.debug("rollback_not_needed")
