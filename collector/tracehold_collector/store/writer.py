"""The one writer: gathers requests for a moment, commits them together, and only then says so (design: decision 1).

Contract
  - `submit` MUST refuse, and take nothing in, when too much waits (`QueueFullError`).
  - A submission's future resolves only after its rows are committed: what is acknowledged survives SIGKILL.
  - An id the store already holds adds nothing, whoever sends it and whenever; the submission still succeeds.
  - A crash before the commit leaves nothing of the submission; after it, everything, and a resend adds nothing.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

import duckdb
import structlog
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id

from tracehold_collector.core.errors import QueueFullError, StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.store import chunks
from tracehold_collector.store.columns import chunk_table, event_table
from tracehold_collector.store.database import Database
from tracehold_collector.store.run_deltas import run_delta_table
from tracehold_collector.store.seen import SeenIds

_log = structlog.get_logger(__name__)

_FOLD_RUN_DELTAS: Final = (resources.files("tracehold_collector.store.sql") / "fold_run_deltas.sql").read_text()

_LOAD_BATCH: Final = 100_000


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How the writer gathers and rests.

    Attributes:
        max_queued: records that may wait; beyond it `submit` refuses.
        max_rows: records in one transaction; DuckDB is fastest at 1,000 to 10,000.
        gather_s: how long the first request of a transaction waits for company, when there was some last time.
        quiet_s: silence after which a checkpoint and the folding of run deltas cost nobody anything.
        quiet_wal_bytes: the write-ahead file must be at least this big to be worth a checkpoint.
        fold_after: run deltas written since the last folding that are worth another.
    """

    max_queued: int = 50_000
    max_rows: int = 8_000
    gather_s: float = 0.002
    quiet_s: float = 2.0
    quiet_wal_bytes: int = 4 * 1024 * 1024
    fold_after: int = 2_000


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a submission: how many events are new in the store, how many it had already."""

    accepted: int
    duplicates: int


@dataclass(slots=True)
class WriterStats:
    """Counters since the start, for `/metrics`. Written by the writer thread only."""

    accepted: int = 0
    duplicates: int = 0
    commits: int = 0
    failed_commits: int = 0
    content_bytes: int = 0


@dataclass(slots=True)
class _Submission:
    records: Sequence[Record]
    done: Future[Receipt] = field(default_factory=Future)

    def finish(self, outcome: Receipt | StoreError) -> None:
        """Tell the sender, unless it went away meanwhile."""
        if not self.done.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Receipt):
            self.done.set_result(outcome)
        else:
            self.done.set_exception(outcome)


class Writer:
    """Owns the database's write connection and the thread that uses it.

    Args:
        database: the open store.
        options: how to gather and rest.
        on_commit: called on the writer thread with the new records of each commit, after it; must not block.
    """

    def __init__(
        self,
        database: Database,
        options: WriterOptions | None = None,
        *,
        on_commit: Callable[[Sequence[Record]], None] | None = None,
    ) -> None:
        self.stats = WriterStats()
        self._database = database
        self._options = options or WriterOptions()
        self._on_commit = on_commit
        self._seen = SeenIds()
        self._queue: queue.SimpleQueue[_Submission | None] = queue.SimpleQueue()
        self._queued = 0
        self._queued_lock = threading.Lock()
        self._closed = False
        self._unfolded = 0
        self._company = False
        self._load_seen()
        # pyarrow imports pandas when it first builds an array, which takes half a second: not on somebody's request.
        event_table([], [], 0)
        self._thread = threading.Thread(target=self._work, name="tracehold-writer", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """Records that wait to be committed."""
        return self._queued

    def check_room(self) -> None:
        """Refuse early, before a body is decoded.

        Raises:
            QueueFullError: too much waits.
            StoreError: the writer is closed.
        """
        if self._closed or not self._thread.is_alive():
            raise StoreError("the store is closing; send the same request again to the next collector")
        if self._queued >= self._options.max_queued:
            raise QueueFullError(retry_after_s=1)

    def submit(self, records: Sequence[Record]) -> Future[Receipt]:
        """Hand records over; the future resolves after their commit, or with a `StoreError` if that failed.

        Raises:
            QueueFullError: too much waits; nothing was taken in.
            StoreError: the writer is closed.
        """
        self.check_room()
        submission = _Submission(records)
        with self._queued_lock:
            self._queued += len(records)
        self._queue.put(submission)
        return submission.done

    def close(self) -> None:
        """Commit what waits and end the thread; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        """Never ends because of what it was given: every submission is answered, one way or the other."""
        idle = False
        while True:
            try:
                first = self._queue.get(timeout=None if idle else self._options.quiet_s)
            except queue.Empty:
                self._rest()
                idle = True
                continue
            if first is None:
                return
            idle = False
            batch, ending = self._gather(first)
            self._answer(batch)
            with self._queued_lock:
                self._queued -= sum(len(submission.records) for submission in batch)
            if ending:
                return

    def _gather(self, first: _Submission) -> tuple[list[_Submission], bool]:
        """Take what waits, and wait for more only when there was company last time: a lone sender waits for nobody."""
        batch = [first]
        rows = len(first.records)
        deadline = time.monotonic() + (self._options.gather_s if self._company else 0.0)
        while rows < self._options.max_rows:
            try:
                following = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if following is None:
                return batch, True
            batch.append(following)
            rows += len(following.records)
        self._company = len(batch) > 1
        return batch, False

    def _answer(self, batch: list[_Submission]) -> None:
        try:
            receipts = self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever DuckDB or Arrow raised, senders must hear of it
            if len(batch) > 1 and not isinstance(error, duckdb.FatalException | duckdb.IOException):
                # One sender's rows may be at fault: its neighbours must not share its fate.
                for submission in batch:
                    self._answer([submission])
                return
            self.stats.failed_commits += 1
            _log.error("commit_failed", error=type(error).__name__, rows=sum(len(s.records) for s in batch))
            self._recover(error)
            refusal = StoreError("the store could not commit; nothing of this request was kept. Send it again")
            for submission in batch:
                submission.finish(refusal)
        else:
            for submission, receipt in zip(batch, receipts, strict=True):
                submission.finish(receipt)

    def _commit(self, batch: list[_Submission]) -> list[Receipt]:
        fresh, receipts = self._select_new(batch)
        if not fresh:
            return receipts
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
            connection.execute("COMMIT")
        except BaseException:
            _rollback(connection)
            raise
        self._seen.add(record.event_id for record in fresh)
        self._count(fresh, receipts, chunk_rows)
        if self._on_commit is not None:
            self._on_commit(fresh)
        return receipts

    def _select_new(self, batch: list[_Submission]) -> tuple[list[Record], list[Receipt]]:
        """Sort out duplicates: within the batch by a set, against the store by the filter and, where unsure, by SQL."""
        ids = [record.event_id for submission in batch for record in submission.records]
        taken = self._stored(ids) if ids else set()
        fresh: list[Record] = []
        receipts: list[Receipt] = []
        for submission in batch:
            before = len(fresh)
            for record in submission.records:
                if record.event_id not in taken:
                    taken.add(record.event_id)
                    fresh.append(record)
            accepted = len(fresh) - before
            receipts.append(Receipt(accepted, len(submission.records) - accepted))
        return fresh, receipts

    def _stored(self, ids: list[bytes]) -> set[bytes]:
        maybe = self._seen.maybe(ids)
        if not maybe.any():
            return set()
        unsure = [uuid.UUID(bytes=ids[place]) for place in maybe.nonzero()[0]]
        rows = self._database.connection.execute(
            "SELECT event_id FROM events WHERE event_id IN (SELECT unnest(?::UUID[]))", [unsure]
        ).fetchall()
        return {row[0].bytes for row in rows}

    def _count(self, fresh: list[Record], receipts: list[Receipt], chunk_rows: list[_ChunkRow]) -> None:
        self.stats.commits += 1
        self.stats.accepted += len(fresh)
        self.stats.duplicates += sum(receipt.duplicates for receipt in receipts)
        self.stats.content_bytes += sum(len(row[4]) for row in chunk_rows)
        self._unfolded += len({(record.tenant, record.run_id) for record in fresh})

    def _recover(self, error: Exception) -> None:
        """After a fatal error DuckDB answers nothing more until the file is opened again."""
        if not isinstance(error, duckdb.FatalException | duckdb.IOException | duckdb.InternalException):
            return
        try:
            self._database.reopen()
            self._seen = SeenIds()
            self._load_seen()
        except Exception as again:  # noqa: BLE001 - the next commit tries again; senders get 503 meanwhile
            _log.error("reopen_failed", error=type(again).__name__)

    def _rest(self) -> None:
        """What is worth doing while nobody sends: fold run deltas, then checkpoint."""
        try:
            if self._unfolded >= self._options.fold_after:
                self.fold()
            if self._database.wal_bytes() >= self._options.quiet_wal_bytes:
                self._database.connection.execute("CHECKPOINT")
        except duckdb.Error as error:
            # A reader with an open transaction can hold a checkpoint back; the next quiet moment tries again.
            _log.info("quiet_work_postponed", error=type(error).__name__)

    def fold(self) -> None:
        """Fold run deltas; the view `runs` reads the same before and after. Writer thread, or no thread running."""
        connection = self._database.connection
        connection.execute("BEGIN TRANSACTION")
        try:
            connection.execute(_FOLD_RUN_DELTAS)
            connection.execute("COMMIT")
        except BaseException:
            _rollback(connection)
            raise
        self._unfolded = 0

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
