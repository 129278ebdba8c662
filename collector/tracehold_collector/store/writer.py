"""The one writer: gathers requests for a moment, commits them together, and only then says so (design: decision 1).

Contract
  - `submit` MUST refuse, and take nothing in, when too much waits (`QueueFullError`).
  - A submission's future resolves only after its rows are committed: what is acknowledged survives SIGKILL.
  - An id the store already holds adds nothing, whoever sends it and whenever; the submission still succeeds.
  - A row that cannot be stored is refused alone; its neighbours are kept.
  - A crash before the commit leaves nothing of the submission; after it, everything, and a resend adds nothing.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import duckdb
import structlog

from tracehold_collector.core.errors import CollectorError, QueueFullError, StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.store.columns import Cost
from tracehold_collector.store.committer import UNAVAILABLE, CommitStats, Committer, Receipt
from tracehold_collector.store.database import Database
from tracehold_collector.store.erased import RunDigest, plain_digest
from tracehold_collector.store.log import LogWriter
from tracehold_collector.store.rows import Rows, encode, encode_apart

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")

_MAX_REFUSED: Final = 32
"""Rows of one submission that may turn out to be unstorable; more are taken for a fault of the store."""


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
        busy_rest_s: without any silence, run deltas are folded this often all the same. The write-ahead file is bounded
            by DuckDB's own threshold then.
        audit_log: whether events get a place in their tenant's log.
    """

    max_queued: int = 50_000
    max_rows: int = 8_000
    gather_s: float = 0.002
    quiet_s: float = 2.0
    quiet_wal_bytes: int = 4 * 1024 * 1024
    fold_after: int = 2_000
    busy_rest_s: float = 60.0
    audit_log: bool = True


@dataclass(slots=True)
class _Submission:
    records: Rows
    unfit: int = 0
    done: Future[Receipt] = field(default_factory=Future)

    def finish(self, outcome: Receipt | StoreError) -> None:
        """Tell the sender, unless it went away meanwhile."""
        if not self.done.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Receipt):
            self.done.set_result(outcome + Receipt(0, 0, refused=self.unfit))
        else:
            self.done.set_exception(outcome)


@dataclass(slots=True)
class _Task(Generic[_T]):
    work: Callable[[Committer], _T]
    failed: str
    done: Future[_T] = field(default_factory=Future)


