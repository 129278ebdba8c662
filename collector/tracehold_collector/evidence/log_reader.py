"""Reads a tenant's log from the store: tiles, nodes and tree heads."""

from __future__ import annotations

from typing import Final

import duckdb

from tracehold_collector.audit.merkle import HASH_BYTES, Nodes
from tracehold_collector.audit.tiles import TILE_WIDTH, TileCache, TilePath, tile_nodes
from tracehold_collector.core.errors import TileError
from tracehold_collector.store.log import read_hashes
from tracehold_collector.store.tree_heads import StoredHead

_HEADS: Final = """
SELECT tenant, size, root, signed_at, note
FROM tree_heads
WHERE tenant = $tenant AND {condition}
ORDER BY {order}
LIMIT 1
"""


class LogReader:
    """One tenant's log. Not for several threads at once.

    Args:
        cursor: the reader's own; on a snapshot, everything read is of one moment.
        tenant: whose log.
        cache: tiles read before, shared with other readers; tiles never change.

    Attributes:
        cursor: the reader's own.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, tenant: str, cache: TileCache | None = None) -> None:
        self.cursor = cursor
        self._tenant = tenant
        self._cache = TileCache() if cache is None else cache

    def hashes(self, level: int, low: int, high: int) -> bytes:
        """Return the hashes [low, high) of one level of tiles; level 0 has the leaves.

        Raises:
            TileError: the store does not hold all of them.
        """
        found = read_hashes(self.cursor, self._tenant, level, low, high)
        there = low + len(found) // HASH_BYTES
        if there != high:
            raise TileError(
                f"the log of tenant {self._tenant} lacks hash {there} of level {level}: run 'tracehold verify'"
            )
        return found

    def tile(self, path: TilePath) -> bytes:
        """Return the hashes of a tile (not of an entry bundle).

        Raises:
            TileError: the store does not hold all of them.
        """
        first = path.index * TILE_WIDTH
        return self.hashes(path.level or 0, first, first + path.width)

    def nodes(self, size: int) -> Nodes:
        """Return the nodes of the tree over the first `size` leaves; errors as in `tiles.tile_nodes`."""
        return tile_nodes(size, self.tile, self._cache, log=self._tenant)

    def newest_head(self) -> StoredHead | None:
        """Return the newest tree head; `None` when none was signed yet."""
        return self._head("true", "size DESC, signed_at DESC")

    def head_of(self, size: int) -> StoredHead | None:
        """Return the tree head of exactly this size; `None` when there is none."""
        return self._head(f"size = {int(size)}", "signed_at")

    def head_before(self, leaf: int) -> StoredHead | None:
        """Return the last tree head from before this leaf came; `None` when there is none."""
        return self._head(f"size <= {int(leaf)}", "size DESC, signed_at")

    def head_covering(self, leaf: int) -> StoredHead | None:
        """Return the first tree head that covers this leaf: from then on it could not be altered unseen."""
        return self._head(f"size > {int(leaf)}", "size, signed_at")

    def first_leaf_since(self, moment_ns: int) -> int | None:
        """Return the first leaf that was received at or after a moment; `None` when none was."""
        found = self.cursor.execute(
            "SELECT min(first_index) FROM log_hashes WHERE tenant = ? AND level = 0 AND received_at >= ?",
            [self._tenant, moment_ns],
        ).fetchone()
        return None if found is None else found[0]

    def _head(self, condition: str, order: str) -> StoredHead | None:
        text = _HEADS.format(condition=condition, order=order)
        row = self.cursor.execute(text, {"tenant": self._tenant}).fetchone()
        return None if row is None else StoredHead(*row)
