"""The audit log beside the events: each commit adds the leaves of its events to their tenants' trees.

The one writer knows every tree by its frontier, so that adding a leaf costs a hash or two and reads nothing. What lies
in the store is enough to go on from after a crash: the frontier is put together again from the last hashes of each
level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracehold_collector.audit.leaves import EVENT, HASH_BYTES, leaf_hashes
from tracehold_collector.audit.merkle import TILE_LEVELS, Frontier, root_of
from tracehold_collector.core.errors import StoreError
from tracehold_collector.store.database import Database
from tracehold_collector.store.rows import Rows

OWN_LOG: Final = "~collector"
"""The log of the collector's own events: a name that no tenant can have."""

_SCHEMA: Final = pa.schema(
    [("tenant", pa.string()), ("level", pa.uint8()), ("first_index", pa.int64()), ("hashes", pa.binary())]
)
_SIZES: Final = f"""
SELECT tenant, max(first_index + octet_length(hashes) // {HASH_BYTES})
FROM log_hashes
WHERE level = 0
GROUP BY tenant
"""  # noqa: S608 - a constant
# The row that holds the first hash is the last one that begins no later: found by the narrow columns alone, where the
# store's own statistics leave most of the table out.
_HASHES: Final = """
SELECT first_index, hashes
FROM log_hashes
WHERE tenant = $tenant
  AND level = $level
  AND first_index < $end
  AND first_index >= (
      SELECT coalesce(max(first_index), 0)
      FROM log_hashes
      WHERE tenant = $tenant AND level = $level AND first_index <= $first
  )
ORDER BY first_index
"""


@dataclass(slots=True)
class Staged:
    """The leaves of one commit, not yet counted.

    Attributes:
        indexes: for each batch of rows, where each row's leaf stands in its tenant's log.
        hashes: the rows of `log_hashes`.
        frontiers: the trees as they are with them.
        ended: tenants that a run ended of.
    """

    indexes: list[pa.Array]
    hashes: pa.RecordBatch
    frontiers: dict[str, Frontier] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)


class Logs(Protocol):
    """Logs as their writer has them. Every method may be called from any thread."""

    @property
    def sizes(self) -> dict[str, int]:
        """Leaves in each log, by its tenant."""
        ...

    def head(self, tenant: str) -> tuple[int, bytes]:
        """Return the size and the root of a log, as of the last commit."""
        ...

    def take_ended(self) -> set[str]:
        """Return the tenants whose log should be signed soon, since this was asked last."""
        ...


class LogWriter:
    """Every tenant's tree, for the one writer.

    Args:
        connection: the writer's own.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._frontiers = {
            tenant: read_frontier(connection, tenant, size) for tenant, size in connection.execute(_SIZES).fetchall()
        }
        self._ended: set[str] = set()

    @property
    def sizes(self) -> dict[str, int]:
        """Leaves in each tenant's log."""
        return {tenant: frontier.size for tenant, frontier in self._frontiers.copy().items()}

    def stage(self, fresh: Sequence[Rows], received_at: int) -> Staged:
        """Return what a commit of these rows adds; they must have been encoded with digests.

        Args:
            fresh: what is inserted.
            received_at: UTC nanoseconds of the commit.
        """
        staged = Staged([], pa.record_batch([[], [], [], []], schema=_SCHEMA))
        added: dict[str, list[bytes]] = {}
        begin: dict[str, int] = {}
        for rows in fresh:
            digests = rows.digests
            if digests is None:
                staged.indexes.append(pa.nulls(len(rows), pa.int64()))
                continue
            staged.ended.update(_ended(rows))
            hashes = leaf_hashes(EVENT, received_at, rows.ids, digests)
            indexes: npt.NDArray[np.int64] = np.empty(len(rows), dtype=np.int64)
            for tenant, places in _by_tenant(rows.events.column("tenant")):
                own = added.setdefault(tenant, [])
                if tenant not in begin:
                    begin[tenant] = self._frontiers[tenant].size if tenant in self._frontiers else 0
                first = begin[tenant] + len(own)
                own += hashes if places is None else [hashes[place] for place in places]
                indexes[slice(None) if places is None else places] = np.arange(first, begin[tenant] + len(own))
            staged.indexes.append(pa.array(indexes))
        rows_of: list[tuple[Any, ...]] = []
        for tenant, own in added.items():
            frontier = self._frontiers[tenant].copy() if tenant in self._frontiers else Frontier()
            joined = b"".join(own)
            rows_of.append((tenant, 0, begin[tenant], joined))
            rows_of += [(tenant, *completed) for completed in frontier.extend(joined)]
            staged.frontiers[tenant] = frontier
        staged.hashes = pa.record_batch(
            [list(column) for column in zip(*rows_of, strict=True)] or [[], [], [], []], schema=_SCHEMA
        )
        return staged

    def settle(self, staged: Staged) -> None:
        """Count the leaves of a commit that stands."""
        self._frontiers |= staged.frontiers
        self._ended |= staged.ended

    def head(self, tenant: str) -> tuple[int, bytes]:
        """Return the size and the root of a tenant's log, as of the last commit. From any thread."""
        frontier = self._frontiers[tenant]
        return frontier.size, frontier.root()

    def take_ended(self) -> set[str]:
        """Return the tenants that a run ended of since this was asked last. From any thread."""
        ended, self._ended = self._ended, set()
        return ended


