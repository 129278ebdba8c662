"""One commit: sort out what the store has already, insert the rest, all or nothing. Used by the writer thread only."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.store.columns import Cost, cost_table
from tracehold_collector.store.conflicts import COMPARED, conflicts
from tracehold_collector.store.database import Database
from tracehold_collector.store.erased import ErasedIds, RunDigest, plain_digest
from tracehold_collector.store.log import LogWriter
from tracehold_collector.store.rows import Rows, encode
from tracehold_collector.store.sealed import seal_batch
from tracehold_collector.store.seen import SeenIds, Unsure, joined_values
from tracehold_collector.store.shares import UsageShares
from tracehold_collector.store.tables import Table

_log = structlog.get_logger(__name__)

_SQL: Final = resources.files("tracehold_collector.store.sql")
_FOLD_RUN_DELTAS: Final = (_SQL / "fold_run_deltas.sql").read_text()
_ADD_COSTS: Final = (_SQL / "add_costs.sql").read_text()

_TABLES: Final = ("events", "run_deltas", "contents", "log_hashes")
_ID_BYTES: Final = 16
_LOAD_ROWS: Final = 1 << 18
_LAST_COMMIT: Final = """
SELECT greatest(
    (SELECT max(received_at) FROM events),
    (SELECT max(received_at) FROM log_hashes WHERE tenant <> '~collector')
)
"""

UNAVAILABLE: Final = (
    duckdb.FatalException,
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.ConnectionException,
    duckdb.TransactionException,
    duckdb.OutOfMemoryException,
    duckdb.InterruptException,
    MemoryError,
    StoreError,  # the key store gave no key
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
        erased: not taken in, since they, or their run, were erased before.
    """

    accepted: int
    duplicates: int
    refused: int = 0
    erased: int = 0

    def __add__(self, other: Receipt) -> Receipt:
        """Return what became of both."""
        return Receipt(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.refused + other.refused,
            self.erased + other.erased,
        )


