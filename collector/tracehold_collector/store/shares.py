"""Keeps `usage_shares` right as events come in: in the writer's thread, inside its transaction (decision 25).

Nearly all commits hold nothing but model calls and spans without usage, and pay a look at each record. Where an agent
or a run tells usage, what its run has so far must be known. Runs under way are in memory; one that is not, because the
collector was started again or many others came since, is read from the store.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from tracehold_collector.core.record import Record
from tracehold_collector.store.columns import EVENT_COLUMNS
from tracehold_collector.store.seen import SeenIds
from tracehold_collector.store.usage_tree import Share, Told, UsageTree, needs_a_tree

_MAX_SPANS: Final = 200_000
"""Spans of all remembered runs together, about 150 bytes each."""

_MAX_RUNS: Final = 100_000
"""Runs whose first commit is remembered, so that a look for their events need not go further back."""

_DIMENSIONS: Final = Told._fields[1:10]
_ARROW: Final = dict(EVENT_COLUMNS)

_EVENTS: Final = f"""
SELECT {", ".join(f"events.{name}" for name in Told._fields)}
FROM events
WHERE run_id = $run_id
  AND tenant = $tenant
  AND received_at >= $since
"""  # noqa: S608 - column names of our own

_LATER_COSTS: Final = """
SELECT event_id, arg_max(cost_usd, priced_at)
FROM costs
WHERE run_id = $run_id
  AND tenant = $tenant
GROUP BY event_id
"""

_TELLING: Final = """
SELECT DISTINCT tenant, run_id
FROM events
WHERE (kind <> 'llm' OR type = 'call_llm')
  AND (input_tokens IS NOT NULL OR output_tokens IS NOT NULL OR cost_usd > 0)
"""

_SHARES: Final = f"SELECT event_id, {', '.join(Share._fields)} FROM usage_shares WHERE run_id = ? AND tenant = ?"  # noqa: S608 - as above

_SUMS: Final = """
INSERT INTO run_deltas BY NAME
SELECT
    runs.tenant,
    runs.run_id,
    0                               AS events,
    0                               AS llm_calls,
    0                               AS tool_calls,
    0                               AS denials,
    0                               AS errors,
    0                               AS unpriced_calls,
    $at::BIGINT                     AS share_at,
    sum(shares.calls)::BIGINT       AS share_calls,
    sum(shares.input_tokens)::BIGINT AS share_input_tokens,
    sum(shares.output_tokens)::BIGINT AS share_output_tokens,
    sum(shares.cost_usd)            AS share_cost_usd,
    sum(shares.unpriced_calls)::BIGINT AS share_unpriced,
    $at::BIGINT                     AS received_at
