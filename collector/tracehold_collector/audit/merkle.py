"""The Merkle tree of a log: roots, inclusion and consistency proofs (RFC 6962 section 2.1, RFC 9162 section 2.1).

A node is named by its `level` and `index`: the root of the perfect subtree over the 2**level leaves that begin with
leaf `index * 2**level`. Proofs are made from such nodes only, whoever keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from tracehold_collector.core.errors import ProofError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256().digest()
"""The root of the tree without leaves (RFC 9162 section 2.1.1)."""
TILE_LEVELS: Final = 8
"""Levels of the binary tree between one level of tiles and the next: a tile is 256 hashes wide."""
MAX_SIZE: Final = 1 << 62
"""Larger trees are nobody's; an index and a size fit a signed 64-bit integer."""

Nodes = Callable[[int, int], bytes]
"""Gives the hash of the perfect subtree (level, index); only ever asked for one that the tree holds in full."""

Range = tuple[int, int]


class Completed(NamedTuple):
    """Subtrees that became full: what a store keeps, so that no proof reads more than a few hundred hashes.

    Attributes:
        level: 1 for subtrees of 256 leaves, 2 for 65,536, k for 256**k; the level of the tile that they stand in.
        first_index: which of its level the first one is; the others follow without a gap.
        hashes: their roots, 32 bytes each, one after the other.
    """

    level: int
    first_index: int
    hashes: bytes


def leaf_hash(data: bytes) -> bytes:
    """Return SHA-256(0x00 || data) (RFC 9162 section 2.1.1)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return SHA-256(0x01 || left || right) (RFC 9162 section 2.1.1)."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """All that appending needs of the tree over the leaves [0, size): the roots of its perfect subtrees, at most 62.

    Not for several threads at once. A copy costs less than a microsecond, so that a transaction that fails can go on
    from the one it began with.
    """

    __slots__ = ("_nodes", "_size")

    def __init__(self) -> None:
        """Begin with no leaves."""
        self._size = 0
        # The root of the perfect subtree of 2**i leaves where bit i of the size is set; what else stands here is stale.
        self._nodes: list[bytes] = []

    @classmethod
    def from_nodes(cls, size: int, nodes: Nodes) -> Frontier:
        """Return the frontier of the first `size` leaves of a tree that `nodes` knows.

        Raises:
            ProofError: the size is none.
        """
        _check_size(size)
        frontier = cls()
        frontier._size = size
        frontier._nodes = [
            nodes(level, (size >> level) - 1) if size >> level & 1 else b"" for level in range(size.bit_length())
        ]
        return frontier

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self._size

    def copy(self) -> Frontier:
        """Return one that goes its own way from here."""
        other = Frontier()
        other._size = self._size
        other._nodes = self._nodes.copy()
        return other

    def append(self, leaf: bytes) -> list[Completed]:
        """Add the hash of one leaf; see `extend`."""
        return self.extend(leaf)

    def extend(self, leaves: bytes | Sequence[bytes]) -> list[Completed]:
        """Add the hashes of leaves, in order.

        Args:
            leaves: hashes of 32 bytes each, as a sequence or one after the other in one `bytes`.

        Returns:
            The subtrees of 256**k leaves that are full now and were not before, by rising level; at most one item a
            level.

        Raises:
            ProofError: a hash has not 32 bytes; nothing was added.
        """
        row = _joined(leaves)
        first = self._size
        self._size += len(row) // HASH_BYTES
        completed = []
        level = 0
        # Level by level rather than leaf by leaf: one comprehension a level is what makes it 0.5 us a leaf.
        while row:
            if level and level % TILE_LEVELS == 0:
                completed.append(Completed(level // TILE_LEVELS, first, row))
            row = self._raise(level, first, row)
            level += 1
            first >>= 1
        return completed

    def _raise(self, level: int, first: int, row: bytes) -> bytes:
        """Take the nodes `row` of a level in, the first of which has index `first`; return their full parents."""
        if first & 1:
            row = self._nodes[level] + row
        pairs, rest = divmod(len(row), 2 * HASH_BYTES)
        if rest:
            self._nodes.extend([b""] * (level + 1 - len(self._nodes)))
            self._nodes[level] = row[-HASH_BYTES:]
        return _parents(row[: pairs * 2 * HASH_BYTES])

    def root(self) -> bytes:
        """Return the root of the tree over all leaves so far."""
        root: bytes | None = None
        for level, node in enumerate(self._nodes):
            if self._size >> level & 1:
                root = node if root is None else node_hash(node, root)
        return EMPTY_ROOT if root is None else root


def root_of(leaves: bytes | Sequence[bytes]) -> bytes:
    """Return the root of the tree over leaf hashes (RFC 9162 section 2.1.1); arguments as in `Frontier.extend`."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


def rows_above(row: bytes) -> list[bytes]:
    """Return this row of nodes and those above it, as far as they are full: each half as wide, rounded down."""
    rows = [row]
    while len(rows[-1]) >= 2 * HASH_BYTES:
        pairs = len(rows[-1]) // (2 * HASH_BYTES)
        rows.append(_parents(rows[-1][: pairs * 2 * HASH_BYTES]))
    return rows


def _parents(row: bytes) -> bytes:
    return b"".join([sha256(b"\x01" + row[at : at + 64]).digest() for at in range(0, len(row), 64)])