def log_sizes(database: Database) -> dict[str, int]:
    """Return how many leaves each tenant's log has, by the hashes that the store keeps.

    Raises:
        StoreError: the store cannot be read.
    """
    try:
        with database.cursor() as cursor:
            # A log whose hashes were all taken away is listed as well: its tree heads tell.
            headed = cursor.execute("SELECT DISTINCT tenant, 0 FROM tree_heads").fetchall()
            return dict(headed) | dict(cursor.execute(_SIZES).fetchall())
    except duckdb.Error as error:
        raise StoreError(f"the store could not answer: {type(error).__name__}") from error


def log_size(cursor: duckdb.DuckDBPyConnection, tenant: str) -> int:
    """Return how many leaves a tenant's log has, by the hashes that the store keeps."""
    row = cursor.execute(f"SELECT * FROM ({_SIZES}) WHERE tenant = ?", [tenant]).fetchone()  # noqa: S608 - a constant
    return int(row[1]) if row else 0


def read_frontier(cursor: duckdb.DuckDBPyConnection, tenant: str, size: int) -> Frontier:
    """Return the frontier of the first `size` leaves of a log, from the hashes that the store keeps of it."""
    return Frontier.from_nodes(size, lambda level, index: read_node(cursor, tenant, level, index))


def read_node(cursor: duckdb.DuckDBPyConnection, tenant: str, level: int, index: int) -> bytes:
    """Return the root of a full subtree of a log: that over the 2**level leaves from `index * 2**level` on.

    Raises:
        StoreError: the store has lost a hash of it.
    """
    kept, above = divmod(level, TILE_LEVELS)
    first, end = index << above, (index + 1) << above
    hashes = read_hashes(cursor, tenant, kept, first, end)
    there = len(hashes) // HASH_BYTES
    if there != end - first:
        raise StoreError(
            f"the audit log of tenant {tenant} has a hole: hash {first + there} of level {kept} is missing. "
            "Restore the store from a backup; 'tracehold verify' tells what else is missing"
        )
    return root_of(hashes)


def read_hashes(cursor: duckdb.DuckDBPyConnection, tenant: str, level: int, first: int, end: int) -> bytes:
    """Return the hashes of a level of a log from `first` up to `end`, one behind the other, up to the first hole.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    found = bytearray()
    cursor.execute(_HASHES, {"tenant": tenant, "level": level, "first": first, "end": end})
    while row := cursor.fetchone():
        start, hashes = row
        expected = first + len(found) // HASH_BYTES
        if start > expected or len(hashes) % HASH_BYTES:
            break
        found += hashes[(expected - start) * HASH_BYTES : (end - start) * HASH_BYTES]
    return bytes(found)


def _ended(rows: Rows) -> set[str]:
    """Whose runs ended in these rows: the end was said, or the root came."""
    deltas = rows.deltas
    ended = pc.or_(deltas.column("end_at").is_valid(), deltas.column("root_status").is_valid())
    return set(pc.unique(deltas.column("tenant").filter(ended)).to_pylist())


def _by_tenant(column: pa.Array) -> list[tuple[str, npt.NDArray[np.int64] | None]]:
    """Which rows are whose; `None` for all of them, as nearly always."""
    tenants = pc.unique(column).to_pylist()
    if len(tenants) == 1:
        return [(tenants[0], None)]
    return [(tenant, np.flatnonzero(pc.equal(column, tenant).to_numpy(zero_copy_only=False))) for tenant in tenants]
