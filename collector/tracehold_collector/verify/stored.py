"""A log in a store that is open in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import orjson
import pyarrow as pa

from tracehold_collector.audit.merkle import perfect_nodes
from tracehold_collector.core.errors import StoreError
from tracehold_collector.store.database import Database
from tracehold_collector.store.log import log_size, read_hashes, read_node
from tracehold_collector.store.log_rows import (
    Checked,
    Contents,
    check_contents,
    read_erased,
    read_outside,
    read_rows,
    window_of,
)
from tracehold_collector.store.run_check import disagreeing_runs
from tracehold_collector.store.tree_heads import read_tree_heads
from tracehold_collector.verify.window import ClaimedHead, Erasure, LogState, Window

_PLACES = ("content_chunk", "content_pos")


class StoredLog:
    """Reads the logs of an open store; each window is a statement of its own.

    Args:
        database: the open store.
        copies: gives the tree heads of a tenant that were copied beside the store.
        contents: what to do about contents.
    """

    def __init__(
        self, database: Database, copies: Sequence[tuple[str, str]] = (), *, contents: Contents = "check"
    ) -> None:
        self._database = database
        self._copies = copies
        self._contents = contents

    def state(self, tenant: str) -> LogState:
        """Return what there is of a tenant's log.

        Raises:
            StoreError: the store cannot be read.
        """
        with _reading(self._database) as cursor:
            size = log_size(cursor, tenant)
            outside = read_outside(cursor, tenant, size)
            heads = read_tree_heads(cursor, tenant)
            return LogState(
                tenant,
                size,
                [ClaimedHead(head.size, head.root, head.signed_at, head.note) for head in heads],
                [note for whose, note in self._copies if whose == tenant],
                _erasures(cursor, tenant),
                outside.before,
                outside.added,
                outside.repeated,
                outside.misdated,
                outside.full,
                disagreeing_runs(cursor, tenant),
            )

    def frontier(self, tenant: str, size: int) -> list[bytes]:
        """Return the roots of the full subtrees of the first `size` leaves.

        Raises:
            StoreError: the store cannot be read, or has lost one of them.
        """
        with _reading(self._database) as cursor:
            return [read_node(cursor, tenant, level, index) for level, index in perfect_nodes(0, size)]

    def windows(self, tenant: str, first: int, end: int) -> Iterator[Window]:
        """Yield the stretches of [first, end).

        Raises:
            StoreError: the store cannot be read.
        """
        while first < end:
            width = window_of(self._contents)
            upto = min(end, (first // width + 1) * width)
            window = self.window(tenant, first, upto)
            yield window
            if len(window.hashes) < (upto - first) * 32:
                return
            first = upto

    def window(self, tenant: str, first: int, end: int) -> Window:
        """Return one stretch.

        Raises:
            StoreError: the store cannot be read.
        """
        with _reading(self._database) as cursor:
            hashes = read_hashes(cursor, tenant, 0, first, end)
            rows = read_rows(cursor, tenant, first, end)
            checked = check_contents(cursor, self._database.vault, rows, self._contents)
            erased = read_erased(cursor, tenant, first, end)
        return Window(first, hashes, _told(rows, checked, raw=self._contents == "raw"), erased)


def _told(rows: pa.Table, checked: Sequence[Checked], *, raw: bool) -> pa.Table:
    columns = {name: rows.column(name) for name in rows.column_names if name not in _PLACES}
    columns["content_state"] = pa.array([one.state for one in checked], pa.string())
    if raw:
        columns["salt"] = pa.array([one.salt for one in checked], pa.binary())
        columns["content"] = pa.array([one.content for one in checked], pa.binary())
    return pa.table(columns)


def _erasures(cursor: duckdb.DuckDBPyConnection, tenant: str) -> dict[str, Erasure]:
    rows = cursor.execute(
        """
        SELECT erasure_id, step, details::VARCHAR
        FROM erasures
        WHERE tenant = ? AND step IN ('requested', 'completed')
        """,
        [tenant],
    ).fetchall()
    found: dict[str, Erasure] = {}
    for erasure_id, step, details in rows:
        known = found.get(erasure_id, Erasure(expired=False, root=None))
        said = orjson.loads(details)
        if step == "requested":
            found[erasure_id] = Erasure(said.get("basis") == "retention", known.root)
        else:
            root = said.get("root")
            found[erasure_id] = Erasure(known.expired, None if root is None else bytes.fromhex(root))
    return found


@contextmanager
def _reading(database: Database) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with database.cursor() as cursor:
            yield cursor
    except duckdb.Error as error:
        raise StoreError(f"the store could not answer: {type(error).__name__}") from error
