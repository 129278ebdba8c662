from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tracehold.privacy import Cleaner, TextMasker

# Test folders are no packages, so a module that several test files share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cleaner() -> Cleaner:
    return Cleaner()


@pytest.fixture
def named() -> TextMasker:
    """A masker that says which detector found what, as the engine's redactors do (RED-03)."""
    return TextMasker(mask=lambda name: f"[REDACTED:{name}]")