FROM (SELECT unnest($tenants::VARCHAR[]) AS tenant, unnest($run_ids::VARCHAR[]) AS run_id) AS runs
LEFT JOIN usage_shares AS shares ON shares.run_id = runs.run_id AND shares.tenant = runs.tenant
GROUP BY runs.tenant, runs.run_id
"""

_Run = tuple[str, str]
"""Tenant and run id."""


class UsageShares:
    """Decides which events besides model calls count as spend, and stores that; used by the one writer thread only.

    Args:
        connection: the writer's; the runs of the store are read from it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._trees: OrderedDict[_Run, UsageTree] = OrderedDict()
        self._spans = 0
        self._since: dict[_Run, int] = {}
        self._known = _runs(connection, "SELECT DISTINCT tenant, run_id FROM run_deltas")
        self._telling = _runs(connection, _TELLING)
        ((self._last_at,),) = connection.execute("SELECT coalesce(max(share_at), 0) FROM run_deltas").fetchall()

    def settle(self, connection: duckdb.DuckDBPyConnection, fresh: Sequence[Record], received_at: int) -> int:
        """Store what new records change about what counts; their rows of `events` are written already.

        Must be called inside the transaction that stores them; call `forget` when that is rolled back.

        Args:
            connection: the writer's.
            fresh: the records, new in the store.
            received_at: UTC nanoseconds of the commit.

        Returns:
            How many rows of `run_deltas` were written.
        """
        runs: dict[_Run, list[Record]] = {}
        told: dict[_Run, None] = {}
        for record in fresh:
            run = (record.tenant, record.run_id)
            runs.setdefault(run, []).append(record)
            if needs_a_tree(record):
                told[run] = None
        keys = list(runs)
        digests = [_digest(run) for run in keys]
        known, telling = self._known.maybe(digests), self._telling.maybe(digests)
        changed: list[_Run] = []
        for run, old, tells in zip(keys, known.tolist(), telling.tolist(), strict=True):
            self._remember_start(run, received_at, is_new=not old)
            if run in told or tells:
                tree = self._trees.get(run)
                if tree is None:
                    # What the store has of the run includes the new records.
                    tree = self._read(connection, run) if old else UsageTree()
                    if old:
                        self._keep(run, tree, 0)
                        changed += [run] * self._store(connection, run, tree)
                        continue
                before = len(tree)
                for record in runs[run]:
                    tree.add(record)
                self._keep(run, tree, before if run in self._trees else 0)
                changed += [run] * self._store(connection, run, tree)
        self._known.add(digests)
        if told:
            self._telling.add(_digest(run) for run in told)
        return self._sum_up(connection, changed, received_at)

    def priced_anew(self, connection: duckdb.DuckDBPyConnection, runs: Iterable[_Run], priced_at: int) -> int:
        """Store what later prices change; rows of `costs` are written already. As `settle` otherwise."""
        keys = list(dict.fromkeys(runs))
        changed: list[_Run] = []
        for run, tells in zip(keys, self._telling.maybe([_digest(run) for run in keys]).tolist(), strict=True):
            if tells:
                self._drop(run)
                changed += [run] * self._store(connection, run, self._read(connection, run))
        return self._sum_up(connection, changed, priced_at)

    def forget(self) -> None:
        """Forget the runs in memory: what they say was not stored in the end."""
        self._trees.clear()
        self._spans = 0

    def _read(self, connection: duckdb.DuckDBPyConnection, run: _Run) -> UsageTree:
        bound = {"tenant": run[0], "run_id": run[1]}
        later = dict(connection.execute(_LATER_COSTS, bound).fetchall())
        rows = connection.execute(_EVENTS, {**bound, "since": self._since.get(run, 0)}).fetchall()
        shares = connection.execute(_SHARES, [run[1], run[0]]).fetchall()
        tree = UsageTree({row[0].bytes: Share(*row[1:]) for row in shares})
        for row in rows:
            event = Told(row[0].bytes, *row[1:])
            tree.add(event._replace(cost_usd=later[row[0]]) if row[0] in later else event)
        return tree

    def _store(self, connection: duckdb.DuckDBPyConnection, run: _Run, tree: UsageTree) -> bool:
        """Make the rows of `usage_shares` those of the tree, and say whether anything changed."""
        current = tree.current()
        if current == tree.shares:
            return False
        gone = [event_id for event_id, share in tree.shares.items() if current.get(event_id) != share]
        new = [(tree.event(key), share) for key, share in current.items() if tree.shares.get(key) != share]
        if gone:
            ids = [uuid.UUID(bytes=event_id) for event_id in gone]
            connection.execute(
                "DELETE FROM usage_shares WHERE tenant = ? AND event_id IN (SELECT unnest(?::UUID[]))", [run[0], ids]
            )
        if new:
            connection.register("staged_shares", _table(new))
            connection.execute("INSERT INTO usage_shares BY NAME SELECT * FROM staged_shares")
        tree.shares = current
        return True

    def _sum_up(self, connection: duckdb.DuckDBPyConnection, changed: Sequence[_Run], at: int) -> int:
        if not changed:
            return 0
        # The latest row of a run counts: no two may be of one moment, whatever the clock does.
        self._last_at = max(at, self._last_at + 1)
        tenants, run_ids = zip(*changed, strict=True)
        connection.execute(_SUMS, {"at": self._last_at, "tenants": list(tenants), "run_ids": list(run_ids)})
        return len(changed)

    def _remember_start(self, run: _Run, received_at: int, *, is_new: bool) -> None:
        start = self._since.get(run)
        if start is None:
            if not is_new:
                return
            if len(self._since) >= _MAX_RUNS:
                del self._since[next(iter(self._since))]
            self._since[run] = received_at
        elif received_at < start:  # the clock was set back
            self._since[run] = received_at

    def _keep(self, run: _Run, tree: UsageTree, before: int) -> None:
        self._trees[run] = tree
        self._trees.move_to_end(run)
        self._spans += len(tree) - before
        while self._spans > _MAX_SPANS and len(self._trees) > 1:
            self._spans -= len(self._trees.popitem(last=False)[1])

    def _drop(self, run: _Run) -> None:
        tree = self._trees.pop(run, None)
        if tree is not None:
            self._spans -= len(tree)


def _digest(run: _Run) -> bytes:
    return hashlib.blake2b(f"{run[0]}\0{run[1]}".encode("utf-8", "replace"), digest_size=16).digest()


def _runs(connection: duckdb.DuckDBPyConnection, sql: str) -> SeenIds:
    seen = SeenIds()
    result = connection.execute(sql)
    while rows := result.fetchmany(100_000):
        seen.add(_digest(row) for row in rows)
    return seen


def _table(shares: Sequence[tuple[Told, Share]]) -> pa.Table:
    columns: dict[str, Any] = {
        "event_id": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([event.event_id for event, _ in shares], pa.binary(16))
        )
    }
    for name in _DIMENSIONS:
        columns[name] = pa.array([getattr(event, name) for event, _ in shares], _ARROW[name])
    for name in Share._fields:
        columns[name] = pa.array(
            [getattr(share, name) for _, share in shares], pa.float64() if name == "cost_usd" else pa.int64()
        )
    return pa.table(columns)
