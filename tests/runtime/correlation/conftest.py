from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tracehold import Tracer

# Test folders are no packages, so a module that several test files share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def tracer() -> Tracer:
    """Keeps its events in memory."""
    return Tracer()


@pytest.fixture
def kept() -> Iterator[Callable[[Any], Any]]:
    """Gives back the store it is given, and closes it after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda store: stack.enter_context(contextlib.closing(store))
