"""Chunks of content that one answer reads from, opened once each as far as memory allows."""

from __future__ import annotations

import uuid
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import orjson

from tracehold_collector.sealing.vault import Vault
from tracehold_collector.store.chunks import CHUNK_COLUMNS, read_chunks

Place = tuple[uuid.UUID, int]
"""Where a content lies: its chunk, and the position in it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """When something was committed first and last, UTC nanoseconds.

    Rows lie in the order they came in: with these bounds wide columns are read where they are wanted, only.
    """

    first_ns: int
    last_ns: int

    def bound(self) -> dict[str, int]:
        """Return them as parameters of a statement."""
        return {"first_ns": self.first_ns, "last_ns": self.last_ns}


_KEPT_BYTES: Final = 24 * 1024 * 1024

_OF_CHUNKS: Final = """
FROM contents
WHERE chunk_id IN (SELECT unnest($chunks::UUID[])) AND body IS NOT NULL AND received_at BETWEEN $first_ns AND $last_ns
"""


class OpenedChunks:
    """Opens chunks and keeps those used last, each content as JSON: as objects they are six times as large.

    Args:
        vault: opens them.
        max_packed: bytes of compressed content to open at most; 0 opens none and counts none as left out.
    """

    def __init__(self, vault: Vault, max_packed: int) -> None:
        self._vault = vault
        self._max_packed = max_packed
        self._beyond: set[uuid.UUID] = set()
        self._kept: OrderedDict[uuid.UUID, _Slices] = OrderedDict()
        self._bytes = 0

    def plan(
        self, cursor: duckdb.DuckDBPyConnection, chunks: Collection[uuid.UUID], committed: Bounds
    ) -> Collection[uuid.UUID]:
        """Decide which of the chunks that an answer may read from are beyond the budget, and return them.

        Raises:
            duckdb.Error: the store cannot be read.
        """
        if not self._max_packed or not chunks:
            return ()
        cursor.execute(
            f"SELECT chunk_id, octet_length(body) {_OF_CHUNKS} ORDER BY received_at, chunk_id",
            {"chunks": list(chunks)} | committed.bound(),
        )
        packed = 0
        for chunk, size in cursor.fetchall():
            packed += size
            if packed > self._max_packed:
                self._beyond.add(chunk)
        return self._beyond

    def contents(
        self, cursor: duckdb.DuckDBPyConnection, places: Iterable[Place], committed: Bounds
    ) -> dict[Place, dict[str, Any]]:
        """Return what lies at these places; what is erased or beyond the budget is missing."""
        wanted: dict[uuid.UUID, list[int]] = {}
        for chunk, position in places if self._max_packed else ():
            if chunk not in self._beyond:
                wanted.setdefault(chunk, []).append(position)
        found: dict[Place, dict[str, Any]] = {}
        for chunk in [chunk for chunk in wanted if chunk in self._kept]:
            self._kept.move_to_end(chunk)
            self._take(chunk, self._kept[chunk], wanted.pop(chunk), found)
        if wanted:
            cursor.execute(
                f"SELECT {CHUNK_COLUMNS} {_OF_CHUNKS}",
                {"chunks": list(wanted)} | committed.bound(),
            )
            while row := cursor.fetchone():
                for chunk, contents in read_chunks([row], self._vault):
                    self._take(chunk, self._keep(chunk, _Slices(contents)), wanted[chunk], found)
        return found

    @staticmethod
    def _take(chunk: uuid.UUID, slices: _Slices, positions: Iterable[int], found: dict[Place, dict[str, Any]]) -> None:
        for position in positions:
            found[chunk, position] = slices.parsed(position)

    def _keep(self, chunk: uuid.UUID, slices: _Slices) -> _Slices:
        self._kept[chunk] = slices
        self._bytes += len(slices.written)
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.written)
        return slices


class _Slices:
    """The contents of a chunk as JSON in one piece: many small ones would leave memory in holes."""

    def __init__(self, contents: Iterable[dict[str, Any]]) -> None:
        ends = array("Q", (0,))
        written = bytearray()
        for content in contents:
            written += orjson.dumps(content)
            ends.append(len(written))
        self.written = memoryview(bytes(written))
        self._ends = ends

    def parsed(self, position: int) -> dict[str, Any]:
        """Return one content."""
        found: dict[str, Any] = orjson.loads(self.written[self._ends[position] : self._ends[position + 1]])
        return found
