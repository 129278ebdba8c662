from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tracehold import Tracer

# Test folders are no packages, so a module that several test files share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def tracer() -> Tracer:
    """Keeps its events in memory."""
    return Tracer()


@pytest.fixture(autouse=True)
def _no_one_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading standard input fails a test: no gate may ever ask it unless told to (HAR-08, HAR-52)."""

    def asked(*_: object) -> str:
        raise AssertionError("standard input was read")

    monkeypatch.setattr("builtins.input", asked)
