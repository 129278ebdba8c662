"""The leaves of erased events: they stay in the log, and their root tells which ones an erasure was about."""

from __future__ import annotations

from typing import Final

import duckdb

from tracehold_collector.audit.leaves import HASH_BYTES
from tracehold_collector.audit.merkle import root_of

_INDEXES: Final = """
SELECT DISTINCT leaf_index
FROM erased_events
WHERE erasure_id = ? AND leaf_index IS NOT NULL
ORDER BY leaf_index
"""

_HASHES: Final = f"""
SELECT first_index, hashes
FROM log_hashes
WHERE tenant = $tenant
  AND level = 0
  AND first_index <= $last
  AND first_index + octet_length(hashes) // {HASH_BYTES} > $first
ORDER BY first_index
"""  # noqa: S608 - a constant


def erased_root(cursor: duckdb.DuckDBPyConnection, erasure_id: str, tenant: str) -> tuple[int, bytes | None]:
    """Return how many leaves an erasure is about, and the root over them (RFC 6962, section 2.1).

    The tree's leaves are the leaf hashes of the tenant's log, in the order of their index; whoever has the log and the
    list of indexes can compute it again. `None` when none of its events is in a log.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    indexes = [row[0] for row in cursor.execute(_INDEXES, [erasure_id]).fetchall()]
    if not indexes:
        return 0, None
    cursor.execute(_HASHES, {"tenant": tenant, "first": indexes[0], "last": indexes[-1]})
    leaves = bytearray()
    place = 0
    while (row := cursor.fetchone()) is not None and place < len(indexes):
        first, hashes = row
        after = first + len(hashes) // HASH_BYTES
        while place < len(indexes) and indexes[place] < after:
            start = (indexes[place] - first) * HASH_BYTES
            leaves += hashes[start : start + HASH_BYTES]
            place += 1
    return len(indexes), root_of(bytes(leaves))