class Writer:
    """Owns the queue, and the one thread that commits what waits in it.

    Args:
        database: the open store.
        options: how to gather and rest.
        on_commit: called on the writer thread with the new records of each commit, after it; must not block.
        run_digest: how runs that were erased are remembered.
    """

    def __init__(
        self,
        database: Database,
        options: WriterOptions | None = None,
        *,
        on_commit: Callable[[Sequence[Record]], None] | None = None,
        run_digest: RunDigest = plain_digest,
    ) -> None:
        self._database = database
        self._options = options or WriterOptions()
        self._committer = Committer(database, on_commit, run_digest=run_digest, audit_log=self._options.audit_log)
        self._queue: queue.SimpleQueue[_Submission | None] = queue.SimpleQueue()
        # Beside the queue: senders who wait for an answer come first.
        self._tasks: queue.SimpleQueue[_Task[Any]] = queue.SimpleQueue()
        self._queued = 0
        self._queued_lock = threading.Lock()
        self._closed = False
        self._company = False
        self._rested_at = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="tracehold-writer", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> CommitStats:
        """Counters since the start."""
        return self._committer.stats

    @property
    def log(self) -> LogWriter:
        """The audit logs as they are committed."""
        return self._committer.log

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

        Args:
            records: as `Rows`, encoded off this thread; others are encoded here.

        Raises:
            QueueFullError: too much waits; nothing was taken in.
            StoreError: the writer is closed.
        """
        self.check_room()
        submission = _Submission(records) if isinstance(records, Rows) else _Submission(*encode_apart(records))
        with self._queued_lock:
            self._queued += len(records)
        self._queue.put(submission)
        return submission.done

    def submit_costs(self, costs: Sequence[Cost]) -> Future[int]:
        """Hand over what stored calls were found to cost; the future tells how many were committed.

        Raises:
            StoreError: the writer is closed.
        """
        failed = "the store could not take the prices in; nothing of this lot was changed"
        return self.run(lambda committer: committer.add_costs(costs), failed=failed, again="price again")

    def run(
        self,
        task: Callable[[Committer], _T],
        *,
        failed: str = "the store could not be changed; nothing of this step was",
        again: str = "try again",
    ) -> Future[_T]:
        """Run `task` on the writer's thread, between two commits: nothing else changes the store meanwhile.

        Senders wait as long as it runs, so what is long is done a page at a time. It begins and ends its own
        transactions (`Committer.transaction`). What it raises is the future's error: a `CollectorError` as it is, any
        other as a `StoreError` that says `failed`.

        Raises:
            StoreError: the writer is closed.
        """
        if self._closed or not self._thread.is_alive():
            raise StoreError(f"the store is closing; {again} when the collector runs")
        waiting = _Task(task, f"{failed}, {again}")
        self._tasks.put(waiting)
        self._queue.put(_Submission(encode([])))  # wakes the thread
        return waiting.done

    def close(self) -> None:
        """Commit what waits and end the thread; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        with contextlib.suppress(queue.Empty):
            while True:
                self._tasks.get_nowait().done.cancel()

    def _work(self) -> None:
        """Never ends because of what it was given: every submission is answered, one way or the other."""
        idle = False
        while True:
            try:
                first = self._queue.get(timeout=None if idle else self._options.quiet_s)
            except queue.Empty:
                idle = self._rest(quiet=True)
                continue
            if first is None:
                return
            idle = False
            batch, ending = self._gather(first)
            self._answer(batch)
            with self._queued_lock:
                self._queued -= sum(len(submission.records) for submission in batch)
            self._run_tasks()
            if ending:
                return
            if time.monotonic() - self._rested_at > self._options.busy_rest_s:
                self._rest(quiet=False)

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
            receipts = self._committer.commit([submission.records for submission in batch])
        except UNAVAILABLE as error:
            self._refuse(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever Arrow or DuckDB made of the rows
            # One sender's rows are at fault: its neighbours must not share its fate.
            if len(batch) > 1:
                for submission in batch:
                    self._answer([submission])
            else:
                self._answer_apart(batch[0], error)
        else:
            for submission, receipt in zip(batch, receipts, strict=True):
                submission.finish(receipt)

    def _run_tasks(self) -> None:
        """Run the tasks that wait."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._run_task(self._tasks.get_nowait())

    def _run_task(self, task: _Task[Any]) -> None:
        if not task.done.set_running_or_notify_cancel():
            return
        try:
            task.done.set_result(task.work(self._committer))
        except CollectorError as error:
            task.done.set_exception(error)
        except Exception as error:  # noqa: BLE001 - whoever waits must be told, whatever it is
            _log.error("task_failed", error=type(error).__name__)
            self._committer.recover(error)
            refusal = StoreError(task.failed)
            refusal.__cause__ = error
            task.done.set_exception(refusal)

    def _answer_apart(self, submission: _Submission, error: Exception) -> None:
        """Store the rows of a submission that can be stored, by halving it until the others stand alone."""
        _log.warning("rows_refused", error=type(error).__name__, rows=len(submission.records))
        try:
            submission.finish(self._store_apart(submission.records, 0))
        except Exception as again:  # noqa: BLE001 - the sender must be told, whatever it is
            self._refuse([submission], again)

    def _store_apart(self, records: Sequence[Record], refused: int) -> Receipt:
        try:
            return self._committer.commit([records if isinstance(records, Rows) else encode(records)])[0]
        except UNAVAILABLE:
            raise
        except Exception:
            if refused >= _MAX_REFUSED:
                raise
            if len(records) == 1:
                return Receipt(0, 0, refused=1)
        records = records[:]  # decoded once
        half = len(records) // 2
        first = self._store_apart(records[:half], refused)
        return first + self._store_apart(records[half:], refused + first.refused)

    def _refuse(self, batch: list[_Submission], error: BaseException) -> None:
        self.stats.failed_commits += 1
        _log.error("commit_failed", error=type(error).__name__, rows=sum(len(each.records) for each in batch))
        self._committer.recover(error)
        refusal = StoreError(
            "the store could not commit this request. Send it again; what is stored already adds nothing"
        )
        refusal.__cause__ = error  # a full disk is told apart by it
        for submission in batch:
            submission.finish(refusal)

    def _rest(self, *, quiet: bool) -> bool:
        """Do what is worth doing while nobody sends: fold run deltas, then checkpoint. Say whether it is done."""
        self._rested_at = time.monotonic()
        try:
            # A fold would make a copy of the file begin again.
            if self._committer.unfolded >= self._options.fold_after and not self._database.copying:
                self._committer.fold()
            if quiet and self._database.wal_bytes() >= self._options.quiet_wal_bytes:
                self._committer.checkpoint()
        except Exception as error:  # noqa: BLE001 - the writer must go on, whatever its housekeeping meets
            # A reader with an open transaction can hold a checkpoint back; a full disk makes the store unusable.
            _log.info("quiet_work_postponed", error=type(error).__name__)
            self._committer.recover(error)
            return not isinstance(error, duckdb.TransactionException)
        return True

    def fold(self) -> None:
        """Fold run deltas now; only while the thread does not run."""
        self._committer.fold()
