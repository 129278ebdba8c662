"""Keeps `usage_shares` right as events come in: in the writer's thread, inside its transaction (decision 25).

Nearly all commits hold nothing but model calls and spans without usage, and pay a look at each of their runs. Where an
agent or a run tells usage, what its run has so far must be known. Runs under way are in memory; one that is not,
because the collector was started again or many others came since, is read from the store.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any, Final

import duckdb
import pyarrow as pa

from tracehold_collector.store.columns import EVENT_COLUMNS
from tracehold_collector.store.rows import Rows
from tracehold_collector.store.seen import SeenIds
from tracehold_collector.store.usage_tree import Share, Told, UsageTree

_MAX_SPANS: Final = 200_000
"""Spans of all remembered runs together, about 150 bytes each."""

_MAX_RUNS: Final = 100_000
"""Runs whose first commit is remembered, so that a look for their events need not go further back."""

_SQL: Final = resources.files("tracehold_collector.store.sql")
_ADD_RUN_SHARES: Final = (_SQL / "add_run_shares.sql").read_text()

_FIGURES: Final = ", ".join(name for name in Told._fields if name != "event_id")
_EVENTS: Final = f"""
SELECT event_id, {_FIGURES}
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
_SHARES: Final = f"""
SELECT event_id, {", ".join(Share._fields)}
FROM usage_shares
WHERE run_id = $run_id
  AND tenant = $tenant
"""  # noqa: S608 - as above

_TYPES: Final = dict(EVENT_COLUMNS) | {"calls": pa.int64(), "unpriced_calls": pa.int64()}
_DIMENSIONS: Final = Told._fields[1:10]

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
        self._telling = _runs(connection, "SELECT DISTINCT tenant, run_id FROM run_deltas WHERE telling > 0")
        ((self._last_at,),) = connection.execute("SELECT coalesce(max(share_at), 0) FROM run_deltas").fetchall()

    def settle(self, connection: duckdb.DuckDBPyConnection, fresh: Sequence[Rows], received_at: int) -> None:
        """Store what new records change about what counts; their rows of `events` are written already.

        Must be called inside the transaction that stores them; call `forget` when that is rolled back.

        Args:
            connection: the writer's.
            fresh: the records, new in the store.
            received_at: UTC nanoseconds of the commit, later than any before.
        """
        telling_now: dict[_Run, bool] = {}
        for rows in fresh:
            for run, telling in zip(_runs_in(rows), rows.deltas.column("telling").to_pylist(), strict=True):
                telling_now[run] = telling_now.get(run, False) or telling > 0
        runs = list(telling_now)
        digests = _digests(runs)
        known, told_before = self._known.places(digests), self._telling.places(digests)
        changed = []
        wanted = [place for place, run in enumerate(runs) if telling_now[run] or place in told_before]
        events = _events_of({runs[place] for place in wanted}, fresh) if wanted else {}
        for place in wanted:
            run = runs[place]
            tree = self._trees.pop(run, None)
            self._spans -= 0 if tree is None else len(tree)
            if tree is None and place in known:
                tree = self._read(connection, run)  # with the new records: they are in the table by now
            else:
                tree = tree or UsageTree()
                for event in events[run]:
                    tree.add(event)
            if self._store(connection, run, tree):
                changed.append(run)
            self._keep(run, tree)
        for place, run in enumerate(runs):
            if place not in known:
                self._remember_start(run, received_at)
        self._known.add(digests)
        if any(telling_now.values()):
            self._telling.add(_digests(run for run in runs if telling_now[run]))
        self._sum_up(connection, changed, received_at)

    def priced_anew(self, connection: duckdb.DuckDBPyConnection, runs: Sequence[_Run], priced_at: int) -> None:
        """Store what later prices change about `runs`; rows of `costs` are written already. Otherwise as `settle`."""
        changed = []
        for place in self._telling.places(_digests(runs)):
            run = runs[place]
            dropped = self._trees.pop(run, None)
            self._spans -= 0 if dropped is None else len(dropped)
            if self._store(connection, run, self._read(connection, run)):
                changed.append(run)
        self._sum_up(connection, changed, priced_at)

    def recount(self, connection: duckdb.DuckDBPyConnection, runs: Sequence[_Run], at: int) -> None:
        """Store what counts of `runs` after events, and their rows of `usage_shares`, were taken away. As `settle`."""
        self.forget()
        for run in (runs[place] for place in self._telling.places(_digests(runs))):
            self._store(connection, run, self._read(connection, run))
        self._sum_up(connection, runs, at)

    def forget(self) -> None:
        """Forget the runs in memory: what they say was not stored in the end."""
        self._trees.clear()
        self._spans = 0

    def _read(self, connection: duckdb.DuckDBPyConnection, run: _Run) -> UsageTree:
        bound = {"tenant": run[0], "run_id": run[1]}
        later = dict(connection.execute(_LATER_COSTS, bound).fetchall())
        shares = connection.execute(_SHARES, bound).fetchall()
        tree = UsageTree({row[0].bytes: Share(*row[1:]) for row in shares})
        connection.execute(_EVENTS, {**bound, "since": self._since.get(run, 0)})
        for row in connection.fetchall():
            event = Told(row[0].bytes, *row[1:])
            tree.add(event._replace(cost_usd=later[row[0]]) if row[0] in later else event)
        return tree

    def _store(self, connection: duckdb.DuckDBPyConnection, run: _Run, tree: UsageTree) -> bool:
        """Make the rows of `usage_shares` those of the tree, and say whether anything changed."""
        before, now = tree.shares, tree.current()
        if now == before:
            return False
        gone = [uuid.UUID(bytes=key) for key, share in before.items() if now.get(key) != share]
        new = [(tree.event(key), share) for key, share in now.items() if before.get(key) != share]
        if gone:
            connection.execute(
                "DELETE FROM usage_shares WHERE tenant = ? AND event_id IN (SELECT unnest(?::UUID[]))", [run[0], gone]
            )
        if new:
            connection.register("staged_shares", _table(new))
            connection.execute("INSERT INTO usage_shares BY NAME SELECT * FROM staged_shares")
        tree.shares = now
        return True

    def _sum_up(self, connection: duckdb.DuckDBPyConnection, changed: Sequence[_Run], at: int) -> None:
        if changed:
            # The latest row of a run counts: no two may be of one moment, whatever the clock does.
            self._last_at = max(at, self._last_at + 1)
            tenants, run_ids = zip(*changed, strict=True)
            bound = {"at": self._last_at, "tenants": list(tenants), "run_ids": list(run_ids)}
            connection.execute(_ADD_RUN_SHARES, bound)

    def _remember_start(self, run: _Run, received_at: int) -> None:
        if len(self._since) >= _MAX_RUNS:
            del self._since[next(iter(self._since))]
        self._since[run] = received_at

    def _keep(self, run: _Run, tree: UsageTree) -> None:
        self._trees[run] = tree
        self._spans += len(tree)
        while self._spans > _MAX_SPANS and len(self._trees) > 1:
            self._spans -= len(self._trees.popitem(last=False)[1])


