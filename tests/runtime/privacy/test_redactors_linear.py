"""RED-21: the default patterns cost in proportion to the text; counted in attempts and characters, not timed."""

from __future__ import annotations

import dataclasses

import pytest
from privacy_samples import alnum
from test_linear import CountingPattern, repeated
from tracehold.privacy import redactor_text
from tracehold.privacy.redactor_patterns import BuiltInPattern
from tracehold.privacy.redactors import DEFAULT_PATTERNS, PatternRedactor

_SIZE = 16_000
_UNITS = [
    "a",
    "1",
    "1 ",
    "a.",
    "a@",
    "a@b.",
    "@",
    ".",
    "-",
    " ",
    "eyJ",
    "sk-",
    "Bearer ",
    "password: ",
    "password=",
    "key=",
    "://a:b@",
    "http://a:",
    "-----BEGIN ",
    "123-45-",
    "4111 ",
    "4111-1111-",
    "AKIA",
    "a1B2c3D4" * 4 + "+",
    "[REDACTED:email]",
    "[REDACTED:email]a",
    "\u200b",
    "%40",
    "a" * 76 + "\n",
    "aB3+" * 19 + "\n",
]


def work(text: str) -> int:
    counting = []
    for pattern in DEFAULT_PATTERNS:
        assert isinstance(pattern, BuiltInPattern)
        detectors = [
            dataclasses.replace(each, pattern=CountingPattern(each.pattern))  # type: ignore[arg-type]
            for each in pattern.detectors
        ]
        counting += detectors
    masker = redactor_text.TextMasker(mask=redactor_text.mask_for, detectors=counting)
    masker(text)
    return sum(detector.pattern.work for detector in counting)  # type: ignore[attr-defined]


@pytest.mark.parametrize("unit", _UNITS)
def test_twice_the_text_is_at_most_twice_the_work(unit):  # RED-21
    once, twice = work(repeated(unit, _SIZE)), work(repeated(unit, 2 * _SIZE))
    assert twice <= 2.3 * once + 2000


@pytest.mark.parametrize("unit", _UNITS)
def test_a_character_costs_a_bounded_number_of_steps(unit):  # RED-21
    assert work(repeated(unit, _SIZE)) <= 200 * _SIZE


def test_random_text_is_no_worse():  # RED-21
    text = alnum(_SIZE)
    assert work(text + text) <= 2.3 * work(text) + 2000


def test_the_default_redactor_has_the_detectors_that_are_counted_here():  # RED-21
    (masker,) = PatternRedactor()._rules._stages
    assert isinstance(masker, redactor_text.TextMasker)