def _joined(leaves: bytes | Sequence[bytes]) -> bytes:
    if not isinstance(leaves, bytes):
        if any(len(leaf) != HASH_BYTES for leaf in leaves):
            raise ProofError(f"a leaf hash has {HASH_BYTES} bytes; one of those given has not")
        leaves = b"".join(leaves)
    if len(leaves) % HASH_BYTES:
        raise ProofError(f"leaf hashes have {HASH_BYTES} bytes each; {len(leaves)} bytes are no whole number of them")
    return leaves


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the ranges of leaves whose roots are the inclusion proof of leaf `index` (RFC 9162 section 2.1.3.1).

    Returns:
        Half-open ranges, in the order of the proof.

    Raises:
        ProofError: the tree has no such leaf.
    """
    _check_size(size)
    if not 0 <= index < size:
        raise ProofError(f"a tree of {size} leaves has no leaf {index}; its leaves are numbered from 0")
    low, high, path = 0, size, []
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append((middle, high))
            high = middle
        else:
            path.append((low, middle))
            low = middle
    return path[::-1]


def consistency_ranges(old: int, new: int) -> list[Range]:
    """Return the ranges of leaves whose roots are the consistency proof from size `old` to `new`.

    RFC 9162 section 2.1.4.1. From the empty tree, and from a tree to itself, the proof is empty.

    Raises:
        ProofError: the sizes are no such pair.
    """
    _check_size(new)
    if not 0 <= old <= new:
        raise ProofError(f"no consistency proof leads from size {old} to size {new}: a log only grows")
    if old in {0, new}:
        return []
    low, high, path, whole = 0, new, [], True
    while high != old:
        middle = low + _split(high - low)
        if old <= middle:
            path.append((middle, high))
            high = middle
        else:
            path.append((low, middle))
            low, whole = middle, False
    if not whole:
        path.append((low, high))
    return path[::-1]


def perfect_nodes(low: int, high: int) -> list[tuple[int, int]]:
    """Return the perfect subtrees, as (level, index), that make up a range of leaves that a tree has, from the left."""
    found = []
    while low < high:
        level = (high - low).bit_length() - 1
        if low:
            level = min(level, (low & -low).bit_length() - 1)
        found.append((level, low >> level))
        low += 1 << level
    return found


def range_root(low: int, high: int, nodes: Nodes) -> bytes:
    """Return the root over the leaves [low, high), one of the ranges that a tree has."""
    if low == high:
        return EMPTY_ROOT
    parts = [nodes(level, index) for level, index in perfect_nodes(low, high)]
    root = parts.pop()
    while parts:
        root = node_hash(parts.pop(), root)
    return root


def inclusion_proof(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """Return the proof that leaf `index` stands in the tree of `size` leaves (RFC 9162 section 2.1.3.1).

    Raises:
        ProofError: the tree has no such leaf.
    """
    return [range_root(low, high, nodes) for low, high in inclusion_ranges(index, size)]


def consistency_proof(old: int, new: int, nodes: Nodes) -> list[bytes]:
    """Return the proof that the tree of `new` leaves begins with the tree of `old` (RFC 9162 section 2.1.4.1).

    Raises:
        ProofError: the sizes are no such pair.
    """
    return [range_root(low, high, nodes) for low, high in consistency_ranges(old, new)]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that the leaf with this hash is leaf `index` of the tree with this root (RFC 9162 section 2.1.3.2).

    Raises:
        ProofError: it is not, by this proof.
    """
    _check_hashes([leaf, root, *proof])
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofError(f"a tree of {size} leaves has no leaf {index}")
    first, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ProofError("the inclusion proof is longer than the tree is high")
        if first & 1 or first == last:
            found = node_hash(sibling, found)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        first, last = first >> 1, last >> 1
    if last != 0:
        raise ProofError("the inclusion proof is shorter than the tree is high")
    if found != root:
        raise ProofError(f"the inclusion proof of leaf {index} does not lead to the root of the tree of {size} leaves")


def verify_consistency(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check that the tree of `new` leaves begins with the tree of `old` (RFC 9162 section 2.1.4.2).

    Raises:
        ProofError: it does not, by this proof.
    """
    _check_hashes([old_root, new_root, *proof])
    if not 0 <= old <= new <= MAX_SIZE:
        raise ProofError(f"a log only grows: size {new} cannot follow size {old}")
    if old in {0, new}:
        _check_trivial(old, new, proof, old_root, new_root)
        return
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    if not path:
        raise ProofError(f"the consistency proof from size {old} to size {new} is empty")
    first, last = old - 1, new - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    begun = ended = path[0]
    for node in path[1:]:
        if last == 0:
            raise ProofError("the consistency proof is longer than the tree is high")
        if first & 1 or first == last:
            begun, ended = node_hash(node, begun), node_hash(node, ended)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            ended = node_hash(ended, node)
        first, last = first >> 1, last >> 1
    if last != 0:
        raise ProofError("the consistency proof is shorter than the tree is high")
    if begun != old_root or ended != new_root:
        raise ProofError(f"the tree of {new} leaves does not begin with the tree of {old} leaves, by this proof")


def _check_trivial(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    if proof:
        raise ProofError(f"the consistency proof from size {old} to size {new} should be empty")
    if old == new and old_root != new_root:
        raise ProofError(f"two roots for one size, {old}")
    if old == 0 and old_root != EMPTY_ROOT:
        raise ProofError("the root of the tree without leaves is another")


def _check_hashes(hashes: Sequence[bytes]) -> None:
    if any(len(one) != HASH_BYTES for one in hashes):
        raise ProofError(f"a hash in the proof has not {HASH_BYTES} bytes")


def _check_size(size: int) -> None:
    if not 0 <= size <= MAX_SIZE:
        raise ProofError(f"{size} is no size of a tree")


def _split(width: int) -> int:
    """Return the largest power of two below `width` (k of RFC 9162 section 2.1.1)."""
    return 1 << (width - 1).bit_length() - 1
