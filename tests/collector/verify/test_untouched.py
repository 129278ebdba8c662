"""What verifying says of a log that nobody touched."""

from __future__ import annotations

from typing import Any


def test_a_log_that_nobody_touched_verifies_to_its_last_leaf(world: Any) -> None:
    report = world.verify()
    assert report.findings == []
    assert report.counts == {"verified": 400}
    assert report.covered == 400
    assert report.heads == 3
