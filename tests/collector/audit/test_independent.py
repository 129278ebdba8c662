"""Proofs, tiles and tree heads hold in an implementation by somebody else, where one is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.evidence import other_python
from tracehold_collector.audit.merkle import Frontier, consistency_proof, inclusion_proof, leaf_hash, root_of
from tracehold_collector.audit.signing import Signer
from tracehold_collector.audit.tiles import TilePath, encode_bundle, tile_width

NOW = 1_796_000_000_000_000_000


def tiles_of(entries: list[bytes]) -> dict[str, str]:
    """Every tile and bundle of a log, by path."""
    hashes = [leaf_hash(entry) for entry in entries]
    rows = {0: b"".join(hashes), **{level: row for level, _, row in Frontier().extend(hashes)}}
    tiles = {}
    for level, row in rows.items():
        for index in range(-(-len(row) // (256 * 32))):
            path = TilePath(level, index, tile_width(level, index, len(entries)))
            tiles[str(path)] = row[index * 8192 : index * 8192 + path.width * 32].hex()
            if level == 0:
                bundle = entries[index * 256 : index * 256 + path.width]
                tiles[str(TilePath(None, index, path.width))] = encode_bundle(bundle).hex()
    return tiles


@pytest.mark.parametrize("size", [1, 6, 256, 1000])
def test_another_implementation_makes_the_same_proofs_and_believes_ours(size, nodes_of, tmp_path, numbered):
    entries = [number.to_bytes(4, "big") for number in range(size)]
    hashes = numbered(size)
    nodes = nodes_of(hashes)
    signer = Signer(tmp_path, NOW, name="log.example")
    sizes = sorted({1, size // 3 or 1, size - 1 or 1, size})
    case = {
        "leaves": [entry.hex() for entry in entries],
        "inclusion": [
            [index, whole, [step.hex() for step in inclusion_proof(index, whole, nodes)]]
            for whole in sizes
            for index in sorted({0, whole // 2, whole - 1})
        ],
        "consistency": [[old, size, [step.hex() for step in consistency_proof(old, size, nodes)]] for old in sizes],
        "head": signer.sign_head("acme", size, root_of(hashes), NOW),
        "keys": [str(signer.verifier_keys("acme")[0]), str(signer.verifier_keys()[1])],
        "tiles": tiles_of(entries),
    }
    check = Path(__file__).with_name("independent_check.py")
    done = subprocess.run(
        [other_python(), str(check)], input=json.dumps(case), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == root_of(hashes).hex()
