"""A shared store with evidence in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.evidence import Outcome, World, check_bundle, filled_world


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Not to be added to: it is shared."""
    made = filled_world(tmp_path_factory.mktemp("world"))
    yield made
    made.writer.close()
    made.database.close()


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    made = filled_world(tmp_path / "own")
    yield made
    made.writer.close()
    made.database.close()


@pytest.fixture
def check() -> Callable[..., Outcome]:
    """Runs the verifier in this process on a bundle, with these arguments."""
    return check_bundle
