"""Replacing what patterns find in texts and numbers by `[REDACTED:<name>]` (RED-03)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from tracehold.privacy.checks import is_card_value
from tracehold.privacy.detector import Detector
from tracehold.privacy.masking import TextMasker
from tracehold.privacy.redactor_patterns import (
    CARD,
    DEFAULT_PATTERNS,
    PERSONAL_PATTERNS,
    PRECEDENCE,
    BuiltInPattern,
    Pattern,
)

_PASSES_MAX: Final = 16
"""How often patterns are applied to what they left. Each pass ends what the one before brought forth (RED-01)."""
_MASK_START: Final = "[REDACTED"
_NUMBER: Final = re.compile(r"(?:#[0-9]{1,6})+\Z")
_REMEMBERED_LEN: Final = 96
_REMEMBERED_MAX: Final = 8192

_Stage = Callable[[str], str]


def mask_for(name: str) -> str:
    """Return what stands in the place of a find of the pattern called `name` (RED-03)."""
    return f"[REDACTED:{name}]"


class TextRules:
    """A set of patterns, arranged for searching. Each of the functions returns its argument itself if nothing is found.

    Args:
        patterns: applied in this order; built-in ones that stand next to each other are one search.

    Attributes:
        mask: masks a text.
        mask_identifier: masks a text whose place says that it is an identifier: what only looks generated stays.
        known_clean: short texts in which `mask` found nothing.
        card: what stands in the place of a number that is a payment card's, or `None` to leave numbers alone.
    """

    __slots__ = ("_stages", "card", "known_clean", "mask", "mask_identifier")

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.card = mask_for(CARD.name) if CARD in patterns else None
        self._stages = list(_stages(patterns, by_look=True))
        for_identifiers = list(_stages(patterns, by_look=False))
        self.mask: _Stage
        self.mask_identifier: _Stage
        first = self._stages[0] if self._stages else None
        if len(self._stages) == 1 and isinstance(first, TextMasker):
            self.mask = first
            self.known_clean = first.known_clean
            self.mask_identifier = for_identifiers[0]
        else:
            self.mask = self._staged
            self.known_clean = set()
            self.mask_identifier = lambda text: _settled(text, for_identifiers)

    def mask_key(self, key: str) -> str:
        """Return a key masked. The number that keeps two masked keys apart is no part of it (RED-01, DEC-09)."""
        if _MASK_START in key and (number := _NUMBER.search(key)):
            text = key[: number.start()]
            masked = self.mask(text)
            return key if masked is text else masked + number[0]
        return self.mask(key)

    def mask_number(self, number: Any) -> Any:
        """Return the mask if `number`, of any kind, is a payment card's (DEC-09)."""
        return self.card if self.card is not None and is_card_value(number) else number

    def _staged(self, text: str) -> str:
        known = self.known_clean
        if text in known:
            return text
        masked = _settled(text, self._stages)
        if masked is text and len(text) <= _REMEMBERED_LEN:
            if len(known) >= _REMEMBERED_MAX:
                known.clear()
            known.add(text)
        return masked


def _settled(text: str, stages: Sequence[_Stage]) -> str:
    for _pass in range(_PASSES_MAX):
        before = text
        last = None
        for stage in stages:
            masked = stage(text)
            last = last if masked is text else stage
            text = masked
        if text is before:
            return text
    # A look-ahead that each mask fulfils anew never comes to an end: then nothing of the text is safe to keep.
    return last.mask if isinstance(last, _OwnStage) else mask_for("secret")


def _stages(patterns: Sequence[Pattern], *, by_look: bool) -> Iterator[_Stage]:
    names = [pattern.name for pattern in (*patterns, *DEFAULT_PATTERNS, *PERSONAL_PATTERNS)]
    ours = re.compile(r"\[REDACTED(?::(?:" + "|".join(map(re.escape, dict.fromkeys(names))) + r"))?\]")
    for built_in, group in groupby(patterns, lambda pattern: isinstance(pattern, BuiltInPattern)):
        if built_in:
            yield TextMasker(mask=mask_for, detectors=list(_detectors(group, by_look=by_look)))
        else:
            yield from (_OwnStage(pattern, ours) for pattern in group)


def _detectors(patterns: Iterable[Pattern], *, by_look: bool) -> list[Detector]:
    """Return the detectors of built-in patterns, by precedence, whatever order they are given in."""
    found = [each for pattern in patterns if isinstance(pattern, BuiltInPattern) for each in pattern.detectors]
    kept = [each for each in found if by_look or not each.by_look]
    return sorted(kept, key=lambda each: PRECEDENCE[each.pattern])


class _OwnStage:
    """Replaces the matches of a user's pattern. Masks that stand in the text already are never taken apart."""

    __slots__ = ("_ours", "_pattern", "mask")

    def __init__(self, pattern: Pattern, ours: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._ours = ours
        self.mask = mask_for(pattern.name)

    def __call__(self, text: str) -> str:
        check = self._pattern.check
        matches = self._pattern.regex.finditer(text)
        found = [match.span() for match in matches if match[0] and (check is None or check(match))]
        if found and _MASK_START in text:
            found = _around_masks(found, [match.span() for match in self._ours.finditer(text)])
        if not found:
            return text
        parts: list[str] = []
        last = 0
        for start, end in found:
            parts += (text[last:start], self.mask)
            last = end
        parts.append(text[last:])
        return "".join(parts)


def _around_masks(found: list[tuple[int, int]], masks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop finds that lie in a mask, and stretch those that cut into one over the whole of it. All are sorted."""
    kept: list[tuple[int, int]] = []
    at = 0
    for start, end in found:
        while at < len(masks) and masks[at][1] <= start:
            at += 1
        ahead = at
        first, last = start, end
        inside = False
        while ahead < len(masks) and masks[ahead][0] < end:
            inside = inside or (masks[ahead][0] <= start and end <= masks[ahead][1])
            first, last = min(first, masks[ahead][0]), max(last, masks[ahead][1])
            ahead += 1
        if inside:
            continue
        if kept and first < kept[-1][1]:
            first = kept.pop()[0]
        kept.append((first, last))
    return kept
