"""Tiles of a log, their paths, entry bundles (https://c2sp.org/tlog-tiles), and a tree's nodes read from them."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from tracehold_collector.audit.merkle import HASH_BYTES, MAX_SIZE, TILE_LEVELS, Nodes, rows_above
from tracehold_collector.core.errors import TileError

TILE_WIDTH: Final = 256
MAX_LEVEL: Final = 63
MAX_ENTRY_BYTES: Final = 0xFFFF
_MAX_PATH_CHARS: Final = 80
_PATH: Final = re.compile(
    r"tile/(?P<level>entries|0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TilePath:
    """Which tile or entry bundle.

    Attributes:
        level: 0 for leaf hashes, up to 63; `None` for an entry bundle.
        index: which of its level.
        width: how many hashes or entries, 1 to 256; fewer than 256 is a partial one.
    """

    level: int | None
    index: int
    width: int = TILE_WIDTH

    def __str__(self) -> str:
        """Return the path, without a leading slash."""
        digits = f"{self.index:03d}"
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        parts = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        number = "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])
        suffix = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{'entries' if self.level is None else self.level}/{number}{suffix}"


def parse_tile_path(path: str) -> TilePath:
    """Read a path such as `tile/0/x001/x234/067.p/8` or `tile/entries/000`.

    Raises:
        TileError: it is none, or not the only way to write it.
    """
    found = _PATH.fullmatch(path) if len(path) <= _MAX_PATH_CHARS else None
    if found is None:
        raise TileError("no path of a tile; they look like tile/0/x001/x234/067, tile/1/000.p/8 or tile/entries/000")
    level = None if found["level"] == "entries" else int(found["level"])
    tile = TilePath(level, int(re.sub("[x/]", "", found["index"])), int(found["width"] or TILE_WIDTH))
    if (level or 0) > MAX_LEVEL or tile.index > MAX_SIZE or str(tile) != path:
        raise TileError("no path of a tile: a level is 0 to 63, a width 1 to 255, a number has no needless digits")
    return tile


def tile_width(level: int, index: int, size: int) -> int:
    """Return how many hashes tile `index` of `level` has in the tree of `size` leaves, 0 when it is not there.

    Section "Partial Tiles": floor(size / 256**level) hashes stand at a level in all.
    """
    return max(0, min(TILE_WIDTH, (size >> level * TILE_LEVELS) - index * TILE_WIDTH))


def encode_bundle(entries: Sequence[bytes]) -> bytes:
    """Return entries as a bundle: each after its length as uint16, big-endian (section "Log entries").

    Raises:
        TileError: an entry is over 65,535 bytes, or there are over 256.
    """
    if len(entries) > TILE_WIDTH:
        raise TileError(f"an entry bundle has at most {TILE_WIDTH} entries; got {len(entries)}")
    if any(len(entry) > MAX_ENTRY_BYTES for entry in entries):
        raise TileError(f"an entry of a bundle has at most {MAX_ENTRY_BYTES} bytes")
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def parse_bundle(data: bytes, width: int = TILE_WIDTH) -> list[bytes]:
    """Return the `width` entries of a bundle.

    Raises:
        TileError: it has more, or fewer, or ends within one.
    """
    entries: list[bytes] = []
    at = 0
    while at < len(data) and len(entries) < width:
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if at + 2 > len(data) or end > len(data):
            raise TileError(f"the entry bundle ends within entry {len(entries)}")
        entries.append(data[at + 2 : end])
        at = end
    if at != len(data) or len(entries) != width:
        raise TileError(f"the entry bundle has not exactly {width} entries")
    return entries


def parse_tile(data: bytes, width: int) -> bytes:
    """Return the hashes of a tile that should have `width` of them, one after the other.

    Raises:
        TileError: it has another number of bytes.
    """
    if len(data) != width * HASH_BYTES:
        raise TileError(f"a tile of {width} hashes has {width * HASH_BYTES} bytes; got {len(data)}")
    return data


TileSource = Callable[[TilePath], bytes]
"""Gives the bytes of a tile; raises TileError when it has it not."""


class TileCache:
    """The tiles used last, each with the rows of nodes above it, so that a warm proof hashes nothing.

    May be shared by threads: the lock holds `_rows`. A tile that was read never changes, so nothing is ever stale.

    Args:
        max_tiles: how many; a full one takes 16 KiB.
    """

    def __init__(self, max_tiles: int = 1024) -> None:
        """Begin empty."""
        self._max_tiles = max_tiles
        self._lock = threading.Lock()
        self._rows: OrderedDict[Hashable, list[bytes]] = OrderedDict()

    def rows(self, key: Hashable, load: Callable[[], bytes]) -> list[bytes]:
        """Return the rows of a tile, from its own hashes upwards, as far as they are full.

        Args:
            key: names the tile, whose log it is of, and its width.
            load: reads its hashes when they are not here.
        """
        with self._lock:
            known = self._rows.get(key)
            if known is not None:
                self._rows.move_to_end(key)
                return known
        made = rows_above(load())
        with self._lock:
            self._rows[key] = made
            while len(self._rows) > self._max_tiles:
                self._rows.popitem(last=False)
        return made


def tile_nodes(size: int, source: TileSource, cache: TileCache | None = None, *, log: Hashable = None) -> Nodes:
    """Return the nodes of the tree of `size` leaves, each read from the one tile that holds or implies it.

    Args:
        size: leaves of the tree; nodes outside it are refused.
        source: reads a tile, asked for exactly the width that the tree gives it.
        cache: what was read before; by default only for these nodes.
        log: tells this log from others in the same cache.

    Returns:
        A function as `merkle.inclusion_proof` takes it; it raises TileError for a node that the tree has not in full,
        and what `source` raises.
    """
    kept = TileCache() if cache is None else cache

    def node(level: int, index: int) -> bytes:
        if level < 0 or not 0 <= index < size >> level:
            raise TileError(f"the tree of {size} leaves has no full subtree {index} at level {level}")
        tile_level, height = divmod(level, TILE_LEVELS)
        tile_index, place = divmod(index, 1 << TILE_LEVELS - height)
        width = tile_width(tile_level, tile_index, size)
        path = TilePath(tile_level, tile_index, width)
        rows = kept.rows((log, path), lambda: parse_tile(source(path), width))
        return rows[height][place * HASH_BYTES : (place + 1) * HASH_BYTES]

    return node
