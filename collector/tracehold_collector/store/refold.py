"""Tells runs anew what their events add up to, after some of these were taken away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import duckdb
import orjson
import pyarrow as pa

from tracehold_collector.core.record import Record
from tracehold_collector.store.columns import EVENT_COLUMNS
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.run_deltas import run_delta_batch

_FIELDS: Final = tuple(name for name, _ in EVENT_COLUMNS)

_EVENTS: Final = f"""
SELECT event_id, attributes::VARCHAR, received_at, {", ".join(_FIELDS)}
FROM events
WHERE tenant = $tenant
  AND run_id IN (SELECT unnest($runs::VARCHAR[]))
"""  # noqa: S608 - column names of our own

# As add_costs.sql told it.
_LATER_COSTS: Final = """
INSERT INTO run_deltas BY NAME
SELECT
    tenant,
    run_id,
    0                  AS events,
    0                  AS llm_calls,
    0                  AS tool_calls,
    0                  AS denials,
    0                  AS errors,
    sum(change_usd)    AS cost_usd,
    -sum(newly_priced) AS unpriced_calls,
    max(priced_at)     AS received_at
FROM costs
WHERE tenant = $tenant
  AND run_id IN (SELECT unnest($runs::VARCHAR[]))
GROUP BY tenant, run_id
"""


def refold_runs(committer: Committer, tenant: str, runs: Sequence[str]) -> int:
    """Put rows of `run_deltas` in the place of those of `runs` that say what the events left to them add up to.

    A run without any is gone. Inside the caller's transaction, on the writer's thread.

    Returns:
        How many rows there were before.

    Raises:
        duckdb.Error: the caller's transaction has to be rolled back.
    """
    connection = committer.connection
    given = {"tenant": tenant, "runs": list(runs)}
    (row,) = connection.execute(
        "DELETE FROM run_deltas WHERE tenant = $tenant AND run_id IN (SELECT unnest($runs::VARCHAR[]))", given
    ).fetchall()
    records, received_at = _records(connection, given)
    if records:
        deltas = run_delta_batch(records)
        connection.register("refolded", _with_time(deltas, received_at))
        connection.execute("INSERT INTO run_deltas BY NAME SELECT * FROM refolded")
        connection.unregister("refolded")
        connection.execute(_LATER_COSTS, given)
    left = sorted({record.run_id for record in records})
    committer.recount_shares([(tenant, run_id) for run_id in left])
    return int(row[0])


def _records(connection: duckdb.DuckDBPyConnection, given: dict[str, Any]) -> tuple[list[Record], dict[str, int]]:
    """The events that are left, without what they said, and when each run was last added to."""
    records: list[Record] = []
    received: dict[str, int] = {}
    for event_id, attributes, received_at, *values in connection.execute(_EVENTS, given).fetchall():
        known = dict(zip(_FIELDS, values, strict=True))
        records.append(
            Record(event_id=event_id.bytes, attributes=orjson.loads(attributes) if attributes else None, **known)
        )
        received[known["run_id"]] = max(received.get(known["run_id"], 0), received_at)
    return records, received


def _with_time(deltas: pa.RecordBatch, received_at: dict[str, int]) -> pa.Table:
    times = pa.array([received_at[run_id] for run_id in deltas.column("run_id").to_pylist()], pa.int64())
    return pa.Table.from_batches([deltas]).append_column("received_at", times)
