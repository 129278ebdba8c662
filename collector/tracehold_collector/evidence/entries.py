"""The entries of a log as C2SP tlog-tiles serves them: what each leaf is the hash of, 58 bytes."""

from __future__ import annotations

import duckdb

from tracehold_collector.audit.leaves import EVENT, event_digests, leaf_data
from tracehold_collector.core.errors import TileError
from tracehold_collector.store.log_rows import read_rows


def read_entries(cursor: duckdb.DuckDBPyConnection, tenant: str, first: int, end: int) -> list[bytes]:
    """Return the leaf data of the leaves [first, end), made of the events as they are stored now.

    Whoever reads them hashes them, and so finds an event that was altered.

    Raises:
        duckdb.Error: the store cannot be read.
        TileError: an event among them is not there any more.
    """
    rows = read_rows(cursor, tenant, first, end)
    leaves = rows.column("leaf_index").to_pylist()
    if leaves != list(range(first, end)):
        there = set(leaves)
        gone = next((leaf for leaf in range(first, end) if leaf not in there), first)
        raise TileError(
            f"the event of leaf {gone} is not there any more, so this bundle of entries is not either; "
            "its leaf hash is in the tile of level 0, and 'tracehold verify' says whether it was erased"
        )
    said = [chunk is not None for chunk in rows.column("content_chunk").to_pylist()]
    commitments = b"".join(commitment or bytes(32) for commitment in rows.column("commitment").to_pylist())
    digests = event_digests(rows, commitments, said)
    received = rows.column("received_at").to_numpy()
    return leaf_data(EVENT, received, b"".join(rows.column("event_id").to_pylist()), b"".join(digests))
