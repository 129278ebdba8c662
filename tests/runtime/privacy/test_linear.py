"""RED-21, FR-41: cost grows in proportion to the text; counted in attempts and characters matched, not timed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
from privacy_samples import alnum
from tracehold.privacy import DEFAULT_DETECTORS, Cleaner
from tracehold.privacy.conversion import unused_name
from tracehold.privacy.detection import Scanner

_SIZE = 16_000


class CountingPattern:
    """A pattern that counts how often it is tried and how much it reads."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.work = 0

    def match(self, text: str, at: int) -> re.Match[str] | None:
        match = self._pattern.match(text, at)
        self.work += 1 + (len(match[0]) if match else 0)
        return match

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        self.work += len(text)
        for match in self._pattern.finditer(text):
            self.work += 1 + len(match[0])
            yield match


def work(text: str, stop: int | None = None) -> int:
    detectors = [dataclasses.replace(d, pattern=CountingPattern(d.pattern)) for d in DEFAULT_DETECTORS]  # type: ignore[arg-type]
    Scanner(detectors).find(text, stop)
    return sum(detector.pattern.work for detector in detectors)  # type: ignore[attr-defined]


def repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


_HINTS = sorted({hint for detector in DEFAULT_DETECTORS for hint in detector.hints})
_SHAPES = sorted({shape.replace("0", "1") for detector in DEFAULT_DETECTORS for shape in detector.shapes})
_UNITS = [
    *(form.format(hint) for hint in _HINTS for form in ("{}", "{}=", '"{}": "', "{} ", "{}@a.")),
    *_SHAPES,
    *(f"{shape} " for shape in _SHAPES),
    "a",
    "1",
    "a.",
    "a@",
    "@",
    "1 ",
    "eyJ",
    "http://a:",
    "://a@",
    "-----BEGIN ",
    "{",
    "[",
    "\\",
    '\\"',
    "%25",
    "%2540",
    "\\u0040",
    "\u200b",
    "a\u200b",
    "\uff11",
    "\u0130",
    "é",
    "a1B2c3D4" * 4 + "+",
    "x/" + "aB3dE6gH9j" * 2 + "/",
    "AB12 3456 ",
    "deadbeef",
]


@pytest.mark.parametrize("unit", _UNITS)
def test_twice_the_text_is_at_most_twice_the_work(unit):  # RED-21
    once, twice = work(repeated(unit, _SIZE)), work(repeated(unit, 2 * _SIZE))
    assert twice <= 2.3 * once + 2000


def test_random_text_is_no_worse():  # RED-21
    text = alnum(_SIZE)
    assert work(text + text) <= 2.3 * work(text) + 2000


def test_four_thousand_openers_without_an_end_are_matched_once():  # FR-41
    opener = "-----BEGIN RSA " + "PRIVATE KEY-----\n"
    assert work(opener * 4000) < 12 * len(opener * 4000)


@pytest.mark.parametrize("unit", [hint for hint in _HINTS if len(hint) > 3])
def test_no_hint_repeated_costs_more_than_a_bounded_number_of_steps_a_character(unit):  # RED-21
    assert work(repeated(unit, _SIZE)) <= 200 * _SIZE


@pytest.mark.parametrize(
    "unit", ["a@b.co ", "password: hunter2x, ", "sk-" + "proj-" + "a1b2c3d4e5f6 ", "a1B2c3D4" * 5 + " "]
)
def test_what_follows_the_part_that_is_kept_is_not_matched(unit):  # RED-21, TRC-10
    assert work(repeated(unit, _SIZE), stop=300) <= work(repeated(unit, 300)) + 1000


class CountingSet(set[str]):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, member: object) -> bool:
        self.asked += 1
        return super().__contains__(member)


def test_keys_that_become_one_are_numbered_at_a_cost_in_proportion() -> None:  # DEC-09
    taken = CountingSet()
    numbers: dict[str, int] = {}
    for _ in range(500):
        taken.add(unused_name("***", taken, numbers))
    assert len(taken) == 500
    assert taken.asked <= 3 * 500


def test_two_thousand_masked_keys_stay_two_thousand() -> None:  # DEC-09
    cleaned = Cleaner().clean({f"someone{number}@example.com": number for number in range(2000)})
    assert len(cleaned) == 2000
    assert list(cleaned.values()) == list(range(2000))
