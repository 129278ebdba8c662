"""A collector over real HTTP for each report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.world import World
from tracehold_collector.serve import CollectorServer


@pytest.fixture
def world(serve: Callable[..., CollectorServer]) -> Iterator[World]:
    made = World(serve())
    yield made
    made.close()
