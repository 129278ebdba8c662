"""Finding and masking sensitive text, at a cost that grows in proportion to its length (RED-21).

A detector's pattern is tried only where it can match: where a literal of its own stands, at a long run of token
characters, or in a text that has digits in a row. The literals are searched by `str.find`, which costs a fraction of
a nanosecond a character, so that a text with nothing to hide is read a few dozen times by C code and never by a regular
expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final

from tracehold.privacy.detector import Detector, Finding, Where
from tracehold.privacy.detectors import DEFAULT_DETECTORS, PUBLIC_MATERIAL
from tracehold.privacy.views import decoded_views, has_escapes, plain_view

_BEFORE_MAX: Final = 64
_RUN_MIN: Final = 16
_RUN: Final = b"a" * _RUN_MIN
_RUN_CHARS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_RUN_TABLE: Final = bytes(ord("a") if code in _RUN_CHARS else ord(" ") for code in range(256))
_DIGIT_TABLE: Final = bytes(ord("0") if chr(code) in "0123456789" else ord(" ") for code in range(256))
_DIGITS: Final = b"0000"

_REMEMBERED_LEN: Final = 96
_REMEMBERED_MAX: Final = 8192

_Span = tuple[int, int, int]
"""Start, end, and the rank of the detector that found it (the lower wins where two overlap)."""


class Scanner:
    """A set of detectors, arranged for searching."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """Arrange `detectors`; their order decides whose name a stretch gets that several of them found."""
        self._names = tuple(detector.name for detector in detectors)
        ranked = list(enumerate(detectors))
        self._always = [(rank, d) for rank, d in ranked if d.where is Where.ANYWHERE and not d.hints]
        self._digits = [(rank, d) for rank, d in ranked if d.where is Where.IN_DIGITS]
        self._runs = [(rank, d) for rank, d in ranked if d.where is Where.AT_RUN]
        self._shaped = frozenset(rank for rank, d in ranked if d.shape)
        hinted = [(rank, d) for rank, d in ranked if d.hints and d.where in (Where.ANYWHERE, Where.AT_HINT)]
        self._groups = _group_by_requirement(hinted)

    def find(self, text: str) -> list[Finding]:
        """Return what is sensitive in `text`: sorted, and no two findings overlap."""
        spans: list[_Span] = []
        if text.isascii():
            self._scan(text, spans)
            plain = text
            back: Callable[[int], int] | None = None
        else:
            view = plain_view(text)
            found: list[_Span] = []
            plain, back = view.text, view.original
            self._scan(plain, found)
            spans += [(back(start), back(end), rank) for start, end, rank in found]
        if has_escapes(plain):
            self._scan_decoded(plain, back, spans)
        return self._resolve(spans) if spans else []

    def _scan_decoded(self, plain: str, back: Callable[[int], int] | None, spans: list[_Span]) -> None:
        for view in decoded_views(plain):
            found: list[_Span] = []
            self._scan(view.text, found)
            for start, end, rank in found:
                first, last = view.original(start), view.original(end)
                spans.append((back(first), back(last), rank) if back else (first, last, rank))

    def _scan(self, text: str, spans: list[_Span]) -> None:
        low = text.lower()
        if len(low) != len(text):  # one letter, the dotted capital I, becomes two in lower case
            low = text.replace("\u0130", "I").lower()
        for requires, anywhere, at_hint in self._groups:
            if requires and not _any_in(requires, low):
                continue
            for hint, rank, detector in at_hint:
                if hint in low:
                    _match_at_hints(detector, rank, hint, text, low, spans)
            for rank, detector in anywhere:
                if _any_in(detector.hints, low):
                    _search(detector, rank, text, spans)
        for rank, detector in self._always:
            _search(detector, rank, text, spans)
        raw = text.encode("ascii", "replace")
        if self._digits and _DIGITS in raw.translate(_DIGIT_TABLE):
            for rank, detector in self._digits:
                _search(detector, rank, text, spans)
        if self._runs and len(raw) >= _RUN_MIN:
            runs = raw.translate(_RUN_TABLE)
            if _RUN in runs:
                self._scan_runs(text, low, runs, spans)

    def _scan_runs(self, text: str, low: str, runs: bytes, spans: list[_Span]) -> None:
        found: list[_Span] = []
        start = runs.find(_RUN)
        while start >= 0:
            end = runs.find(b" ", start + _RUN_MIN)
            for rank, detector in self._runs:
                match = detector.pattern.match(text, start)
                if match is not None and (detector.check is None or detector.check(match)):
                    found.append((*match.span(detector.group), rank))
                    break
            if end < 0:
                break
            start = runs.find(_RUN, end)
        if found and not self._shaped.isdisjoint(rank for _, _, rank in found):
            found = _outside_public_material(found, self._shaped, text, low)
        spans += found

    def _resolve(self, spans: list[_Span]) -> list[Finding]:
        """Merge spans that overlap; the stretch is called after the best-ranked detector in it."""
        spans.sort()
        merged: list[Finding] = []
        start, end, best = spans[0]
        for begin, stop, rank in spans[1:]:
            if begin < end:
                end = max(end, stop)
                best = min(best, rank)
            else:
                merged.append(Finding(start, end, self._names[best]))
                start, end, best = begin, stop, rank
        merged.append(Finding(start, end, self._names[best]))
        return [finding for finding in merged if finding.start < finding.end]


def _group_by_requirement(
    hinted: list[tuple[int, Detector]],
) -> list[tuple[tuple[str, ...], list[tuple[int, Detector]], list[tuple[str, int, Detector]]]]:
    groups: dict[tuple[str, ...], tuple[list[tuple[int, Detector]], list[tuple[str, int, Detector]]]] = {}
    for rank, detector in hinted:
        anywhere, at_hint = groups.setdefault(detector.requires, ([], []))
        if detector.where is Where.AT_HINT:
            at_hint += [(hint, rank, detector) for hint in detector.hints]
        else:
            anywhere.append((rank, detector))
    return [(requires, *lists) for requires, lists in groups.items()]


def _any_in(literals: tuple[str, ...], text: str) -> bool:
    for literal in literals:  # noqa: SIM110 - any() with a generator costs three times as much here
        if literal in text:
            return True
    return False


def _search(detector: Detector, rank: int, text: str, spans: list[_Span]) -> None:
    check, group = detector.check, detector.group
    for match in detector.pattern.finditer(text):
        if check is None or check(match):
            spans.append((*match.span(group), rank))


def _match_at_hints(detector: Detector, rank: int, hint: str, text: str, low: str, spans: list[_Span]) -> None:
    match_at, check, group, before = detector.pattern.match, detector.check, detector.group, detector.before
    step = len(hint)
    at = low.find(hint)
    while at >= 0:
        match = match_at(text, at)
        following = at + step
        if match is not None and (check is None or check(match)):
            start, end = match.span(group)
            if before:
                width = _width_before(text, start, before)
                if width:
                    spans.append((start - width, end, rank))
            else:
                spans.append((start, end, rank))
            following = max(following, end)
        at = low.find(hint, following)


def _width_before(text: str, start: int, chars: str) -> int:
    window = text[max(0, start - _BEFORE_MAX) : start]
    if window.isascii():
        return len(window) - len(window.rstrip(chars))
    return sum(1 for _ in takewhile(lambda char: char in chars or (char > "\x7f" and char.isalnum()), reversed(window)))


def _outside_public_material(found: list[_Span], shaped: frozenset[int], text: str, low: str) -> list[_Span]:
    zones: list[_Span] = []
    for detector in PUBLIC_MATERIAL:
        for hint in detector.hints:
            if hint in low:
                _match_at_hints(detector, 0, hint, text, low, zones)
    if not zones:
        return found
    zones.sort()
    kept: list[_Span] = []
    index, reach = 0, 0
    for span in sorted(found):
        while index < len(zones) and zones[index][0] <= span[0]:
            reach = max(reach, zones[index][1])
            index += 1
        if span[2] not in shaped or span[1] > reach:
            kept.append(span)
    return kept


_DEFAULT_SCANNER: Final = Scanner(DEFAULT_DETECTORS)


@lru_cache(maxsize=32)
def _scanner_for(detectors: tuple[Detector, ...]) -> Scanner:
    return Scanner(detectors)


def find_sensitive(text: str, detectors: Sequence[Detector] = DEFAULT_DETECTORS) -> list[Finding]:
    """Return the sensitive stretches of `text`, sorted by position; no two overlap.

    Args:
        text: any text.
        detectors: what to look for; where two overlap, the earlier one in the sequence gives the name.
    """
    if detectors is DEFAULT_DETECTORS:
        return _DEFAULT_SCANNER.find(text)
    return _scanner_for(tuple(detectors)).find(text)


class TextMasker:
    """Replaces each sensitive stretch of a text. Masking a masked text changes nothing (RED-01).

    Args:
        mask: called with the detector's name, returns what stands in the place of its findings.
        detectors: what to look for.
        extra_patterns: more regular expressions, strings or compiled, added to the detectors (TRC-07); their
            findings are called `custom`.

    Raises:
        re.error: a string in `extra_patterns` is not a regular expression.
    """

    __slots__ = ("_clean", "_extra", "_mask", "_scanner")

    def __init__(
        self,
        *,
        mask: Callable[[str], str],
        detectors: Sequence[Detector] = DEFAULT_DETECTORS,
        extra_patterns: Iterable[str | re.Pattern[str]] = (),
    ) -> None:
        self._mask = mask
        extra = (extra_patterns,) if isinstance(extra_patterns, (str, re.Pattern)) else tuple(extra_patterns)
        self._scanner = _DEFAULT_SCANNER if detectors is DEFAULT_DETECTORS else _scanner_for(tuple(detectors))
        self._extra = tuple(re.compile(pattern) for pattern in extra)
        # Only texts without findings are remembered: the cache must not keep a secret alive.
        self._clean: set[str] = set()

    def __call__(self, text: str) -> str:
        """Return `text` with its sensitive stretches replaced, or `text` itself when there are none."""
        clean = self._clean
        if text in clean:
            return text
        findings = self._scanner.find(text)
        if findings:
            text = replace(text, findings, self._mask)
        elif not self._extra and len(text) <= _REMEMBERED_LEN:
            if len(clean) >= _REMEMBERED_MAX:
                clean.clear()
            clean.add(text)
        for pattern in self._extra:
            text = pattern.sub(lambda match: self._mask("custom") if match[0] else "", text)
        return text


def replace(text: str, findings: Iterable[Finding], mask: Callable[[str], str]) -> str:
    """Return `text` with each finding replaced by `mask(name)`."""
    parts: list[str] = []
    last = 0
    for finding in findings:
        parts += (text[last : finding.start], mask(finding.name))
        last = finding.end
    parts.append(text[last:])
    return "".join(parts)
