"""A context with the real cleaner, and the traces that ship with the project."""

from __future__ import annotations

import pytest
from support.spans import Read, read_span
from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.normalise.context import NormaliseContext


@pytest.fixture
def context() -> NormaliseContext:
    cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")
    return NormaliseContext("acme", Pseudonyms(b"k" * 32, "acme"), cleaner)


@pytest.fixture
def read() -> Read:
    return read_span
