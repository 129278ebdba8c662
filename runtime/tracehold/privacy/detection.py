"""Finding sensitive text, at a cost that grows in proportion to its length (RED-21).

A detector's pattern is tried only where it can match: where a literal of its own stands, at a long run of token
characters, or in a text that has digits in a row. The literals are searched by `str.find`, which costs a fraction of
a nanosecond a character, so that a text with nothing to hide is read a few dozen times by C code and never by a regular
expression. Of a text that will be cut, only the part in front of the cut is searched; a pattern that is tried there
still sees all of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final

from tracehold.privacy.detector import Detector, Finding, Where
from tracehold.privacy.detectors import DEFAULT_DETECTORS, PUBLIC_MATERIAL
from tracehold.privacy.plans import Plan, SearchPlans
from tracehold.privacy.views import decoded_views, has_escapes, plain_view

_BEFORE_MAX: Final = 64
_RUN_MIN: Final = 16
_RUN: Final = b"a" * _RUN_MIN
_RUN_CHARS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_RUN_TABLE: Final = bytes(ord("a") if code in _RUN_CHARS else ord(" ") for code in range(256))
_ASCII_MAX: Final = 127
_SHAPE_TABLE: Final = bytes(
    ord("0" if chr(code).isdigit() else "A" if chr(code).isupper() else "a" if chr(code).islower() else chr(code))
    if code <= _ASCII_MAX
    else code
    for code in range(256)
)
_DIGITS: Final = "0000"


Stretch = tuple[int, int, str]
"""Start, end, and the name of the detector: a `Finding` without the cost of one."""

_Span = tuple[int, int, int]
"""Start, end, and the rank of the detector that found it (the lower wins where two overlap)."""


class Scanner:
    """A set of detectors, arranged for searching."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """Arrange `detectors`; their order decides whose name a stretch gets that several of them found."""
        self._names = tuple(detector.name for detector in detectors)
        ranked = list(enumerate(detectors))
        self._always = [(rank, d) for rank, d in ranked if d.where is Where.ANYWHERE and not d.hints and not d.shapes]
        self._runs = [(rank, d) for rank, d in ranked if d.where is Where.AT_RUN]
        self._by_look = frozenset(rank for rank, d in ranked if d.by_look)
        self._plans = SearchPlans(ranked)
        # How far behind a limit hints are looked for: a finding may begin `_BEFORE_MAX` characters before its hint.
        self._reach = _BEFORE_MAX + max((len(hint) for detector in detectors for hint in detector.hints), default=0)

    def find(self, text: str, stop: int | None = None) -> list[Stretch]:
        """Return what is sensitive in `text` as (start, end, name): sorted, and no two overlap.

        Args:
            text: any text.
            stop: leave out what begins here or later.
        """
        spans: list[_Span] = []
        if text.isascii():
            self._scan(text, spans, stop)
            plain = text
            back: Callable[[int], int] | None = None
        else:
            view = plain_view(text)
            found: list[_Span] = []
            plain, back = view.text, view.original
            self._scan(plain, found, stop)  # a reading is never longer than its text: `stop` comes no earlier in it
            spans += [(back(start), back(end), rank) for start, end, rank in found]
        if has_escapes(plain):
            self._scan_decoded(plain, back, spans, stop)
        if not spans:
            return []
        stretches = self._resolve(spans)
        return stretches if stop is None else [stretch for stretch in stretches if stretch[0] < stop]

    def _scan_decoded(
        self, plain: str, back: Callable[[int], int] | None, spans: list[_Span], stop: int | None
    ) -> None:
        for view in decoded_views(plain):
            found: list[_Span] = []
            self._scan(view.text, found, stop)
            for start, end, rank in found:
                first, last = view.original(start), view.original(end)
                spans.append((back(first), back(last), rank) if back else (first, last, rank))

    def _scan(self, text: str, spans: list[_Span], stop: int | None) -> None:
        low = text.lower()
        if len(low) != len(text):  # one letter, the dotted capital I, becomes two in lower case
            low = text.replace("\u0130", "I").lower()
        raw = text.encode("ascii", "replace")
        ahead = low if stop is None else low[: stop + self._reach]
        plan = self._plans.for_text(raw)
        for requires, anywhere, at_hint in plan.groups:
            for literal in requires:  # spelled out: a call for each of the groups would cost as much as the search
                if literal in low:
                    break
            else:
                if requires:
                    continue
            for hint, rank, detector in at_hint:
                if hint in ahead:
                    _match_at_hints(detector, rank, hint, text, ahead, spans, stop)
            for rank, detector in anywhere:
                if _any_in(detector.hints, low):
                    _search(detector, rank, text, spans)
        for rank, detector in self._always:
            _search(detector, rank, text, spans)
        if plan.shaped:
            shape = raw.translate(_SHAPE_TABLE).decode("ascii")  # `in` and `find` cost bytes three times what text does
            if _DIGITS in shape:
                _scan_digits(plan, text, ahead, shape, spans, stop)
        if self._runs and len(raw) >= _RUN_MIN:
            stop = len(raw) if stop is None else stop
            runs = raw.translate(_RUN_TABLE)
            start = runs.find(_RUN, 0, stop + _RUN_MIN)
            if start >= 0:
                self._scan_runs(text, low, runs, spans, start, stop)

    def _scan_runs(self, text: str, low: str, runs: bytes, spans: list[_Span], start: int, stop: int) -> None:
        """Try the detectors of runs at each run from `start` to `stop` that no other detector has found already."""
        spans.sort()
        known = iter(spans[:])
        covered = next(known, None)
        reach = 0
        found: list[_Span] = []
        while 0 <= start < stop:
            end = runs.find(b" ", start + _RUN_MIN)
            while covered is not None and covered[0] <= start:
                reach = max(reach, covered[1])
                covered = next(known, None)
            if reach < end or (end < 0 and reach < len(text)):
                end = max(end, self._try_run(text, start, found)) if end >= 0 else self._try_run(text, start, found)
            if end < 0:
                break
            start = runs.find(_RUN, end)
        if found and not self._by_look.isdisjoint([rank for _, _, rank in found]):
            found = _outside_public_material(found, self._by_look, text, low)
        spans += found

    def _try_run(self, text: str, start: int, found: list[_Span]) -> int:
        for rank, detector in self._runs:
            match = detector.pattern.match(text, start)
            if match is not None and (detector.check is None or detector.check(match)):
                found.append((*match.span(detector.group), rank))
                return match.end()
        return -1

    def _resolve(self, spans: list[_Span]) -> list[Stretch]:
        """Merge spans that overlap; the stretch is called after the best-ranked detector in it."""
        spans.sort()
        merged: list[Stretch] = []
        start, end, best = spans[0]
        for begin, stop, rank in spans[1:]:
            if begin < end:
                end = max(end, stop)
                best = min(best, rank)
            else:
                merged.append((start, end, self._names[best]))
                start, end, best = begin, stop, rank
        merged.append((start, end, self._names[best]))
        return [stretch for stretch in merged if stretch[0] < stretch[1]]


def _scan_digits(plan: Plan, text: str, low: str, shape: str, spans: list[_Span], stop: int | None) -> None:
    for rank, detector, shapes, hints in plan.shaped:
        for anchor in shapes:
            if anchor not in shape:
                continue
            if detector.where is Where.AT_SHAPE:
                _match_at_shapes(detector, rank, anchor, text, shape, spans)
                continue
            if detector.where is Where.ANYWHERE:
                _search(detector, rank, text, spans)
            else:
                for hint in hints:
                    if hint in low:
                        _match_at_hints(detector, rank, hint, text, low, spans, stop)
            break


def _any_in(literals: tuple[str, ...], text: str) -> bool:
    for literal in literals:  # noqa: SIM110 - any() with a generator costs three times as much here
        if literal in text:
            return True
    return False


def _search(detector: Detector, rank: int, text: str, spans: list[_Span]) -> None:
    check, group = detector.check, detector.group
    matches = detector.pattern.finditer(text)
    spans += [(*match.span(group), rank) for match in matches if check is None or check(match)]


def _match_at_hints(
    detector: Detector, rank: int, hint: str, text: str, low: str, spans: list[_Span], stop: int | None = None
) -> None:
    match_at, check, group, before = detector.pattern.match, detector.check, detector.group, detector.before
    step = len(hint)
    last = len(low) if stop is None else stop + _BEFORE_MAX if before else stop
    at = low.find(hint)
    while 0 <= at < last:
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


def _match_at_shapes(detector: Detector, rank: int, anchor: str, text: str, shape: str, spans: list[_Span]) -> None:
    match_at, check, step = detector.pattern.match, detector.check, len(anchor)
    at = shape.find(anchor)
    while at >= 0:
        match = match_at(text, at)
        following = at + step
        if match is not None and (check is None or check(match)):
            spans.append((*match.span(detector.group), rank))
            following = max(following, match.end())
        at = shape.find(anchor, following)


def _width_before(text: str, start: int, chars: str) -> int:
    window = text[start - _BEFORE_MAX if start > _BEFORE_MAX else 0 : start]
    if window.isascii():
        return len(window) - len(window.rstrip(chars))
    return sum(1 for _ in takewhile(lambda char: char in chars or (char > "\x7f" and char.isalnum()), reversed(window)))


def _outside_public_material(found: list[_Span], by_look: frozenset[int], text: str, low: str) -> list[_Span]:
    zones: list[_Span] = []
    for detector in PUBLIC_MATERIAL:
        if detector.requires and not _any_in(detector.requires, low):
            continue
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
        if span[2] not in by_look or span[1] > reach:
            kept.append(span)
    return kept


_DEFAULT_SCANNER: Final = Scanner(DEFAULT_DETECTORS)


def scanner_for(detectors: Sequence[Detector]) -> Scanner:
    """Return the scanner of a set of detectors; the last 32 sets are kept arranged."""
    return _DEFAULT_SCANNER if detectors is DEFAULT_DETECTORS else _arranged(tuple(detectors))


@lru_cache(maxsize=32)
def _arranged(detectors: tuple[Detector, ...]) -> Scanner:
    return Scanner(detectors)


def find_sensitive(text: str, detectors: Sequence[Detector] = DEFAULT_DETECTORS) -> list[Finding]:
    """Return the sensitive stretches of `text`, sorted by position; no two overlap.

    Args:
        text: any text.
        detectors: what to look for; where two overlap, the earlier one in the sequence gives the name.
    """
    return [Finding(*stretch) for stretch in scanner_for(detectors).find(text)]
