"""What may not leave the process in the clear, and how it is masked.

The Tracer, the collector and the engine's redactors share this one engine: detectors are data, key names are judged
by their words, and the cost of both grows in proportion to the text.
"""

from __future__ import annotations

from tracehold.privacy.cleaning import Cleaner
from tracehold.privacy.detection import find_sensitive
from tracehold.privacy.detector import Detector, Finding, Where
from tracehold.privacy.detectors import DEFAULT_DETECTORS
from tracehold.privacy.keys import KeyRules, KeyVerdict
from tracehold.privacy.masking import TextMasker
from tracehold.privacy.truncation import truncate

__all__ = [
    "DEFAULT_DETECTORS",
    "Cleaner",
    "Detector",
    "Finding",
    "KeyRules",
    "KeyVerdict",
    "TextMasker",
    "Where",
    "find_sensitive",
    "truncate",
]
