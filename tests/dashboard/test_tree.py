"""The order of a waterfall: depth first, whatever shape the parents have."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from tracehold_dashboard.tree import in_tree_order


def spans(*pairs):
    frame = pd.DataFrame(pairs, columns=["span_id", "parent_span_id"], dtype="object")
    return frame.assign(tenant="acme", depth=None)


def drawn(frame):
    tree = in_tree_order(frame)
    return list(zip(tree["span_id"], tree["depth"], strict=True))


def test_children_stand_below_their_parent_in_order_of_start():
    frame = spans(("r", None), ("a", "r"), ("b", "r"), ("a1", "a"), ("s", None), ("b1", "b"))
    assert drawn(frame) == [("r", 0), ("a", 1), ("a1", 2), ("b", 1), ("b1", 2), ("s", 0)]


def test_a_chain_of_ten_thousand_spans_is_put_in_order():
    # FR-21
    frame = spans(*((str(n), str(n - 1) if n else None) for n in range(10_000)))
    assert drawn(frame)[-1] == ("9999", 9_999)


def test_a_loop_of_parents_is_drawn_from_its_earliest_span():
    assert drawn(spans(("r", None), ("a", "b"), ("b", "a"), ("x", "x"))) == [("r", 0), ("x", 0), ("a", 0), ("b", 1)]


def test_nothing_gives_nothing():
    assert drawn(spans()) == []


@given(st.lists(st.one_of(st.none(), st.integers(0, 15)), max_size=15))
def test_every_span_is_drawn_once_below_its_parent(parents):
    frame = spans(*((str(n), None if parent is None else str(parent)) for n, parent in enumerate(parents)))
    order = drawn(frame)
    assert sorted(name for name, _ in order) == sorted(map(str, range(len(parents))))
    depth = dict(order)
    for name, level in order:
        if level:
            assert depth[str(parents[int(name)])] == level - 1
