"""Tiles as C2SP lays them out: paths, widths, bundles, and proofs read from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.audit.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from tracehold_collector.audit.tiles import (
    TileCache,
    TilePath,
    encode_bundle,
    parse_bundle,
    parse_tile,
    parse_tile_path,
    tile_nodes,
    tile_width,
)
from tracehold_collector.core.errors import TileError

TILES = st.builds(TilePath, st.none() | st.integers(0, 63), st.integers(0, 1 << 61), st.integers(1, 256))


class Stored:
    """The tiles of a log as they are kept: leaf hashes, and the roots of full tiles."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.rows = {0: b"".join(leaves)}
        for level, _, hashes in Frontier().extend(leaves):
            self.rows[level] = hashes
        self.asked: list[TilePath] = []

    def __call__(self, path: TilePath) -> bytes:
        self.asked.append(path)
        start = path.index * 256 * 32
        return self.rows[path.level][start : start + path.width * 32]


def test_paths_are_those_of_the_specification():
    # c2sp.org/tlog-tiles, "Merkle Tree": index 1234067 is x001/x234/067.
    assert str(TilePath(0, 1234067)) == "tile/0/x001/x234/067"
    assert str(TilePath(None, 1234067, 8)) == "tile/entries/x001/x234/067.p/8"
    assert str(TilePath(1, 0, 17)) == "tile/1/000.p/17"


@given(tile=TILES)
def test_path_is_read_back_as_written(tile):
    assert parse_tile_path(str(tile)) == tile


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/x000/001",
        "tile/0/1",
        "tile/00/001",
        "tile/64/001",
        "tile/0/001.p/0",
        "tile/0/001.p/256",
        "tile/0/001.p/08",
        "tile/0/x001/x234",
        "tile/0/001/234",
        "tile/0/../001",
        "tile/0/001\n",
        "/tile/0/001",
        "tile/-1/001",
        "tile/0/\u0661\u0661\u0661",
        "tile/0/" + "x999/" * 50 + "999",
        "",
    ],
)
def test_other_ways_to_write_a_path_are_refused(path):
    with pytest.raises(TileError):
        parse_tile_path(path)


def test_widths_are_those_of_the_specification():
    # c2sp.org/tlog-tiles, "Partial Tiles": a tree of 70,000 leaves.
    full = [tile_width(0, index, 70_000) for index in range(273)]
    assert full == [256] * 273
    assert tile_width(0, 273, 70_000) == 112
    assert [tile_width(1, index, 70_000) for index in range(3)] == [256, 17, 0]
    assert [tile_width(2, 0, 70_000), tile_width(3, 0, 70_000)] == [1, 0]
    assert [tile_width(0, 0, 256), tile_width(1, 0, 256)] == [256, 1]


@given(entries=st.lists(st.binary(max_size=80), max_size=256))
def test_entry_bundle_is_read_back_as_written(entries):
    assert parse_bundle(encode_bundle(entries), len(entries)) == entries


@given(data=st.binary(max_size=200), width=st.integers(0, 256))
def test_hostile_entry_bundle_gives_its_entries_or_the_error_of_tiles(data, width):
    try:
        entries = parse_bundle(data, width)
    except TileError:
        return
    assert encode_bundle(entries) == data


def test_entry_over_65535_bytes_and_a_257th_entry_are_refused():
    with pytest.raises(TileError, match="65535 bytes"):
        encode_bundle([b"x" * 65_536])
    with pytest.raises(TileError, match="256 entries"):
        encode_bundle([b""] * 257)


def test_tile_of_another_width_is_refused():
    with pytest.raises(TileError, match="256 bytes; got 255"):
        parse_tile(b"x" * 255, 8)


@given(size=st.integers(1, 3_000) | st.sampled_from([65_536, 70_000]), data=st.data())
def test_proofs_read_from_tiles_verify(size, data, numbered):
    leaves = numbered(size)
    stored, root = Stored(leaves), root_of(leaves)
    nodes = tile_nodes(size, stored)
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    proof = inclusion_proof(index, size, nodes)
    verify_inclusion(leaves[index], index, size, proof, root)
    # 17 levels of the tree, and yet at most two tiles a level: the one of the leaf, and the last.
    assert len(stored.asked) <= 6
    verify_consistency(old, size, consistency_proof(old, size, nodes), root_of(leaves[:old]), root)


def test_warm_proof_reads_no_tile_again_and_another_log_reads_its_own(numbered):
    cache, mine, theirs = TileCache(), Stored(numbered(1000)), Stored(numbered(1000)[::-1])
    first = inclusion_proof(700, 1000, tile_nodes(1000, mine, cache, log="mine"))
    read = len(mine.asked)
    assert inclusion_proof(700, 1000, tile_nodes(1000, mine, cache, log="mine")) == first
    assert len(mine.asked) == read
    assert inclusion_proof(700, 1000, tile_nodes(1000, theirs, cache, log="theirs")) != first


def test_cache_forgets_what_was_used_longest_ago():
    cache, loaded = TileCache(max_tiles=2), []

    def load(name: str) -> bytes:
        loaded.append(name)
        return b"x" * 32

    for name in ["a", "b", "a", "c", "a", "b"]:
        cache.rows(name, lambda name=name: load(name))
    assert loaded == ["a", "b", "c", "b"]


def test_node_outside_the_tree_and_a_short_tile_are_refused(numbered):
    nodes = tile_nodes(300, Stored(numbered(300)))
    for level, index in [(0, 300), (2, 75), (8, 1), (9, 0), (-1, 0), (0, -1), (64, 0)]:
        with pytest.raises(TileError, match="no full subtree"):
            nodes(level, index)
    with pytest.raises(TileError, match="a tile of 44 hashes"):
        tile_nodes(300, Stored(numbered(290)))(0, 299)
