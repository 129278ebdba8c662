"""The table of detectors. Each module holds those of one subject; the order here is their precedence."""

from __future__ import annotations

from typing import Final

from tracehold.privacy.detector import Detector
from tracehold.privacy.detectors.assignments import ASSIGNMENTS
from tracehold.privacy.detectors.commands import COMMANDS
from tracehold.privacy.detectors.headers import HEADERS
from tracehold.privacy.detectors.keys import KEYS, PUBLIC_MATERIAL
from tracehold.privacy.detectors.numbers import NUMBERS
from tracehold.privacy.detectors.people import PEOPLE
from tracehold.privacy.detectors.runs import RUNS
from tracehold.privacy.detectors.tokens import TOKENS
from tracehold.privacy.detectors.urls import URLS

DEFAULT_DETECTORS: Final[tuple[Detector, ...]] = (
    *PEOPLE,
    *NUMBERS,
    *TOKENS,
    *KEYS,
    *HEADERS,
    *URLS,
    *COMMANDS,
    *ASSIGNMENTS,
    *RUNS,
)
"""What is looked for unless told otherwise (RED-04 names the first six kinds)."""

__all__ = ["DEFAULT_DETECTORS", "PUBLIC_MATERIAL"]