@dataclass(slots=True)
class CommitStats:
    """Counters since the start, for `/metrics`. Written by the writer thread only."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    commits: int = 0
    failed_commits: int = 0
    erased: int = 0
    content_bytes: int = 0


class Committer:
    """Owns the database's write connection.

    Args:
        database: the open store.
        on_commit: called with the new records of each commit, after it; must not block. What it raises is logged.
        run_digest: how runs that were erased are remembered.
        audit_log: whether events get a place in their tenant's log.
    """

    def __init__(
        self,
        database: Database,
        on_commit: Callable[[Sequence[Record]], None] | None = None,
        *,
        run_digest: RunDigest = plain_digest,
        audit_log: bool = True,
    ) -> None:
        self.stats = CommitStats()
        self._database = database
        self._run_digest = run_digest
        self._audit_log = audit_log
        self._on_commit = on_commit
        self._seen = SeenIds()
        self._open()
        # pyarrow imports pandas when it first builds an array, which takes half a second: not on somebody's request.
        encode([])

    def commit(self, submissions: Sequence[Rows]) -> list[Receipt]:
        """Store the new records of several submissions in one transaction; return a receipt for each.

        Raises:
            duckdb.Error, pyarrow.ArrowException: nothing was stored.
        """
        kept, erased = self.erased.without(submissions)
        fresh, receipts = self._select_new(kept)
        if fresh:
            self._insert(fresh)
        if any(erased):
            self.stats.erased += sum(erased)
            receipts = [receipt + Receipt(0, 0, 0, count) for receipt, count in zip(receipts, erased, strict=True)]
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
            runs = dict.fromkeys((cost.tenant, cost.run_id) for cost in costs)
            self._shares.priced_anew(connection, list(runs), priced_at)
            connection.execute("COMMIT")
        except BaseException:
            self._shares.forget()
            _rollback(connection)
            raise
        self.unfolded += len(runs)
        return len(costs)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The write connection; only on the writer's thread."""
        return self._database.connection

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """One transaction of whoever runs on the writer's thread, all or nothing."""
        connection = self._database.connection
        connection.execute("BEGIN TRANSACTION")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            self._shares.forget()
            _rollback(connection)
            raise
        finally:
            self._database.rows_changed()

    def recount_shares(self, runs: Sequence[tuple[str, str]]) -> None:
        """Tell runs (tenant, run id) what counts of them, after events were taken away; inside a transaction."""
        self._shares.recount(self._database.connection, runs, now_ns())
        self.unfolded += 2 * len(runs)

    def recover(self, error: BaseException) -> None:
        """Open the file again when DuckDB will answer nothing more until then; the next commit tries again if not."""
        if not isinstance(error, _NEEDS_REOPENING):
            return
        try:
            self._database.reopen()
            self._seen = SeenIds()
            self._open()
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
        finally:
            self._database.rows_changed()
        self.unfolded = 0

    def checkpoint(self) -> None:
        """Move the write-ahead file into the store."""
        self._database.connection.execute("CHECKPOINT")

    def attach(self) -> None:
        """Go on with the same rows in another file: what is known of them stays true."""
        connection = self._database.connection
        self._tables = {name: Table(connection, name) for name in _TABLES}
        self._shares = UsageShares(connection)
        self.erased = ErasedIds(connection, self._run_digest)

    def _open(self) -> None:
        self.attach()
        connection = self._database.connection
        self.log = LogWriter(connection)
        # By the hashes as well: the last events may be erased, their leaves stay.
        (last,) = connection.execute(_LAST_COMMIT).fetchone() or (None,)
        self._last_commit_ns = last or 0
        (self.unfolded,) = connection.execute("SELECT count(*) FROM run_deltas WHERE run_key IS NULL").fetchone() or (
            0,
        )
        stored = connection.execute("SELECT event_id::BLOB, received_at FROM events").to_arrow_reader(_LOAD_ROWS)
        for batch in stored:
            first_ns, last_ns = pc.min_max(batch.column(1)).values()
            self._seen.add(joined_values(batch.column(0), _ID_BYTES), first_ns.as_py(), last_ns.as_py())
        self._database.release_memory()

    def _insert(self, fresh: list[Rows]) -> None:
        # Of two commits the later one has the later time, whatever the clock does: who reads on from there misses none.
        received_at = max(now_ns(), self._last_commit_ns + 1)
        connection = self._database.connection
        sealed = [seal_batch(self._database.vault, rows.contents) for rows in fresh]
        leaves = self.log.stage(fresh if self._audit_log else [], received_at)
        places = {"leaf_index": pa.chunked_array(leaves.indexes)} if leaves.indexes else {}
        connection.execute("BEGIN TRANSACTION")
        try:
            self._tables["events"].append([rows.events for rows in fresh], received_at, places)
            self._tables["run_deltas"].append([rows.deltas for rows in fresh], received_at)
            self._tables["contents"].append(sealed, received_at)
            self._tables["log_hashes"].append([leaves.hashes], received_at)
            self._shares.settle(connection, fresh, received_at)
            connection.execute("COMMIT")
        except BaseException:
            self._shares.forget()
            _rollback(connection)
            raise
        self._last_commit_ns = received_at
        self.log.settle(leaves)
        for rows in fresh:
            self._seen.add(rows.ids, received_at, received_at)
            self.unfolded += rows.deltas.num_rows
            self.stats.accepted += len(rows)
            self.stats.content_bytes += rows.contents.column("body").nbytes
        self.stats.commits += 1
        self._tell(fresh)

    def _tell(self, fresh: list[Rows]) -> None:
        if self._on_commit is None:
            return
        try:
            for rows in fresh:
                self._on_commit(rows)
        except Exception as error:  # noqa: BLE001 - the commit stands, whatever the listener does
            _log.error("on_commit_failed", error=type(error).__name__)

    def _select_new(self, submissions: Sequence[Rows]) -> tuple[list[Rows], list[Receipt]]:
        """Sort out duplicates: against the store by the filter and, where unsure, by SQL; within the batch by a set.

        Nearly always there are none, and the rows go in as they came.
        """
        joined = b"".join([rows.ids for rows in submissions])
        # Of one tenant: what another has under the same id takes nothing away here, and is not told.
        taken: _Taken = {}
        for unsure in self._seen.maybe(joined):
            taken |= self._stored(joined, unsure)
        if not taken and self._seen.all_differ(joined):
            return [rows for rows in submissions if len(rows)], [Receipt(len(rows), 0) for rows in submissions]
        fresh: list[Rows] = []
        receipts: list[Receipt] = []
        for rows in submissions:
            new = self._new_records(rows, taken)
            receipts.append(Receipt(len(new), len(rows) - len(new)))
            if new:
                fresh.append(rows if len(new) == len(rows) else encode(new))
        return fresh, receipts

    def _new_records(self, rows: Rows, taken: _Taken) -> list[Record]:
        """Return the records that are not in `taken`, and put them in."""
        new = []
        for record in rows:
            key = (record.tenant, record.event_id)
            if key not in taken:
                taken[key] = record
                new.append(record)
            else:
                self.stats.conflicts += conflicts(record, taken[key])
        return new

    def _stored(self, joined: bytes, unsure: Unsure) -> _Taken:
        """Look ids up, and read what is found: in two steps, or the wide columns of the whole stretch are read."""
        ids = [uuid.UUID(bytes=joined[place * _ID_BYTES : (place + 1) * _ID_BYTES]) for place in unsure.places]
        connection = self._database.connection
        places = connection.execute(
            """
            SELECT rowid
            FROM events
            WHERE event_id IN (SELECT unnest($ids::UUID[]))
              AND received_at BETWEEN $first_ns AND $last_ns
            """,
            {"ids": ids, "first_ns": unsure.first_ns, "last_ns": unsure.last_ns},
        ).fetchall()
        if not places:
            return {}
        found = [place for (place,) in places]
        rows = connection.execute(
            f"""
            SELECT tenant, event_id, {", ".join(COMPARED)}
            FROM events
            WHERE rowid IN (SELECT unnest($found::BIGINT[]))
              AND rowid BETWEEN $first AND $last
            """,  # noqa: S608 - names of ours
            {"found": found, "first": min(found), "last": max(found)},
        ).fetchall()
        return {(tenant, event_id.bytes): tuple(rest) for tenant, event_id, *rest in rows}


_Taken = dict[tuple[str, bytes], Record | tuple[Any, ...]]
"""Tenant and id of what is known already, and what it says: as a record, or as the columns `COMPARED`."""


def _rollback(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        # DuckDB ends the transaction itself on a fatal error; there is nothing left to undo then.
        _log.debug("rollback_not_needed")
