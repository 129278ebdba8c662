"""The nodes of the tree that prove many leaves at once, each kept once."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from tracehold_collector.audit.merkle import Nodes, inclusion_ranges, perfect_nodes


class NodeSet:
    """Collects which nodes the proofs of a bundle need.

    A hundred proofs of one tree share most of their hashes; and what follows from the listed leaves needs no node.

    Args:
        size: leaves of the tree.
        listed: the range of leaves, half open, whose hashes the bundle lists; empty for none.
    """

    def __init__(self, size: int, listed: tuple[int, int] = (0, 0)) -> None:
        self._size = size
        self._listed = listed
        self._wanted: set[tuple[int, int]] = set()
        low, high = listed
        if low < high:
            # With these, the listed leaves lead to the root.
            self._wanted.update(perfect_nodes(0, low))
            self._wanted.update(perfect_nodes(high, size) if high < size else ())

    def prove(self, index: int) -> None:
        """Want what proves that this leaf stands in the tree."""
        for low, high in inclusion_ranges(index, self._size):
            self._wanted.update(node for node in perfect_nodes(low, high) if not self._touches(*node))

    def lines(self, nodes: Nodes) -> Iterator[str]:
        """Yield the nodes as `level index base64`, in order.

        Args:
            nodes: reads them.
        """
        for level, index in sorted(self._wanted):
            yield f"{level} {index} {base64.b64encode(nodes(level, index)).decode()}\n"

    def _touches(self, level: int, index: int) -> bool:
        """Whether a listed leaf is below the node: then it follows from the leaves and the nodes beside them."""
        low, high = self._listed
        return index << level < high and low < (index + 1) << level
