from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.event_stores import STORES
from tracehold.events import EventStore

# Test folders are no packages, so a module that several test files share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """An empty store of each kind."""
    made: EventStore = STORES[request.param](tmp_path)
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Callable[[], EventStore]]:
    """Opens one SQLite file, each time as another process would."""
    opened: list[EventStore] = []

    def open_again() -> EventStore:
        opened.append(STORES["sqlite"](tmp_path))
        return opened[-1]

    yield open_again
    for one in opened:
        asyncio.run(one.aclose())
