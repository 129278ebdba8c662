"""Erasure beats late data: what was erased is not taken in again, whoever sends it and whenever.

After a deletion an id that is sent again is refused; so is every event of a run that was erased whole. Filters in
memory say "certainly not" for nearly all that comes, and the tables of erasures are asked about the rest. A store in
which nothing was erased has no filters, and pays a look at a flag.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import duckdb

from tracehold_collector.store.rows import Rows, encode
from tracehold_collector.store.seen import SeenIds, joined_values

RunDigest = Callable[[str, str], bytes]
"""Makes 16 bytes of a tenant and a run id: how a run that was erased is remembered without its name."""

_LOAD_ROWS: Final = 100_000
_ID_BYTES: Final = 16

_DELETED_EVENTS: Final = """
SELECT event_id, tenant
FROM erased_events
WHERE erasure_id IN (SELECT erasure_id FROM erasures WHERE step = 'requested' AND (details ->> 'mode') = 'delete')
"""
_WHOLE_RUNS: Final = "SELECT run_digest FROM erased_runs WHERE whole"


def plain_digest(tenant: str, run_id: str) -> bytes:
    """Return a digest without a key, for stores whose names need no hiding: tests, and one in memory."""
    return hashlib.sha256(f"{tenant}\0{run_id}".encode("utf-8", "replace")).digest()[:_ID_BYTES]


class ErasedIds:
    """Knows what was erased; used by the one writer thread only.

    Args:
        connection: the writer's; what was erased is read from it.
        run_digest: how runs are remembered; the same for the life of the store.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, run_digest: RunDigest) -> None:
        self.run_digest = run_digest
        self._connection = connection
        self._events: SeenIds | None = None
        self._runs: SeenIds | None = None
        self.add_events(connection, _DELETED_EVENTS)
        for lot in _lots(connection, _WHOLE_RUNS):
            self.add_runs(lot)

    def add_events(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Take in the ids of events that were deleted: what `sql` selects as `event_id`."""
        # As bytes, a batch at a time: as objects, those of a large purge would take gigabytes.
        for batch in connection.execute(f"SELECT event_id::BLOB FROM ({sql})").to_arrow_reader(_LOAD_ROWS):  # noqa: S608
            if batch.num_rows:
                self._events = self._events or SeenIds()
                self._events.add(joined_values(batch.column(0), _ID_BYTES))

    def add_runs(self, digests: Sequence[bytes]) -> None:
        """Take in the digests of runs that were erased whole."""
        if digests:
            self._runs = self._runs or SeenIds()
            self._runs.add(b"".join(digests))

    def without(self, submissions: Sequence[Rows]) -> tuple[Sequence[Rows], list[int]]:
        """Return the submissions without what was erased, and how much each lost."""
        nothing = [0] * len(submissions)
        if self._events is None and self._runs is None:
            return submissions, nothing
        events = self._deleted(b"".join(rows.ids for rows in submissions))
        runs = self._whole([run for rows in submissions for run in _runs_in(rows)])
        if not events and not runs:
            return submissions, nothing
        kept = [self._kept(rows, events, runs) for rows in submissions]
        return kept, [len(rows) - len(rest) for rows, rest in zip(submissions, kept, strict=True)]

    @staticmethod
    def _kept(rows: Rows, events: set[tuple[str, bytes]], runs: set[tuple[str, str]]) -> Rows:
        ids = rows.ids
        named = {event_id for _, event_id in events}
        here = named and any(ids[start : start + _ID_BYTES] in named for start in range(0, len(ids), _ID_BYTES))
        if not here and runs.isdisjoint(_runs_in(rows)):
            return rows  # not decoded for what a neighbour sends
        records = [
            record
            for record in rows
            if (record.tenant, record.event_id) not in events and (record.tenant, record.run_id) not in runs
        ]
        return rows if len(records) == len(rows) else encode(records)

    def _deleted(self, ids: bytes) -> set[tuple[str, bytes]]:
        """Tenant and id of those among `ids` that were deleted."""
        places = self._events.places(ids) if self._events is not None and ids else set()
        if not places:
            return set()
        found = self._connection.execute(
            f"{_DELETED_EVENTS} AND event_id IN (SELECT unnest($ids::UUID[]))",
            {"ids": [uuid.UUID(bytes=ids[place * _ID_BYTES : (place + 1) * _ID_BYTES]) for place in places]},
        ).fetchall()
        return {(tenant, event_id.bytes) for event_id, tenant in found}

    def _whole(self, runs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those among `runs` that were erased whole."""
        if self._runs is None or not runs:
            return set()
        digests = [self.run_digest(*run) for run in runs]
        maybe = {digests[place]: runs[place] for place in self._runs.places(b"".join(digests))}
        if not maybe:
            return set()
        found = self._connection.execute(
            f"{_WHOLE_RUNS} AND run_digest IN (SELECT unnest($digests::BLOB[]))", {"digests": list(maybe)}
        ).fetchall()
        return {maybe[digest] for (digest,) in found}


def _lots(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[list[Any]]:
    result = connection.execute(sql)
    while rows := result.fetchmany(_LOAD_ROWS):
        yield [row[0] for row in rows]


def _runs_in(rows: Rows) -> Iterable[tuple[str, str]]:
    return zip(rows.deltas.column("tenant").to_pylist(), rows.deltas.column("run_id").to_pylist(), strict=True)
