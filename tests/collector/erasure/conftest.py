"""A store to erase from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.erasing import Store, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as made:
        yield made