def _runs_in(rows: Rows) -> Iterator[_Run]:
    return zip(rows.deltas.column("tenant").to_pylist(), rows.deltas.column("run_id").to_pylist(), strict=True)


def _events_of(runs: set[_Run], fresh: Sequence[Rows]) -> dict[_Run, list[Told]]:
    found: dict[_Run, list[Told]] = {run: [] for run in runs}
    for rows in fresh:
        if runs.isdisjoint(_runs_in(rows)):
            continue
        ids = rows.ids
        columns = [rows.events.column(name).to_pylist() for name in Told._fields[1:]]
        for place, values in enumerate(zip(*columns, strict=True)):
            events = found.get((values[0], values[1]))
            if events is not None:
                events.append(Told(ids[place * 16 : (place + 1) * 16], *values))
    return found


def _digests(runs: Iterable[_Run]) -> bytes:
    return b"".join(
        hashlib.blake2b(f"{tenant}\0{run_id}".encode("utf-8", "replace"), digest_size=16).digest()
        for tenant, run_id in runs
    )


def _runs(connection: duckdb.DuckDBPyConnection, sql: str) -> SeenIds:
    seen = SeenIds()
    result = connection.execute(sql)
    while rows := result.fetchmany(100_000):
        seen.add(_digests(rows))
    return seen


def _table(shares: Sequence[tuple[Told, Share]]) -> pa.Table:
    ids = pa.array([event.event_id for event, _ in shares], pa.binary(16))
    columns: dict[str, Any] = {"event_id": pa.ExtensionArray.from_storage(pa.uuid(), ids)}
    for name in _DIMENSIONS:
        columns[name] = pa.array([getattr(event, name) for event, _ in shares], _TYPES[name])
    for name in Share._fields:
        columns[name] = pa.array([getattr(share, name) for _, share in shares], _TYPES[name])
    return pa.table(columns)
