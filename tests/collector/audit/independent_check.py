"""Run by an interpreter that has `aics-tlog` (Python 3.12 and later): checks with it what stands on standard input."""

from __future__ import annotations

import json
import sys

from aics_tlog import (  # type: ignore[import-not-found, unused-ignore]
    MemoryTileReader,
    MerkleTree,
    audit_tiles,
    parse_note,
    parse_vkey,
    verify_checkpoint,
    verify_consistency,
    verify_leaf_inclusion,
)


def main() -> None:
    case = json.load(sys.stdin)
    leaves = [bytes.fromhex(leaf) for leaf in case["leaves"]]
    tree = MerkleTree(leaves)
    for index, size, proof in case["inclusion"]:
        path = [bytes.fromhex(step) for step in proof]
        assert path == tree.inclusion_proof(index, size), f"inclusion proof of {index} in {size}"
        assert verify_leaf_inclusion(leaves[index], index, size, path, tree.root(size))
    for old, new, proof in case["consistency"]:
        path = [bytes.fromhex(step) for step in proof]
        assert path == tree.consistency_proof(old, new), f"consistency proof from {old} to {new}"
        assert verify_consistency(old, new, tree.root(old), tree.root(new), path)
    key, cosigner = map(parse_vkey, case["keys"])
    found = verify_checkpoint(parse_note(case["head"]), key, [cosigner], quorum=1)
    assert found.ok, found.error
    reader = MemoryTileReader({path: bytes.fromhex(data) for path, data in case["tiles"].items()})
    audit_tiles(reader, len(leaves), tree.root())
    sys.stdout.write(tree.root().hex())


main()
