"""Trees small enough to recompute, and the published vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tracehold_collector.audit.merkle import Nodes, leaf_hash


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    return json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def plain_root(leaves: list[bytes]) -> bytes:
    """The definition of RFC 9162 section 2.1.1, word for word and slow."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + plain_root(leaves[:split]) + plain_root(leaves[split:])).digest()


@pytest.fixture(scope="session")
def defined_root() -> Callable[[list[bytes]], bytes]:
    return plain_root


@pytest.fixture(scope="session")
def numbered() -> Callable[[int], list[bytes]]:
    """Gives the hashes of the leaves 0, 1, 2 ..."""
    made = [leaf_hash(number.to_bytes(4, "big")) for number in range(1 << 17)]
    return lambda count: made[:count]


@pytest.fixture(scope="session")
def nodes_of() -> Callable[[list[bytes]], Nodes]:
    """Gives the nodes of a tree by its definition."""

    def of(leaves: list[bytes]) -> Nodes:
        def node(level: int, index: int) -> bytes:
            low, high = index << level, (index + 1) << level
            assert high <= len(leaves), f"asked for a subtree that is not full: {level}, {index} of {len(leaves)}"
            return plain_root(leaves[low:high])

        return node

    return of
