"""The proofs in a bundle hold in an implementation by somebody else, where one is found."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

from support.evidence import World, other_python

# The records are read by the verifier in the bundle; whether their leaves stand in the log, aics-tlog says.
CHECK = """
import hashlib, json, sys
import verify_evidence as reader
import aics_tlog as judge

path, key = json.load(sys.stdin)
bundle = reader.Bundle(path)
listed = bundle.manifest["leaves"]
tree = reader.Tree(bundle.nodes(), listed["first"], bundle.read("leaves.bin"))
heads = {}
for name in bundle.manifest["heads"]:
    note = judge.parse_note(bundle.read(name))
    found = judge.verify_checkpoint(note, judge.parse_vkey(key))
    assert found.ok, found.error
    heads[found.size] = found.root
size = max(heads)
checked = 0
for record in bundle.lines("records.jsonl"):
    leaf = reader.leaf_of(record, hashlib.sha256(reader.envelope_of(record)).digest())
    index = record["leaf_index"]
    assert judge.verify_inclusion(leaf, index, size, tree.path(index, size), heads[size]), index
    checked += 1
for proof in bundle.manifest["consistency"]:
    steps = [reader.decode64(step, "a step") for step in proof["proof"]]
    old, new = proof["old"], proof["new"]
    assert judge.verify_consistency(old, new, heads[old], heads[new], steps), old
json.dump([checked, len(bundle.manifest["consistency"])], sys.stdout)
"""


def test_inclusion_and_consistency_proofs_of_a_bundle_hold_in_another_implementation(
    world: World, tmp_path: Path
) -> None:
    python = other_python()
    sizes = tuple(head.size for head in world.heads[:2])
    path = world.bundle(tmp_path / "run.zip", "run", given={"run_id": "run-3"}, sizes=sizes)
    with zipfile.ZipFile(path) as bundle:
        bundle.extract("verify_evidence.py", tmp_path)
    given = json.dumps([str(path), world.key()])
    done = subprocess.run([python, "-c", CHECK], cwd=tmp_path, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [100, 2]
