"""Empties the cells of a manifest and, for a deletion, takes its rows away; a lot at a time, each all or nothing.

What a lot came to is told in the same transaction: counts are right after a crash, too, and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

import duckdb
from tracehold.core.clock import now_ns

from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.steps import tell
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.refold import refold_runs
from tracehold_collector.store.writer import Writer

_CHUNKS_AT_ONCE: Final = 5_000
_RUNS_AT_ONCE: Final = 500
_EVENTS_AT_ONCE: Final = 50_000
_WAIT_S: Final = 600.0

# Chunks of which all is erased: of destroyed keys every one that is left (what stays lies under another by now), and
# those from before there were keys that were not sealed again.
_EMPTIED: Final = """
FROM contents
WHERE tenant = $tenant
  AND (
      key_id IN (SELECT key_id FROM erased_keys WHERE erasure_id = $erasure)
      OR key_id IS NULL AND chunk_id IN (
          SELECT content_chunk
          FROM events
          WHERE tenant = $tenant
            AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
      )
  )
"""

_RUNS: Final = """
SELECT run_id, count(*)
FROM events
WHERE tenant = $tenant
  AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
GROUP BY run_id
ORDER BY min(received_at), run_id
LIMIT $limit
"""

_THEIRS: Final = """
tenant = $tenant
AND run_id IN (SELECT unnest($runs::VARCHAR[]))
AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
"""


@dataclass(slots=True)
class Removed:
    """Rows that were removed or emptied, by table."""

    contents: int = 0
    events: int = 0
    run_deltas: int = 0
    costs: int = 0
    usage_shares: int = 0

    def __bool__(self) -> bool:
        """Whether there was anything."""
        return any(getattr(self, each.name) for each in fields(self))


def empty_cells(writer: Writer, record: ErasureRecord, stopping: Callable[[], bool]) -> bool:
    """Empty what a manifest is about; return whether all is done, which it is not when it was stopped. May be repeated.

    Raises:
        StoreError: the store failed; what is done stays done.
    """
    lots: list[Callable[[Committer, ErasureRecord], Removed]] = [_empty_chunks]
    if record.mode == "delete":
        lots.append(_delete_runs)
    for lot in lots:
        while writer.run(partial(_told, record=record, lot=lot)).result(_WAIT_S):
            if stopping():
                return False
    return True


def _told(committer: Committer, record: ErasureRecord, lot: Callable[[Committer, ErasureRecord], Removed]) -> bool:
    with committer.transaction() as connection:
        removed = lot(committer, record)
        if removed:
            counts = {each.name: getattr(removed, each.name) for each in fields(removed)}
            tell(connection, record.id, record.tenant, "lot", now_ns(), **counts)
    return bool(removed)


def _empty_chunks(committer: Committer, record: ErasureRecord) -> Removed:
    connection = committer.connection
    given = {"tenant": record.tenant, "erasure": record.id}
    wanted = "" if record.mode == "delete" else "AND body IS NOT NULL"
    rows = connection.execute(f"SELECT chunk_id {_EMPTIED} {wanted} LIMIT {_CHUNKS_AT_ONCE}", given).fetchall()
    if not rows:
        return Removed()
    change = "DELETE FROM contents" if record.mode == "delete" else "UPDATE contents SET body = NULL"
    connection.execute(
        f"{change} WHERE tenant = $tenant AND chunk_id IN (SELECT unnest($chunks::UUID[]))",
        {"tenant": record.tenant, "chunks": [row[0] for row in rows]},
    )
    return Removed(contents=len(rows))


def _delete_runs(committer: Committer, record: ErasureRecord) -> Removed:
    connection = committer.connection
    given: dict[str, Any] = {"tenant": record.tenant, "erasure": record.id}
    found = connection.execute(_RUNS, given | {"limit": _RUNS_AT_ONCE}).fetchall()
    runs: list[str] = []
    events = 0
    for run_id, count in found:
        if runs and events + count > _EVENTS_AT_ONCE:
            break
        runs.append(run_id)
        events += count
    if not runs:
        return Removed()
    given["runs"] = runs
    costs = _delete(connection, "costs", given)
    shares = _delete(connection, "usage_shares", given)
    _delete(connection, "events", given)
    deltas = refold_runs(committer, record.tenant, runs)
    return Removed(0, events, deltas, costs, shares)


def _delete(connection: duckdb.DuckDBPyConnection, table: str, given: dict[str, Any]) -> int:
    (row,) = connection.execute(f"DELETE FROM {table} WHERE {_THEIRS}", given).fetchall()  # noqa: S608 - ours
    return int(row[0])
