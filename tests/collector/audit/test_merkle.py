"""The Merkle tree: published vectors, the definition, and proofs that nothing but the truth fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.audit.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from tracehold_collector.core.errors import ProofError

SIZES = st.integers(1, 70) | st.sampled_from([127, 128, 129, 255, 256, 257, 300])


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


def test_published_roots_are_reproduced(vectors):
    hashes = [leaf_hash(bytes.fromhex(leaf)) for leaf in vectors["leaves"]]
    assert vectors["empty_root"] == EMPTY_ROOT.hex() == root_of([]).hex()
    assert vectors["roots"] == [root_of(hashes[: count + 1]).hex() for count in range(len(hashes))]


def test_published_inclusion_proofs_are_reproduced_and_verify(vectors, nodes_of):
    hashes = [leaf_hash(bytes.fromhex(leaf)) for leaf in vectors["leaves"]]
    for case in vectors["inclusion"]:
        index, size = case["index"], case["size"]
        proof = inclusion_proof(index, size, nodes_of(hashes))
        assert case["proof"] == [step.hex() for step in proof]
        verify_inclusion(hashes[index], index, size, proof, bytes.fromhex(vectors["roots"][size - 1]))


def test_published_consistency_proofs_are_reproduced_and_verify(vectors, nodes_of):
    hashes = [leaf_hash(bytes.fromhex(leaf)) for leaf in vectors["leaves"]]
    roots = [bytes.fromhex(root) for root in vectors["roots"]]
    for case in vectors["consistency"]:
        old, new = case["old"], case["new"]
        proof = consistency_proof(old, new, nodes_of(hashes))
        assert case["proof"] == [step.hex() for step in proof]
        verify_consistency(old, new, proof, roots[old - 1], roots[new - 1])


@given(pieces=st.lists(st.integers(0, 40), max_size=12))
def test_frontier_says_what_the_definition_says_however_the_leaves_came(pieces, numbered, defined_root):
    leaves = numbered(sum(pieces))
    frontier, at = Frontier(), 0
    for count in pieces:
        frontier.extend(leaves[at : at + count])
        at += count
        assert frontier.size == at
        assert frontier.root() == defined_root(leaves[:at])


@given(size=st.integers(0, 600))
def test_frontier_is_rebuilt_from_stored_nodes_and_goes_on(size, numbered, defined_root, nodes_of):
    leaves = numbered(size + 3)
    frontier = Frontier.from_nodes(size, nodes_of(leaves))
    assert frontier.root() == defined_root(leaves[:size])
    frontier.extend(b"".join(leaves[size:]))
    assert frontier.root() == defined_root(leaves)


def test_copy_of_a_frontier_goes_its_own_way(numbered):
    leaves = numbered(8)
    frontier = Frontier()
    frontier.extend(leaves[:5])
    kept, before = frontier.copy(), frontier.root()
    frontier.extend(leaves[5:])
    assert (kept.size, kept.root()) == (5, before)
    kept.append(leaves[5])
    assert kept.root() == root_of(leaves[:6])


@pytest.mark.parametrize(
    "cuts", [[], [255, 256, 257], [1, 65_535, 65_537], [511, 513, 65_536]], ids=["one", "small", "large", "even"]
)
def test_frontier_hands_back_each_subtree_of_a_tile_once_when_it_is_full(cuts, numbered):
    total = 66_000
    leaves = b"".join(numbered(total))
    frontier, found, at = Frontier(), {1: {}, 2: {}}, 0
    for cut in [*sorted(cuts), total]:
        for level, first, hashes in frontier.extend(leaves[at * 32 : cut * 32]):
            for place in range(0, len(hashes), 32):
                index = first + place // 32
                assert index not in found[level]
                found[level][index] = hashes[place : place + 32]
        at = cut
    assert list(found[1]) == list(range(total // 256))
    assert list(found[2]) == [0]
    assert found[1][200] == root_of(leaves[200 * 256 * 32 : 201 * 256 * 32])
    assert found[2][0] == root_of(leaves[: 65_536 * 32])


def test_hash_of_another_length_is_refused_and_nothing_is_added(numbered):
    frontier = Frontier()
    frontier.extend(numbered(3))
    for wrong in (b"x" * 33, [b"x" * 32, b"x" * 31]):
        with pytest.raises(ProofError, match="32 bytes"):
            frontier.extend(wrong)
    assert (frontier.size, frontier.root()) == (3, root_of(numbered(3)))


@given(size=SIZES, data=st.data())
def test_inclusion_proof_verifies_and_no_altered_one_does(size, data, numbered, nodes_of):
    leaves = numbered(size)
    index = data.draw(st.integers(0, size - 1))
    root = root_of(leaves)
    proof = inclusion_proof(index, size, nodes_of(leaves))
    verify_inclusion(leaves[index], index, size, proof, root)
    bit = data.draw(st.integers(0, 255))
    wrong = [
        (flipped(leaves[index], bit), index, size, proof, root),
        (leaves[index], index, size, proof, flipped(root, bit)),
        (leaves[index], index, size, [*proof, root], root),
        (leaves[index], size, size, proof, root),
        (leaves[index], -1, size, proof, root),
    ]
    if proof:
        step = data.draw(st.integers(0, len(proof) - 1))
        altered = [flipped(node, bit) if at == step else node for at, node in enumerate(proof)]
        wrong += [
            (leaves[index], index, size, altered, root),
            (leaves[index], index, size, proof[:-1], root),
            (leaves[index], index, size, proof[1:], root),
            (leaves[index], index ^ 1, size, proof, root),
            (leaves[index], index, 1, proof, root),
        ]
    for case in wrong:
        with pytest.raises(ProofError):
            verify_inclusion(*case)


@given(sizes=st.tuples(SIZES, SIZES).map(sorted), data=st.data())
def test_consistency_proof_verifies_between_any_two_sizes_and_no_altered_one_does(sizes, data, numbered, nodes_of):
    old, new = sizes
    leaves = numbered(new)
    old_root, new_root = root_of(leaves[:old]), root_of(leaves)
    proof = consistency_proof(old, new, nodes_of(leaves))
    verify_consistency(old, new, proof, old_root, new_root)
    bit = data.draw(st.integers(0, 255))
    wrong = [
        (old, new, proof, flipped(old_root, bit), new_root),
        (old, new, proof, old_root, flipped(new_root, bit)),
        (old, new, [*proof, new_root], old_root, new_root),
        (new + 1, new, proof, old_root, new_root),
    ]
    if proof:
        step = data.draw(st.integers(0, len(proof) - 1))
        altered = [flipped(node, bit) if at == step else node for at, node in enumerate(proof)]
        wrong += [
            (old, new, altered, old_root, new_root),
            (old, new, proof[:-1], old_root, new_root),
            (old, new, proof[1:], old_root, new_root),
            (old, new, proof, new_root, old_root),
        ]
    for case in wrong:
        with pytest.raises(ProofError):
            verify_consistency(*case)


def test_every_tree_begins_with_the_empty_one_and_with_itself():
    root = leaf_hash(b"one")
    verify_consistency(0, 1, [], EMPTY_ROOT, root)
    verify_consistency(1, 1, [], root, root)
    for case in [(0, 1, [], root, root), (1, 1, [], EMPTY_ROOT, root), (0, 1, [root], EMPTY_ROOT, root)]:
        with pytest.raises(ProofError):
            verify_consistency(*case)


def test_a_proof_of_a_leaf_that_is_not_there_is_refused(nodes_of, numbered):
    for index, size in [(3, 3), (-1, 3), (0, 0), (0, 1 << 63)]:
        with pytest.raises(ProofError):
            inclusion_proof(index, size, nodes_of(numbered(3)))
    for old, new in [(4, 3), (-1, 3)]:
        with pytest.raises(ProofError, match="only grows"):
            consistency_proof(old, new, nodes_of(numbered(3)))
